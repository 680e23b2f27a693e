"""Blocks that unfinished prefills will still need: no load or pull may take them (R11.3)."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.sizes import blocks_for
from .batches import entry_of
from .capacity import lacking
from .longest import to_verify
from .slots import groups_of
from .states import states_needed


@leaf
def _lacks(inp, ws, lane, engine, state, s):
    """Return the blocks that an unfinished prefill still needs, those to verify drafts too.

    Of states what a chunk would take that ends it, from where this schedule has begun.
    """
    tokens = np.int64(state["known"]) + to_verify(lane)
    lacks = lacking(inp, lane, tokens, np.int64(state["blocks"]))
    if lane["states"]:
        start = np.int64(state["computed"])
        entry = entry_of(ws, lane, engine, state, s)
        if entry != NONE:
            start -= ws.entries[entry]["tokens"]
        lacks += states_needed(ws, lane, state, s, start, np.int64(state["known"]), 0)
    return lacks


@leaf
def _ends_here(ws, lane, engine, state, s):
    """Return whether this schedule ends a prefill that was unfinished before it."""
    ends = False
    if lane["drafts"] > 0 and state["ends_prefill"]:
        ends = entry_of(ws, lane, engine, state, s) != NONE
    return ends


@leaf
def reserved(inp, ws, lane, inst, engine):
    """Return the blocks that unfinished prefills still need: no transfer takes them (R11.3).

    Those after this schedule, and what those need with drafts that it ends.
    """
    count = blocks_for(lane, to_verify(lane)) * groups_of(lane)  # of who pulls
    ending = np.int64(0)
    for place in range(inst["run_lo"] + engine["counted"], inst["run_lo"] + inst["running"]):
        s = engine["state_lo"] + ws.running[place]
        state = ws.states[s]
        if state["prefilling"]:
            count += _lacks(inp, ws, lane, engine, state, s)
        elif _ends_here(ws, lane, engine, state, s):
            ending += _lacks(inp, ws, lane, engine, state, s)
    if lane["lease"] or lane["drafts"] > 0 or lane["moves"]:  # else holders have all
        for place in range(inst["hold_lo"], inst["hold_lo"] + inst["held"]):
            s = engine["state_lo"] + ws.hold[place]
            count += _lacks(inp, ws, lane, engine, ws.states[s], s)
    return count, ending
