"""Begin and end a lane whose blocks and requests are explicit."""

import numpy as np

from ..._jit import leaf, part
from ...records import DECODE, NONE
from ..blocks.sizes import full_blocks
from ..memory import place_engine
from ..moving.connector import begin_moving
from .capacity import handed_tokens
from .slots import all_groups
from .stages import begin_stages
from .tables import clear


@leaf
def _apply_step_times(own, pool):
    """Let the LANE record of an instance have the step times of its pool."""
    own["beta0"] = pool["beta0"]
    own["beta1"] = pool["beta1"]
    own["beta2"] = pool["beta2"]
    own["beta3"] = pool["beta3"]
    own["beta4"] = pool["beta4"]
    own["memory0"] = pool["memory0"]
    own["memory1"] = pool["memory1"]
    own["memory2"] = pool["memory2"]
    own["memory3"] = pool["memory3"]
    own["memory4"] = pool["memory4"]
    own["beta5"] = pool["beta5"]
    own["beta6"] = pool["beta6"]
    own["memory5"] = pool["memory5"]
    own["memory6"] = pool["memory6"]
    own["reach"] = pool["reach"]
    own["experts"] = pool["experts"]
    own["missed"] = pool["missed"]
    own["context"] = pool["context"]
    own["roofline"] = pool["roofline"]


@leaf
def _apply_tier(own, pool):
    """Let the LANE record of an instance have the CPU tier of its pool, of which some have none."""
    bare = pool["cpu_blocks"] == 0
    own["cpu_blocks"] = pool["cpu_blocks"]
    own["moves"] = not bare
    own["bare"] = bare


@leaf
def _apply_pool(own, pool):
    """Let the LANE record of an instance have what its pool has of its own."""
    own["role"] = pool["role"]
    own["gpu_blocks"] = pool["gpu_blocks"]
    own["watermark"] = pool["watermark"]
    own["max_num_seqs"] = pool["max_num_seqs"]
    own["longest"] = min(own["longest"], pool["longest"])
    own["max_tokens"] = pool["max_tokens"]
    _apply_step_times(own, pool)
    own["routing"] = pool["routing"]
    own["scorer_lo"] += pool["scorer_lo"]
    own["scorers"] = pool["scorers"]
    own["indexes"] = pool["indexes"]


@leaf
def _take_pool(lane, own, pool):
    """Let an instance be one of a pool."""
    _apply_pool(own, pool)
    if lane["moves"]:
        _apply_tier(own, pool)


@leaf
def _begin_state(ws, lane, s, request, table_lo, prompt, output):
    """Let a request know its prompt, and have nothing of it computed at this instance."""
    if lane["states"]:
        ws.recurrent[s] = ws.blank_recurrent[0]
    state = ws.states[s]
    ws.states[s] = ws.blank_state[0]
    state["table_lo"] = table_lo
    state["places"] = full_blocks(lane, request["prompt"] + request["output"] - 1)
    state["places"] += lane["more_places"]
    state["prompt"] = prompt
    state["known"] = prompt
    state["sure"] = prompt
    state["limit"] = prompt + output
    state["shared"] = request["reusable"]
    state["private"] = request["reusable"]
    clear(ws, lane, state, s)


@leaf
def _begin_states(inp, ws, lane):
    """Begin all requests; where prefill and decode are apart each has a state for either."""
    slots = lane["key_slots"] + lane["requests"] * lane["more_places"]
    first = inp.requests[lane["request_lo"]]["key_lo"]
    for r in range(lane["requests"]):
        request = inp.requests[lane["request_lo"] + r]
        prompt, output = np.int64(request["prompt"]), np.int64(request["output"])
        table_lo = (request["key_lo"] - first + r * lane["more_places"]) * all_groups(lane)
        if lane["disaggregated"]:
            _begin_state(ws, lane, r, request, table_lo, handed_tokens(lane, prompt), np.int64(1))
            other = lane["requests"] + r
            table_lo += slots * all_groups(lane)
            _begin_state(ws, lane, other, request, table_lo, prompt, output)
            ws.handoffs[r] = ws.blank_handoff[0]
        else:
            _begin_state(ws, lane, r, request, table_lo, prompt, output)


@leaf
def _place_states(own, engine):
    """Let an instance that decodes have states of its own, behind those of the others."""
    if own["role"] == DECODE:
        engine["state_lo"] = own["requests"]


@part
def begin_explicit(inp, ws, lane):
    """Begin the instances and requests of a lane."""
    pool = lane["pool_lo"]
    left = inp.pools[pool]["instances"]
    for index in range(lane["instances"]):
        inst = ws.instances[index]
        ws.own[index] = lane
        own = ws.own[index]
        if lane["pools"] > 0:
            if left == 0:
                pool += 1
                left = inp.pools[pool]["instances"]
            left -= 1
            _take_pool(lane, own, inp.pools[pool])
        inst["free"] = own["gpu_blocks"]
        ws.engines[index] = ws.blank_engine[0]
        engine = ws.engines[index]
        place_engine(lane, inst, engine)
        if lane["stages"]:
            begin_stages(ws, lane, inst, engine)
        _place_states(own, engine)
    if lane["windows"]:
        for place in range(lane["instances"] * lane["block_size"]):
            ws.leavers[place] = ws.blank_leavers[0]
    _begin_states(inp, ws, lane)
    if lane["moves"]:
        begin_moving(ws, lane)


@leaf
def end_explicit(ws, inst, tally):
    """Add what an instance counted to the totals of its lane; return the requests left behind."""
    engine = ws.engines[inst["number"]]
    tally["window_freed"] += engine["window_freed"]
    tally["draft_tokens"] += engine["drafts"]
    tally["accepted_tokens"] += engine["accepted"]
    return engine["kept"]


@leaf
def end_handoff(ws, out, lane, r):
    """Write how a request went from prefill to decode; it entered the cluster by its prefill."""
    handoff = ws.handoffs[r]
    if handoff["queued"] != NONE:
        ws.progress[r]["queued"] = handoff["queued"]
    if out.handoffs.size > 0:
        out.handoffs[lane["out_lo"] + r] = handoff
