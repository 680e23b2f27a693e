"""The presets that come with kvsweep, beside each other: whence, and how long steps take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kvsweep.calibrate.step_models import predict
from kvsweep.config.coefficients import BETAS, padded
from kvsweep.config.preset import Preset, load_preset, preset_names
from kvsweep.gpu.batches import Batch
from kvsweep.sizing.shapes import model_named

CONTEXT = 1000
"""Tokens of each decoding request before the one that a step computes, as in docs/presets.md."""

MANY = 64
"""Requests of the larger batch."""

PROMPT = 2048
"""Tokens of the prompt."""

_BATCHES = (Batch(0, 0, 1, CONTEXT), Batch(0, 0, MANY, CONTEXT), Batch(PROMPT, 0, 0, 0))

_MICROSECONDS = 1e3
"""In a millisecond."""


class KnownPreset(NamedTuple):
    """A preset.

    Attributes
    ----------
    name, model, hardware : str
        For ``latency.model``; what the times are of.
    times : str
        ``measured`` layer by layer, ``fitted`` to a server, ``published`` by others, or
        ``computed`` from peaks.
    one_ms, many_ms, prompt_ms : float
        Of steps in which one request decodes, `MANY` do, each with `CONTEXT` tokens before, and a
        prompt of `PROMPT` tokens is computed; milliseconds.
    source : str
        Where the figures come from.
    """

    name: str
    model: str
    hardware: str
    times: str
    one_ms: float
    many_ms: float
    prompt_ms: float
    source: str


def known_presets(words: Sequence[str] = ()) -> list[KnownPreset]:
    """Return the presets of which every word is part of the name, in order of their names.

    A model's name on Hugging Face is a word too.

    Examples
    --------
    >>> [found.name for found in known_presets(["8b", "rtx4090", "roofline"])]
    ['llama-3.1-8b/rtx4090/tp1-roofline']
    """
    wanted = [model_named(word).casefold() for word in words]
    names = [name for name in preset_names() if all(word in name.casefold() for word in wanted)]
    return [_known(name, load_preset(name, Path())) for name in names]


def _known(name: str, preset: Preset) -> KnownPreset:
    one, many, prompt = (us / _MICROSECONDS for us in _step_us(preset.coefficients()))
    about = name, preset.model, preset.hardware, _origin(preset)
    return KnownPreset(*about, one, many, prompt, preset.source)


def _origin(preset: Preset) -> str:
    if preset.device is not None:
        return "computed"
    if preset.source.startswith("measured"):
        return "measured"
    return "fitted" if preset.source.startswith("`kvsweep calibrate`") else "published"


def _step_us(found: dict[str, Any]) -> list[float]:
    """Return how long `_BATCHES` take by coefficients, microseconds."""
    window, (of_all, share) = found["window"], found.get("experts") or (0.0, 0.0)
    sums = np.array([batch.sums for batch in _BATCHES])
    beta, memory = padded(found["beta"], BETAS), found.get("memory", ())
    if window:
        inside = [batch.inside(int(window[0])) for batch in _BATCHES]
        sums, beta = np.column_stack((sums, inside)), (*beta, *window[1:3])
        memory = (*memory, *window[3:]) if memory else memory
    if of_all:
        tokens = np.array([batch.tokens for batch in _BATCHES])
        sums, memory = np.column_stack((sums, 1 - (1 - share) ** tokens)), (*memory, of_all)
    times: list[float] = predict(np.array(beta), np.array(memory), sums).tolist()
    return times
