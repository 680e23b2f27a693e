"""Other victims, and what is recomputed: the kernel on cases small enough to count by hand."""

import pytest
import twin

from kvsweep.config import Scenario
from kvsweep.policies import Status, Victim
from kvsweep.records import Event
from kvsweep.simulate import simulate_batch

# As in test_naive_victims: in step 1 request 1 lacks a block. Known tokens are 9, 5 and 8 then.
ROWS = ((8, 5), (4, 9), (7, 9))


def trace_of(rows=ROWS, gpu_blocks=6, **engine):
    """Return requests of (prompt, output tokens[, more keys]), all at time 0, without cache."""
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
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}


def first_victim(trace):
    events = twin.run_kernel(trace).outputs.events
    return int(events["request"][events["kind"] == Event.PREEMPT][0])


@pytest.mark.parametrize(
    ("victim", "chosen"),
    [
        ("last", 2),
        ("least-computed-first", 1),
        ("least-computed-other", 2),
        ("most-computed", 0),
        ("cost-aware", 0),
        ("fewest-remaining", 0),
    ],
)
def test_who_is_preempted(victim, chosen):
    assert first_victim(trace_of(victim=victim)) == chosen


@pytest.mark.parametrize("victim", Victim.labels())
def test_the_kernel_preempts_as_the_twin_does(victim):
    """Short of blocks all the time: in decodes, in prefills of several steps, by priority."""
    ranked = [(9, 20, {"priority": i % 2}) for i in range(6)]
    chunks = {"max_num_seqs": 4, "max_num_batched_tokens": 6, "reserve_full_prompt": False}
    for trace in (
        trace_of(victim=victim),
        trace_of(ranked, 12, victim=victim, scheduler="priority"),
        trace_of([(9, 20), (7, 20), (12, 20), (5, 20)], 9, victim=victim, **chunks),
        trace_of([(3 + i, 30) for i in range(8)], 40, victim=victim, enable_prefix_caching=True),
    ):
        assert twin.run_kernel(trace).outputs.progress["preemptions"].sum() > 0
        assert list(twin.differences(trace)) == []


def test_blocks_that_others_hold_too_are_no_gain():
    """Request 2 lacks a block in step 2. The others gain more, 4 blocks of 16 tokens against 17.

    But where they share three blocks they gain one each.
    """
    lengths = [(14, 9), (14, 9), (15, 9)]
    assert first_victim(trace_of(lengths, 12, victim="cost-aware")) == 1
    trace = trace_of(lengths, 9, victim="cost-aware", enable_prefix_caching=True)
    for i, row in enumerate(trace["requests"][:2]):
        row["prompt"] = [[7, 12], [i, 2]]
    assert first_victim(trace) == 2
    assert list(twin.differences(trace)) == []


def test_recomputed_tokens_are_counted_and_shared_among_the_computed():
    found = twin.run_kernel(trace_of()).outputs
    assert found.progress["recomputed"].tolist() == [0, 0, 7]
    tally = found.tallies[0]
    assert tally["recomputed_tokens"] == 7
    assert tally["computed_tokens"] == (8 + 4) + (4 + 8) + (7 + 8) + 7


def test_cells_tell_recomputed_tokens_of_measured_requests():
    workload = {
        "requests": 3,
        "concurrency": 3,
        "prompt": {"dist": "constant", "value": 8},
        "output": {"dist": "constant", "value": 9},
    }
    cell = {
        "workload": workload,
        "cache": {"block_size": 4, "gpu_blocks": 6},
        "engine": {"enable_prefix_caching": False},
        "latency": {"beta": [10]},
    }
    later = cell | {"workload": workload | {"warmup": 2}}
    ample = cell | {"cache": {"block_size": 4, "gpu_blocks": 60}}
    cells = [Scenario.model_validate(data) for data in (cell, later, ample)]
    found = simulate_batch(
        cells, [0], entropy=1, policies=[None] * 3, base_dir=None, keep_requests=True
    )
    assert (found["status"] == Status.OK).all()
    again = found["request_recomputed_tokens"][:, 0]
    assert found["recomputed_tokens"][:, 0].tolist() == [again[0].sum(), again[1, 2], 0]
    assert again[0].sum() > 8
    assert found["recompute_share"][0, 0] == again[0].sum() / (again[0].sum() + 3 * 16)
    assert found["recompute_share"][1, 0] == again[1, 2] / (again[1, 2] + 16)
    assert found["recompute_share"][2, 0] == 0


def test_a_circle_of_victims_is_stopped_and_told():
    """Two prefills that do not fit together: who comes back takes the other's place."""
    engine = {"max_num_seqs": 2, "max_num_batched_tokens": 2, "long_prefill_token_threshold": 1}
    trace = trace_of(
        [(14, 2), (14, 2)], 4, victim="most-computed", reserve_full_prompt=False, **engine
    )
    found = twin.run_kernel(trace)
    assert found.status is Status.STEP_LIMIT
    assert "victims other than the last" in found.detail
