"""Compares the kernel with the naive twin, decision by decision."""

import math
from collections import defaultdict

import naive
import numpy as np

from kvsweep.config import Workload, parse_scenario
from kvsweep.policies import RequestStatus
from kvsweep.records import Event
from kvsweep.simulate.logged import run_single
from kvsweep.workload.traces import load_trace

NO_VALUE = -1
STEP_COLUMNS = {
    "s": "scheduled_us",
    "t": "start_us",
    "d": "duration_us",
    "pf": "prefill_tokens",
    "dc": "decode_tokens",
    "run": "running",
    "wait": "waiting",
    "free": "free_blocks",
    "ev": "evicted",
    "pre_in_flight": "preempted_in_flight",
}


def run_kernel(trace):
    """Run a trace dict on the kernel, with all logs."""
    loaded = load_trace(trace)
    settings = dict(loaded.scenario)
    workload = settings.pop("workload", None)  # of strategies only: a trace has none
    scenario = parse_scenario(settings, "trace")
    if workload:
        scenario = scenario.model_copy(update={"workload": Workload(**workload)})
    return run_single(scenario, loaded.requests)


def events_by_step(single, instance):
    """Return {step: {kind: [(request, value), ...]}} of one instance."""
    table = defaultdict(lambda: defaultdict(list))
    for row in single.outputs.events[single.outputs.events["instance"] == instance]:
        table[int(row["step"])][Event(row["kind"])].append((int(row["request"]), int(row["value"])))
    return table


def victims_of(found):
    """Return (victim, 1 if it was in the step on its way) of a step, given its events by kind.

    Those of a schedule before it that computed nothing, with 2 more, are of no step.
    """
    return [(r, max(flag, 0)) for r, flag in found[Event.PREEMPT] if flag < 2]


def schedules(single, instance):
    """Rebuild who was scheduled in each step, in order, with how many tokens.

    The kernel logs only what is not plain decoding; the rest follows from the running list.
    """
    running = []
    decoding = set()
    events = events_by_step(single, instance)
    steps = single.outputs.steps[single.outputs.steps["instance"] == instance]
    listed = steps["step"]
    every = [[list(pair) for pair in events[int(step)][Event.CHUNK]] for step in listed]
    if all(
        sum(n for _, n in chunks) == row["prefill_tokens"] + row["decode_tokens"]
        for chunks, row in zip(every, steps, strict=True)
    ):
        yield from every  # explicit lanes log all of it
        return
    for step in range(listed.max(initial=-1) + 1):
        found = events[step]
        chunks = dict(found[Event.CHUNK])
        victims = {victim for victim, _ in found[Event.PREEMPT]}
        # Asynchronously one may have been given its last token in the step before.
        running = [r for r in running if r not in victims]
        decoding -= victims
        running += [r for r, _ in found[Event.ADMIT]]
        missed = {r for r, _ in found[Event.SKIP]}
        tokens = {r: chunks.get(r, 0 if r in missed or r not in decoding else 1) for r in running}
        if step in listed:  # a step without tokens is not, but may preempt
            yield [[r, n] for r, n in tokens.items() if n > 0]
        finished = {r for r, _ in found[Event.FINISH]}
        sampled = {r for r, _ in found[Event.SAMPLE]}
        running = [r for r in running if r not in finished]
        decoding = (decoding | sampled) - finished


def differences(trace):
    """Return what differs between the kernel and the twin on a trace, in words; empty: nothing."""
    single = run_kernel(trace)
    try:
        twin = naive.simulate(trace)
    except naive.StepLimit:
        livelock = single.status.label == "step_limit"
        return [] if livelock else [f"status {single.status.label}, but the twin never ends"]
    if single.status.label != "ok":
        return [f"status {single.status.label}: {single.detail}"]
    return [
        *_request_differences(twin, single),
        *_step_differences(twin, single),
        *_total_differences(twin, single, trace),
        *_copy_differences(twin, single),
        *_handoff_differences(twin, single),
    ]


def _arrival(got, want):
    """Return when a request arrived; of one that did not, whatever the kernel has."""
    return got["arrival"] if want.status == "not_arrived" else want.arrival_us


def _number(value):
    return NO_VALUE if value is None else value


def _request_differences(twin, single):
    progress, statuses = single.outputs.progress, single.outputs.request_status
    for number, want in enumerate(twin.requests):
        got = progress[number]
        pairs = {
            "queued": (got["queued"], want.queued_us),
            "scheduled": (got["scheduled"], want.scheduled_us),
            "first_token": (got["first_token"], want.first_token_us),
            "finish": (got["finish"], want.finish_us),
            "preemptions": (got["preemptions"], want.preemptions),
            "arrival": (got["arrival"], _arrival(got, want)),
            "recomputed": (got["recomputed"], want.recomputed),
            "cached": (got["cached_tokens"], want.cached_tokens),
            "instance": (got["instance"], want.instance),
            "status": (RequestStatus(statuses[number]).label, want.status),
        }
        for name, (mine, theirs) in pairs.items():
            if mine != _number(theirs):
                yield f"request {number} {name}: {mine} not {theirs}"


def _handoff_differences(twin, single):
    """Compare when both sides of a transfer learned of its end, or of that of the lease."""
    for want, got in zip(twin.requests, single.outputs.handoffs, strict=False):
        pairs = {
            "pulled": (got["pulled"], want.reported_us),
            "released": (got["released"], want.prefill.reported_us),
        }
        for name, (mine, theirs) in pairs.items():
            if mine != _number(theirs):
                yield f"request {want.id} {name}: {mine} not {theirs}"


def _step_differences(twin, single):
    for number, instance in enumerate(twin.instances):
        mine = single.outputs.steps[single.outputs.steps["instance"] == number]
        if len(mine) != len(instance.steps):
            yield f"instance {number}: {len(mine)} steps not {len(instance.steps)}"
            continue
        events = events_by_step(single, number)
        for row, want, scheduled in zip(
            mine, instance.steps, schedules(single, number), strict=True
        ):
            found = events[int(row["step"])]
            pairs = {c: (row[m], getattr(want, c)) for c, m in STEP_COLUMNS.items()}
            pairs["adm"] = (found[Event.ADMIT], [(a[0], a[1]) for a in want.adm])
            victims = victims_of(found)
            pairs["pre"] = ([r for r, _ in victims], list(want.pre))
            pairs["fin"] = ([r for r, _ in found[Event.FINISH]], list(want.fin))
            pairs["sched"] = (scheduled, [list(s) for s in want.sched])
            for name, (got, expected) in pairs.items():
                if got != expected:
                    yield f"instance {number} step {row['step']} {name}: {got} not {expected}"


COPY_COLUMNS = {"stall": "stall_us", "cpu": "tier_blocks", "flush": "awaited"}
COPY_EVENTS = {
    "later": Event.LATER,
    "nostore": Event.REFUSE,
    "load": Event.LOAD,
    "store": Event.STORE,
}
COPY_TOTALS = {
    "loads": "loads",
    "stores": "stores",
    "loaded": "loaded_tokens",
    "stored": "stored_tokens",
    "tier_evictions": "cpu_evictions",
    "transfer_time": "stall_us",
}


def _copy_differences(twin, single):
    """Compare what CPU tiers as vLLM has them did."""
    instances = [i for i in twin.instances if isinstance(i, naive.offload.OffloadInstance)]
    for instance in instances:
        log = instance.streams.log
        yield from copy_differences(single, instance.index, instance.steps, log)
    if instances:
        tally = single.outputs.tallies[0]
        for name, theirs in COPY_TOTALS.items():
            want = sum(i.totals[theirs] for i in instances)
            if tally[name] != want:
                yield f"{name}: {tally[name]} not {want}"


def copy_differences(single, number, steps, log):
    """Compare the copies of one instance with `steps` of the twin's kind and a log of copies."""
    mine = single.outputs.steps[single.outputs.steps["instance"] == number]
    events = events_by_step(single, number)
    for row, want in zip(mine, steps, strict=False):
        found = events[int(row["step"])]
        pairs = {c: (int(row[m]), getattr(want, c)) for c, m in COPY_COLUMNS.items()}
        for column, kind in COPY_EVENTS.items():
            told = kind in (Event.LATER, Event.REFUSE)
            rows = [r if told else [r, value] for r, value in found[kind]]
            pairs[column] = (rows, getattr(want, column))
        for name, (got, expected) in pairs.items():
            if got != expected:
                yield f"instance {number} step {row['step']} {name}: {got} not {expected}"
    transfers = single.outputs.transfers
    transfers = transfers[(transfers["instance"] == number) & (transfers["pull"] == 0)]
    names = ("request", "tokens", "submitted_us", "start_us", "end_us", "reported_us")
    rows = [
        ["load" if t["load"] else "store", *(int(t[name]) for name in names)] for t in transfers
    ]
    if rows != log:
        yield f"instance {number} copies: {rows} not {log}"


def _total_differences(twin, single, trace):
    tally = single.outputs.tallies[0]
    served = [r for r in twin.requests if r.token_us]
    gaps = np.concatenate([np.diff(r.token_us) for r in served] or [np.zeros(0, np.int64)])
    tiers = [i.scheduler.tier for i in twin.instances]
    ranks = {f"itl_q{i}": q for i, q in enumerate((0.5, 0.9, 0.95, 0.99))}
    pairs = {
        "itl_count": (tally["itl_count"], gaps.size),
        "itl_sum": (tally["itl_sum"], gaps.sum()),
        "evictions": (tally["evictions"], sum(i.totals["evictions"] for i in twin.instances)),
        "offloads": (tally["offloads"], sum(i.offloads for i in twin.instances)),
        "reloads": (tally["reloads"], sum(i.reloads for i in twin.instances)),
        "thrashed": (tally["thrashed"], sum(t.thrashed for t in tiers)),
        "transfer": (tally["transfer_time"], sum(i.transfer_us for i in twin.instances)),
        "query_tokens": (tally["query_tokens"], sum(i.totals["queries"] for i in twin.instances)),
        "hit_tokens": (tally["hit_tokens"], sum(i.totals["hits"] for i in twin.instances)),
        "blocks_taken": (tally["blocks_taken"], sum(i.blocks_taken for i in twin.instances)),
        "blocks_reused": (tally["blocks_reused"], sum(i.blocks_reused for i in twin.instances)),
        "computed_tokens": (tally["computed_tokens"], sum(r.executed for r in twin.requests)),
        "recomputed_tokens": (tally["recomputed_tokens"], sum(r.recomputed for r in twin.requests)),
        "used_time": (tally["used_time"], sum(i.block_us for i in twin.instances)),
        "failed_pulls": (tally["failed_pulls"], twin.failed_pulls),
        "expired_leases": (tally["expired_leases"], twin.expired_leases),
        "makespan": (tally["makespan"], max(i.totals["end_us"] for i in twin.instances)),
        "completed": (
            list(single.outputs.completed[0]),
            [i.finished for i in twin.instances],
        ),
        "peak": (list(single.outputs.peak_blocks[0]), [i.peak_blocks for i in twin.instances]),
    }
    for name, (got, want) in pairs.items():
        if got != want:
            yield f"{name}: {got} not {want}"
    for name, share in ranks.items():
        want = np.quantile(gaps, share) if gaps.size else math.nan
        if not np.isclose(tally[name], want, rtol=1e-12, atol=0, equal_nan=True):
            yield f"{name}: {tally[name]} not {want}"
