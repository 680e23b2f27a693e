"""The registry of variables: what it says that a rule book gives is what its engine gives."""

import pickle

import numpy as np
import pytest
from sweeping import BASE, make_sweep

from kvsweep import grid, simulate
from kvsweep.config import DEFAULT_ENTROPY, Scenario
from kvsweep.config.axes import dimension_names
from kvsweep.dimensions import DIMENSIONS
from kvsweep.errors import InputError
from kvsweep.metrics import RUN_VARIABLES, VARIABLES, coordinates, request_columns
from kvsweep.metrics.per_request import Known, RequestVariable
from kvsweep.policies import BOTH, RULES, VLLM
from kvsweep.simulate.replica_cells import replicate
from kvsweep.simulate.request_lists import RequestLists
from kvsweep.simulate.shared_runs import shared_runs
from kvsweep.store import layout
from kvsweep.trace_replay import REQUEST_COLUMNS, run_replay

WORKLOAD = {
    "requests": 24,
    "rate": 50.0,
    "sessions": {"rounds": 2, "think_time_s": 0.1, "arrivals": "fixed"},
    "clients": [{"id": "a", "slo_class": "batch"}, {"id": "b", "slo_class": "critical"}],
}
ONLY_VLLM = {name for name, variable in VARIABLES.items() if variable.rules == VLLM}
OF_BLIS = '\n[engine]\nrules = "blis"\n[grid]\n"cache.gpu_blocks" = [2000, 3000]\n'


def scenario(rules):
    settings = {"engine": {"rules": rules}, "latency": {"beta": [1000, 10, 5]}}
    levels = {"ttft_ms": 50, "tpot_ms": 2.5, "classes": {"batch": {"e2e_ms": 900}}}
    return Scenario.model_validate(settings | {"workload": WORKLOAD, "slo": levels})


def cells(rules):
    """Return what an engine gives, before what is missing is filled in."""
    lists = RequestLists(DEFAULT_ENTROPY, None)
    lists.load([scenario(rules)], [0], [None])
    shared = shared_runs((scenario(rules),))
    levels = shared.levels(lists.slo_classes)
    return shared.spread(
        simulate._engine(rules, True)([scenario(rules)], [0], 1, lists, True, levels)
    )


@pytest.mark.parametrize("rules", RULES)
def test_an_engine_gives_the_variables_of_its_rule_book(rules):
    said = {name for name, variable in VARIABLES.items() if rules in variable.rules}
    found = set(cells(rules)) - {"status", "status_detail"}
    # A column of requests that the replica's records lack is there, without values.
    assert found - {variable.name for variable in RUN_VARIABLES} - said == set()
    assert said - found == set()


@pytest.mark.parametrize("rules", RULES)
def test_values_have_the_dimensions_and_types_that_are_said(rules):
    lengths = {"quantile": 4, "instance": 1, "round": 2, "slo_class": 2, "request": 24}
    for name, values in cells(rules).items():
        if variable := VARIABLES.get(name):
            assert values.shape == (1, 1, *(lengths[dim] for dim in variable.dims)), name
            assert values.dtype.kind == {"int64": "i", "float64": "f", "str": "O"}[variable.dtype]


def test_every_dimension_is_listed_once():
    used = {dim for variable in VARIABLES.values() for dim in variable.dims}
    assert used == set(DIMENSIONS)
    assert list(coordinates(instances=1, rounds=1, slo_classes=("a",), requests=1)) == [*DIMENSIONS]
    # Nor does an axis of a grid take such a name.
    assert dimension_names([f"workload.{dim}" for dim in DIMENSIONS]) == {
        f"workload.{dim}": f"workload_{dim}" for dim in DIMENSIONS
    }


def test_a_store_has_no_variable_that_no_cell_of_it_gives(tmp_path):
    assert {"cpu_hit_rate", "transfer_s"} <= ONLY_VLLM
    replica = grid.plan(make_sweep(tmp_path, BASE + OF_BLIS))
    assert not ONLY_VLLM & set(layout.names(replica))
    text = BASE + '\n[grid]\n"engine.rules" = ["blis", "vllm"]\n'
    both = grid.plan(make_sweep(tmp_path, text))
    assert {"cpu_hit_rate", "transfer_s"} <= set(layout.names(both))


def test_a_measure_of_other_rules_is_refused_before_anything_is_simulated(tmp_path):
    cliff = '[cliff]\nmetric = "transfer_s"\nalong = "gpu_blocks"\nthreshold = 1\n'
    message = r"cliff\.metric: 'transfer_s' needs cells with engine\.rules = 'vllm'$"
    with pytest.raises(InputError, match=message):
        grid.plan(make_sweep(tmp_path, BASE + OF_BLIS + cliff))


@pytest.mark.parametrize("rules", RULES)
def test_a_replay_has_the_columns_that_come_about_in_a_run(rules):
    requests = [{"id": i, "arrival_us": i, "prompt": [[1, 40]], "output": [2, 3]} for i in (0, 1)]
    settings = {"engine": {"rules": rules}, "latency": {"beta": [1000, 10, 5]}}
    trace = {"format": "kvsweep-trace/1", "scenario": settings, "requests": requests}
    found = run_replay(trace)
    assert list(found.requests) == list(REQUEST_COLUMNS)
    ds = found.to_dataset()
    for name, variable in REQUEST_COLUMNS.items():
        assert ds[name].attrs == {"units": variable.units, "long_name": variable.long_name}


def test_a_column_that_the_replica_lacks_has_no_values_there(monkeypatch):
    def listed(requests):
        return requests.prompt_tokens

    rows = (
        RequestVariable("request_a", ("request",), "int64", "1", "a", VLLM, kernel=lambda out: 0),
        RequestVariable("request_b", ("request",), "str", "1", "b", VLLM, kernel=lambda out: ""),
        RequestVariable("request_c", ("request",), "int64", "token", "c", BOTH, listed=listed),
    )
    monkeypatch.setattr(request_columns, "REQUEST_VARIABLES", rows)
    lists = RequestLists(DEFAULT_ENTROPY, None)
    lists.load([scenario("blis")], [0], [None])
    requests = lists.requests(0, 0)
    run = replicate(scenario("blis"), requests)
    columns = request_columns.replica_columns(scenario("blis"), requests, run)
    assert columns["request_a"].tolist() == [-1] * 24
    assert columns["request_b"].tolist() == [""] * 24
    np.testing.assert_array_equal(columns["request_c"], requests.prompt_tokens)


def test_times_of_the_replica_are_from_time_zero():
    """Its records count some from the arrival, and some with what the client sees later."""
    columns = {variable.name: variable for variable in RUN_VARIABLES}
    known = Known(arrival_us=1000, overhead_us=7, block_size=16, output_tokens=5)

    class Record:
        ttft_us, finish_us, admissions, cached_blocks_rle = 57, 90, 1, [[3, 1]]

    assert columns["request_first_token_us"].replica(Record, known) == 1050
    assert columns["request_finish_us"].replica(Record, known) == 1090
    assert columns["request_cached_tokens"].replica(Record, known) == 48
    assert columns["request_tpot_us"].replica(Record, known) == (90 + 7 - 57) / 4
    assert columns["request_tpot_us"].replica(Record, known._replace(output_tokens=1)) is None
    Record.ttft_us = Record.finish_us = None
    Record.admissions = 0
    for name in (
        f"request_{x}" for x in ("first_token_us", "finish_us", "cached_tokens", "tpot_us")
    ):
        assert columns[name].replica(Record, known) is None


@pytest.mark.parametrize("variable", VARIABLES.values(), ids=lambda variable: variable.name)
def test_variables_can_be_sent_to_workers_of_other_processes(variable):
    """`grid --requests` sends them, and functions without a name cannot be pickled."""
    assert pickle.loads(pickle.dumps(variable)) == variable


@pytest.mark.parametrize("name", ["mean_waiting", "mean_running"])
def test_requests_that_are_left_out_of_a_mean_are_told(name):
    """Those of a warm-up are, while blocks in use are everybody's: nothing told one from other."""
    assert VARIABLES[name].long_name.startswith("measured requests per instance")
