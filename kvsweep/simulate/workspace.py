"""The memory that the kernel works in, and the arrays that it leaves its results in."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernel.memory import workspace_sizes
from ..kernel.tally import DIGITS
from ..policies import RequestStatus
from ..records import (
    BATCH,
    BLOCK,
    CHAIN,
    CHUNK,
    CLASS,
    EDGE,
    ENGINE,
    ENTRY,
    EVENT,
    EXTENT,
    GROUP,
    HANDOFF,
    INSTANCE,
    JOB,
    LANE,
    LEAVERS,
    LEFT,
    LRU,
    NEVER,
    NONE,
    OFFER,
    OFFLOAD,
    PIN,
    POOL,
    PROGRESS,
    QUEUE,
    RECURRENT,
    REQUEST,
    RUN,
    SCORER,
    SLOT,
    STATE,
    STEP,
    TALLY,
    TIER,
    TRANSFER,
    Inputs,
    Outputs,
    Workspace,
)
from .bounding import check_workspace
from .routers import router_memory


# What a lane begins with is copied by the kernel and never written: made once, as it took a sixth
# of the 0.2 ms that the memory of a batch takes.
@cache
def _blank_instance() -> NDArray[Any]:
    blank = np.zeros(1, INSTANCE)
    lists = ("lru_head", "lru_tail", "wait_head", "wait_tail", "inbox_head", "inbox_tail")
    for name in (*lists, "spare", "tier_spare", "replaced", "replaced_before", "named"):
        blank[name] = NONE
    for name in ("next_due", "next_offer", "try_head_at", "outgrown_at"):
        blank[name] = NEVER
    blank["try_head"] = 1
    return blank


@cache
def _blank_progress() -> NDArray[Any]:
    blank = np.zeros(1, PROGRESS)
    times = ("queued", "scheduled", "first_token", "finish", "last_token")
    for name in (*times, "cached_tokens", "instance", "fills"):
        blank[name] = NONE
    blank["missed"] = NONE
    blank["status"] = RequestStatus.NOT_ARRIVED
    return blank


@cache
def _blank_offload() -> NDArray[Any]:
    blank = np.zeros(1, OFFLOAD)
    for name in ("job_spare", "finished_head", "finished_tail", "handing"):
        blank[name] = NONE
    return blank


@cache
def _blank_state() -> NDArray[Any]:
    blank = np.zeros(1, STATE)
    blank["last_token"] = NONE
    return blank


@cache
def _blank_recurrent() -> NDArray[Any]:
    blank = np.zeros(1, RECURRENT)
    blank["fresh_at"] = NONE
    return blank


@cache
def _blank_leavers() -> NDArray[Any]:
    blank = np.zeros(1, LEAVERS)
    for name in ("first", "last", "visited", "latest", "ended"):
        blank[name] = NONE
    blank["look_at"] = NEVER
    return blank


@cache
def _blank_engine() -> NDArray[Any]:
    blank = np.zeros(1, ENGINE)
    blank["transfer_head"] = NONE
    blank["owed_first"] = NONE
    blank["transfer_tail"] = NONE
    blank["pulls_from"] = NONE
    blank["lease_head"] = NONE
    blank["lease_tail"] = NONE
    blank["aside"] = NONE
    blank["expires"] = NEVER
    return blank


@cache
def _blank_class() -> NDArray[Any]:
    blank = np.zeros(1, CLASS)
    blank["last_end"] = NONE
    return blank


@cache
def _blank_handoff() -> NDArray[Any]:
    blank = np.zeros(1, HANDOFF)
    for name, (kind, *_) in (HANDOFF.fields or {}).items():
        if kind == np.int64:
            blank[name] = NONE
    blank["tokens"] = 0
    return blank


def allocate_workspace(inputs: Inputs, itl_entries: int) -> Workspace:
    """Allocate memory for the largest lane; untouched pages of it cost nothing."""
    needs = {name: int(each.max()) for name, each in workspace_sizes(inputs.lanes).items()}
    check_workspace(needs)
    sizes = {name: max(1, most) for name, most in needs.items()}
    return Workspace(
        blank_instance=_blank_instance(),
        blank_progress=_blank_progress(),
        **router_memory(sizes),
        blank_extent=np.zeros(1, EXTENT),
        progress=np.empty(sizes["progress"], PROGRESS),
        instances=np.zeros(sizes["instances"], INSTANCE),
        extents=np.empty(sizes["extents"], EXTENT),
        blocks=np.empty(sizes["blocks"], BLOCK),
        lru=np.empty(sizes["lru"], LRU),
        table=np.empty(sizes["table"], np.int32),
        prefix=np.empty(sizes["prefix"], np.int32),
        tier=np.empty(sizes["tier"], RUN),
        tier_heads=np.empty(sizes["tier_heads"], np.int32),
        tier_blocks=np.empty(sizes["tier_blocks"], TIER),
        begins=np.empty(sizes["begins"], np.int64),
        fills=np.empty(sizes["fills"], np.int64),
        blank_offload=_blank_offload(),
        blank_offer=np.zeros(1, OFFER),
        offload=np.empty(sizes["offload"], OFFLOAD),
        offers=np.empty(sizes["offers"], OFFER),
        chunks=np.zeros(sizes["chunks"], CHUNK),
        slots=np.empty(sizes["slots"], SLOT),
        seen=np.empty(len(inputs.keys) if needs["offload"] else 1, np.uint8),
        jobs=np.empty(sizes["jobs"], JOB),
        queues=np.empty(sizes["queues"], QUEUE),
        pins=np.empty(sizes["pins"], PIN),
        hold=np.empty(sizes["hold"], np.int64),
        blank_state=_blank_state(),
        blank_engine=_blank_engine(),
        blank_handoff=_blank_handoff(),
        own=np.empty(sizes["own"], LANE),
        engines=np.empty(sizes["engines"], ENGINE),
        batches=np.empty(sizes["batches"], BATCH),
        entries=np.empty(sizes["entries"], ENTRY),
        stages=np.empty(sizes["stages"], np.int64),
        blank_class=_blank_class(),
        classes=np.empty(sizes["classes"], CLASS),
        states=np.empty(sizes["states"], STATE),
        tables=np.empty(sizes["tables"], np.int32),
        edges=np.empty(sizes["edges"], EDGE),
        blank_recurrent=_blank_recurrent(),
        recurrent=np.empty(sizes["recurrent"], RECURRENT),
        left=np.empty(sizes["left"], LEFT),
        blank_leavers=_blank_leavers(),
        leavers=np.empty(sizes["leavers"], LEAVERS),
        plans=np.empty(sizes["plans"], np.int64),
        sums=np.empty(sizes["sums"], np.int64),
        handoffs=np.empty(sizes["handoffs"], HANDOFF),
        turns=np.empty(sizes["turns"], np.int64),
        running=np.empty(sizes["running"], np.int64),
        due=np.empty(sizes["due"], np.int32),
        phases=np.empty(sizes["phases"], np.int64),
        heap=np.empty(sizes["heap"], np.int64),
        coming=np.empty(sizes["coming"], np.int64),
        itl_time=np.empty(itl_entries, np.int64),
        itl_weight=np.empty(itl_entries, np.int64),
        itl_order=np.empty(2 * itl_entries, np.int64),
        itl_digits=np.empty(DIGITS, np.int64),
        itl_by_batch=np.empty(sizes["itl_by_batch"], np.int64),
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
        handoffs=np.empty(kept if lanes["disaggregated"].any() else 0, HANDOFF),
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
    groups=np.zeros(1, GROUP),
    pools=np.zeros(1, POOL),
    accepted=np.zeros(1, np.uint8),
)
"""Inputs of the kernel's types whose lanes are not meant to run: for compiling."""
