"""The step on the device and the one scheduled meanwhile (rule R10.1).

The clock stands where one step ends and the next begins. Synchronously this one is scheduled then,
and the clock moves on to its end. Asynchronously it was scheduled one step ago and begins now, on
the device; the one after it is scheduled, and then the clock moves by what the device takes.
"""

from ..._jit import leaf
from ...records import Event


@leaf
def move_clock(lane, inst, duration):
    """Move the clock by `duration`, with the blocks in use now, to outputs to process."""
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * duration
    inst["peak"] = max(inst["peak"], used)
    inst["clock"] += duration
    inst["end"] = inst["clock"]
    inst["in_flight"] = 1


@leaf
def start_device(lane, inst, duration):
    """Hand the scheduled step, of `duration`, to the device; return by what the clock moves.

    An idle device begins with it at once: then one more is scheduled before the clock moves.
    """
    moves = duration
    if lane["async_scheduling"]:
        moves = inst["device"]
        inst["device"] = duration
        inst["on_device"] = 1
    return moves


@leaf
def mark_empty(out, inst, tally):
    """Tell the victims of a step that computes nothing from those of the next one, in the log."""
    for row in range(tally["log_events"] - inst["preempted"], tally["log_events"]):
        if row < out.events.size and out.events[row]["kind"] == Event.PREEMPT:
            out.events[row]["value"] += 2


@leaf
def stop_device(out, lane, inst, tally):
    """Let the device finish its step where nothing could be scheduled; then it is idle.

    Synchronously nothing could be if all that waited was given up, and asynchronously also if all
    that run have their last token on its way.
    """
    if lane["log"]:
        mark_empty(out, inst, tally)
    if lane["async_scheduling"] and inst["on_device"]:
        move_clock(lane, inst, inst["device"])
        inst["on_device"] = 0
        inst["device"] = 0
