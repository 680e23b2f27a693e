"""At which step each running request needs attention next: it samples, finishes, or caches.

Scanned, as that costs less than an ordered calendar, in whole rows of ROW places, so that loops
become vector instructions alone: what compilers add for odd lengths took a fifth of a simulation
(H8). Steps have 32 bits: twice as many fit a register, and their minimum takes one instruction.
Places behind the end of the running list are IDLE.
"""

import numpy as np

from ..._jit import leaf

ROW = np.int64(16)
IDLE = np.int32(2**31 - 2)
"""A step that does not come. (Not the largest number: LLVM once simplified the minima with it, and
failed. numba 0.68.1 compiles both alike: the same results, 26 us for H8.)"""
NOWHERE = np.int32(-1)
MAX_STEPS = 2**30
"""Steps after which a lane gives up, so that due steps, a request's output later, fit 32 bits."""


@leaf
def whole_rows(count):
    """Return the places of the rows that hold `count` places."""
    return (count + ROW - 1) & -ROW


@leaf
def find_due(ws, inst):
    """Find the requests that are due at this step.

    Returns
    -------
    first, last, after : int
        Position of the first and the last of them; when the nearest of the others is due.
    """
    lo = inst["run_lo"]
    step = np.int32(inst["step"])
    first = IDLE
    last = NOWHERE
    after = IDLE
    for position in range(whole_rows(inst["running"])):
        due = ws.due[lo + position]
        is_due = due == step
        first = min(first, np.int32(position) if is_due else IDLE)
        last = max(last, np.int32(position) if is_due else NOWHERE)
        after = min(after, IDLE if is_due else due)
    return first, last, after


@leaf
def nearest_due(ws, inst):
    """Return the next step at which a running request needs attention."""
    lo = inst["run_lo"]
    nearest = IDLE
    for position in range(whole_rows(inst["running"])):
        nearest = min(nearest, ws.due[lo + position])
    return nearest


@leaf
def leave_running(ws, inst, position):
    """Close the gap that a request leaves in the running list."""
    inst["running"] -= 1
    lo = inst["run_lo"] + position
    for offset in range(whole_rows(inst["running"] - position)):
        ws.running[lo + offset] = ws.running[lo + offset + 1]
        ws.due[lo + offset] = ws.due[lo + offset + 1]
    ws.due[inst["run_lo"] + inst["running"]] = IDLE
