"""CPU offload as vLLM does it, where requests are explicit: with groups, states or drafts.

Here blocks have identities and are moved one by one, as a store may read a block that its request,
or a window, has left (rules R11.9 to R11.11). Who decodes without drafts is counted all the same,
but is due with each block (`explicit.from_tier`).

- `identities`: the pool of an instance, and a request's tables; `state_blocks`: those of states.
- `rings`, `recency`, `arc`: the chunks of a tier, each of one group, and which of them makes room.
- `manager`: who may read a chunk, what is stored, what is refused.
- `search`: what a request can load.
- `worth`: what a request has to store.
- `copies`: what copies read, which of them a step must await, and what their ends change.
- `storing`: the job of a store; `handed`: stores of states, by themselves.
- `connector`: what is stored when, and what the explicit engine tells it of requests.
- `loading`: the head of the waiting list, which may have to load before it is admitted.
- `stalls`: steps that wait for copies, or are made for copies alone.
"""
