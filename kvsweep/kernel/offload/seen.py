"""Which of its chunks a request has offered or reused.

For eviction by recency (lru.py): mostly they are one stretch, and kept as its bounds. Once they are
not, each has a flag. With adaptive replacement (arc.py) each always has four.
"""

from ..._jit import leaf, part
from ..blocks.sizes import full_blocks
from ..time.decoding import most_computed

ODD = -1
"""`OFFER.seen_end` of a request whose chunks have flags."""


SEEN, INSERTED, REUSED, MISSED = 1, 2, 4, 8
"""What a request has done with its chunk j: flags of `Workspace.seen`, in the slot of block j."""


@leaf
def first_unseen(ws, request, r, first, end):
    """Return the bounds of the first stretch of unseen ones of the chunks `first` to `end - 1`.

    They are equal if all are seen.
    """
    offers = ws.offers[r]
    stop = end
    if offers["seen_end"] == ODD:
        lo = request["key_lo"]
        while first < end and ws.seen[lo + first]:
            first += 1
        stop = first
        while stop < end and not ws.seen[lo + stop]:
            stop += 1
    elif first < offers["seen_end"]:
        if first >= offers["seen_first"]:
            first = min(end, offers["seen_end"])
        else:
            stop = min(end, offers["seen_first"])
    return first, stop


@part
def _give_flags(ws, lane, request, r):
    """Give each chunk of a request a flag."""
    offers = ws.offers[r]
    lo = request["key_lo"]
    for chunk in range(full_blocks(lane, most_computed(request))):
        ws.seen[lo + chunk] = offers["seen_first"] <= chunk < offers["seen_end"]
    offers["seen_end"] = ODD


@leaf
def see(ws, lane, request, r, first, end):
    """Note that a request has seen its chunks `first` to `end - 1`."""
    offers = ws.offers[r]
    if offers["seen_end"] == 0:
        offers["seen_first"] = first
        offers["seen_end"] = end
        return
    if offers["seen_end"] != ODD and (first > offers["seen_end"] or end < offers["seen_first"]):
        _give_flags(ws, lane, request, r)
    if offers["seen_end"] == ODD:
        ws.seen[request["key_lo"] + first : request["key_lo"] + end] = 1
    else:
        offers["seen_first"] = min(first, offers["seen_first"])
        offers["seen_end"] = max(end, offers["seen_end"])


@leaf
def last_seen(ws, request, r, end):
    """Return the bounds of the last stretch of seen chunks before `end`; equal: there is none."""
    offers = ws.offers[r]
    first = offers["seen_first"]
    stop = min(end, offers["seen_end"])
    if offers["seen_end"] == ODD:
        lo = request["key_lo"]
        stop = end
        while stop > 0 and not ws.seen[lo + stop - 1]:
            stop -= 1
        first = stop
        while first > 0 and ws.seen[lo + first - 1]:
            first -= 1
    return first, max(first, stop)
