"""Which part of the workspace is whose: where it begins, and how much of each array a lane needs.

Compiled code does not check its indices: one beyond an array damages other memory. So the formulas
of the indices and the sizes of the arrays are side by side here. Sizes are found in Python, for all
lanes of a batch at once, by whoever allocates the workspace.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import leaf
from ..policies import Scheduler

QUEUES = 5
"""Queues of copies of an instance: offload/jobs.py names them."""

TIER_RINGS = 4
"""Rings of a CPU tier: blocks/tier_order.py, offload/arc.py and moving/rings.py name them."""

SPAN = 1 << 10
"""Steps whose begins are kept for what a write-through tier has counted (blocks/unsettled.py)."""

HORIZON = 32
"""Steps with drafts that are planned at a time: whole vectors, and few that do not come to pass."""

PART = 2 * HORIZON + 2
PLAN = 3 * PART
"""Places of the plan of an instance: sums of blocks, then of tokens, each behind a 0, then what is
inside a window in each step. As many steps are always written, so each of these parts has places
behind those that are planned."""

IDS = 3
"""Ids of each block with a connector: those of two schedules rest (`kernel/offload/pins.py`)."""

WORD = 64
"""Instances in one word of `holders`."""


def workspace_sizes(lanes: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
    """Return how many elements of the arrays of a workspace each lane needs.

    Parameters
    ----------
    lanes : LANE (n,)

    Returns
    -------
    dict of str to int64 (n,)
        By field of `records.Workspace`, as far as the size depends on lanes.
    """
    count, requests, shared = lanes["instances"], lanes["requests"], lanes["prompt_shared"]
    ids = lanes["gpu_blocks"] * np.where(lanes["connects"] != 0, IDS, 1)
    extents = ((count - 1) * lanes["n_shared"] + lanes["n_extents"]) * (lanes["by_extents"] != 0)
    copies = lanes["connects"] | lanes["moves"]
    connected = count * copies
    engines = count * lanes["explicit"]
    apart = lanes["disaggregated"]
    states = requests * lanes["explicit"] * (1 + apart)
    table = lanes["key_slots"] + requests * lanes["more_places"]
    groups = 1 + lanes["more_groups"] + lanes["states"]
    batch_slots = np.maximum(2, lanes["stages"] + lanes["async_scheduling"])  # `count_batches`
    return {
        "progress": requests,
        "table": 2
        ** np.ceil(np.log2(np.maximum(lanes["key_slots"], 1))).astype(np.int64),  # `in_table`
        "instances": count,
        "blocks": count * ids,
        "extents": extents,
        "lru": count * ids + extents,
        "prefix": count * lanes["n_keys"] * np.where(lanes["explicit"], groups, 1),
        # Of CPU tiers; with a connector there is a mark of each request: `rank_mark`.
        "tier": count * lanes["tier_records"] + requests * (lanes["connects"] != 0),
        "tier_heads": extents * (lanes["cpu_blocks"] > 0),
        "tier_blocks": count * lanes["n_keys"] * (lanes["tiered"] != 0),
        "begins": count * SPAN * (lanes["copies_each_step"] != 0),
        "fills": lanes["places"] * ((lanes["connects"] | lanes["copies_each_step"]) != 0),
        # Of CPU tiers as vLLM has them: `place_tier`.
        "offload": connected,
        "offers": requests * copies * (1 + apart),
        "jobs": connected * lanes["jobs"],
        "queues": connected * QUEUES,
        "pins": connected * ids,
        "chunks": lanes["moves"] * (count * (lanes["n_keys"] * groups + TIER_RINGS) + states),
        "slots": lanes["moves"] * table * groups * (1 + apart),
        "hold": count * (apart | copies) * lanes["hold_places"],
        # Where blocks and requests are explicit: `place_engine`, explicit/beginning.py.
        "own": engines,
        "engines": engines,
        "batches": engines * batch_slots,
        "entries": engines * batch_slots * lanes["places"],
        "stages": engines * lanes["stages"],
        "classes": engines * lanes["stages"],
        "states": states,
        "tables": table * groups * lanes["explicit"] * (1 + apart),
        "recurrent": states * (lanes["states"] != 0),
        "edges": states * (1 + lanes["more_groups"]),
        "left": 2 * count * lanes["gpu_blocks"] * (lanes["windows"] != 0),
        "leavers": engines * lanes["block_size"],
        "plans": engines * PLAN * (lanes["drafts"] > 0),
        "sums": HORIZON * (lanes["explicit"] != 0),
        "handoffs": requests * apart,
        **dict.fromkeys(("running", "due"), count * lanes["places"]),
        "phases": count * lanes["block_size"] * np.maximum(1, lanes["stages"]),
        "heap": count * requests * (lanes["scheduler"] != Scheduler.FCFS),
        "coming": requests,
        "itl_by_batch": lanes["max_num_seqs"] + 1,
        **dict.fromkeys(("snapshots", "turns"), count),
        **dict.fromkeys(("sent", "answered"), requests * (lanes["counts_tokens"] != 0)),
        "nodes": ((count - 1) * shared + lanes["n_prompt"] + apart * (lanes["n_prompt"] - shared))
        * lanes["indexes"],
        "known": shared,
        "holders": shared * (-(-count // WORD) + lanes["homes"]),
    }


@leaf
def depth(lane):
    """Return how many batches an instance has on their way, at most (rules R10.1 and R16.1)."""
    return max(1, lane["stages"]) + lane["async_scheduling"]


@leaf
def count_batches(lane):
    """Return the records of batches that an instance has, in a ring."""
    return max(2, depth(lane))


@leaf
def place_engine(lane, inst, engine):
    """Set where the parts of an instance begin whose blocks and requests are explicit."""
    engine["batch_lo"] = inst["number"] * count_batches(lane)
    engine["entry_lo"] = engine["batch_lo"] * lane["places"]
    engine["stage_lo"] = inst["number"] * lane["stages"]
    if lane["stages"]:
        inst["phase_lo"] = inst["number"] * lane["block_size"] * lane["stages"]
    groups = 1 + lane["more_groups"] + lane["states"]
    inst["prefix_lo"] = inst["number"] * lane["n_keys"] * groups
    engine["plan_lo"] = inst["number"] * PLAN


@leaf
def place_tier(lane, inst, off):
    """Set where the parts of the CPU tier of an instance begin."""
    off["job_lo"] = inst["number"] * lane["jobs"]
    off["queue_lo"] = inst["number"] * QUEUES


@leaf
def chunk_at(lane, index, number):
    """Return a record of the tier of an instance whose chunks are of groups (moving/rings.py)."""
    groups = 1 + lane["more_groups"] + lane["states"]
    return index * (lane["n_keys"] * groups + TIER_RINGS) + number


@leaf
def rank_mark(lane, r):
    """Return the record of a request among the runs: it marks its rank (offload/lru.py)."""
    return lane["instances"] * lane["tier_records"] + r


@leaf
def place_instance(lane, inst, index):
    """Set where the parts of an instance begin.

    A node of the LRU list is a block of any instance, or an extent behind all blocks.
    """
    ids = lane["gpu_blocks"] * (IDS if lane["connects"] else 1)
    inst["block_lo"] = index * ids
    inst["node_lo"] = lane["instances"] * ids
    inst["may_rest"] = ids - lane["gpu_blocks"]
    inst["extent_lo"] = index * lane["n_shared"]
    inst["prefix_lo"] = index * lane["n_keys"]
    inst["number"] = index
    inst["tier_lo"] = index * lane["tier_records"]
    inst["hold_lo"] = index * lane["hold_places"]
    inst["run_lo"] = index * lane["places"]
    inst["phase_lo"] = index * lane["block_size"]
    inst["heap_lo"] = index * lane["requests"]


@leaf
def in_table(ws, slot):
    """Return the place in the table of a slot of the key list.

    A lane's slots follow one another, and the table, a power of two, has as many as any list has.
    So it goes round: all lanes share its memory, which is in the processor's caches.
    """
    return slot & (ws.table.size - 1)


@leaf
def count_extents(lane):
    """Return the records of extents: shared ones once per instance, then the others."""
    return (lane["instances"] - 1) * lane["n_shared"] + lane["n_extents"]


@leaf
def extent_at(lane, inst, number):
    """Return the record of extent `number` of the request list at this instance.

    That of a single request can be at one instance only, so it needs only one.
    """
    if number < lane["n_shared"]:
        index = inst["extent_lo"] + number
    else:
        index = (lane["instances"] - 1) * lane["n_shared"] + number
    return index


@leaf
def node_at(lane, index, extent):
    """Return the node of a prompt extent in the router's index of an instance, likewise.

    Where prefill and decode are apart a request is at one instance of either.
    """
    before = index if extent < lane["prompt_shared"] else lane["instances"] - 1
    node = before * lane["prompt_shared"] + extent
    if lane["disaggregated"] and extent >= lane["prompt_shared"] and index >= lane["routed"]:
        node += lane["n_prompt"] - lane["prompt_shared"]
    return node


@leaf
def is_shared_node(lane, node):
    """Return whether a node is that of a prompt extent that several prompts have."""
    return node < lane["instances"] * lane["prompt_shared"]


@leaf
def extent_of_node(lane, index, node):
    """Return the shared prompt extent that a node in the index of an instance stands for."""
    return node - index * lane["prompt_shared"]


@leaf
def count_words(lane):
    """Return the words that a shared prompt extent has in `holders`, side by side."""
    return (lane["instances"] + WORD - 1) // WORD


@leaf
def count_places(lane):
    """Return the places of a shared prompt extent in `holders`: its words, then its homes."""
    return count_words(lane) + lane["homes"]
