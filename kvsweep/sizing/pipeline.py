"""A pipeline's stages: how unequal they are, and what they hand on to each other.

A stage sends two vectors of each token to the next one, the hidden one and the residual one (of a
few models only the first; ``IntermediateTensors`` of vLLM's models). Of GPUs that share a stage
each sends its part, and the next ones gather the whole (``all_gather_group`` of
``isend_tensor_dict``). The messages that go ahead between the processes are left out.
"""

from __future__ import annotations

from kvsweep.sizing.exchange import HIDDEN_BYTES, LATENCY_US
from kvsweep.sizing.groups import stages
from kvsweep.sizing.model import Model

VECTORS = 2
"""Of a token, that a stage hands on."""


def handing_times(
    hidden: int, tp: int, pp: int, link: float | None, gathered: float | None
) -> tuple[float, float]:
    """Return what handing on takes of a step, microseconds: once, and for each of its tokens.

    Parameters
    ----------
    hidden, tp, pp : int
        Width of the hidden vector, GPUs that share a stage, stages.
    link, gathered : float or None
        Bytes/s that a GPU reaches to one of the next stage, and an all-gather among `tp`; None: not
        known, and left out.

    Examples
    --------
    >>> handing_times(5000, tp=1, pp=3, link=1e10, gathered=None)  # two times 20 kB
    (20.0, 4.0)
    """
    if pp == 1 or link is None:
        return 0.0, 0.0
    size, hops = VECTORS * hidden * HIDDEN_BYTES, pp - 1
    each = size / tp / (link / 1e6)
    if tp == 1 or gathered is None:
        return hops * LATENCY_US, hops * each
    each += (tp - 1) / tp * size / (gathered / 1e6)
    return hops * (1 + VECTORS) * LATENCY_US, hops * each


def longest_stage(model: Model, tp: int, pp: int) -> tuple[range, float]:
    """Return the layers of the stage that takes longest, and its time over that of an equal part.

    By the weights that it reads in a step, with the output layer of the last; by its layers where
    weights are not counted.

    Examples
    --------
    >>> from kvsweep.sizing.shapes import load_model
    >>> longest_stage(load_model("llama-3.1-70b"), tp=4, pp=3)[0]
    range(54, 80)
    """
    parts, weights = stages(model.layers, pp), model.weights
    if weights is None:
        sizes = [float(len(part)) for part in parts]
    else:
        sizes = [sum(weights.layers[layer].on_gpu(tp) for layer in part) for part in parts]
        sizes[-1] += weights.output / tp
    most = max(range(pp), key=sizes.__getitem__)
    return parts[most], sizes[most] * pp / sum(sizes)
