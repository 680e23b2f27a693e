"""What wakes a head that was refused for lack of blocks, beside free blocks (`handoff.refuse`)."""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import full_blocks
from ..scheduling import waiting
from .block_records import STRETCH


@leaf
def evicts_hit(ws, inst, engine, count):
    """Return whether to take so many free blocks evicts one that a refused head watches."""
    found = False
    if engine["watches"]:
        lacks = count - (inst["free"] - inst["evictable"])
        node = np.int64(inst["lru_head"])
        while lacks > 0 and not found:
            record = ws.blocks[node]
            if record["key"] == STRETCH:
                lacks -= np.int64(record["duplicate_next"]) - record["duplicate_prev"]
                found = record["ref_count"] != 0
            else:
                lacks -= 1
                found = record["hits"] != 0
            node = np.int64(ws.lru[node]["next"])
    return found


@leaf
def wake_for(inp, ws, lane, inst, request, first, end):
    """Let a refused head be tried again if it may hit blocks of a request that are cached now.

    These are `first` to ``end - 1``. A key tells of all before it too: its place is the same, and
    only the first one is compared, as without it no later one is the same either.
    """
    engine = ws.engines[inst["number"]]
    if engine["refused"] and inst["waiting"] > 0:
        r = waiting.first_waiting(ws, lane, inst)
        key_lo = inp.requests[lane["request_lo"] + r]["key_lo"]
        known = np.int64(ws.states[engine["state_lo"] + r]["known"])
        if first < min(end, full_blocks(lane, known)) and (
            inp.keys[key_lo + first] == inp.keys[request["key_lo"] + first]
        ):
            engine["refused"] = 0
