"""How runs end: with a horizon always ok, without one perhaps in a proven livelock."""

from dataclasses import asdict

from goldens import load
from hypothesis import given
from hypothesis import strategies as st
from replica_cases import request, scenario

from kvsweep.replica import run
from kvsweep.replica.switches import SOUND, Switches


def without_horizon(name, **engine):
    golden = load(name, "blis")
    merged = {**golden["scenario"]["engine"], "horizon_us": None, **engine}
    return run({**golden["scenario"], "engine": merged}, golden["requests"])


def test_published_collapse_ends_ok_with_a_horizon_and_says_when_it_stopped_working():
    golden = load("hrkv-stdtput-b1500-s123", "blis")
    got = run(golden["scenario"], golden["requests"])
    assert got.status == "ok"
    assert got.totals.preemptions > 13_000
    assert got.last_useful_us < 30_000_000 < got.totals.sim_end


def test_the_same_run_without_a_horizon_is_a_livelock_with_evidence():
    got = without_horizon("hrkv-stdtput-b1500-s123")
    assert got.status == "livelock"
    assert got.last_useful_us < got.totals.sim_end
    for evidence in (
        f"{got.totals.completed} of 500 requests completed",
        f"last useful step ended at {got.last_useful_us} us",
        f"{got.totals.preemptions} preemptions so far",
        f"{got.leaked_blocks} blocks leaked",
    ):
        assert evidence in got.status_detail


def test_repairing_the_leak_alone_ends_the_livelock_of_h8_at_2000_blocks():
    golden = load("h8-5dbaf353-b2000-s42-skip", "blis")
    shipped = asdict(Switches())
    for repair, status in (
        ({}, "livelock"),
        ({"visit_evicted": False}, "ok"),
        ({"rollback_keeps_table": True}, "ok"),
    ):
        engine = {**golden["scenario"]["engine"], "blis": shipped | repair}
        got = run({**golden["scenario"], "engine": engine}, golden["requests"])
        assert got.status == status
        assert got.totals.completed == (182 if status == "livelock" else 200)


def test_requests_left_waiting_without_any_event_are_not_a_livelock():
    head_blocks = [request(0, (0, 100), (1, 1)), request(1_000_000, (2, 16), (3, 1))]
    blis = {"drop_unservable": False, "work_conserving": False}
    got = run(scenario(blis, cache={"gpu_blocks": 5}), head_blocks)
    assert (got.status, got.totals.queued, got.totals.completed) == ("ok", 2, 0)


def test_requests_behind_the_horizon_have_not_arrived():
    late = [request(0, (0, 16), (1, 1)), request(10_000_000, (2, 16), (3, 1))]
    got = run(scenario(engine={"horizon_us": 5_000_000}), late)
    assert [r.status for r in got.requests] == ["completed", "not_arrived"]
    assert [r.state for r in got.requests] == ["completed", "queued"]


def test_rejected_requests_are_never_routed():
    got = run(scenario(cluster={"admission": "reject-all"}), [request(0, (0, 16), (1, 1))])
    assert (got.requests[0].status, got.requests[0].instance) == ("rejected", -1)
    assert got.totals.rejected == 1


jobs = st.lists(
    st.tuples(
        st.sampled_from([0, 500, 20_000, 100_000]),
        st.tuples(st.integers(0, 2), st.integers(1, 30)),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=5,
)


@given(
    jobs,
    st.sampled_from([{}, {"visit_evicted": False}, SOUND]),
    st.integers(3, 9),
    st.sampled_from([0, 4]),
    st.sampled_from([7, 16]),
    st.booleans(),
)
def test_every_run_ends_and_a_livelock_stays_one(drawn, repairs, blocks, cpu, budget, conserving):
    """Whatever ends as a livelock completes nothing more, however long it goes on."""
    now, requests = 0, []
    for i, (gap, prompt, output) in enumerate(drawn):
        now += gap
        requests.append(request(now, prompt, (10 + i, output)))
    blis = asdict(Switches()) | repairs | {"work_conserving": conserving}
    engine = {"max_num_batched_tokens": budget}
    cache = {"block_size": 4, "gpu_blocks": blocks, "cpu_blocks": cpu, "offload_threshold": 0.2}

    got = run(scenario(blis, engine, cache), requests)

    assert got.status in {"ok", "livelock", "failed"}
    if got.status == "livelock":
        later = {**engine, "horizon_us": 5 * got.totals.sim_end + 1_000_000}
        went_on = run(scenario(blis, later, cache), requests)
        assert went_on.last_useful_us == got.last_useful_us
        assert went_on.totals.completed == got.totals.completed < len(requests)
    elif got.status == "ok":
        totals = got.totals
        assert totals.completed + totals.queued + totals.dropped == len(requests)
        assert totals.running == 0
