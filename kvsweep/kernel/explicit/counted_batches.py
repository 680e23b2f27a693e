"""The batches of those who are counted: told of when they begin, and processed when they end."""

from ..._jit import leaf
from ..time.arrivals import tell_end
from ..time.calendar import find_due
from .due import tells
from .endings import end_some
from .missed import note_missed
from .planning import planned_tokens


@leaf
def announce_counted(inp, ws, lane, inst, tally, engine, end):
    """Tell of those counted who will have all their tokens with this batch, at its `end`."""
    if engine["plain"] > 0:
        first, last, _ = find_due(ws, inst)
        for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
            r = ws.running[place]
            state = ws.states[engine["state_lo"] + r]
            request = inp.requests[lane["request_lo"] + r]
            if ws.due[place] == inst["step"] and tells(lane, request, state):
                tell_end(inp, ws, lane, inst, tally, r, end + int(lane["alpha2"]))
                if lane["async_scheduling"]:
                    state["sure"] = state["limit"]
                    ws.due[place] += 1


@leaf
def process_counted(inp, ws, out, lane, inst, tally, index, engine):
    """Give each who is counted its token of the batch that has just ended."""
    if engine["counted"] > 0:
        step = ws.batches[engine["batch_lo"] + engine["oldest"]]["step"]
        after = inst["step"]
        inst["step"] = step + lane["async_scheduling"]  # the schedule that knew of their ends
        first, last, _ = find_due(ws, inst)
        engine["even"] += engine["measured"]
        behind = note_missed(ws, lane, inst, tally, engine, step)
        end_some(inp, ws, out, lane, inst, tally, index, engine, first, last, step)
        if lane["drafts"] == 0:
            engine["context"] += engine["counted"] - behind
        elif lane["context"]:
            engine["context"] += planned_tokens(ws, inst, engine)
        inst["step"] = after
