"""The memory that the kernel works in, and the arrays that it leaves its results in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel.offload.copies import QUEUES
from ..kernel.tally import DIGITS
from ..policies import RequestStatus
from ..records import (
    BLOCK,
    CHAIN,
    CHUNK,
    EVENT,
    EXTENT,
    INSTANCE,
    JOB,
    LANE,
    LRU,
    NEVER,
    NONE,
    OFFER,
    OFFLOAD,
    PIN,
    PROGRESS,
    QUEUE,
    REQUEST,
    SCORER,
    STEP,
    TALLY,
    TIER,
    TRANSFER,
    Inputs,
    Outputs,
    Workspace,
)
from .bounding import check_workspace, heap_slots
from .routers import router_memory


def _blank_instance() -> NDArray[Any]:
    blank = np.zeros(1, INSTANCE)
    lists = ("lru_head", "lru_tail", "wait_head", "wait_tail", "inbox_head", "inbox_tail")
    for name in (*lists, "spare", "tier_spare"):
        blank[name] = NONE
    for name in ("next_due", "retry"):
        blank[name] = NEVER
    blank["stale"] = 1
    return blank


def _blank_progress() -> NDArray[Any]:
    blank = np.zeros(1, PROGRESS)
    times = ("queued", "scheduled", "first_token", "finish", "last_token")
    for name in (*times, "cached", "instance", "fills"):
        blank[name] = NONE
    blank["status"] = RequestStatus.NOT_ARRIVED
    return blank


def _blank_offload() -> NDArray[Any]:
    blank = np.zeros(1, OFFLOAD)
    for name in ("chunk_spare", "job_spare", "finished_head", "finished_tail"):
        blank[name] = NONE
    return blank


def _offload_memory(inputs: Inputs) -> dict[str, NDArray[Any]]:
    """Allocate what tiers as vLLM has them need; next to nothing where there are none."""
    lanes = inputs.lanes
    connects = lanes["connects"].astype(np.int64)
    count = lanes["instances"] * connects

    def room(each: NDArray[Any], more: NDArray[Any] | int = 0) -> int:
        return max(1, int((count * each + more).max()))

    slots = len(inputs.keys) if connects.any() else 1
    return {
        "blank_offload": _blank_offload(),
        "blank_offer": np.zeros(1, OFFER),
        "offload": np.empty(room(connects), OFFLOAD),
        "offers": np.empty(max(1, int((lanes["requests"] * connects).max())), OFFER),
        "seen": np.empty(slots, np.uint8),
        "chunks": np.empty(room(lanes["chunk_records"], lanes["requests"] * connects), CHUNK),
        "jobs": np.empty(room(lanes["jobs"]), JOB),
        "queues": np.empty(room(connects * QUEUES), QUEUE),
        "pins": np.empty(room(lanes["gpu_blocks"]), PIN),
        "hold": np.empty(room(lanes["hold_places"]), np.int64),
    }


def _tier_slots(lanes: NDArray[Any]) -> int:
    """Return the size of the tables of the CPU tiers; one slot where there is no tier."""
    slots = lanes["instances"] * lanes["n_keys"] * (lanes["cpu_blocks"] > 0)
    return max(1, int(slots.max()))


def allocate_workspace(inputs: Inputs, itl_entries: int) -> Workspace:
    """Allocate memory for the largest lane; untouched pages of it cost nothing."""
    lanes = inputs.lanes
    check_workspace(lanes)
    count = lanes["instances"].astype(np.int64)
    extents = int(((count - 1) * lanes["n_shared"] + lanes["n_extents"]).max())
    blocks = int((count * lanes["gpu_blocks"]).max())
    return Workspace(
        blank_instance=_blank_instance(),
        blank_progress=_blank_progress(),
        **router_memory(lanes),
        blank_extent=np.zeros(1, EXTENT),
        progress=np.empty(lanes["requests"].max(), PROGRESS),
        instances=np.zeros(count.max(), INSTANCE),
        extents=np.empty(extents, EXTENT),
        blocks=np.empty(blocks, BLOCK),
        lru=np.empty(blocks + extents, LRU),
        table=np.empty(len(inputs.keys), np.int32),
        prefix=np.empty(max(1, int((count * lanes["n_keys"]).max())), np.int32),
        tier=np.empty((count * (lanes["cpu_blocks"] + 1)).max(), TIER),
        **_offload_memory(inputs),
        tier_table=np.empty(_tier_slots(lanes), np.int32),
        running=np.empty((count * lanes["places"]).max(), np.int64),
        due=np.empty((count * lanes["places"]).max(), np.int32),
        phases=np.empty((count * lanes["block_size"]).max(), np.int64),
        heap=np.empty(heap_slots(lanes), np.int64),
        coming=np.empty(lanes["requests"].max(), np.int64),
        itl_time=np.empty(itl_entries, np.int64),
        itl_weight=np.empty(itl_entries, np.int64),
        itl_order=np.empty(2 * itl_entries, np.int64),
        itl_digits=np.empty(DIGITS, np.int64),
        itl_plain=np.empty(int(lanes["max_num_seqs"].max()) + 1, np.int64),
    )


def allocate_outputs(
    inputs: Inputs,
    *,
    keep_requests: bool = False,
    steps: int = 0,
    events: int = 0,
    transfers: int = 0,
) -> Outputs:
    """Allocate the results of a batch; `steps`, `events` and `transfers` are room of the logs."""
    lanes = inputs.lanes
    slots = int(lanes["requests"].sum(dtype=np.int64))
    kept = slots if keep_requests else 0
    return Outputs(
        tallies=np.zeros(len(lanes), TALLY),
        peak_blocks=np.full((len(lanes), lanes["instances"].max()), NONE, np.int32),
        completed=np.zeros((len(lanes), lanes["instances"].max()), np.int32),
        outcomes=np.zeros((len(lanes), len(RequestStatus)), np.int32),
        ttft=np.empty(slots, np.int64),
        e2e=np.empty(slots, np.int64),
        delay=np.empty(slots, np.int64),
        tpot=np.empty(slots, np.float64),
        preemptions=np.empty(kept, np.int32),
        request_status=np.empty(kept, np.int8),
        progress=np.empty(kept, PROGRESS),
        steps=np.zeros(steps, STEP),
        events=np.empty(events, EVENT),
        transfers=np.empty(transfers, TRANSFER),
    )


EMPTY = Inputs(
    requests=np.zeros(1, REQUEST),
    keys=np.zeros(1, np.int32),
    chain=np.zeros(1, CHAIN),
    prompts=np.zeros(1, CHAIN),
    lanes=np.zeros(1, LANE),
    scorers=np.zeros(1, SCORER),
)
"""Inputs of the kernel's types whose lanes are not meant to run: for compiling."""
