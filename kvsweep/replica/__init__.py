"""A readable replica of the reference simulator that the published experiments ran on.

The published experiments ran on inference-sim (BLIS), at two of its commits of February 2026. This
package is that simulator's rules in plain Python, defects included, so that its figures can be
reproduced to the last digit and taken apart. It says nothing about vLLM; the rules of vLLM are in
`kvsweep.kernel`, which shares no code with this package.

Where to read: `cluster` (order of events, routing loop), `instance` (wait queue, step), `batch`
(who gets tokens), `blocks` and `tiered` (block store, its roll-back, CPU tier), `keys` (equal
content, equal key), `routing`, `prefix_index`, `admission`, `priority`, `latency`, `metrics`
(figures as the reference prints them), `switches` and `defects` (what can be repaired, one flag
each), `livelock` (when a run is proven never to end). `scenario` reads the settings, `result` holds
what comes out.

All times are integer microseconds.
"""

from kvsweep.replica.result import Replication
from kvsweep.replica.runner import run

__all__ = ["Replication", "run"]
