"""What each instance has of the experts where instances share them: weights, and step times."""

from __future__ import annotations

from kvsweep.errors import InputError
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.served_steps import step_terms
from kvsweep.sizing.settings import Served
from kvsweep.sizing.sizes import GIB
from kvsweep.vllm_command.values import Values

DIGITS = 6
"""Of the coefficients of a step that are written."""


def divided_weights(values: Values, served: Served) -> float | None:
    """Return the weights of an instance, GiB, where instances share the experts; None: all of them.

    Parameters
    ----------
    values : Values
        Of the options.
    served : Served
        What is served.
    """
    count, weights = values.whole("data-parallel-size") or 1, served.model.weights
    if count == 1 or not served.model.experts or weights is None or served.asked.pp > 1:
        return None
    return float(round(weights.of_instance(served.asked.tp, count) / GIB, 3))


def divided_times(values: Values, served: Served, gpu: Gpu) -> dict[str, list[float]]:
    """Return the keys of ``[latency]`` where instances share the experts; none where they do not.

    An instance computes as much as if it had all experts, and reads its part of those that any
    token of any instance is sent to, as if all instances had as many tokens.

    Parameters
    ----------
    values : Values
        Of the options.
    served : Served
        What is served.
    gpu : Gpu
        Whose peaks are taken.
    """
    count = values.whole("data-parallel-size") or 1
    if count == 1 or not served.model.experts:
        return {}
    try:
        found = step_terms(served, gpu.name)
    except InputError:
        return {}  # a sweep has none either, and says why
    if not found.experts:
        return {}
    reading, share = found.experts
    found = found._replace(experts=(reading / count, 1 - (1 - share) ** count))
    terms = {key: [_rounded(us) for us in term] for key, term in found._asdict().items()}
    return {key: term for key, term in terms.items() if term}


def _rounded(us: float) -> float:
    return float(f"{us:.{DIGITS}g}")
