"""Typed and strict: the sweep file and everything in it.

- `scenario`, `workload`, `lengths`, `latency`: the sections and their defaults.
- `roofline`: latencies from the shape of a model and the figures of a device.
- `rules`: what each rule book has.
- `axes`, `sweep`, `document`: the grid and what is asked of it.
- `load`: from files to objects; `compose`, `source`, `explain`, `schema` place every message at a
  file, a line and a key.
"""

from kvsweep.config.axes import Axis
from kvsweep.config.cache_section import Cache
from kvsweep.config.cluster_section import Cluster
from kvsweep.config.document import AskedCliff, Pareto
from kvsweep.config.engine_section import BLIS_SWITCHES, Engine
from kvsweep.config.latency import NO_LATENCY, Latency
from kvsweep.config.lengths import Lengths
from kvsweep.config.load import load_sweep, parse_scenario
from kvsweep.config.preset import preset_names
from kvsweep.config.scenario import Scenario
from kvsweep.config.sweep import Sweep
from kvsweep.config.workload import DEFAULT_ENTROPY, Client, Workload

__all__ = [
    "BLIS_SWITCHES",
    "DEFAULT_ENTROPY",
    "NO_LATENCY",
    "AskedCliff",
    "Axis",
    "Cache",
    "Client",
    "Cluster",
    "Engine",
    "Latency",
    "Lengths",
    "Pareto",
    "Scenario",
    "Sweep",
    "Workload",
    "load_sweep",
    "parse_scenario",
    "preset_names",
]
