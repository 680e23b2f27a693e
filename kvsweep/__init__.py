"""kvsweep: sweep simulations of paged KV caches in LLM serving and find the preemption cliff.

Names are imported on first use, so that ``import kvsweep`` and ``kvsweep --help`` load nothing
heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvsweep._version import __version__ as __version__

if TYPE_CHECKING:
    from kvsweep import plot as plot
    from kvsweep.analysis.cliff import find_cliff as find_cliff
    from kvsweep.analysis.compare import compare as compare
    from kvsweep.analysis.effects import factorial_effects as factorial_effects
    from kvsweep.analysis.effects import joint_effects as joint_effects
    from kvsweep.analysis.pareto import pareto_front as pareto_front
    from kvsweep.analysis.sensitivity import sensitivity_indices as sensitivity_indices
    from kvsweep.analysis.warnings import warnings_of as warnings_of
    from kvsweep.config import load_sweep as load_sweep
    from kvsweep.errors import InputError as InputError
    from kvsweep.explorer.notebook import explore as explore
    from kvsweep.merging import merge as merge
    from kvsweep.report.told import text_of as text_of
    from kvsweep.store import open_results as open_results
    from kvsweep.sweep import run as run
    from kvsweep.trace_replay import replay as replay
    from kvsweep.verifying import verify as verify

_HOMES = {
    "InputError": "kvsweep.errors",
    "compare": "kvsweep.analysis.compare",
    "explore": "kvsweep.explorer.notebook",
    "factorial_effects": "kvsweep.analysis.effects",
    "find_cliff": "kvsweep.analysis.cliff",
    "joint_effects": "kvsweep.analysis.effects",
    "load_sweep": "kvsweep.config",
    "merge": "kvsweep.merging",
    "open_results": "kvsweep.store",
    "pareto_front": "kvsweep.analysis.pareto",
    "replay": "kvsweep.trace_replay",
    "run": "kvsweep.sweep",
    "sensitivity_indices": "kvsweep.analysis.sensitivity",
    "text_of": "kvsweep.report.told",
    "verify": "kvsweep.verifying",
    "warnings_of": "kvsweep.analysis.warnings",
}

__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name from its home module; `plot` is a module itself."""
    if name == "plot":
        return import_module("kvsweep.plot")
    if name not in _HOMES:
        raise AttributeError(f"module 'kvsweep' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "plot", *(name for name in globals() if name.startswith("__"))})
