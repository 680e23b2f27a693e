"""Compares the kernel's explicit engine with the naive twin, or with recorded columns."""

import math
from types import SimpleNamespace

import naive
import numpy as np
import twin

from kvsweep.policies import RequestStatus
from kvsweep.records import Event

STEP_COLUMNS = twin.STEP_COLUMNS | {
    "win": "window_freed",
    "held": "kept",
    "free_end": "free_after",
}
VERIFIED = 1000  # of a VERIFY event: drafts times this, and those accepted
TRANSFER = ("request", "tokens", "submitted_us", "start_us", "end_us")


def differences(trace):
    """Return what differs between the kernel and the twin on a trace, in words; empty: nothing."""
    single = twin.run_kernel(trace)
    try:
        wanted = naive.simulate(trace)
    except naive.StepLimit:
        livelock = single.status.label == "step_limit"
        return [] if livelock else [f"status {single.status.label}, but the twin never ends"]
    if single.status.label != "ok":
        return [f"status {single.status.label}: {single.detail}"]
    found = []
    for number, instance in enumerate(wanted.instances):
        found += step_differences(single, number, instance.steps)
    return [*found, *_request_differences(single, wanted), *_total_differences(single, wanted)]


def recorded_steps(columns):
    """Return the steps of a recording as the twin has them."""
    names = list(columns)
    rows = zip(*columns.values(), strict=True)
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]


def step_differences(single, number, steps):
    """Yield what differs in the steps of an instance from those of the twin, or of a recording."""
    mine = single.outputs.steps[single.outputs.steps["instance"] == number]
    if len(mine) != len(steps):
        yield f"instance {number}: {len(mine)} steps not {len(steps)}"
        return
    events = twin.events_by_step(single, number)
    for row, want in zip(mine, steps, strict=True):
        pairs = {
            column: (int(row[name]), getattr(want, column))
            for column, name in STEP_COLUMNS.items()
            if hasattr(want, column)
        }
        for column, rows in _rows_of(events[int(row["step"])]).items():
            if hasattr(want, column):
                pairs[column] = (rows, [_as_list(item) for item in getattr(want, column)])
        if hasattr(want, "adm"):  # without the third, whether it was preempted before
            pairs["adm"] = (pairs["adm"][0], [list(item[:2]) for item in want.adm])
        for name, (got, expected) in pairs.items():
            if got != expected:
                yield f"instance {number} step {row['step']} {name}: {got} not {expected}"


def _as_list(item):
    return item if isinstance(item, int) else list(item)


def _rows_of(found):
    """Return the lists of a step that its events tell."""
    return {
        "sched": [list(row) for row in found[Event.CHUNK]],
        "adm": [list(row) for row in found[Event.ADMIT]],
        "pre": [r for r, _ in twin.victims_of(found)],
        "fin": [r for r, _ in found[Event.FINISH]],
        "acc": [[r, *divmod(value, VERIFIED)] for r, value in found[Event.VERIFY]],
        "pull": [list(row) for row in found[Event.PULL] if row[1] >= 0],
    }


def _request_differences(single, wanted):
    progress, statuses = single.outputs.progress, single.outputs.request_status
    for number, want in enumerate(wanted.requests):
        got = progress[number]
        pairs = {
            "scheduled": (got["scheduled"], want.scheduled_us),
            "first_token": (got["first_token"], want.first_token_us),
            "finish": (got["finish"], want.finish_us),
            "preemptions": (got["preemptions"], want.preemptions),
            "recomputed": (got["recomputed"], want.recomputed),
            "cached": (got["cached_tokens"], want.cached_tokens),
            "status": (RequestStatus(statuses[number]).label, want.status),
        }
        if not wanted.transfers:
            pairs["queued"] = (got["queued"], want.queued_us)
            pairs["instance"] = (got["instance"], want.instance)
        for name, (mine, theirs) in pairs.items():
            if mine != (-1 if theirs is None else theirs):
                yield f"request {number} {name}: {mine} not {theirs}"


def _total_differences(single, wanted):
    tally = single.outputs.tallies[0]
    served = [request for request in wanted.requests if request.token_us]
    gaps = [np.diff(request.token_us) for request in served]
    gaps = np.concatenate(gaps or [np.zeros(0, np.int64)])
    instances = wanted.instances

    def total(name):
        return sum(instance.totals.get(name, 0) for instance in instances)

    pairs = {
        "itl_count": (tally["itl_count"], gaps.size),
        "itl_sum": (tally["itl_sum"], gaps.sum()),
        "evictions": (tally["evictions"], total("evictions")),
        "query_tokens": (tally["query_tokens"], total("queries")),
        "hit_tokens": (tally["hit_tokens"], total("hits")),
        "blocks_taken": (tally["blocks_taken"], sum(i.blocks_taken for i in instances)),
        "blocks_reused": (tally["blocks_reused"], sum(i.blocks_reused for i in instances)),
        "computed": (tally["computed_tokens"], sum(r.executed for r in wanted.requests)),
        "recomputed": (tally["recomputed_tokens"], sum(r.recomputed for r in wanted.requests)),
        "used_time": (tally["used_time"], sum(i.block_us for i in instances)),
        "window_freed": (tally["window_freed"], total("window_freed")),
        "draft_tokens": (tally["draft_tokens"], total("draft_tokens")),
        "accepted_tokens": (tally["accepted_tokens"], total("accepted_tokens")),
        "peak": (list(single.outputs.peak_blocks[0]), [i.peak_blocks for i in instances]),
        "transfers": (transfers_of(single), wanted.transfers),
    }
    for name, (got, want) in pairs.items():
        if got != want:
            yield f"{name}: {got} not {want}"
    for i, share in enumerate((0.5, 0.9, 0.95, 0.99)):
        want = np.quantile(gaps, share) if gaps.size else math.nan
        if not np.isclose(tally[f"itl_q{i}"], want, rtol=1e-12, atol=0, equal_nan=True):
            yield f"itl_q{i}: {tally[f'itl_q{i}']} not {want}"


def transfers_of(single):
    """Return the transfers from prefill to decode instances, in order of submission."""
    return [[int(row[name]) for name in TRANSFER] for row in single.outputs.transfers]
