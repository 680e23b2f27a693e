"""Scorers of weighted routing: each adds its score of every instance, by its weight.

They read snapshots and nothing else. Formulas and order of the float operations: inference-sim.
"""

from ..._jit import leaf
from ...policies import Scorer, SloClass
from ...records import LaneStatus


@leaf
def _add(snapshot, weight, score):
    """Add a score, clamped to 0..1."""
    snapshot["score"] += min(max(score, 0.0), 1.0) * weight


@leaf
def _prefix_affinity(ws, weight, blocks):
    """Score the share of the prompt's full blocks that the router's index has."""
    if blocks > 0:
        for index in range(ws.router[0]["first"], ws.router[0]["end"]):
            snapshot = ws.snapshots[index]
            _add(snapshot, weight, snapshot["matched"] / blocks)


@leaf
def _precise_prefix(ws, weight, blocks):
    """Score the share of the prompt's full blocks that the instance's cache holds."""
    if blocks > 0:
        for index in range(ws.router[0]["first"], ws.router[0]["end"]):
            snapshot = ws.snapshots[index]
            _add(snapshot, weight, snapshot["held"] / blocks)


@leaf
def _queue_depth(ws, weight):
    """Score the smallest load 1, the largest 0, linear between; all 1 if they are equal."""
    low = ws.snapshots[ws.router[0]["first"]]["load"]
    high = low
    for index in range(ws.router[0]["first"] + 1, ws.router[0]["end"]):
        low = min(low, ws.snapshots[index]["load"])
        high = max(high, ws.snapshots[index]["load"])
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        score = 1.0
        if high > low:
            score = (high - ws.snapshots[index]["load"]) / (high - low)
        _add(ws.snapshots[index], weight, score)


@leaf
def _load_balance(ws, weight):
    """Score the inverse of the load."""
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        _add(ws.snapshots[index], weight, 1.0 / (1.0 + ws.snapshots[index]["load"]))


@leaf
def _kv_utilization(ws, weight):
    """Score the share of the blocks that nobody uses; cached ones may be among them."""
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        _add(ws.snapshots[index], weight, 1.0 - ws.snapshots[index]["utilization"])


@leaf
def _kv_pressure(ws, weight, transfer_weight):
    """Score as `_kv_utilization`, with penalties for transfers and thrashing."""
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        snapshot = ws.snapshots[index]
        score = 1.0 - snapshot["utilization"]
        if snapshot["transfer"] > 0:
            score -= transfer_weight * snapshot["transfer"] / 10000.0
        _add(snapshot, weight, score - 2.0 * snapshot["thrashing"])


@leaf
def _transfer_weight(request):
    """Return how much a transfer weighs for a request of this SLO class."""
    weight = 1.0
    if request["slo_class"] == SloClass.CRITICAL:
        weight = 5.0
    elif request["slo_class"] == SloClass.BATCH:
        weight = 0.2
    elif request["slo_class"] == SloClass.BACKGROUND:
        weight = 0.1
    return weight


@leaf
def _apply(ws, tally, request, blocks, code, weight):
    """Let one scorer score all instances."""
    if code == Scorer.PREFIX_AFFINITY:
        _prefix_affinity(ws, weight, blocks)
    elif code == Scorer.PRECISE_PREFIX:
        _precise_prefix(ws, weight, blocks)
    elif code == Scorer.QUEUE_DEPTH:
        _queue_depth(ws, weight)
    elif code == Scorer.LOAD_BALANCE:
        _load_balance(ws, weight)
    elif code == Scorer.KV_UTILIZATION:
        _kv_utilization(ws, weight)
    elif code == Scorer.KV_PRESSURE:
        _kv_pressure(ws, weight, 1.0)
    elif code == Scorer.KV_PRESSURE_SLO:
        _kv_pressure(ws, weight, _transfer_weight(request))
    else:
        tally["status"] = LaneStatus.UNKNOWN_POLICY


@leaf
def score_instances(inp, ws, lane, tally, request, blocks):
    """Leave in each snapshot the weighted sum of the scores, added up in the scorers' order.

    The prompt has so many full `blocks`: divided once, as a division costs more than a score.
    """
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        ws.snapshots[index]["score"] = 0.0
    for place in range(lane["scorer_lo"], lane["scorer_lo"] + lane["scorers"]):
        scorer = inp.scorers[place]
        _apply(ws, tally, request, blocks, scorer["code"], scorer["weight"])
