"""The naive twin: the whole simulator in plain, obvious Python.

The compiled kernel is tested against it event by event. It follows the published rules of vLLM V1
(release 0.33.0, synchronous scheduler) one by one, as docs/kernel.md numbers them, and is itself
tested against recordings of the real scheduler. Nothing here is fast on purpose, nothing is slow on
purpose.

- `pool`: blocks, the free list, the prefix cache map.
- `request`: one request: its tokens, its block keys, its history.
- `waiting`: the waiting queue in its three orders.
- `scheduler`: who computes how many tokens in a step; allocation, admission, preemption.
- `victims`: whom a scheduler preempts.
- `instance`: the clock of one engine; queue entries, steps, what was counted.
- `admission`: who is let in at all.
- `routing`: what the router sees, remembers and chooses.
- `cluster`: the order of all events, over several instances.
- `run`: the run of a trace.
- `scenario`: the settings with their defaults.
- `checks`: invariants asserted after every step.
- `offload`, `explicit`: packages for a CPU tier as vLLM has it; for hybrid caches, drafts, and
  prefill and decode apart.
"""

from .cluster import Result
from .instance import StepLimit
from .run import simulate

__all__ = ["Result", "StepLimit", "simulate"]
