"""CPU offload as vLLM does it: its OffloadingConnector beside the scheduler (rules R11).

- `chunks`: which runs of the CPU tier the chunks of a request are in.
- `order`, `lru`, `arc`: which chunk makes room.
- `manager`: who may read a chunk, what is stored, what is refused.
- `copies`: transfers under way, one stream each way, and what of the GPU they still read.
- `connector`: what a request can load, what a step stores, and which transfers it must await.
- `engine`: steps with stalls, empty steps, and sleep until a transfer ends.

Requests that wait for a load are in `kvsweep.kernel.holders`, which knows nothing of offload.
"""
