"""What the router sees of the instances: taken from them here, read by routing and scorers.

The router looks only when it routes. With a refresh interval it works with the figures of the last
refresh, 0 before the first; what a cache holds it is always told at once, as routers are that
listen to the events of the caches.
"""

from ..._jit import leaf
from ..blocks import pool
from ..blocks.sizes import full_blocks
from ..explicit import lookup
from ..scheduling.caching import cache_decodes_for
from .answers import forget_answered


@leaf
def _see_loads(ws, lane):
    """Note the requests at each instance, those on their way into its queue only if they count."""
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        load = inst["load"]
        if not lane["count_pending"]:
            load = inst["waiting"] + inst["held"] + inst["running"]
        ws.snapshots[index]["load"] = load


@leaf
def _see_caches(ws, lane):
    """Note how the caches fare: blocks in use, transfers under way, thrashing."""
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        snapshot = ws.snapshots[index]
        blocks = lane["gpu_blocks"]
        if lane["explicit"]:
            blocks = ws.own[index]["gpu_blocks"]
        snapshot["utilization"] = (blocks - inst["free"]) / blocks
        snapshot["transfer"] = inst["transfer"]
        snapshot["thrashing"] = 0.0
        if inst["offloads"] > 0:
            snapshot["thrashing"] = inst["thrashed"] / inst["offloads"]


@leaf
def _see_blocks(inp, ws, lane, r):
    """Note how many leading blocks of a prompt each cache holds, in use or free.

    Beyond those that another request has too there are none. Blocks that decoding filled in the
    steps begun so far may not be cached yet (`kernel.scheduling.caching`).
    """
    request = inp.requests[lane["request_lo"] + r]
    limit = min(request["reusable"], full_blocks(lane, request["prompt"] - lane["ahead"]))
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        hits = 0
        if lane["by_extents"]:
            begun = inst["step"] + inst["in_flight"]
            if lane["connects"]:
                begun = inst["step"] + ws.offload[index]["sampling"]
            cache_decodes_for(inp, ws, lane, inst, request, begun)
            hits, _ = pool.find_prefix(inp, ws, lane, inst, r, limit)
        if lane["explicit"]:
            state = ws.states[ws.engines[index]["state_lo"] + r]
            hits = lookup.find_prefix(inp, ws, lane, inst, request, state, limit)
        ws.snapshots[index]["held"] = hits


@leaf
def look(inp, ws, lane, r, now):
    """Bring what the router sees up to date for routing request `r` at `now`."""
    router = ws.router[0]
    refresh = now - router["refreshed"] >= lane["snapshot_refresh"]
    if refresh:
        router["refreshed"] = now
    if refresh or not lane["snapshot_load"]:
        _see_loads(ws, lane)
    if refresh and lane["sees_cache"]:
        _see_caches(ws, lane)
    if lane["counts_tokens"]:
        forget_answered(ws, now)
    if lane["sees_blocks"]:
        _see_blocks(inp, ws, lane, r)
