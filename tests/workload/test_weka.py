"""Sessions of coding agents: closed loops, subagents, and what their prompts share."""

import json
import random

import numpy as np
import pytest

from kvsweep.config import Workload
from kvsweep.config.read_options import parse_reading
from kvsweep.errors import InputError
from kvsweep.trace_replay import run_replay
from kvsweep.workload.bending import bend
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.traces import load_trace
from workload.exports import agent, call, session, sessions


def write(tmp_path, *lines):
    path = tmp_path / "traces.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


def load(path, *read):
    return load_trace(path, parse_reading(read)).requests


def refused(path, *read):
    with pytest.raises(InputError) as caught:
        load(path, *read)
    told = str(caught.value)
    assert told.startswith(f"{path}:")
    return told.removeprefix(str(path))


TURNS = [call(0.0, 100, api_time=2.0), call(5.0, 200, api_time=1.0), call(6.5, 300)]


def test_a_request_waits_for_the_answer_before_it(tmp_path):
    requests = load(write(tmp_path, session("a", TURNS)), "lanes=1")
    assert requests.after.tolist() == [-1, 0, 1]
    assert requests.think_us.tolist() == [0, 3_000_000, 500_000]
    assert requests.arrival_us.tolist() == [0, 3_000_000, 3_500_000]
    assert requests.prompt_tokens.tolist() == [100, 200, 300]
    assert (requests.session.tolist(), requests.round.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_recorded_think_times_go_before_computed_ones_and_may_be_cut(tmp_path):
    turns = [TURNS[0], TURNS[1] | {"think_time": 2.75}, TURNS[2] | {"think_time": 0.25}]
    path = write(tmp_path, session("a", turns))
    assert load(path, "lanes=1").think_us.tolist() == [0, 2_750_000, 250_000]
    assert load(path, "lanes=1", "think_cap_s=1").think_us.tolist() == [0, 1_000_000, 250_000]


def test_lanes_take_one_session_after_the_other(tmp_path):
    path = write(tmp_path, *(session(name, TURNS) for name in "abc"))
    told = ": sessions have no times of their own: give either read.lanes = N"
    assert refused(path).startswith(told)
    assert refused(path, "lanes=1", "sessions_per_s=1").startswith(told)
    requests = load(path, "lanes=2")
    assert requests.session.tolist() == [0, 1, 0, 1, 0, 1, 2, 2, 2]
    assert requests.after.tolist() == [-1, -1, 0, 1, 2, 3, 4, 6, 7]
    assert requests.think_us[6] == 0
    # As if answers took no time, a session begins on a lane when the one before has ended there.
    seconds = [0, 0, 3, 3, 3.5, 3.5, 3.5, 6.5, 7]
    assert (requests.arrival_us / 1e6).tolist() == seconds
    requests = load(path, "sessions_per_s=0.5")
    assert (requests.arrival_us / 1e6).tolist() == [0, 2, 3, 3.5, 4, 5, 5.5, 7, 7.5]
    assert requests.session.tolist() == [0, 1, 0, 0, 2, 1, 1, 2, 2]
    assert requests.after.tolist() == [-1, -1, 0, 2, -1, 1, 5, 4, 7]


def test_the_rate_stays_when_sessions_are_played_again(tmp_path):
    """Waits count for nothing: passes overlapped, as a gap was taken between rounds."""
    path = write(tmp_path, *(session(name, TURNS) for name in "abcd"))
    requests = load(path, "sessions_per_s=0.5")
    twice = bend(requests, Workload(trace="t", loop=2), 0, 1, "t")
    begins = twice.arrival_us[twice.after < 0] / 1e6
    assert begins.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    lanes = load(path, "lanes=2")
    twice = bend(lanes, Workload(trace="t", loop=2), 0, 1, "t")
    # As many sessions at once: a lane takes its sessions again.
    assert (twice.after < 0).sum() == 2
    assert twice.arrival_us[-1] == 2 * lanes.arrival_us[-1]
    assert len(set(twice.session.tolist())) == 8


def test_ids_mean_the_same_within_a_session_only(tmp_path):
    lines = [session("a", TURNS), session("b", TURNS)]
    requests = load(write(tmp_path, *lines), "lanes=2")
    # Blocks of 64 tokens: 1, 3 and 4 full ones, of which a request shares what the next one has.
    assert resolve_blocks(requests, 64).reusable.tolist() == [1, 1, 3, 3, 3, 3]
    same = [line | {"hash_id_scope": "global"} for line in lines]
    requests = load(write(tmp_path, *same), "lanes=2")
    assert resolve_blocks(requests, 64).reusable.tolist() == [1, 1, 3, 3, 4, 4]


def keys_by_hand(calls, block):
    """Return the ids of each request as leading full blocks of `block` tokens."""
    return [tuple(entry["hash_ids"][: entry["in"] // block]) for entry in calls]


def test_stretches_of_ids_share_what_the_ids_share(tmp_path):
    rng = random.Random(7)
    for _ in range(20):
        calls, ids, fresh = [], [], 0
        for i in range(12):
            ids = ids[: rng.randint(0, len(ids))]
            new = rng.randint(0, 5)
            ids = [*ids, *range(fresh, fresh + new)]
            fresh += new
            tokens = 64 * len(ids) + rng.randint(1, 63)
            calls.append(call(float(i), tokens, ids=list(ids), api_time=0.5))
        requests = load(write(tmp_path, session("a", calls)), "lanes=1")
        prefixes = keys_by_hand(calls, 64)
        expected = [
            max(
                next((k for k in range(len(own), 0, -1) if own[:k] == other[:k]), 0)
                for j, other in enumerate(prefixes)
                if j != i
            )
            for i, own in enumerate(prefixes)
        ]
        assert resolve_blocks(requests, 64).reusable.tolist() == expected


def test_long_sessions_are_kept_in_few_stretches(tmp_path):
    calls = [call(float(i), 64 * 10 * (i + 1) + 1, api_time=0.5) for i in range(50)]
    requests = load(write(tmp_path, session("a", calls)), "lanes=1")
    # Ten ids a turn, of which a stretch is left, and the rest of each prompt.
    assert len(requests.segment_ids) == sum(range(1, 51)) + 50


ONE_AGENT = [
    call(0.0, 100, api_time=2.0),
    agent(3.0, [call(0.0, 90, api_time=1.0), call(1.5, 95, api_time=0.5)], duration_ms=2000),
    call(5.75, 200, api_time=1.0),
]


def test_a_subagent_runs_while_its_session_waits(tmp_path):
    requests = load(write(tmp_path, session("a", ONE_AGENT)), "lanes=1")
    assert requests.after.tolist() == [-1, 0, 1, 2]
    assert requests.think_us.tolist() == [0, 1_000_000, 500_000, 750_000]
    assert requests.prompt_tokens.tolist() == [100, 90, 95, 200]
    names = [requests.client_names[k] for k in requests.client]
    assert names == ["session", "subagent", "subagent", "session"]
    alone = load(write(tmp_path, session("a", ONE_AGENT)), "lanes=1", "subagents=leave-out")
    assert alone.prompt_tokens.tolist() == [100, 200]
    # Without its subagent the session waits as it was recorded to.
    assert alone.think_us.tolist() == [0, 3_750_000]


def test_both_conventions_of_subagents_times_are_recognised(tmp_path):
    absolute = json.loads(json.dumps(ONE_AGENT))
    for entry in absolute[1]["requests"]:
        entry["t"] += 3.0
    plain = load(write(tmp_path, session("a", ONE_AGENT)), "lanes=1")
    path = write(tmp_path, session("a", absolute))
    assert load(path, "lanes=1").think_us.tolist() == plain.think_us.tolist()
    assert load(path, "lanes=1", "subagent_times=relative", "subagents=in-turn").think_us[1] == 4e6


def test_subagents_share_ids_with_their_session_or_only_the_prefix(tmp_path):
    inner = [call(0.0, 400, ids=[1, 2, 3, 4, 5, 6], api_time=0.5)]
    turns = [call(0.0, 400, ids=[1, 2, 3, 4, 5, 6], api_time=1.0), agent(2.0, inner)]
    path = write(tmp_path, session("a", turns))
    assert resolve_blocks(load(path, "lanes=1"), 64).reusable.tolist() == [6, 6]
    # 128 tokens of tools and 10 of the system prompt have two full blocks.
    own = load(path, "lanes=1", "subagent_ids=own")
    assert resolve_blocks(own, 64).reusable.tolist() == [2, 2]


BESIDE = [
    call(0.0, 100, api_time=2.0),
    agent(3.0, [call(0.0, 90, api_time=4.0)]),
    agent(3.5, [call(0.0, 95, api_time=1.0)]),
    call(8.0, 200, api_time=1.0),
]


def test_what_ran_beside_is_asked_about(tmp_path):
    path = write(tmp_path, session("a", BESIDE))
    told = (
        ":1: requests ran beside each other, which a chain of answers cannot have: read.subagents"
    )
    assert refused(path, "lanes=1").startswith(told)
    turns = load(path, "lanes=1", "subagents=in-turn")
    assert turns.prompt_tokens.tolist() == [100, 90, 95, 200]
    assert turns.after.tolist() == [-1, 0, 1, 2]
    assert turns.think_us.tolist() == [0, 1_000_000, 0, 1_000_000]
    needs = ":1: read.subagents = 'beside' needs read.sessions_per_s: on lanes"
    assert refused(path, "lanes=1", "subagents=beside").startswith(needs)
    beside = load(path, "sessions_per_s=1", "subagents=beside")
    assert beside.arrival_us.tolist() == [0, 3_000_000, 3_500_000, 6_000_000]
    assert beside.prompt_tokens.tolist() == [100, 90, 95, 200]
    assert beside.after.tolist() == [-1, -1, -1, 0]
    assert beside.think_us.tolist() == [0, 0, 0, 6_000_000]
    assert beside.session.tolist() == [0, 0, 0, 0]
    left = load(path, "lanes=1", "subagents=leave-out")
    assert left.prompt_tokens.tolist() == [100, 200]


def test_copies_of_a_session_keep_its_distance_to_what_ran_beside_it(tmp_path):
    """Each chain had a delay of its own, so subagents ran before their sessions or long after."""
    path = write(tmp_path, session("a", BESIDE), session("b", BESIDE))
    requests = load(path, "sessions_per_s=1", "subagents=beside")
    found = bend(requests, Workload(trace="t", repeat=20), 0, 1, "t")
    for name in set(found.session.tolist()):
        since = found.arrival_us[found.session == name]
        assert (since - since[0]).tolist() == [0, 3_000_000, 3_500_000, 6_000_000]


def test_requests_of_unmarked_agents_are_asked_about_too(tmp_path):
    turns = [call(0.0, 100, api_time=2.0), call(0.5, 110, api_time=3.0), call(4.0, 120)]
    path = write(tmp_path, session("a", turns))
    assert "ran beside each other" in refused(path, "lanes=1")
    assert load(path, "lanes=1", "subagents=in-turn").think_us.tolist() == [0, 0, 500_000]
    left = load(path, "lanes=1", "subagents=leave-out")
    assert left.think_us.tolist() == [0, 2_000_000]


FIRST = json.dumps(session("a", TURNS))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"block_size": 64',
            '"block_size": 0',
            ":1: block_size: expected 1 to 262144 tokens, got 0",
        ),
        (
            '"in": 100',
            '"in": 0',
            ":1: requests[0].in: expected an integer from 1 to 16777216, got 0",
        ),
        ('"in": 100', '"in": true', ":1: requests[0].in: expected an integer from 1 to 16777216, "),
        ('"in": 100', '"inn": 100', ":1: requests[0].in: expected an integer from 1 to 16777216, "),
        (
            '"out": 5',
            '"out": 0',
            ":1: requests[0].out: 0, the request failed: read.failed = 'leave",
        ),
        (
            '"api_time": 2.0',
            '"api_time": -2',
            ":1: requests[0].api_time: expected seconds from 0 to",
        ),
        (
            '"api_time": 2.0',
            '"api_time": NaN',
            ":1: requests[0].api_time: NaN is no number of JSON",
        ),
        (
            '"api_time": 2.0',
            '"apitime": 2',
            ":1: requests[0].apitime: unknown key; did you mean 'a",
        ),
        (
            '"api_time": 2.0',
            '"x": 2',
            ":1: requests[1]: neither think_time nor the api_time of the",
        ),
        ('"type": "s"', '"type": "z"', ":1: requests[0].type: 's', 'n' or 'subagent', got 'z'"),
        (
            '"hash_ids": [1]',
            '"hash_ids": [1, 2, 3]',
            ":1: requests[0].hash_ids: 3 ids for 100 token",
        ),
        (
            '"hash_ids": [1]',
            '"hash_ids": [-1]',
            ":1: requests[0].hash_ids: expected a list of integ",
        ),
        (
            '"hash_ids": [1]',
            '"hash_ids": "1"',
            ":1: requests[0].hash_ids: expected a list of integ",
        ),
        (
            '"t": 0.0',
            '"t": "0"',
            ":1: requests[0].t: expected seconds from 0 to 100000000, got '0'",
        ),
        ('"id": "a"', '"id": 5', ":1: id: expected a string, got 5"),
        ('"id": "a"', '"id": "b"', ":2: id: 'b' is that of line 1, too"),
        (
            '"models"',
            '"hash_id_scope": "x", "m"',
            ":1: hash_id_scope: 'local' or 'global', got 'x'",
        ),
        ('"requests": [', '"requests": [5, ', ":1: requests[0]: expected an object, got 5"),
        (FIRST[-20:], "", ":1: truncated or malformed JSON: "),
    ],
)
def test_malformed_sessions_are_refused_by_line_and_key(tmp_path, old, new, message):
    assert old in FIRST
    path = write(tmp_path, json.dumps(session("b", TURNS)), FIRST.replace(old, new, 1))
    second = refused(path, "lanes=1", "format=weka")
    assert second.startswith(message.replace(":1: ", ":2: ", 1)) or second.startswith(message)


def test_a_session_without_waits_may_be_asked_for(tmp_path):
    turns = [call(0.0, 100), call(5.0, 200)]
    path = write(tmp_path, session("a", turns))
    assert load(path, "lanes=1", "think_cap_s=0").think_us.tolist() == [0, 0]
    told = refused(path, "lanes=1")
    assert told.endswith("read.think_unknown_s = 0 (or more) is taken where that is so")


def test_waits_that_are_not_told_leave_the_others_as_they_are(tmp_path):
    """The only remedy took all waits, of sessions that tell them too."""
    path = write(tmp_path, session("a", [call(0.0, 100), call(5.0, 200)]), session("b", TURNS))
    requests = load(path, "sessions_per_s=1", "think_unknown_s=4")
    assert requests.think_us[requests.session == 0].tolist() == [0, 4_000_000]
    assert requests.think_us[requests.session == 1].tolist() == [0, 3_000_000, 500_000]
    capped = load(path, "sessions_per_s=1", "think_unknown_s=4", "think_cap_s=1")
    assert capped.think_us.max() == 1_000_000


def test_ids_of_all_sessions_are_no_subagents_own(tmp_path):
    inner = [call(0.0, 400, ids=[1, 2], api_time=0.5)]
    turns = [call(0.0, 400, ids=[1, 2], api_time=1.0), agent(2.0, inner)]
    line = session("a", turns) | {"hash_id_scope": "global"}
    told = refused(write(tmp_path, line), "lanes=1", "subagent_ids=own")
    assert told.startswith(":1: hash_id_scope: 'global', by which equal ids are equal content in ")
    assert told.endswith("leave out read.subagent_ids = 'own'")
    plain = write(tmp_path, session("a", TURNS) | {"hash_id_scope": "global"})
    assert len(load(plain, "lanes=1", "subagent_ids=own")) == 3


def test_keys_that_are_alike_and_right_are_no_misspellings(tmp_path):
    turns = json.loads(json.dumps(ONE_AGENT))
    del turns[1]["tool_tokens"], turns[1]["system_tokens"]  # it has total_tokens
    assert len(load(write(tmp_path, session("a", turns)), "lanes=1")) == 4


def test_failed_requests_are_left_out_on_request(tmp_path):
    turns = [TURNS[0], TURNS[1] | {"out": 0}, TURNS[2]]
    requests = load(write(tmp_path, session("a", turns)), "lanes=1", "failed=leave-out")
    assert requests.prompt_tokens.tolist() == [100, 300]
    assert requests.think_us.tolist() == [0, 4_500_000]


def test_ids_of_partial_blocks_are_dropped_and_missing_ones_are_content_of_its_own(tmp_path):
    turns = [call(0.0, 100, ids=[1, 2], api_time=1.0), call(2.0, 100, ids=[1, 2], api_time=1.0)]
    requests = load(write(tmp_path, session("a", turns)), "lanes=1")
    assert resolve_blocks(requests, 4).reusable.tolist() == [16, 16]
    turns = [{key: v for key, v in turn.items() if key != "hash_ids"} for turn in turns]
    requests = load(write(tmp_path, session("a", turns)), "lanes=1")
    assert not resolve_blocks(requests, 4).reusable.any()


def test_a_single_session_of_several_lines_is_read(tmp_path):
    plain = load(write(tmp_path, FIRST), "lanes=1")
    indented = load(write(tmp_path, json.dumps(json.loads(FIRST), indent=1)), "lanes=1")
    assert indented.think_us.tolist() == plain.think_us.tolist()


def test_sessions_run_under_the_kernel_in_their_order(tmp_path):
    path = write(tmp_path, sessions(random.Random(4)), json.dumps(session("z", ONE_AGENT)))
    settings = ("latency.beta=[1000, 5, 20]", "cache.gpu_blocks=400")
    found = run_replay(path, settings, ("lanes=2",))
    requests = found.trace.requests
    later = np.flatnonzero(requests.after >= 0)
    finish, arrival = found.requests["finish_us"], found.requests["arrival_us"]
    before = requests.after[later]
    assert (arrival[later] >= finish[before] + requests.think_us[later]).all()
    assert (found.requests["cached_tokens"] > 0).any()


def test_what_ran_beside_arrives_when_its_first_request_did(tmp_path):
    inner = agent(1.0, [call(2.5, 90, api_time=1.0)], duration_ms=3000)
    path = write(tmp_path, session("a", [call(0.0, 100, api_time=4.0), inner]))
    beside = load(path, "sessions_per_s=1", "subagents=beside", "subagent_times=absolute")
    assert beside.arrival_us.tolist() == [0, 2_500_000]


def test_a_session_that_begins_with_a_subagent_arrives_when_its_first_request_did(tmp_path):
    inner = agent(1.0, [call(2.5, 90, api_time=1.0)], duration_ms=3000)
    late = session("b", [inner, call(10.0, 100, api_time=4.0)])
    path = write(tmp_path, session("a", TURNS[:1]), late)
    arrival = load(path, "sessions_per_s=1", "subagent_times=absolute").arrival_us
    assert arrival.tolist() == [0, 3_500_000, 10_000_000]


@pytest.mark.parametrize(
    ("turns", "thinks"),
    [
        # The first subagent is the last to answer, and the session goes on a second later.
        (
            [
                call(0.0, 100, api_time=2.0),
                agent(3.0, [call(0.0, 90, api_time=80.0)]),
                agent(3.5, [call(0.0, 95, api_time=1.0), call(2.0, 96, api_time=1.0)]),
                call(84.0, 200, api_time=1.0),
            ],
            [0.0, 1.0, 0.0, 1.0, 1.0],
        ),
        # So is the first of two requests of the session itself, a subagent between them or not.
        (
            [call(0.0, 100, api_time=50.0), call(0.5, 110, api_time=3.0), call(54.0, 120)],
            [0.0, 0.0, 4.0],
        ),
        (
            [
                call(0.0, 100, api_time=50.0),
                agent(10.0, [call(0.0, 90, api_time=2.0)]),
                call(30.0, 110, api_time=3.0),
                call(54.0, 120),
            ],
            [0.0, 0.0, 0.0, 4.0],
        ),
    ],
)
def test_a_session_in_turn_thinks_from_the_last_answer(tmp_path, turns, thinks):
    """It thought from the answer of what began last: 78.5 s and 50.5 s that nobody waited."""
    path = write(tmp_path, session("a", turns))
    found = load(path, "lanes=1", "subagents=in-turn").think_us
    assert (found / 1e6).tolist() == thinks


def test_copies_of_lanes_are_played_again_when_they_have_ended(tmp_path):
    """A pass began a gap after the last copy, so that of 4 lanes 12 were under way."""
    path = write(tmp_path, *(session(name, TURNS) for name in "abc"))
    found = bend(load(path, "lanes=2"), Workload(trace="t", repeat=2, loop=3), 0, 1, "t")
    assert len(found) == 2 * 3 * 3 * len(TURNS)
    begins = found.arrival_us[found.after < 0]
    assert len(begins) == 4
    assert begins.max() <= 60e6
    again = found.arrival_us[(found.after >= 0) & (found.round == 0)]
    ended = found.arrival_us[found.after[(found.after >= 0) & (found.round == 0)]]
    assert again.tolist() == ended.tolist()


def test_a_subagent_of_a_subagent_is_told_as_such(tmp_path):
    """The type was told to be allowed, and refused."""
    nested = agent(3.0, [agent(0.0, [call(0.0, 90)])])
    told = ":1: requests[0].requests[0].type: 's' or 'n' within one, got 'subagent'"
    assert refused(write(tmp_path, session("a", [nested])), "lanes=1") == told


def test_a_request_that_begins_before_an_answer_by_rounding_waits_for_it(tmp_path):
    """Times are rounded: 0.02 s before an answer are not beside it, more are."""
    for early, beside in ((0.01, False), (0.03, True)):
        turns = [call(0.0, 100, api_time=2.0), call(2.0 - early, 200, api_time=1.0)]
        path = write(tmp_path, session("a", turns))
        if beside:
            assert "requests ran beside each other" in refused(path, "lanes=1")
        else:
            assert load(path, "lanes=1").think_us.tolist() == [0, 0]
