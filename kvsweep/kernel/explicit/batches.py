"""The batches of an instance on their way, and their entries in order of scheduling."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..memory import count_batches
from ..time.arrivals import tell_end


@leaf
def entry_at(lane, engine, batch, place):
    """Return the index of an entry of a batch, by its place in the ring of an instance."""
    return engine["entry_lo"] + batch * lane["places"] + place


@leaf
def in_ring(lane, place):
    """Return the place in the ring of batches of one that may be a turn further."""
    size = count_batches(lane)
    return place - size if place >= size else place


@leaf
def scheduled_batch(lane, engine):
    """Return the place in the ring of the batch that is being scheduled."""
    return in_ring(lane, engine["oldest"] + engine["queued"])


@leaf
def batch_on_way(ws, lane, engine, place):
    """Return a batch on its way; place 0 is the oldest."""
    return ws.batches[engine["batch_lo"] + in_ring(lane, engine["oldest"] + place)]


@leaf
def class_at(lane, engine, number):
    """Return the place of the class that a schedule is of: its number modulo the stages."""
    return engine["stage_lo"] + number % lane["stages"]


@leaf
def class_of(ws, lane, engine, number):
    """Return the class that a schedule of a pipeline is of."""
    return ws.classes[class_at(lane, engine, number)]


@leaf
def place_of(lane, engine, number, made_by):
    """Return the place in the ring of the batch of an earlier schedule; `number` is the next one.

    NONE if it is not on its way.
    """
    turn = made_by - (number - engine["queued"])
    if turn < 0 or turn >= engine["queued"]:
        return np.int64(NONE)
    return np.int64(in_ring(lane, engine["oldest"] + turn))


@leaf
def flies_with(lane, state):
    """Return the schedule of the batch that a request has on its way, counted with its `since`."""
    return np.int64(state["since"]) - lane["stages"] * lane["async_scheduling"]


@leaf
def close_gaps(ws, lane, engine):
    """Take the entries of requests that were preempted again out of the batch."""
    first = entry_at(lane, engine, scheduled_batch(lane, engine), 0)
    kept = first
    for place in range(first, first + engine["size"]):
        if ws.entries[place]["state"] != NONE:
            if kept < place:
                ws.entries[kept] = ws.entries[place]
            kept += 1
    engine["size"] = kept - first
    engine["taken_back"] = 0


@leaf
def draw(inp, ws, lane, engine):
    """Settle how many drafts of the batch will be accepted: that is drawn before the run."""
    first = entry_at(lane, engine, scheduled_batch(lane, engine), 0)
    for place in range(first, first + engine["size"]):
        entry = ws.entries[place]
        if entry["drafts"] > 0 and not entry["padded"]:
            state = ws.states[entry["state"]]
            r = entry["state"] - engine["state_lo"]
            request = inp.requests[lane["request_lo"] + r]
            accepted = np.int64(0)
            if request["accepted_len"] > 0:
                turn = state["verified"] % request["accepted_len"]
                accepted = np.int64(inp.accepted[request["accepted_lo"] + turn])
            entry["accepted"] = min(accepted, np.int64(entry["drafts"]))
            state["verified"] += 1


@leaf
def announce(inp, ws, lane, inst, tally, engine, end):
    """Tell of the requests that will have all their tokens with this batch, at its `end`."""
    first = entry_at(lane, engine, scheduled_batch(lane, engine), 0)
    for place in range(first, first + engine["size"]):
        entry = ws.entries[place]
        state = ws.states[entry["state"]]
        if entry["samples"] and state["sure"] < state["limit"]:
            state["sure"] += 1 + entry["accepted"]
            if state["sure"] >= state["limit"]:
                r = entry["state"] - engine["state_lo"]
                tell_end(inp, ws, lane, inst, tally, r, end + int(lane["alpha2"]))


@leaf
def enqueue(ws, lane, inst, engine, end, row, changes):
    """Hand the batch just scheduled to the device, until `end`."""
    batch = ws.batches[engine["batch_lo"] + scheduled_batch(lane, engine)]
    batch["end"] = end
    batch["step"] = inst["step"]
    batch["row"] = row
    batch["size"] = engine["size"]
    batch["skipped"] = 0
    batch["plain"] = engine["plain"]
    batch["changes"] = changes
    engine["queued"] += 1
    engine["device_end"] = end
    inst["step"] += engine["size"] + engine["plain"] > 0
    inst["in_flight"] = 1


@leaf
def is_next(ws, lane, engine, s):
    """Return whether a request is the first of the batch on the device who has an entry.

    With drafts that may be one who has finished meanwhile.
    """
    skipped = ws.batches[engine["batch_lo"] + engine["oldest"]]["skipped"]
    return ws.entries[entry_at(lane, engine, engine["oldest"], skipped)]["state"] == s


@leaf
def drop_entry(ws, lane, engine, state):
    """Let the first of the batch on the device who has an entry have none: it is counted now."""
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    if lane["drafts"] > 0:
        place = entry_at(lane, engine, engine["oldest"], batch["skipped"])
        state["coming"] = 1 + ws.entries[place]["accepted"]
    batch["skipped"] += 1
    batch["plain"] += 1


@leaf
def decode_one(ws, place, s):
    """Let an entry be that of a request that decodes one token, without drafts."""
    entry = ws.entries[place]
    entry["state"] = s
    entry["tokens"] = 1
    entry["drafts"] = 0
    entry["accepted"] = 0
    entry["samples"] = 1
    entry["padded"] = 0


@leaf
def give_entry(ws, lane, engine, s):
    """Let the last of the batch on the device who has no entry have the first: it was counted."""
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    first = entry_at(lane, engine, engine["oldest"], 0)
    if batch["skipped"] == 0:
        for place in range(first + batch["size"], first, -1):
            ws.entries[place] = ws.entries[place - 1]
        batch["size"] += 1
        batch["skipped"] = 1
    batch["skipped"] -= 1
    batch["plain"] -= 1
    decode_one(ws, first + batch["skipped"], s)
    if lane["drafts"] > 0:
        entry = ws.entries[first + batch["skipped"]]
        entry["tokens"] = 1 + lane["drafts"]
        entry["drafts"] = lane["drafts"]
        entry["accepted"] = ws.states[s]["coming"] - 1


@leaf
def pass_on(inst, engine, batch, ends, row):
    """Let the batch just scheduled be the one on the device, if there still is one."""
    batch["end"] = ends
    batch["step"] = inst["step"]
    batch["row"] = row
    batch["changes"] = 1
    batch["size"] = inst["running"]
    batch["skipped"] = inst["running"]
    batch["plain"] = inst["running"]
    engine["device_end"] = ends
    engine["schedules"] += 1
    inst["step"] += 1


@leaf
def entry_of(ws, lane, engine, state, s):
    """Return the entry of a request in the batch being scheduled, NONE if it has none."""
    place = entry_at(lane, engine, scheduled_batch(lane, engine), state["entry"])
    entry = NONE
    if state["entry"] < engine["size"] and ws.entries[place]["state"] == s:
        entry = place
    return entry
