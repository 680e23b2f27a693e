"""Every key of a scenario says what it holds, once: on its field."""

import contextlib
import typing

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from sweeping import BASE, make_sweep

from kvsweep import grid
from kvsweep.config import Scenario
from kvsweep.config.axes import about
from kvsweep.config.base import Key
from kvsweep.config.schema import leaf_keys
from kvsweep.dimensions import DIMENSIONS
from kvsweep.metrics import VARIABLES
from kvsweep.store.layout import arrays

UNITS = {"1", "token", "block", "request", "byte", "GiB", "s", "ms", "us"}
RATES = {"request/s", "token/s", "token/us", "GB/s"}


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in models_in(part)]


def fields_below(model, at=""):
    """Yield key, field and tables in it, of all that a scenario may have, also in lists."""
    for name, field in model.model_fields.items():
        tables = models_in(field.annotation)
        yield f"{at}{name}", field, tables
        for table in tables:
            yield from fields_below(table, f"{at}{name}.")


FIELDS = list(fields_below(Scenario))


def keys_of(field):
    return [item for item in field.metadata if isinstance(item, Key)]


def test_every_key_has_one_unit_and_one_meaning():
    for key, field, tables in FIELDS:
        found = keys_of(field)
        assert len(found) == 1 or (tables and not found), key
        for unit, meaning in found:
            assert unit in UNITS | RATES, key
            assert meaning, key
            assert meaning == meaning.strip(" ."), key
            assert meaning not in (key, key.rpartition(".")[2]), key


def test_all_keys_are_walked():
    walked = {key for key, _, _ in FIELDS}
    assert walked >= set(leaf_keys(Scenario))
    assert "workload.clients.sessions.patience_s" in walked
    assert {"workload.prompt.sigma", "workload.clients.output.weights"} <= walked


def test_the_distributions_mean_the_same_by_the_same_key():
    found = {}
    for key, field, _ in FIELDS:
        assert found.setdefault(key, keys_of(field)) == keys_of(field), key


def test_the_unit_of_a_key_is_that_of_its_name():
    endings = {"_us": "us", "_ms": "ms", "_s": "s", "_blocks": "block", "_tokens": "token"}
    for key, field, _ in FIELDS:
        for ending, unit in endings.items():
            if key.endswith(ending) and not key.endswith("_per_s"):
                assert [known.unit for known in keys_of(field)] == [unit], key


@pytest.mark.parametrize(
    ("key", "unit", "meaning"),
    [
        ("policy", "1", "policy"),
        ("seed", "1", "seed of the request list"),
        ("cluster.routing", "1", "routing of requests to instances"),
        ("workload.prompt.mean", "token", "prompts: mean length"),
        ("workload.clients.1.slo_class", "1", "client 1: SLO class"),
        ("workload.clients.0.output.max", "token", "client 0: outputs: largest length"),
        ("cluster.scorers.queue-depth", "1", "weight in weighted routing: queue-depth"),
        ("latency.beta.1", "us", "coefficient of the step time 1"),
    ],
)
def test_an_axis_is_named_by_the_fields_on_its_way(key, unit, meaning):
    assert about(key) == Key(unit, meaning)


TIER = """
[cache]
cpu_blocks = 500
[workload.sessions]
rounds = 2
think_time_s = 1.0
"""


@pytest.mark.parametrize(
    ("key", "unit", "meaning"),
    [
        ("cache.transfer_bandwidth", "token/us", "tokens moved between GPU and CPU"),
        ("workload.sessions.think_time_s", "s", "time between two rounds of a session"),
    ],
)
def test_a_store_has_unit_and_meaning_of_an_axis(tmp_path, key, unit, meaning):
    other = "" if key.startswith("cache") else '"cache.transfer_bandwidth" = [100.0]\n'
    sweep = make_sweep(tmp_path, f'{BASE}{TIER}[grid]\n{other}"{key}" = [1.0, 2.0]\n')
    made = arrays(grid.plan(sweep))[key.rpartition(".")[2]]
    assert made.attributes == {"units": unit, "long_name": meaning}


def test_the_other_dimensions_are_those_of_the_measures():
    assert DIMENSIONS.keys() == {dim for v in VARIABLES.values() for dim in v.dims}


@pytest.mark.parametrize("value", [True, "5", 5.0])
def test_no_key_takes_a_value_for_one_of_another_type(value):
    for key, field, _ in FIELDS:
        with contextlib.suppress(ValidationError):
            taken = TypeAdapter(typing.Annotated[field.annotation, field]).validate_python(value)
            assert type(taken) is type(value), key
