"""The stages of a pipeline, each with a part of the layers: rules R16.

A batch passes one after the other, and each stage computes one batch at a time. So as many are on
their way as there are stages, and the engine schedules a batch when the oldest has come out.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..scheduling import waiting
from .batches import batch_on_way, entry_at, scheduled_batch


@leaf
def begin_stages(ws, lane, inst, engine):
    """Begin the stages of an instance, and count nobody of its classes."""
    for stage in range(lane["stages"]):
        ws.stages[engine["stage_lo"] + stage] = 0
        ws.classes[engine["stage_lo"] + stage] = ws.blank_class[0]
    for phase in range(lane["block_size"] * lane["stages"]):
        ws.phases[inst["phase_lo"] + phase] = 0


@leaf
def first_begins(ws, lane, inst, engine):
    """Return when the device begins with a batch that is scheduled now.

    Asynchronously the first stage needs the tokens that were sampled as many schedules before as
    there are stages (R16.3).
    """
    begins = max(inst["clock"], engine["device_end"])
    if lane["stages"]:
        begins = max(inst["clock"], ws.stages[engine["stage_lo"]])
        if engine["queued"] == lane["stages"]:
            batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
            if batch["samples"]:
                begins = max(begins, batch["end"])
    return begins


@leaf
def pass_stages(ws, lane, engine, begins, duration):
    """Let the stages compute a batch, each an equal part of it; return when it comes out."""
    stages = lane["stages"]
    least, left = duration // stages, duration % stages
    over = np.int64(0)
    time = begins
    for place in range(engine["stage_lo"], engine["stage_lo"] + stages):
        over += left  # a part is duration * (stage + 1) // stages - duration * stage // stages
        more = over >= stages
        over -= stages * more
        time = max(time, ws.stages[place]) + least + more
        ws.stages[place] = time
    return time


@leaf
def begin_share(lane, inst, engine):
    """Settle how many requests a schedule may serve: its share of all, rounded up (R16.5)."""
    requests = inst["running"] + inst["waiting"]
    engine["share"] = (requests + lane["stages"] - 1) // lane["stages"]


@leaf
def has_share(engine):
    """Return whether the schedule may serve one more request."""
    return engine["plain"] + engine["size"] - engine["taken_back"] < engine["share"]


@leaf
def note_samples(ws, lane, engine):
    """Note whether the batch samples, and from when on whom it samples of may decode (R16.2)."""
    number = scheduled_batch(lane, engine)
    first = entry_at(lane, engine, number, 0)
    samples = engine["plain"] > 0
    for place in range(first, first + engine["size"]):
        entry = ws.entries[place]
        if entry["samples"]:
            samples = True
            ws.states[entry["state"]]["eligible"] = engine["schedules"] + lane["stages"]
    ws.batches[engine["batch_lo"] + number]["samples"] = samples


@leaf
def none_changes(ws, lane, engine):
    """Return whether no batch on its way changes anything."""
    still = True
    for place in range(engine["queued"]):
        still = still and batch_on_way(ws, lane, engine, place)["changes"] == 0
    return still


@leaf
def set_aside(inp, ws, lane, inst, engine, r):
    """Pass over the head of the waiting list: a step from before its preemption is on its way."""
    waiting.leave_waiting(inp, ws, lane, inst)
    ws.progress[r]["next"] = engine["aside"]
    engine["aside"] = r


@leaf
def put_back(inp, ws, lane, inst, engine):
    """Put those who were passed over back in front of the waiting list, in their order.

    The next schedule may try the first of them, whoever was refused behind.
    """
    if engine["aside"] != NONE:
        engine["refused"] = 0
    while engine["aside"] != NONE:
        r = engine["aside"]
        engine["aside"] = ws.progress[r]["next"]
        waiting.wait_first(inp, ws, lane, inst, r)
