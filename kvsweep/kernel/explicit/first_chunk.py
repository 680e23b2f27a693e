"""What an admission schedules: its first chunk, or one token and drafts (rules R5.2 and R13.3)."""

import numpy as np

from ..._jit import leaf
from ..scheduling.running import chunk_of
from .aligning import aligned_with
from .longest import may_pad


@leaf
def _tokens_of(lane, inst, engine, state, computed, alone):
    """Return the tokens that an admission schedules, and whether some only pad it (R13.3).

    0 if it has to wait for another step.
    """
    tokens = state["known"] - computed
    room = min(inst["budget"], engine["input"] - lane["slot"])
    padded = False
    if lane["drafts"] > 0 and tokens == 1 and not engine["splits"] and may_pad(lane, computed):
        padded = engine["walked"] > 0 or computed > 0
    if padded:
        tokens += lane["drafts"]
        if tokens > room:
            tokens = np.int64(0)
    splits = lane["chunked_prefill"] != 0
    return chunk_of(lane, tokens, room, alone, splits), padded


@leaf
def tokens_at(ws, lane, inst, engine, state, s, computed, alone):
    """Return the same, where beside states a chunk ends as one of these can be cached."""
    tokens, padded = _tokens_of(lane, inst, engine, state, computed, alone)
    if lane["states"]:
        tokens, padded = aligned_with(ws, lane, state, s, tokens, computed, padded)
    return tokens, padded
