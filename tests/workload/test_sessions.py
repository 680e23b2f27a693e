"""Generated sessions: rounds, context, think times, both kinds of arrivals, cutting to length."""

from itertools import pairwise

import numpy as np
import pytest

from kvsweep import replica
from kvsweep.config import Client, Scenario, Workload
from kvsweep.config.lengths import Constant, Gaussian
from kvsweep.config.sessions import Sessions
from kvsweep.errors import InputError
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import generate
from kvsweep.workload.native import to_trace_dict
from kvsweep.workload.traces import load_trace

LATENCY = {"alpha": [0.0, 0.0, 0.0], "beta": [1.0, 0.0, 0.0]}
PUBLISHED = "sweeps/published/data/hrkv-reasoning-s42.json.gz"


def constant(value):
    return Constant(dist="constant", value=value)


def workload(sessions=None, **changes):
    """The workload of the original experiment, five rounds of 128 + 256 tokens."""
    base = {"requests": 500, "rate": 2.0, "prompt": constant(128), "output": constant(256)}
    five = {"rounds": 5, "think_time_s": 5.0}
    return Workload(**base | {"sessions": Sessions(**five | (sessions or {}))} | changes)


def rows_by_session(requests):
    """Return {session: rows of the trace in order of rounds}."""
    found = {}
    for row in to_trace_dict(requests, {})["requests"]:
        found.setdefault(row["session"], []).append(row)
    return found


def varied(**sessions):
    lengths = {
        "prompt": Gaussian(dist="gaussian", mean=100, std=40, min=1),
        "output": Gaussian(dist="gaussian", mean=50, std=20, min=1),
    }
    return workload({"rounds": 4, "think_time": "exponential"} | sessions, requests=300, **lengths)


def test_sessions_have_the_shape_of_the_original_experiment():
    requests = generate(workload(), 0)
    assert len(requests) == 500
    counts = np.bincount(requests.round)
    # Of its 500 requests the original has 123, 113, 99, 90, 75 (seed 42) in rounds 0 to 4.
    assert (np.diff(counts) < 0).all()
    assert 100 < counts[0] < 150
    for row in rows_by_session(requests).values():
        assert [sum(n for _, n in r["prompt"]) for r in row] == [128, 512, 896, 1280, 1664][
            : len(row)
        ]
        assert [r["round"] for r in row] == list(range(len(row)))


def test_the_original_list_has_the_same_structure(request):
    original = load_trace(request.config.rootpath / PUBLISHED).requests
    for requests in (original, generate(workload(), 0)):
        for row in rows_by_session(requests).values():
            for earlier, later in pairwise(row):
                assert later["prompt"][:-1] == [*earlier["prompt"], earlier["output"]]
                assert later["arrival_us"] - earlier["arrival_us"] == 5_000_000 + 256


def test_fixed_arrivals_follow_by_think_time_and_a_microsecond_per_output_token():
    for row in rows_by_session(generate(varied(think_time="constant"), 3)).values():
        for earlier, later in pairwise(row):
            gap = later["arrival_us"] - earlier["arrival_us"]
            assert gap == 5_000_000 + earlier["output"][1]
            assert "after" not in later


def test_closed_loops_name_the_round_before():
    requests = generate(varied(arrivals="closed-loop", patience_s=30.0), 3)
    rows = to_trace_dict(requests, {})["requests"]
    assert (
        load_trace(to_trace_dict(requests, {})).requests.after.tolist() == requests.after.tolist()
    )
    later = [row for row in rows if row["round"] > 0]
    for row in later:
        before = rows[row["after"]]
        assert (before["session"], before["round"]) == (row["session"], row["round"] - 1)
        assert row["arrival_us"] == before["arrival_us"] + row["think_us"]
    assert all("after" not in row for row in rows if row["round"] == 0)
    assert {row["patience_us"] for row in rows} == {30_000_000}
    assert len(later) > 100


def test_both_kinds_of_arrivals_start_alike_and_ask_the_same():
    fixed, closed = (
        generate(workload({"arrivals": kind, "truncate": False}), 3)
        for kind in ("fixed", "closed-loop")
    )
    starts = [r.arrival_us[r.round == 0].tolist() for r in (fixed, closed)]
    assert starts[0] == starts[1]
    assert np.bincount(fixed.round).tolist() == np.bincount(closed.round).tolist()


def test_exponential_think_times_have_their_mean():
    sessions = {"rounds": 2, "think_time": "exponential", "arrivals": "closed-loop"}
    requests = generate(workload(sessions | {"truncate": False}, requests=20_000), 0)
    think = requests.think_us[requests.after >= 0] / 1e6
    assert len(think) == 10_000
    assert think.mean() == pytest.approx(5.0, rel=4 / np.sqrt(10_000))
    assert np.quantile(think, 0.5) == pytest.approx(5.0 * np.log(2), rel=0.06)


def test_independent_rounds_bring_their_new_input_only():
    requests = generate(varied(context="independent"), 3)
    assert (np.diff(requests.segment_offsets) == 1).all()
    assert len(np.unique(requests.segment_ids)) == 300


@pytest.mark.parametrize("seed", range(3))
def test_a_context_is_all_that_was_said_before(seed):
    for row in rows_by_session(generate(varied(), seed)).values():
        said = []
        for r in row:
            assert r["prompt"][:-1] == said
            said = [*r["prompt"], r["output"]]


def test_dropped_thinking_leaves_an_answer_that_is_not_cached():
    requests = generate(workload({"reason_ratio": 0.75, "keep_reasoning": False}), 0)
    resolved = resolve_blocks(requests, 16)
    for row in rows_by_session(requests).values():
        for earlier, later in pairwise(row):
            *before, answer, _ = later["prompt"]
            assert before == earlier["prompt"]
            assert answer[1] == 64
            assert answer[0] != earlier["output"][0]
    # What a later round can find are the prompt blocks of the round before: none of the first
    # round's 256 output tokens.
    first = np.flatnonzero(requests.round == 0)
    followed = np.isin(requests.session[first], requests.session[requests.round == 1])
    assert (resolved.reusable[first] == np.where(followed, 128 // 16, 0)).all()
    kept = resolve_blocks(generate(workload({"reason_ratio": 0.75}), 0), 16)
    assert (kept.reusable[first] == np.where(followed, (128 + 255) // 16, 0)).all()


def test_dropped_thinking_of_a_whole_output_leaves_no_answer():
    requests = generate(workload({"reason_ratio": 1.0, "keep_reasoning": False}), 0)
    assert (requests.prompt_tokens == 128 * (requests.round + 1)).all()


def test_whole_sessions_are_taken_in_order_of_their_start():
    requests = generate(workload({"truncate": False, "rounds": 7}, requests=100), 3)
    assert len(requests) == 100
    counts = np.bincount(requests.session)
    assert counts.tolist() == [7] * 14 + [2]
    starts = requests.arrival_us[requests.round == 0]
    assert (np.diff(requests.session[requests.round == 0]) == 1).all()
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(requests.arrival_us) >= 0).all()


def test_a_truncated_client_stops_at_twice_the_requests():
    # All sessions start within a moment, so that what the client draws is what there is: 200.
    requests = generate(workload(rate=1e6), 3)
    assert np.bincount(requests.round).tolist() == [200, 200, 100]


def test_clients_with_and_without_sessions_share_the_rate():
    sessions = Sessions(rounds=2, think_time_s=1.0, arrivals="closed-loop", truncate=False)
    clients = (
        Client(id="chat", rate_fraction=1, sessions=sessions, prefix_group="a", prefix_len=30),
        Client(id="plain", rate_fraction=2, slo_class="batch"),
    )
    requests = generate(Workload(requests=4000, rate=30.0, clients=clients), 0)
    chat, plain = requests.client == 0, requests.client == 1
    # Sessions of two rounds, half as many as single requests.
    assert chat.mean() == pytest.approx(0.5, abs=0.03)
    assert (requests.session[plain] == -1).all()
    assert (requests.round[plain] == -1).all()
    assert (requests.after[plain] == -1).all()
    firsts = requests.session[chat & (requests.round == 0)]
    assert firsts.tolist() == list(range(len(firsts)))
    rows = to_trace_dict(requests, {})["requests"]
    assert all(r["prompt"][0] == [0, 30] for r in rows if r["client"] == "chat")
    assert sum(r["prompt"][0] == [0, 30] for r in rows) == chat.sum()


def test_the_rate_of_sessions_stretches_starts_and_leaves_the_rest_alone():
    fast = varied(truncate=False)
    slow, fast = (generate(w, 3) for w in (fast.model_copy(update={"rate": 0.5}), fast))
    order = [np.lexsort((r.round, r.session)) for r in (slow, fast)]
    assert np.array_equal(slow.output_tokens[order[0]], fast.output_tokens[order[1]])
    assert np.array_equal(slow.prompt_tokens[order[0]], fast.prompt_tokens[order[1]])
    starts = [r.arrival_us[r.round == 0] for r in (slow, fast)]
    assert np.abs(starts[0] / 4 - starts[1]).max() <= 1


def test_one_round_is_no_session_but_by_name():
    single = generate(workload({"rounds": 1}), 3)
    plain = generate(workload(sessions=None).model_copy(update={"sessions": None}), 3)
    assert np.array_equal(single.arrival_us, plain.arrival_us)
    assert np.array_equal(single.segment_ids, plain.segment_ids)
    assert single.session.tolist() == list(range(500))
    assert (plain.session == -1).all()


def test_time_that_overflows_is_refused():
    with pytest.raises(InputError, match=r"the rate is too small, .*: 1,000 requests take"):
        generate(workload({"think_time_s": 9e7}), 0)


@pytest.mark.parametrize(
    ("sessions", "message"),
    [
        ({"arrivals": "closed-loop"}, "rules 'blis' has fixed arrivals only"),
        ({"patience_s": 3.0}, "rules 'blis' has no impatient clients"),
    ],
)
def test_the_replica_refuses_what_depends_on_answers(sessions, message):
    asked = workload(sessions)
    with pytest.raises(ValueError, match=message):
        Scenario(engine={"rules": "blis"}, workload=asked)
    rows = to_trace_dict(generate(asked, 0), {})["requests"]
    with pytest.raises(InputError, match=r"^requests\[\d+\]\.\w+: rules 'blis' has fixed arr"):
        replica.run({"engine": {"rules": "blis"}, "latency": LATENCY}, rows)


def test_the_order_of_what_arrives_in_one_microsecond_is_that_of_its_parts():
    """So whole sessions of two clients are in the same order at any rate."""
    lengths = {"prompt": constant(5), "output": constant(5)}
    two = {"rounds": 2, "think_time_s": 0.0, "arrivals": "closed-loop", "truncate": False}
    clients = (Client(id="a"), Client(id="b", rate_fraction=0.7))
    for seed in range(8):  # some lists are cut between what arrives at once
        slow, fast = (
            generate(workload(two, requests=301, rate=rate, clients=clients, **lengths), seed)
            for rate in (1.0, 5e6)
        )
        assert len(np.unique(fast.arrival_us)) < 100
        assert fast.client.tolist() == slow.client.tolist()
        assert fast.session.tolist() == slow.session.tolist()
    # A session each 2.3 us, its second round 5 us after the first: 0.4 us after another's first.
    single = {**two, "think_time_s": 5e-6}
    found = generate(
        workload(single, requests=80, rate=1e6 / 2.3, arrivals="constant", **lengths), 0
    )
    real = 2.3 * (1 + found.session) + 5 * found.round
    assert (np.floor(real + 1e-9) == found.arrival_us).all()
    assert (np.diff(real) > 0).all()
