"""Steps of those who are counted in which the order matters who leaves and who takes blocks.

What windows and states leave that does not stay in the cache (kept.py) is taken next, before cached
blocks are evicted: by who stands behind in the running list. Where all who leave such a block take
one in the same step, as many are evicted in whatever order.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from .block_records import take
from .due import do_due, is_served, phase_of, this_phase
from .leaving import begin_turns, end_turns, leave_in_turn
from .slots import groups_of
from .states import keeps_states, tables_of


@leaf
def takes_turns(ws, lane, inst, phase, taken):
    """Return whether who takes `taken` blocks, and leaves some, must do so one after the other."""
    turns = lane["sparse"] != 0 and lane["out_of_step"] != 0
    turns = turns and taken > inst["free"] - inst["evictable"]
    if turns and not keeps_states(lane):
        leavers = ws.leavers[phase]
        turns = leavers["bare"] > 0 or inst["step"] >= leavers["look_at"]
        turns = turns and leavers["first"] != NONE and leavers["visited"] < inst["step"]
    return turns


@leaf
def take_in_turn(inp, ws, lane, inst, tally, engine):
    """Let each who is counted leave what it leaves in this step, then take what it takes."""
    takes = this_phase(lane, inst)
    table = begin_turns(ws, lane, inst, takes)
    for position in range(engine["counted"]):
        place = inst["run_lo"] + position
        s = np.int64(engine["state_lo"]) + ws.running[place]
        while table != NONE and table // groups_of(lane) == s:
            table = leave_in_turn(inp, ws, lane, inst, tally, engine, table)
        state = ws.states[s]
        takes_now = phase_of(lane, inst, state) == takes and is_served(lane, inst, state)
        if keeps_states(lane):
            do_due(inp, ws, lane, inst, tally, engine, place)
        if takes_now:
            take(ws, inst, np.int64(tables_of(lane)))
    end_turns(ws, lane, inst, takes)
