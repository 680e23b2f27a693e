"""Traces that bend: what each key does to any request list, and that nothing else happens."""

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep import grid
from kvsweep.config import Workload, load_sweep
from kvsweep.errors import InputError
from kvsweep.workload import kept_traces
from kvsweep.workload.bending import bend
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.generate import requests_for
from kvsweep.workload.native import read_native, to_trace_dict
from workload.lists import TRACE, prompts, request_lists, same

WINDOWS = st.tuples(st.floats(0, 8), st.floats(0.5, 9)).map(
    lambda pair: {"from_s": pair[0], "length_s": pair[1]}
)
CLIPS = st.fixed_dictionaries(
    {"prompt": st.integers(1, 60)}, optional={"output": st.integers(1, 20)}
)
BENDS = st.fixed_dictionaries(
    {},
    optional={
        "clip": CLIPS,
        "repeat": st.integers(1, 3),
        "repeat_spread_s": st.sampled_from((0, 0.5, 30)),
        "loop": st.integers(1, 4),
        "copies": st.sampled_from(("new", "same")),
        "scale": st.sampled_from((0.25, 1.0, 3.0)),
        "limit": st.integers(1, 20),
    },
)


def bent(requests, seed=0, **how):
    return bend(requests, Workload(trace="t", **how), seed, 1, "t")


def keys_of(requests, size=8):
    """Return the block keys of each request: equal where prefixes are."""
    found = resolve_blocks(requests, size)
    return [
        found.keys[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ]


def alike(one, two):
    """Return whether two lists of keys share the same prefixes with each other."""
    names, others = {}, {}
    return list(map(len, one)) == list(map(len, two)) and all(
        names.setdefault(a, b) == b and others.setdefault(b, a) == a
        for x, y in zip(one, two, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def at_once(requests):
    """Return whether all requests come at once, and none waits for an answer."""
    return (requests.after < 0).all() and requests.arrival_us[0] == requests.arrival_us[-1]


@given(request_lists(), BENDS, st.integers(0, 3))
def test_what_is_bent_is_a_trace_that_can_be_read(requests, how, seed):
    if at_once(requests):  # has no rate at which a loop would play it again
        how = how | {"loop": 1}
    found = bent(requests, seed, **how)
    assert same(read_native(to_trace_dict(found, {}), "t"), found)
    assert same(bent(requests, seed, **how), found)


@given(request_lists())
def test_nothing_asked_for_changes_nothing(requests):
    assert same(bent(requests), requests)
    assert same(bent(requests, scale=1.0, loop=1, repeat=1, limit=len(requests)), requests)


def earliest(arrivals, after, think):
    """Return when requests arrive whose answers take no time."""
    found = []
    for arrival, before, pause in zip(arrivals, after, think, strict=True):
        found.append(arrival if before < 0 else found[before] + pause)
    return found


def places_of(arrivals):
    """Return where requests come that are sorted by arrival."""
    order = sorted(range(len(arrivals)), key=lambda i: arrivals[i])
    return np.argsort(order, kind="stable")


@given(request_lists(), st.sampled_from((0.1, 0.5, 1.5, 2.0, 7.0)))
def test_scale_divides_arrivals_and_leaves_all_else(requests, factor):
    found = bent(requests, scale=factor)
    assert (np.diff(found.arrival_us) >= 0).all()
    after, think = requests.after.tolist(), requests.think_us.tolist()
    exact = [int(Fraction(a) / Fraction(factor)) for a in requests.arrival_us.tolist()]
    exact = earliest(exact, after, think)
    scaled = np.floor(requests.arrival_us / factor).astype(int).tolist()
    place = places_of(earliest(scaled, after, think))
    assert np.abs(found.arrival_us[place] - exact).max() <= 1
    assert found.think_us[place].tolist() == think
    assert found.after[place].tolist() == [-1 if a < 0 else place[a] for a in after]
    assert [prompts(found)[i] for i in place] == prompts(requests)
    if (requests.after < 0).all():
        assert same(replace(found, arrival_us=requests.arrival_us), requests)


@given(request_lists(), st.integers(1, 15))
def test_limit_keeps_the_first_requests(requests, count):
    found = bent(requests, limit=count)
    kept = min(count, len(requests))
    assert found.arrival_us.tolist() == requests.arrival_us[:kept].tolist()
    assert found.after.tolist() == requests.after[:kept].tolist()
    assert prompts(found) == prompts(requests)[:kept]


@given(request_lists(), WINDOWS)
def test_a_slice_has_whole_chains_counted_from_its_begin(requests, window):
    start = [i if a < 0 else None for i, a in enumerate(requests.after.tolist())]
    for i, after in enumerate(requests.after.tolist()):
        start[i] = i if after < 0 else start[after]
    low = round(1e6 * window["from_s"])
    high = round(1e6 * (window["from_s"] + window["length_s"]))
    kept = [i for i, s in enumerate(start) if low <= requests.arrival_us[s] < high]
    if not kept:
        with pytest.raises(InputError, match=r"workload\.slice: no request of t arrives from"):
            bent(requests, slice=window)
        return
    found = bent(requests, slice=window)
    assert found.arrival_us.tolist() == (requests.arrival_us[kept] - low).tolist()
    assert prompts(found) == [prompts(requests)[i] for i in kept]
    linked = [kept.index(a) if a >= 0 else -1 for a in requests.after[kept].tolist()]
    assert found.after.tolist() == linked
    assert found.think_us.tolist() == requests.think_us[kept].tolist()
    assert found.session.tolist() == requests.session[kept].tolist()


@given(request_lists(), WINDOWS, st.sampled_from((0.5, 4.0)))
def test_a_slice_is_of_the_trace_as_it_is_whatever_the_scale(requests, window, factor):
    try:
        part = bent(requests, slice=window)
    except InputError:
        return
    assert same(bent(requests, slice=window, scale=factor), bent(part, scale=factor))


@given(request_lists(), CLIPS)
def test_clip_keeps_the_first_tokens(requests, most):
    found = bent(requests, clip=most)
    for old, new in zip(prompts(requests), prompts(found), strict=True):
        words = [(segment, k) for segment, tokens in old for k in range(tokens)]
        assert [(s, k) for s, tokens in new for k in range(tokens)] == words[: most["prompt"]]
    assert found.prompt_tokens.tolist() == [sum(n for _, n in p) for p in prompts(found)]
    longest = most.get("output", 10**6)
    assert found.output_tokens.tolist() == np.minimum(requests.output_tokens, longest).tolist()


def looped(requests, passes):
    """Return arrivals and who waits for whom of all passes, one after the other."""
    n, own = len(requests), requests.after.tolist()
    begins = [i for i, a in enumerate(own) if a < 0]
    span = int(requests.arrival_us[begins[-1]] - requests.arrival_us[begins[0]])
    period = span + round(span / max(1, len(begins) - 1))
    arrivals = [a + k * period for k in range(passes) for a in requests.arrival_us.tolist()]
    after = [-1 if a < 0 else a + k * n for k in range(passes) for a in own]
    if span:
        return arrivals, after
    for i in begins:
        last = i
        while last in own:
            last = own.index(last)
        for k in range(1, passes):
            after[i + k * n] = last + (k - 1) * n
    return earliest(arrivals, after, requests.think_us.tolist() * passes), after


@given(request_lists(), st.integers(2, 4), st.sampled_from(("new", "same")))
def test_a_loop_plays_the_list_again_at_its_rate(requests, passes, copies):
    n = len(requests)
    if at_once(requests):
        with pytest.raises(InputError, match=r"workload\.loop: all requests of t arrive at once"):
            bent(requests, loop=passes, copies=copies)
        return
    found = bent(requests, loop=passes, copies=copies)
    arrivals, after = looped(requests, passes)
    place = places_of(arrivals)
    assert found.arrival_us[place].tolist() == arrivals
    assert found.after[place].tolist() == [-1 if a < 0 else place[a] for a in after]
    own, keys = keys_of(requests), keys_of(found)
    parts = [[keys[i] for i in place[k * n : (k + 1) * n]] for k in range(passes)]
    for part in parts:
        assert alike(own, part)
    of_pass = [set().union(*part) for part in parts]
    for k in range(1, passes):
        assert of_pass[k] == of_pass[0] if copies == "same" else not of_pass[k] & of_pass[0]
    session = found.session[place]
    sessions = [set(session[k * n : (k + 1) * n].tolist()) - {-1} for k in range(passes)]
    assert not set.intersection(*sessions)


@given(request_lists(), st.integers(2, 5), st.integers(1, 30))
def test_a_limit_of_a_loop_is_its_first_requests(requests, passes, count):
    if (requests.after < 0).all() and requests.arrival_us[0] == requests.arrival_us[-1]:
        return
    whole, part = bent(requests, loop=passes), bent(requests, loop=passes, limit=count)
    kept = min(count, len(whole))
    assert part.arrival_us.tolist() == whole.arrival_us[:kept].tolist()
    assert part.after.tolist() == whole.after[:kept].tolist()
    assert part.output_tokens.tolist() == whole.output_tokens[:kept].tolist()


def test_a_loop_of_what_arrives_at_once_is_left_to_answers():
    """There is no gap between arrivals that a pass could begin after the one before."""
    requests = requests_of([0, 1], [0, 0])
    with pytest.raises(InputError, match=r"so no rate says when they are played again"):
        bent(requests, loop=2)
    assert bent(requests, loop=2, concurrency=1).arrival_us.tolist() == [0] * 4
    assert bent(requests, loop=2, repeat=2).arrival_us.max() > 0


@given(request_lists(), st.integers(2, 3), st.integers(0, 5))
def test_repeat_adds_clients_that_do_the_same_a_little_later(requests, clients, seed):
    found = bent(requests, seed, repeat=clients, repeat_spread_s=2, copies="new")
    n = len(requests)
    assert len(found) == clients * n
    # The copies of a request have outputs of the same length; segments tell which copy it is.
    step = 1 + max(requests.segment_ids.max(), requests.output_segment.max())
    copy = found.output_segment // step
    for k in range(clients):
        part = np.flatnonzero(copy == k)
        assert sorted(found.output_tokens[part].tolist()) == sorted(requests.output_tokens.tolist())
    original = np.flatnonzero(copy == 0)
    assert found.arrival_us[original].tolist() == requests.arrival_us.tolist()
    waiting = np.flatnonzero(found.after >= 0)
    assert len(waiting) == clients * (requests.after >= 0).sum()
    assert (copy[waiting] == copy[found.after[waiting]]).all()
    assert (found.after[waiting] < waiting).all()


def test_copies_of_a_session_keep_its_distances():
    columns = requests_of(sessions=[3, 3, 9], arrivals=[0, 5_000_000, 6_000_000])
    found = bent(columns, 4, repeat=3, repeat_spread_s=50)
    for name in set(found.session.tolist()) - {3, 9}:
        times = found.arrival_us[found.session == name]
        assert len(times) == 1 or np.diff(times).tolist() == [5_000_000]
    assert len(set(found.session.tolist())) == 6
    other = bent(columns, 5, repeat=3, repeat_spread_s=50)
    assert other.arrival_us.tolist() != found.arrival_us.tolist()


def requests_of(sessions, arrivals):
    rows = [
        {"id": i, "arrival_us": a, "prompt": [[i, 9]], "output": [100 + i, 2], "session": s}
        for i, (s, a) in enumerate(zip(sessions, arrivals, strict=True))
    ]
    return read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")


def test_a_limit_spares_the_passes_beyond_it():
    found = bent(requests_of([0, 1], [0, 1]), loop=2**24, limit=5)
    assert found.output_segment.tolist() == [100, 101, 202, 203, 304]


def test_numbers_of_content_fit_a_file_however_many_copies():
    row = {"id": 0, "arrival_us": 0, "prompt": [[2**53, 9]], "output": [2**53 - 1, 2]}
    rows = [row, row | {"id": 1, "arrival_us": 1}]
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    found = bent(requests, loop=3)
    assert found.segment_ids.tolist() == [1, 1, 3, 3, 5, 5]
    assert found.output_segment.tolist() == [0, 0, 2, 2, 4, 4]


@pytest.mark.parametrize("how", [{"loop": 3}, {"repeat": 3, "repeat_spread_s": 0}])
def test_numbers_of_sessions_fit_a_file_too(how):
    """They overflowed, or were refused where they were read again."""
    found = bent(requests_of([2**53, 5], [0, 10]), **how)
    assert sorted(found.session.tolist()) == [0, 1, 2, 3, 4, 5]
    assert same(read_native(to_trace_dict(found, {}), "t"), found)
    few = bent(requests_of([3, 9], [0, 10]), **how)
    assert sorted(few.session.tolist()) == [3, 9, 13, 19, 23, 29]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"loop": 2**24}, "workload.loop: 16,777,216 copies of the 2 requests"),
        ({"repeat": 2**24}, "workload.repeat: 16,777,216 copies"),
        ({"scale": 1e-9}, "workload.scale: bent, requests of t arrive up to"),
    ],
)
def test_what_becomes_too_much_is_refused(how, message):
    requests = requests_of([0, 1], [0, 10**6])
    with pytest.raises(InputError) as caught:
        bent(requests, **how)
    assert str(caught.value).startswith(message)


SWEEP = """
[workload]
{workload}
[latency]
beta = [1000, 10, 5]
[grid]
{grid}
"""


def plan_of(tmp_path, workload, axes=""):
    (tmp_path / "t.jsonl").write_text(TRACE)
    (tmp_path / "s.toml").write_text(SWEEP.format(workload=workload, grid=axes))
    return grid.plan(load_sweep(tmp_path / "s.toml"))


def test_each_key_is_an_axis(tmp_path):
    axes = """
    "workload.scale" = [1.0, 2.0]
    "workload.slice.from_s" = [0, 1]
    "workload.clip.prompt" = [512, 4096]
    "workload.limit" = [1, 2]
    "workload.loop" = [1, 2]
    "workload.repeat" = [1, 2]
    "workload.copies" = ["new", "same"]
    """
    cells = plan_of(tmp_path, 'trace = "t.jsonl"', axes)
    assert cells.shape == (2,) * 7
    scales = {v.workload.scale for v in cells.variants}
    assert scales == {1.0, 2.0}


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("scale = 2.0", "workload.scale: says what becomes of a trace's requests: needs trace"),
        ('lengths_from = "t.jsonl"\nlimit = 3', "workload.limit: needs trace; with lengths_from"),
        ('trace = "t.jsonl"\nlengths_from = "t.jsonl"', "workload.lengths_from: a trace brings"),
        (
            'lengths_from = "t.jsonl"\noutput = { dist = "constant", value = 4 }',
            "workload.output: lengths_from gives prompts and outputs",
        ),
        ('trace = "t.jsonl"\nscale = 0.0', "workload.scale: must be more than 0, got 0.0"),
        ('trace = "t.jsonl"\nslice = { to_s = 3, length_s = 1 }', "workload.slice.length_s: to_s"),
        ('trace = "t.jsonl"\nslice = { from_s = 3, to_s = 1 }', "workload.slice.to_s: 1 is not"),
        ('trace = "t.jsonl"\nslice = { form_s = 3 }', "unknown key; did you mean 'from_s'?"),
        ('trace = "t.jsonl"\nslice = { from_s = 300 }', "s.toml: workload.slice: no request of"),
        ('trace = "t.jsonl"\nclip = {}', "workload.clip.prompt: missing"),
        ('trace = "t.jsonl"\ncopies = "same"', "workload.copies: has no effect: needs"),
        ('trace = "t.jsonl"\nloop = 2\nrepeat_spread_s = 3', "repeat_spread_s: has no effect"),
        ('trace = "t.jsonl"\nlimit = 2\nwarmup = 2', "leaves none of the 2 requests"),
    ],
)
def test_what_does_not_fit_together_is_refused(workload, message, tmp_path):
    with pytest.raises(InputError) as caught:
        plan_of(tmp_path, workload)
    assert message in str(caught.value)


def test_lengths_from_a_trace_are_pairs_of_it_with_other_arrivals(tmp_path):
    (tmp_path / "t.jsonl").write_text(TRACE)
    workload = Workload(requests=400, rate=10.0, lengths_from="t.jsonl")
    found = requests_for(workload, 0, base_dir=tmp_path)
    pairs = list(zip(found.prompt_tokens.tolist(), found.output_tokens.tolist(), strict=True))
    assert set(pairs) == {(1024, 2), (600, 9), (1100, 1), (300, 5)}
    assert min(pairs.count(pair) for pair in set(pairs)) > 60
    drawn = requests_for(Workload(requests=400, rate=10.0), 0)
    assert found.arrival_us.tolist() == drawn.arrival_us.tolist()
    more = requests_for(workload.model_copy(update={"requests": 500}), 0, base_dir=tmp_path)
    assert more.prompt_tokens[:400].tolist() == found.prompt_tokens.tolist()
    other = requests_for(workload, 1, base_dir=tmp_path)
    assert other.prompt_tokens.tolist() != found.prompt_tokens.tolist()


def test_lengths_are_those_of_the_slice_and_clipped(tmp_path):
    (tmp_path / "t.jsonl").write_text(TRACE)
    workload = Workload(
        requests=99, lengths_from="t.jsonl", slice={"from_s": 1, "to_s": 2}, clip={"prompt": 1000}
    )
    found = requests_for(workload, 0, base_dir=tmp_path)
    pairs = zip(found.prompt_tokens.tolist(), found.output_tokens.tolist(), strict=True)
    assert set(pairs) == {(600, 9), (1000, 1)}


def test_a_trace_is_read_once_until_it_changes(tmp_path, monkeypatch):
    reads = []
    load = kept_traces.load_trace
    monkeypatch.setattr(
        kept_traces, "load_trace", lambda *asked: reads.append(asked) or load(*asked)
    )
    file = tmp_path / "t.jsonl"
    file.write_text(TRACE)
    os.utime(file, (0, 0))
    first = kept_traces.requests_of_file(file)
    assert kept_traces.requests_of_file(file) is first
    assert len(reads) == 1
    file.write_text(TRACE.replace("300", "301"))
    os.utime(file, (5, 5))
    assert kept_traces.requests_of_file(file).prompt_tokens.max() == 1100
    assert len(reads) == 2
    file.write_text(TRACE)  # so young that another change would not show
    kept_traces.requests_of_file(file)
    kept_traces.requests_of_file(file)
    assert len(reads) == 4


@pytest.mark.parametrize("limit", [3, 10, 37])
def test_a_limit_on_chains_that_begin_together_needs_few_passes_and_changes_nothing(limit):
    """The shorter chain begins again more often than the list is long."""
    rows = [
        {"id": 0, "arrival_us": 0, "prompt": [[0, 4]], "output": [10, 2]},
        {"id": 1, "arrival_us": 0, "prompt": [[1, 4]], "output": [11, 2]},
        {"id": 2, "arrival_us": 0, "prompt": [[2, 4]], "output": [12, 2], "after": 0},
        {"id": 3, "arrival_us": 0, "prompt": [[3, 4]], "output": [13, 2], "after": 1},
        {"id": 4, "arrival_us": 0, "prompt": [[4, 4]], "output": [14, 2], "after": 3},
    ]
    rows[2]["think_us"], rows[3]["think_us"], rows[4]["think_us"] = 1_000, 8_000, 3_000
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    whole = bent(requests, loop=60)
    part = bent(requests, loop=60, limit=limit)
    assert part.arrival_us.tolist() == whole.arrival_us[:limit].tolist()
    assert len(bent(requests, loop=10**6, limit=limit)) == limit


def test_late_windows_are_told_to_the_microsecond():
    rows = [{"id": 0, "arrival_us": 10**13, "prompt": [[0, 4]], "output": [1, 2]}]
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    told = "from 1234567 s to 1234569.25 s; its 1 requests arrive from 10000000 to 10000000 s"
    with pytest.raises(InputError, match=told):
        bent(requests, slice={"from_s": 1_234_567, "to_s": 1_234_569.25})
    with pytest.raises(ValueError, match="1234567 is not after from_s, 1234568"):
        bent(requests, slice={"from_s": 1_234_568, "to_s": 1_234_567})


def test_a_limit_on_chains_that_begin_together_and_late_keeps_enough_passes():
    """How often a chain is played depends on how long it takes, not on when the trace begins."""
    late = 10**6
    rows = [
        {"id": 0, "arrival_us": late, "prompt": [[0, 4]], "output": [10, 2]},
        {"id": 1, "arrival_us": late, "prompt": [[1, 4]], "output": [11, 2]},
        {"id": 2, "arrival_us": late, "prompt": [[2, 4]], "output": [12, 2], "after": 0},
        {"id": 3, "arrival_us": late, "prompt": [[3, 4]], "output": [13, 2], "after": 1},
    ]
    rows[2]["think_us"], rows[3]["think_us"] = 10, 100_000
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    whole, part = bent(requests, loop=100), bent(requests, loop=100, limit=120)
    assert part.arrival_us.tolist() == whole.arrival_us[:120].tolist()


@pytest.mark.parametrize(
    ("arrivals", "again"), [([0, 10], [20, 30]), ([0, 4, 10], [15, 19, 25]), ([5, 7], [9, 11])]
)
def test_a_pass_begins_a_mean_gap_after_the_last_arrival(arrivals, again):
    found = bent(requests_of(range(len(arrivals)), arrivals), loop=2)
    assert found.arrival_us.tolist() == [*arrivals, *again]


@pytest.mark.parametrize(
    ("arrivals", "thinks", "loop", "limit", "others"),
    [
        # The list has both a second later than answers can make them.
        ((1_000_000, 1_000_000), (10, 2_000_000), 40, 60, {}),
        ((2 * 10**9, 2 * 10**9), (2 * 10**9, 2 * 10**9), 30, 30, {"repeat": 2}),
        ((0, 0), (0, 0), 30, 33, {"repeat": 3, "repeat_spread_s": 0}),
    ],
)
def test_a_limit_of_a_loop_of_chains_is_its_first_requests(arrivals, thinks, loop, limit, others):
    """Passes were left out: those of the times in the list, and of copies that begin later."""
    rows = [
        {"id": i, "arrival_us": at, "prompt": [[i, 4]], "output": [10 + i, 2]}
        for i, at in enumerate((0, 0, *arrivals, arrivals[-1] + 10))
    ]
    for place, (before, think) in enumerate(((0, thinks[0]), (1, thinks[1]), (3, 10)), 2):
        rows[place] |= {"after": before, "think_us": think}
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    whole = bent(requests, loop=loop, **others)
    part = bent(requests, loop=loop, limit=limit, **others)
    assert part.arrival_us.tolist() == whole.arrival_us[:limit].tolist()
    assert part.prompt_tokens.tolist() == whole.prompt_tokens[:limit].tolist()


def test_a_window_has_its_begin_and_not_its_end():
    entry = {"prompt": [[0, 9]], "output": [1, 2]}
    rows = [entry | {"id": i, "arrival_us": 10**6 * i} for i in range(4)]
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    found = bent(requests, slice={"from_s": 1.0, "to_s": 3.0})
    assert found.arrival_us.tolist() == [0, 10**6]
