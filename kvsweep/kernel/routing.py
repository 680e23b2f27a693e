"""Routing policies: which instance gets the next request."""

from .._jit import leaf
from ..policies import Routing


@leaf
def _round_robin(lane, turn):
    return turn % lane["instances"]


@leaf
def _least_loaded(ws, lane):
    """Return the first instance with the fewest requests routed to it and not yet gone."""
    best = 0
    for index in range(1, lane["instances"]):
        if ws.instances[index]["load"] < ws.instances[best]["load"]:
            best = index
    return best


@leaf
def choose_instance(ws, lane, turn):
    """Choose the instance of a request; `turn` counts the requests routed so far."""
    if lane["routing"] == Routing.ROUND_ROBIN:
        chosen = _round_robin(lane, turn)
    else:
        chosen = _least_loaded(ws, lane)
    return chosen
