"""Blocks that unfinished prefills will still need: no load or pull may take them (R11.3)."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.sizes import blocks_for
from .batches import entry_of
from .capacity import capped, lacking
from .longest import to_verify
from .slots import groups_of, window_of
from .state_hits import count_hit
from .states import states_needed
from .tables import left_by


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
    # Else holders have all.
    if lane["lease"] or lane["drafts"] > 0 or lane["moves"] or lane["states"]:
        for place in range(inst["hold_lo"], inst["hold_lo"] + inst["held"]):
            s = engine["state_lo"] + ws.hold[place]
            count += _lacks(inp, ws, lane, engine, ws.states[s], s)
    return count, ending


@leaf
def _lacks_all(inp, lane, state, hits, tokens):
    """Return the blocks that a request lacks to have all it knows, `tokens` of which it loads."""
    want = blocks_for(lane, np.int64(state["known"]))
    lacks = np.int64(0)
    for group in range(groups_of(lane)):
        had = max(left_by(lane, window_of(inp, lane, group), tokens), hits)
        lacks += max(capped(inp, lane, group, want) - had, 0)
    return lacks


@leaf
def _states_lacked(ws, lane, state, s, begun, total):
    """Return the states that a request takes to have all it knows, and to have what it loads.

    And how many that it hits, behind `begun` blocks, nobody uses: vLLM counts them, though the load
    brings a later one.
    """
    known = np.int64(state["known"])
    whole = states_needed(ws, lane, state, s, total, known, begun)
    taken = states_needed(ws, lane, state, s, total, total, begun)
    unused, _ = count_hit(ws, lane, state, begun)
    return whole, taken, unused


@leaf
def fits(inp, ws, lane, inst, engine, state, s, hits, begun, total, taken, unused):
    """Return whether there is room for a load, and for all that is known if that is asked for.

    Of its `hits` in attention nobody uses `unused`; `taken` are new there. Behind `begun` of them
    there is a state.
    """
    room = inst["free"] - unused
    if inst["running"] > 0:
        room -= lane["watermark"]
    whole = _lacks_all(inp, lane, state, hits, total)
    if lane["states"]:
        more, states, idle = _states_lacked(ws, lane, state, s, begun, total)
        room -= idle
        whole += more
        taken += states
    enough = not lane["reserve_full_prompt"] or whole <= room
    if enough:
        left, ending = reserved(inp, ws, lane, inst, engine)
        enough = taken <= room - left - ending
    inst["shortages"] += not enough
    return enough
