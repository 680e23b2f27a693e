"""The engine kernel: vLLM V1 scheduling over a paged KV cache, compiled by numba.

The rules are those of vLLM 0.33.0's synchronous scheduler. docs/kernel.md numbers them ("rule R5.2"
in a comment is one), shows a decode run step by step, and says what wakes a refused head, which
invariants hold by what, and what the words mean. Where to find what decides:

==================  ================================================================
`engine`            a batch, a lane; arrivals, admission control, routing in order of time
`admission`         who is let in at all
`routing`           which instance gets a request
`snapshots`         what the router sees of the instances, fresh or stale
`scorers`           scores of weighted routing
`router_index`      the router's own index of prompts that it routed
`arrivals`          arrivals that completions make (closed loop)
`instance`          one instance's clock: queue entries, steps
`decode_run`        runs of steps in which all running requests decode, taken at once
`waiting`           the inbox; the waiting list of fcfs, priority and sjf
`admit`             which waiting requests are admitted; patience
`counted`           scheduling of the running requests by counts
`walk`              the same, literally request by request, where counts do not do
`running`           what the running requests need, chunks of prefills, when decodes are due
`decoding`          how far a decoding request is: base, phase and what follows of them
`calendar`          the steps at which running requests are due, and who is next
`sizes`             the blocks that tokens fill or need
`preempt`           what a preempted request loses and keeps
`blocks`            the pool: take, publish, look up, touch, release, evict
`tier`              the CPU tier: move or copy blocks there, load them, transfer times
`loose`, `prefix`   blocks with records of their own, where extents will not do; their table
`lru`               the list of blocks that may be evicted
`outputs`           sampled tokens, finished requests
`latency`           how long a step takes, and the way into the waiting list
`summary`           times of the requests, totals of the measured ones
`tally`             counters, logs, exact inter-token latencies
`setup`             begin a lane, collect its results, copy a known one
==================  ================================================================

Arguments have the same names everywhere: ``inp``, ``ws``, ``out`` (records.Inputs, Workspace,
Outputs), ``lane`` (LANE), ``inst`` (INSTANCE), ``tally`` (TALLY), ``index`` (of the instance),
``r`` (a request's position in its list), ``request`` (REQUEST) and ``progress`` (PROGRESS) of it.
Nothing is allocated and nothing raised; a lane that cannot go on sets ``tally["status"]``.
"""

from .._jit import pass_whole
from ..records import Inputs, Outputs, Workspace

pass_whole(Inputs, Workspace, Outputs)
