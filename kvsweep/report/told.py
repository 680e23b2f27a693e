"""What is told of a result, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsweep.analysis.cliff_records import Cliff
from kvsweep.analysis.compare_records import Comparison
from kvsweep.analysis.effect_records import Effects
from kvsweep.analysis.pareto import Front
from kvsweep.analysis.sensitivity import Sensitivity
from kvsweep.arguments import checked
from kvsweep.report.cliff import cliff_text
from kvsweep.report.comparison import compare_text
from kvsweep.report.effects import effects_text
from kvsweep.report.pareto import pareto_text
from kvsweep.report.sensitivity import sensitivity_text
from kvsweep.report.summary import summary_text

if TYPE_CHECKING:
    import xarray as xr


@checked
def text_of(found: Cliff | Front | Effects | Sensitivity | Comparison | xr.Dataset) -> str:
    """Write a result as its command prints it: the finding in sentences, then tables.

    Parameters
    ----------
    found : Cliff, Front, Effects, Sensitivity, Comparison or xr.Dataset
        What `kvsweep.find_cliff`, `kvsweep.pareto_front`, `kvsweep.factorial_effects`,
        `kvsweep.joint_effects`, `kvsweep.sensitivity_indices` or `kvsweep.compare` returned; or
        results, of which it is the summary of ``kvsweep show``.

    Returns
    -------
    str
        Lines for `print`.

    Raises
    ------
    InputError
        If `found` is something else, or of results no value of an axis is left, or one twice.

    Examples
    --------
    >>> import kvsweep
    >>> ds = kvsweep.open_results("results/small.zarr").sel(policy="both", rate=200.0)
    >>> print(kvsweep.text_of(kvsweep.find_cliff(ds)).split(" (")[0])
    preemption_rate passes 0.05 at 1,323 blocks
    """
    if isinstance(found, Cliff):
        return cliff_text(found)
    if isinstance(found, Front):
        return pareto_text(found)
    if isinstance(found, Effects):
        return effects_text(found)
    if isinstance(found, Sensitivity):
        return sensitivity_text(found)
    return compare_text(found) if isinstance(found, Comparison) else summary_text(found)
