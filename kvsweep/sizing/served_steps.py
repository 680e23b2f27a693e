"""Step times of a served model from first principles, where nothing better is known: a roofline.

`kvsweep.config.roofline` has the idea, and `Latency` the form: of computing ``beta``, of moving
data ``memory``. Here weights are those that are counted of any model, experts among them: a token
is computed by the experts that it is sent to, and a step reads all of them, which is too much where
few requests run. What GPUs exchange with each other is left out.
"""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.sizing.gpus import figures
from kvsweep.sizing.settings import Served

MICROSECONDS = 1e6


class Terms(NamedTuple):
    """Coefficients of a step, microseconds, as `kvsweep.config.latency.Latency` has them."""

    beta: tuple[float, float, float, float, float]
    memory: tuple[float, float, float, float, float]


def step_terms(served: Served, gpu: str) -> Terms:
    """Return the step times of a served model on a GPU that is known.

    Parameters
    ----------
    served : Served
        The model and its settings.
    gpu : str
        A name of `kvsweep.sizing.gpus.gpu_names`.

    Raises
    ------
    InputError
        If they do not follow from the shape and the peaks of the GPU.
    """
    model, tp = served.model, served.asked.tp
    peaks = figures()["gpus"].get(gpu, {})
    problem = _unknown(served, "flops" in peaks, gpu)
    if problem:
        raise InputError(f"latency: missing, and not known of {problem}; give latency.model")
    work, weights, used = model.work, model.weights, figures()["efficiency"]
    assert work is not None
    assert weights is not None
    flop = MICROSECONDS / (peaks["flops"] * used["compute"] * tp)
    byte = MICROSECONDS / (peaks["bandwidth"] * used["bandwidth"])
    token, output = 2 * work.active * flop, 2 * work.output * flop
    context = 4 * model.layers * work.channels * flop
    layers = sum(layer.on_gpu(tp) for layer in weights.layers)
    read = (layers + weights.output / tp) * byte
    kv = sum(cache.token_bytes for cache in model.caches(tp, served.dtype)) * byte
    overhead = used["overhead_us"]
    return Terms(
        (overhead, token, token + output, context, context),
        (read, kv, kv, kv, 0.0),
    )


def _unknown(served: Served, has_peaks: bool, gpu: str) -> str | None:
    """Return what step times do not follow from, None if they do."""
    model = served.model
    if not has_peaks:
        return f"a GPU given by its memory ({gpu})"
    if served.asked.pp > 1:
        return "a pipeline"
    if model.work is None or model.weights is None:
        return f"{model.architecture}"
    if not model.weights.plain:
        return f"weights of {model.weights.text}"
    return None
