"""The load of a measured run over time, and whether a part of it has seen that of the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.wording import left_out_text
from kvsweep.calibrate.served import Served

Floats = NDArray[np.float64]

TIMES = 400  # at which each part of a run is looked at
MARGIN = 1.1  # more than the most of the fitted part by this factor is unseen
SHARE = 0.05  # of the rest of the run that must be unseen to be told

_WORDS = {
    "decoding": ("requests decode at once", "{:,.0f}"),
    "context": ("tokens are in the context of all decoding requests", "{:,.0f}"),
    "waiting": ("requests wait for their first token", "{:,.0f}"),
}


def measured_load(served: Served, times: Floats) -> dict[str, Floats]:
    """Return requests that decode, their tokens of context, and requests before their first token.

    Parameters
    ----------
    served : Served
    times : float64 (m,)
        Seconds on the clock of the arrivals.

    Returns
    -------
    dict of str to float64 (m,)
    """
    at = times[:, None]
    decoding = (served.first <= at) & (at < served.last)
    waiting = (served.arrival <= at) & (at < served.first)
    span = np.maximum(served.last - served.first, 1e-9)
    progress = np.clip((at - served.first) / span, 0.0, 1.0)
    tokens = served.requests.prompt_tokens + progress * served.requests.output_tokens
    return {
        "decoding": decoding.sum(axis=1).astype(np.float64),
        "context": np.where(decoding, tokens, 0.0).sum(axis=1),
        "waiting": waiting.sum(axis=1).astype(np.float64),
    }


def without(served: Served) -> tuple[str, ...]:
    """Say how many requests of the run's file are left out, which the server had as well."""
    if not served.left_out:
        return ()
    told = left_out_text(served.left_out, served.left_out + len(served.requests))
    return (f"{told}: if they loaded the server, step times are too long",)


def unseen(served: Served, until: float) -> tuple[str, ...]:
    """Say where the run after `until` (seconds) goes beyond the load before it."""
    begin, end = float(served.arrival.min()), float(served.last.max())
    if until >= end:
        return ()
    before, after = (
        measured_load(served, np.linspace(*ends, TIMES, endpoint=False))
        for ends in ((begin, until), (until, end))
    )
    told = []
    for name, (words, form) in _WORDS.items():
        most = float(before[name].max())
        if np.mean(after[name] > MARGIN * most) > SHARE:
            told.append(
                f"load that the fit has not seen: after {until:.1f} s up to "
                f"{form.format(after[name].max())} {words}, up to then {form.format(most)}"
            )
    return tuple(told)
