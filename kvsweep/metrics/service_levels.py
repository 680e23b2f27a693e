"""The variables of a cell that service levels make: goodput, and shares of requests.

A request is *good* if it completes and keeps every level that it has, as of ``vllm bench serve
--goodput``; what did not complete kept no level.
"""

from collections.abc import Iterator

from kvsweep.dimensions import LEVELS
from kvsweep.metrics.variable import Variable

_TIMES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "e2e": "time to last token",
}


def goodput_name(by: str = "") -> str:
    """Return the name of the goodput, of all requests or by ``class`` or ``round``."""
    return f"goodput{by and f'_by_{by}'}_rps"


def attainment_name(level: str = "", by: str = "") -> str:
    """Return the name of the share of requests that keep a level of `LEVELS`, or all of theirs."""
    return f"slo{level and f'_{level}'}_attainment{by and f'_by_{by}'}"


def _variables(dims: tuple[str, ...] = (), by: str = "") -> Iterator[Variable]:
    words = f" by {by}" if by else ""
    rate = f"throughput of requests that keep all their service levels{words}"
    yield Variable(goodput_name(by), dims, "float64", "request/s", rate, levels=LEVELS)
    share = f"good requests / requests that arrived, good: all service levels kept{words}"
    yield Variable(attainment_name(by=by), dims, "float64", "1", share, levels=LEVELS)
    for level in LEVELS:
        share = f"requests that keep their level of {_TIMES[level]} / those that have one{words}"
        yield Variable(attainment_name(level, by), dims, "float64", "1", share, levels=(level,))


LEVEL_VARIABLES = (
    *_variables(),
    *_variables(("round",), "round"),
    *_variables(("slo_class",), "class"),
)
"""Measures of sweeps with service levels; of all of them more is better."""
