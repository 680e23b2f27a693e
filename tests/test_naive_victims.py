"""The naive twin's choice of victims, and what they compute anew; numbers worked by hand."""

import naive
import pytest
from naive.victims import draw

from kvsweep.policies import Victim

# Blocks of 4 tokens, 6 of them. Step 0 computes the prompts: 2, 1 and 2 blocks. In step 1 request 0
# takes the last one, request 1 lacks one, and somebody must go. Known tokens are 9, 5 and 8.
ROWS = ((8, 5), (4, 9), (7, 9))


def simulate(rows=ROWS, gpu_blocks=6, **engine):
    """Run requests given as (prompt, output tokens[, more keys]), all at time 0, without cache."""
    requests = [
        {"id": i, "arrival_us": 0, "prompt": [[i, prompt]], "output": [1000 + i, output]}
        | (more[0] if more else {})
        for i, (prompt, output, *more) in enumerate(rows)
    ]
    scenario = {
        "engine": {"enable_prefix_caching": False} | engine,
        "cache": {"block_size": 4, "gpu_blocks": gpu_blocks},
        "latency": {"beta": [10]},
    }
    return naive.simulate({"scenario": scenario, "requests": requests}, check=True)


def victims(result):
    """Return the victims of the first step that has any."""
    return next(step.pre for step in result.instances[0].steps if step.pre)


@pytest.mark.parametrize(
    ("victim", "chosen"),
    [
        ("last", 2),
        ("least-computed-first", 1),  # 4 tokens against 8 and 7: the one that lacks the block
        ("least-computed-other", 2),
        ("most-computed", 0),
        # 3 / 9 * (1 - 1 / 5) = 0.27; 1 / 5 * (1 - 1 / 9) = 0.18; 2 / 8 * (1 - 1 / 9) = 0.22
        ("cost-aware", 0),
        ("fewest-remaining", 0),  # 4 tokens to come against 8 and 8
    ],
)
def test_who_is_preempted(victim, chosen):
    assert victims(simulate(victim=victim)) == [chosen]


def test_a_random_victim_has_the_largest_number():
    result = simulate(victim="random")
    numbers = {r.id: draw(0, r) for r in result.requests}
    assert victims(result)[0] == max(numbers, key=numbers.get)
    again = simulate(victim="random")
    assert [step.pre for step in again.instances[0].steps] == [
        step.pre for step in result.instances[0].steps
    ]


def test_random_numbers_are_spread_over_requests_and_preemptions():
    requests = simulate(rows=[(4, 4)] * 8, gpu_blocks=100).requests
    chosen = [max(requests, key=lambda r, n=n: draw(n, r)).id for n in range(2000)]
    counts = [chosen.count(i) for i in range(8)]
    assert min(counts) > 200  # of 250: four standard deviations are 59
    assert max(counts) < 300


@pytest.mark.parametrize("victim", Victim.labels())
def test_of_equals_the_last_admitted_goes_and_who_is_alone_gives_up_its_own(victim):
    if victim != "random":
        # 2 blocks each of 6; each lacks a third after its first output.
        assert victims(simulate(rows=[(8, 9)] * 3, victim=victim))[-1] == 2
    # Admission needs no reservation here: the second prompt is cut, and lacks blocks alone.
    result = simulate(rows=[(16, 9)] * 2, victim=victim, max_num_batched_tokens=20, max_num_seqs=2)
    assert all(request.status == "completed" for request in result.requests)


@pytest.mark.parametrize("victim", Victim.labels())
def test_a_victim_policy_chooses_among_the_least_urgent(victim):
    urgent, not_urgent = {"priority": 0}, {"priority": 1}
    rows = [(8, 5, not_urgent), (4, 9, urgent), (7, 9, urgent)]
    assert victims(simulate(rows=rows, victim=victim, scheduler="priority")) == [0]
    # The only one of its level gives up its own blocks; the others are served.
    rows = [(8, 5, urgent), (4, 9, not_urgent), (7, 9, urgent)]
    result = simulate(rows=rows, victim=victim, scheduler="priority")
    assert victims(result) == [1]
    step = next(step for step in result.instances[0].steps if step.pre)
    assert step.sched == [(0, 1), (2, 1)]


def test_a_victim_that_was_served_gives_its_tokens_back_and_they_do_not_count():
    result = simulate(victim="most-computed")
    step = next(step for step in result.instances[0].steps if step.pre)
    assert step.sched == [(1, 1), (2, 1)]
    assert result.requests[0].done_before == 8
    assert result.requests[0].recomputed == 8


def test_what_was_computed_before_a_preemption_is_recomputed_once_for_each():
    result = simulate()
    preempted = result.requests[2]
    assert preempted.preemptions == 1
    assert preempted.recomputed == 7
    assert preempted.executed == 7 + 9 - 1 + 7
    for request in result.requests[:2]:
        assert (request.recomputed, request.executed) == (0, request.longest)


def test_hits_and_new_tokens_are_not_recomputed():
    """Request 2 comes back to its first block, and computes its own first output then."""
    result = simulate(rows=((8, 2), (4, 9), (7, 4)), enable_prefix_caching=True)
    preempted = result.requests[2]
    cached = preempted.admissions[1][1]
    assert cached == 4
    assert preempted.recomputed == 7 - cached
    assert preempted.executed == preempted.longest + 7 - cached


def test_a_second_preemption_counts_only_what_was_ever_computed():
    """Preempted in the middle of its recompute, it has not lost more than it had recomputed."""
    for victim in Victim.labels():
        rows = [(9, 20), (7, 20), (12, 20), (5, 20)]
        limits = {"max_num_batched_tokens": 6, "max_num_seqs": 4}
        result = simulate(rows=rows, gpu_blocks=9, victim=victim, **limits)
        assert sum(r.preemptions for r in result.requests) > 2
        for request in result.requests:
            assert request.executed == request.longest + request.recomputed
