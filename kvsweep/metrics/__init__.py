"""What a cell of a sweep is measured by: names, units, meanings, and how the numbers come about."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.metrics.arithmetic import (
    jain_index,
    latency_quantiles,
    mean_latency,
    per_second,
    ratio,
    summarize_latency,
)
from kvsweep.metrics.per_cell import CELL_VARIABLES, GROUP_VARIABLES
from kvsweep.metrics.per_request import REQUEST_VARIABLES, RUN_VARIABLES, RequestVariable
from kvsweep.metrics.service_levels import LEVEL_VARIABLES, attainment_name, goodput_name
from kvsweep.metrics.variable import (
    NO_COUNT,
    Variable,
    beyond_a_share,
    coordinates,
    quantile_name,
    quantile_names,
)
from kvsweep.policies import Status
from kvsweep.records import QUANTILES

__all__ = [
    "CELL_VARIABLES",
    "GROUP_VARIABLES",
    "LEVEL_VARIABLES",
    "NO_COUNT",
    "QUANTILES",
    "REQUEST_VARIABLES",
    "RUN_VARIABLES",
    "VARIABLES",
    "RequestVariable",
    "Variable",
    "attainment_name",
    "beyond_a_share",
    "coordinates",
    "goodput_name",
    "jain_index",
    "latency_quantiles",
    "mask_failed",
    "mean_latency",
    "out_of_range",
    "per_second",
    "quantile_name",
    "quantile_names",
    "ratio",
    "summarize_latency",
]

VARIABLES: Mapping[str, Variable] = {
    variable.name: variable
    for variable in (*CELL_VARIABLES, *GROUP_VARIABLES, *LEVEL_VARIABLES, *REQUEST_VARIABLES)
}
"""Every variable of a store but ``status`` and ``status_detail``."""


_MAY_BE_NEGATIVE = ("queue_growth",)


def out_of_range(name: str, limit: float) -> str:
    """Return what is wrong with a limit that a measure never has on its other side, or nothing.

    Variables that somebody assigned may have any values.

    Examples
    --------
    >>> out_of_range("ttft_p99_ms", -1.0)
    'ttft_p99_ms is never below 0'
    >>> out_of_range("ttft_p99_ms", 0.0), out_of_range("queue_growth", -0.1)
    ('', '')
    """
    if problem := beyond_a_share(name, limit):
        return problem
    known = set(VARIABLES).union(*map(quantile_names, VARIABLES)) - set(_MAY_BE_NEGATIVE)
    return f"{name} is never below 0" if limit < 0 and name in known else ""


def mask_failed(values: dict[str, NDArray[Any]], status: NDArray[np.int8]) -> None:
    """Blank every number of the cells that are not ``ok``, in place."""
    failed = status != Status.OK
    if failed.any():
        for name, array in values.items():
            array[failed] = VARIABLES[name].missing
