"""The step on the device and the one scheduled meanwhile (rule R10).

The clock stands where one step ends and the next begins. Synchronously this one is scheduled then.
Asynchronously it was scheduled one step ago (`on_device`), and the one after it is scheduled now,
before the clock moves on to its end.
"""

from ..._jit import leaf
from ...records import Event
from ..scheduling.outputs import process_outputs
from .decoding import next_phase


@leaf
def move_clock(lane, inst, duration):
    """Let the device compute a step of `duration`, to whose end the clock moves."""
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * duration
    inst["peak"] = max(inst["peak"], used)
    inst["clock"] += duration
    inst["end"] = inst["clock"]
    inst["in_flight"] = 1


@leaf
def next_step(lane, inst):
    """Go on to schedule the next step."""
    inst["step"] += 1
    inst["phase"] = next_phase(lane, inst["phase"])


@leaf
def dispatch(inp, ws, out, lane, inst, tally, index, duration):
    """Hand the scheduled step to the device, which computes the one before meanwhile.

    An idle device begins with it at once, and one more is scheduled before the clock moves.
    """
    process_outputs(inp, ws, out, lane, inst, tally, index, inst["begins"] + duration)
    inst["ending"] = inst["step"] - 1
    if inst["on_device"]:
        move_clock(lane, inst, inst["device"])
    else:
        inst["peak"] = max(inst["peak"], lane["gpu_blocks"] - inst["free"])
    inst["on_device"] = 1
    inst["device"] = duration
    next_step(lane, inst)


@leaf
def _mark_empty(out, inst, tally):
    """Tell the victims of a step that computes nothing from those of the next one, in the log."""
    for row in range(tally["log_events"] - inst["preempted"], tally["log_events"]):
        if row < out.events.size and out.events[row]["kind"] == Event.PREEMPT:
            out.events[row]["value"] += 2


@leaf
def wait_for_device(out, lane, inst, tally):
    """Let the device finish its step where nothing could be scheduled; then it is idle.

    Synchronously nothing could be if all that waited was given up, and asynchronously if all that
    run have their last token on its way.
    """
    if lane["log"]:
        _mark_empty(out, inst, tally)
    if inst["on_device"]:
        inst["ending"] = inst["step"] - 1
        move_clock(lane, inst, inst["device"])
        inst["on_device"] = 0
        inst["device"] = 0
