"""LANE records: who writes them, and what is remembered of scenarios between batches."""

import ast
from pathlib import Path

import batches
import numpy as np
import pytest
import twin

import kvsweep
from kvsweep.config import DEFAULT_ENTROPY, Cluster, Latency, parse_scenario
from kvsweep.config.coefficients import step_fields
from kvsweep.config.fleet import fleet
from kvsweep.errors import InputError
from kvsweep.records import LANE
from kvsweep.simulate import kept, lane_records, simulate_batch
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.explicit_records import explicit_fields
from kvsweep.simulate.list_records import prepare_all
from kvsweep.simulate.routers import routing_fields
from kvsweep.workload.generate import generate_all


def scenarios(*counts):
    return tuple(batches.scenario({"cache": {"gpu_blocks": count}}) for count in counts)


def test_the_same_scenarios_are_laid_out_once():
    one, two = scenarios(100, 200)
    assert lane_records.lay_out((one, two)) is lane_records.lay_out((one, two))
    assert lane_records.lay_out((two, one)) is not lane_records.lay_out((one, two))
    assert lane_records.lay_out((two, one)).lanes["gpu_blocks"].tolist() == [200, 100]


def test_equal_scenarios_are_laid_out_each():
    first, second = (lane_records.lay_out(scenarios(100, 200)) for _ in range(2))
    assert first is not second
    assert first.lanes.tobytes() == second.lanes.tobytes()


def test_only_the_last_few_are_remembered():
    calls = []
    remembering = kept.kept(lambda made: calls.append(made) or len(made))
    many = [scenarios(100) for _ in range(kept.MOST_KEPT + 1)]
    for made in many:
        assert remembering(made) == 1
    remembering(many[-1])
    assert len(calls) == len(many)
    remembering(many[0])
    assert len(calls) == len(many) + 1


def test_a_batch_leaves_nothing_behind_for_the_next():
    made = scenarios(60, 120, 5000)

    def run(prune):
        return simulate_batch(
            made, range(3), entropy=DEFAULT_ENTROPY, policies=[None] * 3, base_dir=None, prune=prune
        )

    first = run(True)
    run(False)
    again = run(True)
    for name, values in first.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)


def test_a_budget_below_the_seats_never_reaches_the_kernel():
    """It counts decodes without a look at the budget, so it would be silently wrong."""
    engine = {"max_num_batched_tokens": 3, "max_num_seqs": 4}
    with pytest.raises(InputError, match="must be at least max_num_seqs"):
        parse_scenario({"engine": engine}, "here")
    made = batches.scenario()
    unchecked = made.model_copy(update={"engine": made.engine.model_copy(update=engine)})
    with pytest.raises(AssertionError, match="budget"):
        lane_records.lane_record(unchecked)
    enough = made.engine.model_copy(update=engine | {"max_num_seqs": 3})
    assert lane_records.lane_record(made.model_copy(update={"engine": enough}))["max_tokens"] == 3


@pytest.mark.parametrize(
    "cluster",
    [
        {"pools": [{"instances": 1, "max_num_seqs": 4}, {"instances": 2, "max_num_seqs": 8}]},
        {
            "prefill": {"instances": 1, "max_num_seqs": 4},
            "decode": {"instances": 1, "max_num_seqs": 32},
            "kv_transfer_bandwidth": 1.5,
        },
    ],
)
def test_pools_of_few_seats_may_have_a_small_budget(cluster):
    """Whatever the engine's own seats are, which no instance has."""
    sections = {"engine": {"max_num_batched_tokens": 32}, "cluster": cluster}
    made = parse_scenario({"latency": {"beta": [1000, 1, 1]}, **sections}, "here")
    record = lane_records.lane_record(made)
    assert record["max_num_seqs"] == max(pool.max_num_seqs for pool in fleet(made))
    assert record["max_tokens"] == 32
    sections["engine"] = {"max_num_batched_tokens": 3}
    with pytest.raises(InputError, match="must be at least max_num_seqs"):
        parse_scenario({"latency": {"beta": [1000, 1, 1]}, **sections}, "here")


def test_a_budget_of_just_the_seats_is_enough():
    """Two decode while a third computes its prompt, a token in each step: all of them by counts."""
    rows = [
        {"id": i, "arrival_us": 0, "prompt": [[i, tokens]], "output": [10 + i, 12]}
        for i, tokens in enumerate((1, 1, 9))
    ]
    engine = {"max_num_batched_tokens": 3, "max_num_seqs": 3}
    scenario = {"engine": engine, "cache": {"block_size": 4}, "latency": {"beta": [1000, 1, 1]}}
    trace = {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}
    assert list(twin.differences(trace)) == []
    steps = twin.run_kernel(trace).outputs.steps
    tokens = list(
        zip(steps["prefill_tokens"].tolist(), steps["decode_tokens"].tolist(), strict=True)
    )
    # A decode each, and the token that the budget still has for the prompt.
    assert tokens[0] == (3, 0)
    assert tokens[1:9] == [(1, 2)] * 8


PACKAGE = Path(kvsweep.__file__).parent
RECORDS = PACKAGE / "simulate" / "lane_records.py"


def fields_set(path):
    """Return the fields of LANE records that a file sets by name, and how many others it sets."""
    found, unnamed = set(), 0
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            continue
        while isinstance(node.value, ast.Subscript):
            node = node.value
        name = getattr(node.value, "attr", getattr(node.value, "id", ""))
        if name not in ("lane", "lanes"):
            continue
        if isinstance(node.slice, ast.Constant):
            found.add(node.slice.value)
        elif isinstance(node.slice, ast.Name):
            found |= LOOPED[node.slice.id]
        else:
            unnamed += 1
    return found, unnamed


# What the names of fields stand for that a loop sets.
ROLES = {
    "prefill": {"instances": 1},
    "decode": {"instances": 1},
    "kv_transfer_bandwidth": 1.0,
}
LOOPED = {
    "explicit_field": set(
        explicit_fields(parse_scenario({"cluster": ROLES}, "here"), connects=False)
    ),
    "routing_field": set(routing_fields(Cluster())),
    "step_field": set(step_fields(Latency())),
    "inside": {"beta5", "beta6", "memory5", "memory6"},
    "field": {"n_keys", "n_extents", "n_shared"},
    "flag": {"any_shared", "any_duplicates", "closed_loop"},
}


def test_lane_records_are_written_in_one_file():
    others = [path for path in PACKAGE.rglob("*.py") if path != RECORDS]
    assert len(others) > 200
    for path in others:
        assert fields_set(path) == (set(), 0), path


def test_every_field_of_a_lane_record_is_written_there():
    found, unnamed = fields_set(RECORDS)
    numbered = ("alpha", "first_step")
    coefficients = {name for name in LANE.names if name.startswith(numbered)}
    # `plain` is for benchmarks and tests alone.
    # and `role` is of an instance: kernel/explicit/beginning.py.
    assert found | coefficients | {"visit_all", "role"} == set(LANE.names)
    assert unnamed == 3  # coefficients: of delays, of first steps, and of a fit


def test_lists_whose_keys_just_count_have_the_same_ones():
    burst = batches.scenario()
    talk = batches.scenario({"workload": {"sessions": {"rounds": 3, "think_time_s": 0.1}}})
    counting = prepare_all(generate_all(burst.workload, range(2)), 16, 0)
    others = prepare_all(generate_all(talk.workload, range(2)), 16, 0)
    lists = [counting[0], others[0], others[1], counting[1]]
    inputs = build_inputs([burst], lists, np.arange(4)[:, None])
    longest = max(len(item.keys) for item in counting)
    assert len(inputs.keys) == longest + sum(len(item.keys) for item in others)
    for lane, item in zip(inputs.lanes, lists, strict=True):
        last = lane["request_lo"] + lane["requests"]
        begin = inputs.requests["key_lo"][lane["request_lo"]]
        moved = inputs.requests["key_lo"][lane["request_lo"] : last] - item.records["key_lo"]
        assert (moved == begin).all()
        assert np.array_equal(inputs.keys[begin : begin + len(item.keys)], item.keys)
