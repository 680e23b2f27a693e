"""Each defect of the reference is there as shipped, and its switch repairs it and nothing else."""

import math
from dataclasses import replace

import pytest
from goldens import load
from replica_cases import LATENCY, request, scenario

from kvsweep.replica import run
from kvsweep.replica.block_store import BlockStore
from kvsweep.replica.defects import defects
from kvsweep.replica.keys import Keys
from kvsweep.replica.request import from_trace
from kvsweep.replica.switches import SOUND, Switches, describe, from_mapping

OVERHEAD_US = int(LATENCY["alpha"][2])


def rerun(name, **switches):
    """Run a recorded case with some of its switches changed."""
    golden = load(name, "blis")
    engine = golden["scenario"]["engine"]
    changed = {**golden["scenario"], "engine": {**engine, "blis": engine["blis"] | switches}}
    return run(changed, golden["requests"])


def outcome(replication):
    return repr((replication.requests, replication.instances, replication.totals))


def test_every_defect_is_named_and_described():
    assert list(defects()) == [f"D{i}" for i in range(15)]
    assert all(effect.endswith(".") for _, effect in describe().values())


@pytest.mark.parametrize(
    ("switch", "case"),
    [
        ("visit_evicted", "micro-chunk-2bb74cac-s123"),
        ("rollback_keeps_table", "micro-drop-5dbaf353-s42"),
        ("min_one_new", "micro-press2-2bb74cac-s42-skip"),
        ("recount_after_fill", "micro-chunk-2bb74cac-s42"),
        ("rollback_prepends", "micro-press-2bb74cac-s123-sound"),
        ("work_conserving", "micro-drop-2bb74cac-s123"),
        ("drop_unservable", "micro-drop-2bb74cac-s42"),
        ("step_time_final_batch", "micro-press-2bb74cac-s42"),
        ("router_uses_kv_blocks", "feat-f2-s42"),
        ("entries_keep_owner", "micro-press2-5dbaf353-s42"),
    ],
)
def test_switch_changes_a_recorded_run(switch, case):
    recorded = load(case, "blis")["scenario"]["engine"]["blis"]
    now = from_mapping(recorded)
    assert outcome(rerun(case)) != outcome(rerun(case, **{switch: not getattr(now, switch)}))


def test_d0_failed_allocations_leak_blocks():
    assert rerun("h8-2bb74cac-b2100-s42").leaked_blocks == 1131
    assert rerun("h8-2bb74cac-b2100-s42", rollback_keeps_table=True).leaked_blocks == 0


@pytest.mark.parametrize(
    ("gap_us", "registers", "finish_us"),
    [
        (0, False, [359_905, 359_905]),
        (0, True, [712_621, 712_621]),
        (1, False, [712_618, 719_530]),
        (1, True, [712_618, 719_530]),
    ],
)
def test_d2_two_arrivals_in_one_microsecond_start_two_chains(gap_us, registers, finish_us):
    pair = [request(0, (0, 500), (1, 100)), request(gap_us, (2, 500), (3, 100))]
    got = run(scenario({"step_registers": registers}, cache={"gpu_blocks": 5000}), pair)
    assert [r.finish_us for r in got.requests] == finish_us


@pytest.mark.parametrize(
    ("tokens", "one_new", "cached", "hits"),
    [(511, False, 31, 31), (512, False, 32, 0), (513, False, 32, 32), (512, True, 31, 31)],
)
def test_d3_fully_cached_prompt_is_not_counted(tokens, one_new, cached, hits):
    twice = [request(arrival, (0, tokens), (1, 2)) for arrival in (0, 1_000_000)]
    got = run(scenario({"min_one_new": one_new}), twice).requests[1]
    assert (got.cached_blocks_rle, got.hit_blocks_rle) == ([[cached, 1]], [[hits, 1]])


def test_d4_e2e_counts_the_overhead_per_token_and_the_last_step_twice():
    one = [request(0, (0, 100), (1, 20))]
    got = run(scenario(), one, steps=True)
    last_step = got.steps[0][-1].advance_us
    shipped = got.requests[0]
    assert shipped.e2e_us == shipped.finish_us + 21 * OVERHEAD_US + last_step

    repaired = run(scenario({"e2e_is_completion": True}), one).requests[0]
    assert repaired.e2e_us == repaired.finish_us + OVERHEAD_US


@pytest.mark.parametrize(("occupies", "second_start_us"), [(False, 8_357), (True, 19_102)])
def test_d5_last_step_of_a_busy_period_overlaps_the_next(occupies, second_start_us):
    pair = [request(0, (0, 500), (1, 1)), request(5_000, (2, 500), (3, 1))]
    log = run(scenario({"last_step_occupies": occupies}), pair, steps=True).steps[0]
    assert [step.start_us for step in log] == [3_357, second_start_us]
    assert log[0].start_us + log[0].advance_us == 19_102


def test_d6_output_that_does_not_fit_preempts_itself_for_ever():
    one = [request(0, (0, 70), (1, 12))]
    assert run(scenario(cache={"gpu_blocks": 5}), one).status == "livelock"
    assert run(scenario(cache={"gpu_blocks": 6}), one).status == "ok"

    repaired = run(scenario({"drop_counts_output": True}, cache={"gpu_blocks": 5}), one)
    assert (repaired.status, repaired.requests[0].status) == ("ok", "dropped_unservable")


CRASH = {"block_size": 4, "gpu_blocks": 6, "cpu_blocks": 8, "offload_threshold": 0.0}
CRASHING = [request(0, (0, 16), (1, 4)), request(0, (0, 24), (2, 12))]


def test_d7_second_try_behind_the_end_of_the_chunk_crashes():
    engine = {"max_num_batched_tokens": 13}
    got = run(scenario(engine=engine, cache=CRASH), CRASHING)
    assert got.status == "failed"
    assert got.status_detail.endswith("D7: slice bounds out of range [16:12]")

    assert run(scenario({"retry_within_chunk": True}, engine, CRASH), CRASHING).status != "failed"


def test_d8_transfer_cost_divides_the_tokens_of_a_block():
    shipped = rerun("micro-tier-2bb74cac-s42").instances[0]
    per_block = rerun("micro-tier-2bb74cac-s42", transfer_per_block=True).instances[0]
    # Bandwidth 4 and base latency 100: 16 tokens take 4 microseconds, one block takes 1.
    assert shipped.cpu_hits > 0
    assert shipped.reload_latency == shipped.cpu_hits * 104
    assert per_block.reload_latency == per_block.cpu_hits * 101


def test_d9_router_never_sees_a_transfer():
    blind, seeing = (
        rerun("feat-f8-s42-sound"),
        rerun("feat-f8-s42-sound", router_sees_transfers=True),
    )
    assert load("feat-f8-s42-sound", "blis")["scenario"]["cluster"]["scorers"]["kv-pressure-slo"]
    assert [r.instance for r in blind.requests] != [r.instance for r in seeing.requests]


@pytest.mark.parametrize("keeps", [False, True])
def test_d11_roll_back_loses_tokens_but_not_keys(keeps):
    store = BlockStore(3, 4, Switches(rollback_keeps_tokens=keeps), Keys())
    first = from_trace(0, request(0, (0, 12), (1, 1)))
    second = from_trace(1, {"arrival_us": 0, "prompt": [[0, 4], [2, 12]], "output": [3, 1]})
    assert store.allocate(first, 0, 12)
    store.release(first)

    # Three blocks are free, three are needed, but the cached one is among the free ones.
    assert not store.allocate(second, 4, 16, store.cached_prefix(second))

    assert [block.filled for block in store.cached_prefix(first)] == [4, 4 * keeps, 4 * keeps]
    assert (store.used, store.hits, store.misses) == (0, 0, 3)


def test_d12_replaced_cpu_entries_keep_their_slot():
    shipped = rerun("feat-f8-s42-sound").instances
    exact = rerun("feat-f8-s42-sound", cpu_slots_exact=True).instances
    capacity = load("feat-f8-s42-sound", "blis")["scenario"]["cache"]["cpu_blocks"]
    assert max(i.cpu_used for i in shipped) == capacity
    assert sum(i.offloads for i in exact) > sum(i.offloads for i in shipped)


def test_d13_rates_hide_that_nothing_completed():
    spinning = [request(0, (0, 70), (1, 40))]
    engine, cache = {"horizon_us": 1_000_000}, {"gpu_blocks": 5}
    shipped = run(scenario(engine=engine, cache=cache), spinning).totals
    assert shipped.preemptions > 0
    assert (shipped.completed, shipped.preemption_rate) == (0, 0.0)

    assert math.isnan(
        run(scenario({"pooled_rates": True}, engine, cache), spinning).totals.preemption_rate
    )


def test_d13_hit_rate_is_a_mean_of_instances():
    # Round-robin: the first instance sees a prompt twice, the second a long and a short one.
    prompts = [request(0, (0, 513), (9, 2)), request(1, (1, 513), (9, 2))]
    prompts += [request(1_000_000, (0, 513), (9, 2)), request(1_000_001, (2, 10), (9, 2))]
    cluster = {"instances": 2}
    shipped = run(scenario(cluster=cluster), prompts)
    pooled = run(scenario({"pooled_rates": True}, cluster=cluster), prompts)
    hits = sum(i.hits for i in shipped.instances)
    looked_at = hits + sum(i.misses for i in shipped.instances)
    assert shipped.totals.cache_hit_rate == sum(i.hit_rate for i in shipped.instances) / 2
    assert pooled.totals.cache_hit_rate == hits / looked_at
    assert pooled.totals.cache_hit_rate != shipped.totals.cache_hit_rate


@pytest.mark.parametrize(
    ("case", "repairs"),
    [
        ("h8-5dbaf353-b2100-s42", {}),
        ("h8-5dbaf353-b2100-s42-skip", {"visit_evicted": False}),
        ("hrkv-stdtput-b1500-s42-sound", SOUND),
    ],
)
def test_variants_are_the_recorded_ones(case, repairs):
    recorded = from_mapping(load(case, "blis")["scenario"]["engine"]["blis"])
    assert recorded == replace(Switches(), **repairs)
