"""Step times of a served model from first principles, where nothing better is known: a roofline.

`kvsweep.config.roofline` has the idea, and `Latency` the form: of computing ``beta``, of moving
data ``memory``. Here it is counted of every model whose weights are:

- Mixtures of experts: a token is computed by the experts that it is sent to. A step reads those of
  any of its tokens, as if they chose at random, which is no sum over tokens: `Latency.experts`.
- Multi-head latent attention: a prefill computes with keys and values of all heads, a decode with
  the latent vector, which every GPU reads whole. That a later chunk of a prefill makes keys and
  values of its context again is left out.
- Sliding windows, of one size in all layers that have one: a token attends to what is inside,
  which has a term of its own (`Latency.window`). A window that no request outgrows is full
  attention.
- States (gated delta nets, Mamba-2): only layers with attention attend to a context and keep it.
  A token is computed by the recurrences too (`kvsweep.sizing.state_work`); of each decoding request
  every layer's state is read and written once a step. That a prefill writes them is left out.

Weights of 8 bits are computed at the peak of 8 bits, if the GPU has one; those in MXFP4 at that of
16. What GPUs exchange (`kvsweep.sizing.exchange`) is added where their links are known, as of one
node, and left out of others.

Of a pipeline these are the times of all stages, one after the other: together they compute and read
what one stage of all layers would. What they hand on is added (`kvsweep.sizing.pipeline`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.limits import MAX_TOKENS
from kvsweep.sizing.exchange import exchange_times, reached_bandwidth
from kvsweep.sizing.gpus import figures
from kvsweep.sizing.model import Model, Work
from kvsweep.sizing.pipeline import handing_times
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
    link : float or None
        From a GPU to one of the next stage of a pipeline, bytes/s; None: not known.
    """

    flops: float
    flops_8bit: float
    bandwidth: float
    overhead_us: float
    exchange: float | None = None
    link: float | None = None


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
        known = gpu in figures()["gpus"]
        which = (
            f"{gpu}, whose peaks kvsweep has not" if known else f"a GPU given by its memory ({gpu})"
        )
        raise InputError(f"{_missing(which)}, a file with its peaks (docs/presets.md)")
    return terms(
        served,
        Peaks(
            peaks["flops"] * used["compute"],
            peaks.get("flops_8bit", peaks["flops"]) * used["compute"],
            peaks["bandwidth"] * used["bandwidth"],
            used["overhead_us"],
            reached_bandwidth(gpu, served.asked.tp),
            reached_bandwidth(gpu, 2),
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
    served = _without_idle_windows(served)
    model, tp, pp = served.model, served.asked.tp, served.asked.pp
    if model.weights is None:
        raise _missing(f"weights that are {model.weights_unknown}")
    if model.work is None:
        raise _missing(model.architecture)
    weights = model.weights
    read = sum(layer.on_gpu(tp) for layer in weights.layers) + weights.output / tp
    chosen = model.work.chosen
    some = sum(layer.experts for layer in weights.layers) / tp if chosen < 1 else 0.0
    byte = MICROSECONDS / peaks.bandwidth
    lasting, inside = _kept(served)
    kv = lasting + inside
    decoded = kv + _states_moved(served)
    moved = ((read - some) * byte, kv * byte, decoded * byte, lasting * byte, 0.0)
    experts = (some * byte, chosen) if some else ()
    window: tuple[float, ...] = ()
    if inside and _window(model) > 1:
        window = (_window(model), *_computed_inside(model, model.work, tp, peaks))
        window = (*window, inside * byte, 0.0)
    found = StepTerms(_computed(model, model.work, tp, peaks), moved, experts, window)
    work = model.work
    found = found.longer(*exchange_times(work.reduces, work.hidden, tp, peaks.exchange))
    return found.longer(*handing_times(work.hidden, tp, pp, peaks.link, peaks.exchange))


def _without_idle_windows(served: Served) -> Served:
    """Take windows that are as long as the longest request for full attention."""
    longest = min(served.asked.max_model_len or served.model.max_model_len, MAX_TOKENS)
    shapes = tuple(
        replace(shape, window=None) if (shape.window or 0) >= longest else shape
        for shape in served.model.attention
    )
    return replace(served, model=replace(served.model, attention=shapes))


def _window(model: Model) -> int:
    """Return the tokens of the windows."""
    return max(shape.window for shape in model.attention if shape.window is not None)


def _computed(model: Model, work: Work, tp: int, peaks: Peaks) -> Five:
    """Return the coefficients of computing."""
    flop = _flop(tp, peaks)
    product = MICROSECONDS / (peaks.flops_8bit * tp) if work.eight_bit else flop
    full = sum(shape.window is None for shape in model.attention)
    token = 2 * (work.active + work.copied * tp) * product + work.recurrence * flop
    output = 2 * work.output * flop
    return (
        peaks.overhead_us,
        token,
        token + output,
        full * work.decode * flop,
        full * work.prefill * flop,
    )


def _computed_inside(model: Model, work: Work, tp: int, peaks: Peaks) -> tuple[float, float]:
    """Return what computing takes for a token inside a window: of a decode, of a prefill."""
    layers = sum(shape.window is not None for shape in model.attention)
    return layers * work.decode * _flop(tp, peaks), layers * work.prefill * _flop(tp, peaks)


def _flop(tp: int, peaks: Peaks) -> float:
    return MICROSECONDS / (peaks.flops * tp)


def _kept(served: Served) -> tuple[int, int]:
    """Return bytes that a GPU keeps of a token, in full layers and in those with a window."""
    caches = served.model.caches(served.asked.tp, served.dtype, served.state)
    full = sum(cache.token_bytes for cache in caches if cache.window is None)
    return full, sum(cache.token_bytes for cache in caches) - full


def _states_moved(served: Served) -> int:
    """Return bytes that a GPU reads and writes of a decoding request's states in a step."""
    if served.state is None:
        return 0
    return 2 * served.state.size * len(served.model.states)


def _missing(problem: str) -> InputError:
    return InputError(f"latency: missing, and not known of {problem}; give latency.model")
