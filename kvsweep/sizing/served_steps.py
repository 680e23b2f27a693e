"""Step times of a served model from first principles, where nothing better is known: a roofline.

`kvsweep.config.roofline` has the idea, and `Latency` the form: of computing ``beta``, of moving
data ``memory``. Here it is counted of every model whose weights are:

- Mixtures of experts: a token is computed by the experts that it is sent to. A step reads those of
  any of its tokens, as if they chose at random, which is no sum over tokens: `Latency.experts`.
- Multi-head latent attention: a prefill computes with keys and values of all heads, a decode with
  the latent vector, which every GPU reads whole. That a later chunk of a prefill makes keys and
  values of its context again is left out.
- Sliding windows: a token attends to a full one. While a context is shorter, that is too much: up
  to the window over the context. A window that no request outgrows is full attention.

Weights of 8 bits are computed at the peak of 8 bits, if the GPU has one; those in MXFP4 at that of
16. What GPUs exchange (`kvsweep.sizing.exchange`) is added where their links are known, as of one
node, and left out of others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.sizing.exchange import exchange_times, reached_bandwidth
from kvsweep.sizing.gpus import figures
from kvsweep.sizing.model import Model, Work
from kvsweep.sizing.settings import Served
from kvsweep.sizing.step_terms import Five, StepTerms

MICROSECONDS = 1e6


class Peaks(NamedTuple):
    """What one GPU reaches.

    Attributes
    ----------
    flops, flops_8bit : float
        Matrix products of 16 and of 8 bits, FLOP/s.
    bandwidth : float
        Of its memory, bytes/s.
    overhead_us : float
        Time of a step that is neither, microseconds.
    exchange : float or None
        All-reduces among the GPUs that share the model, bytes/s; None: not known.
    """

    flops: float
    flops_8bit: float
    bandwidth: float
    overhead_us: float
    exchange: float | None = None


def step_terms(served: Served, gpu: str) -> StepTerms:
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
    peaks, used = figures()["gpus"].get(gpu, {}), figures()["efficiency"]
    if "flops" not in peaks:
        raise _missing(f"a GPU given by its memory ({gpu})")
    return terms(
        served,
        Peaks(
            peaks["flops"] * used["compute"],
            peaks.get("flops_8bit", peaks["flops"]) * used["compute"],
            peaks["bandwidth"] * used["bandwidth"],
            used["overhead_us"],
            reached_bandwidth(gpu, served.asked.tp),
        ),
    )


def terms(served: Served, peaks: Peaks) -> StepTerms:
    """Return the step times of a served model.

    Parameters
    ----------
    served : Served
        The model and its settings.
    peaks : Peaks
        What a GPU reaches.

    Raises
    ------
    InputError
        If they do not follow from the shape.
    """
    if served.asked.pp > 1:
        raise _missing("a pipeline")
    served = _without_idle_windows(served)
    model, tp = served.model, served.asked.tp
    if model.weights is None:
        raise _missing(f"weights that are {model.weights_unknown}")
    if model.work is None:
        raise _missing(model.architecture)
    weights = model.weights
    read = sum(layer.on_gpu(tp) for layer in weights.layers) + weights.output / tp
    chosen = model.work.chosen
    some = sum(layer.experts for layer in weights.layers) / tp if chosen < 1 else 0.0
    byte = MICROSECONDS / peaks.bandwidth
    kv, lasting, windows = _kept(served)
    moved = ((read - some) * byte, kv * byte, (kv + windows) * byte, lasting * byte, 0.0)
    experts = (some * byte, chosen) if some else ()
    found = StepTerms(_computed(model, model.work, tp, peaks), moved, experts)
    return found.longer(*exchange_times(model.layers, model.work.hidden, tp, peaks.exchange))


def _without_idle_windows(served: Served) -> Served:
    """Take windows that are as long as the longest request for full attention."""
    longest = served.asked.max_model_len or served.model.max_model_len
    shapes = tuple(
        replace(shape, window=None) if (shape.window or 0) >= longest else shape
        for shape in served.model.attention
    )
    return replace(served, model=replace(served.model, attention=shapes))


def windows(served: Served) -> list[int]:
    """Return the windows that step times charge in full, whatever the context is."""
    shapes = _without_idle_windows(served).model.attention
    return [shape.window for shape in shapes if shape.window is not None]


def _computed(model: Model, work: Work, tp: int, peaks: Peaks) -> Five:
    """Return the coefficients of computing."""
    flop = MICROSECONDS / (peaks.flops * tp)
    product = MICROSECONDS / (peaks.flops_8bit * tp) if work.eight_bit else flop
    full = sum(shape.window is None for shape in model.attention)
    inside = sum(shape.window - 1 for shape in model.attention if shape.window is not None)
    token, output = 2 * (work.active + work.copied * tp) * product, 2 * work.output * flop
    return (
        peaks.overhead_us,
        token + inside * work.prefill * flop,
        token + output + inside * work.decode * flop,
        full * work.decode * flop,
        full * work.prefill * flop,
    )


def _kept(served: Served) -> tuple[int, int, int]:
    """Return bytes on a GPU: of a token, of it beyond all windows, and of the rest of all windows.

    A window has the token itself, so that it holds one less of its context.
    """
    caches = served.model.caches(served.asked.tp, served.dtype)
    full = sum(cache.token_bytes for cache in caches if cache.window is None)
    inside = sum(cache.token_bytes * (cache.window - 1) for cache in caches if cache.window)
    return sum(cache.token_bytes for cache in caches), full, inside


def _missing(problem: str) -> InputError:
    return InputError(f"latency: missing, and not known of {problem}; give latency.model")
