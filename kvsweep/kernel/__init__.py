"""The engine kernel: vLLM V1 scheduling over a paged KV cache, compiled by numba.

The rules are those of vLLM 0.33.0's schedulers, the synchronous and the asynchronous one.
docs/kernel.md numbers them ("rule R5.2" in a comment is one), shows a decode run step by step, and
says what wakes a refused head, which invariants hold by what, and what the words mean. Where to
find what decides:

=========================  =========================================================
`engine`                   a batch, a lane; arrivals, admission control, routing in order of time
`setup`                    begin a lane, collect its results, copy a known one
`memory`                   which part of the workspace is whose: indices, and sizes of its arrays
`summary`                  times of the requests, totals of the measured ones
`tally`                    counters, logs, exact inter-token latencies
`routing.admission`        who is let in at all
`routing.choose`           which instance gets a request
`routing.snapshots`        what the router sees of the instances, new or some time old
`routing.scorers`          scores of weighted routing
`routing.router_index`     the router's own index of prompts that it routed
`scheduling.waiting`       the inbox; the waiting list of fcfs, priority and sjf
`scheduling.admit`         which waiting requests are admitted; patience
`scheduling.by_counts`     scheduling of the running requests by counts
`scheduling.one_by_one`    the same, literally request by request, where counts do not do
`scheduling.running`       what the running requests need, chunks of prefills
`scheduling.caching`       when their blocks are cached, and who is due for it
`scheduling.preempt`       who is preempted, what it loses and keeps
`scheduling.victims`       scores by which others than the last are preempted
`scheduling.outputs`       sampled tokens
`scheduling.leaving`       finished requests, and those whose last token is on its way
`blocks.pool`              the pool: allocate, cache, look up, touch, free, evict
`blocks.split`             blocks with records of their own, where extents will not do
`blocks.prefix_table`      which of those carries a key
`blocks.eviction`          which of the blocks that may be evicted goes first
`blocks.lru`               the list of them
`blocks.sizes`             the blocks that tokens fill or need
`blocks.tier`              the CPU tier: move or copy blocks there, load them, transfer times
`offload`                  CPU offload as vLLM does it: engine, schedule, jobs, copies, manager
`time.instance`            one instance's clock: queue entries, steps
`time.device`              the step on the device, and the one scheduled meanwhile
`time.decode_run`          runs of steps in which all running requests decode, taken at once
`time.decoding`            how far a decoding request is: base, phase and what follows of them
`time.calendar`            the steps at which running requests are due, and who is next
`time.step_time`           how long a step takes, and the way into the waiting list
`time.arrivals`            arrivals that completions make (closed loop, requests under way)
=========================  =========================================================

Arguments have the same names everywhere, in this order (tests/kernel/test_names.py): ``inp``,
``ws``, ``out`` (records.Inputs, Workspace, Outputs), ``lane`` (LANE), ``inst`` (INSTANCE),
``tally`` (TALLY), ``index`` (of the instance), then the others: ``r`` (a request's position in its
list), ``request`` (REQUEST) and ``progress`` (PROGRESS) of it, ``position`` (in the running list).
Nothing is allocated and nothing raised; a lane that cannot go on sets ``tally["status"]``.
"""

from .._jit import may_lack, pass_whole
from ..records import FEATURES, Inputs, Outputs, Workspace

pass_whole(Inputs, Workspace, Outputs)
may_lack(*FEATURES)
