"""What the router sees of the instances: taken from them here, read by routing and scorers.

The router looks only when it routes. With a refresh interval it works with the figures of the last
refresh, 0 before the first; what a cache holds it is always told at once, as routers are that
listen to the events of the caches.
"""

from .._jit import leaf
from ..records import NONE
from . import prefix
from .running import publish_decodes


@leaf
def _load(lane, inst):
    """Return the requests at an instance, those on their way into its queue only if they count."""
    if lane["count_pending"]:
        return inst["load"]
    return inst["waiting"] + inst["running"]


@leaf
def _see_cache(lane, inst, snapshot):
    """Note how the cache of an instance fares: blocks in use, transfers under way, thrashing."""
    snapshot["utilization"] = (lane["gpu_blocks"] - inst["free"]) / lane["gpu_blocks"]
    snapshot["transfer"] = inst["transfer"]
    snapshot["thrashing"] = 0.0
    if inst["offloads"] > 0:
        snapshot["thrashing"] = inst["thrashed"] / inst["offloads"]


@leaf
def _tell_decodes(inp, ws, lane, inst):
    """Publish what decoding filled in the steps begun so far, unless that is done already.

    Else these blocks may be published later (running.py). Nothing but a look-up could tell.
    """
    step = inst["step"] + inst["in_flight"]
    news = lane["shares"] and lane["prefix_caching"] and inst["told"] < step
    if news:
        inst["told"] = step
        publish_decodes(inp, ws, lane, inst, step)
    return news


@leaf
def _held(inp, ws, lane, inst, request):
    """Return how many leading blocks of a prompt the cache holds, in use or free.

    Beyond those that another request has too there are none.
    """
    first = request["key_lo"]
    end = first + min(request["reusable"], request["prompt"] // lane["block_size"])
    slot = first
    while slot < end:
        if prefix.find(ws, inst, inp.keys[slot]) != NONE:
            slot += 1
        elif not _tell_decodes(inp, ws, lane, inst):
            break
    return slot - first


@leaf
def look(inp, ws, lane, r, now):
    """Bring what the router sees up to date for routing request `r` at `now`."""
    router = ws.router[0]
    refresh = now - router["refreshed"] >= lane["snapshot_refresh"]
    if refresh:
        router["refreshed"] = now
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        snapshot = ws.snapshots[index]
        if refresh or not lane["snapshot_load"]:
            snapshot["load"] = _load(lane, inst)
        if refresh and lane["sees_cache"]:
            _see_cache(lane, inst, snapshot)
        if lane["sees_blocks"]:
            request = inp.requests[lane["request_lo"] + r]
            snapshot["held"] = _held(inp, ws, lane, inst, request)
