"""The JSON Schema of the sweep file takes what is valid and refuses what is not."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from sweeping import BASE

from kvsweep.cli import commands
from kvsweep.config import Scenario, load_sweep
from kvsweep.config.json_schema import leaves, sweep_schema
from kvsweep.config.schema import leaf_keys
from kvsweep.errors import InputError

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[1]
SCHEMA = sweep_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

IN_CLUSTER = '[latency]\nbeta = [9]\n[grid]\n"cache.gpu_blocks" = [100]\n[cluster]\n'
GRID = '[grid]\n"cache.gpu_blocks" = [100]\n'


def problems(text):
    return [error.json_path for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def test_it_is_a_schema():
    VALIDATOR.check_schema(SCHEMA)


def test_it_takes_the_sweeps_that_come_with_the_package():
    paths = sorted(ROOT.glob("sweeps/**/*.toml"))
    assert len(paths) > 40
    assert {path.name: found for path in paths if (found := problems(path.read_text()))} == {}


@pytest.mark.parametrize(
    "rest",
    [
        '[grid]\n"cache.gpu_blocks" = { start = 10, stop = 90, step = 20 }',
        '[grid]\n"workload.rate" = [5, { start = 10, stop = 90, num = 3, scale = "log" }]',
        '[policies.a]\ncluster.routing = "least-loaded"\n[policies.b]\n"engine.max_num_seqs" = 8\n'
        '[grid]\npolicy = ["a", "b", "round-robin"]\nseed = { count = 3 }',
        '[grid]\n"engine.enable_prefix_caching" = [true, false]\nseed = [1, { count = 1 }]',
        '[grid]\n"cache.gpu_blocks" = [90]\n'
        'seed = { until = { metric = "e2e_p99_ms", relative = 0.02, most = 99 } }',
        '[engine]\nspeculative = { tokens = 2, method = "eagle", acceptance = [0.7, 0.5] }\n'
        '[grid]\n"engine.speculative.acceptance" = [0.5, { start = 0.6, stop = 0.9, num = 2 }]',
        '[[workload.clients]]\nid = "a"\n[[workload.clients]]\nid = "b"\n'
        '[grid]\n"workload.clients.0.rate_fraction" = [0.5]',
        '[design]\nsamples = 2\n"workload.rate" = { from = 1, to = 9, log = true }\n'
        '"engine.scheduler" = ["fcfs", "sjf"]',
    ],
)
def test_it_takes_what_is_read(rest, tmp_path):
    (tmp_path / "sweep.toml").write_text(f"{BASE}{rest}\n")
    load_sweep(tmp_path / "sweep.toml")
    assert problems(f"{BASE}{rest}\n") == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{BASE}{GRID}[cach]\nblock_size = 16\n", "$"),
        (f"{BASE}{GRID}[cache]\nblock_sise = 16\n", "$.cache"),
        (f"{BASE}{GRID}[cache]\nblock_size = 0\n", "$.cache.block_size"),
        (f"{BASE}{GRID}[cache]\nblock_size = 16.5\n", "$.cache.block_size"),
        (f'{IN_CLUSTER}routing = "round-robbin"\n', "$.cluster.routing"),
        (f'{IN_CLUSTER}routing = "weighted"\nscorers = {{ load = 1 }}\n', "$.cluster.scorers"),
        (f"{BASE}{GRID}[engine]\nwatermark = 1.0\n", "$.engine.watermark"),
        (f'{BASE}{GRID}[cache]\nlink = "pcie3"\ncpu_blocks = 9\n', "$.cache.link"),
        (f'{BASE}[grid]\n"cache.gpu_block" = [100]\n', "$.grid"),
        (f'{BASE}[grid]\n"cache.gpu_blocks" = 100\n', "$.grid['cache.gpu_blocks']"),
        (f'{BASE}[grid]\n"cache.gpu_blocks" = {{ start = 1, stop = 5 }}\n',
         "$.grid['cache.gpu_blocks']"),
        (f"{BASE}{GRID}seed = [-1]\n", "$.grid.seed"),
        (f'{BASE}{GRID}seed = {{ until = {{ metric = "e2e_p99_ms" }} }}\n', "$.grid.seed"),
        (f"{BASE}{GRID}seed = {{ until = {{ relative = 0.1 }} }}\n", "$.grid.seed"),
        (f'{BASE}{GRID}seed = [{{ until = {{ metric = "e2e_p99_ms", relative = 0.1 }} }}]\n',
         "$.grid.seed"),
        (f'{BASE}[engine]\nspeculative = {{ tokens = 2, method = "eagle", acceptance = 0.5 }}\n'
         '[grid]\n"engine.speculative.acceptance" = [1.5]\n',
         "$.grid['engine.speculative.acceptance']"),
        (f'{BASE}{GRID}[policies.a]\nrouting = "round-robin"\n', "$.policies.a"),
        (f'{BASE}{GRID}[cliff]\nmetric = "preemption_rate"\nthreshold = 1.0\n', "$.cliff"),
        (f'{BASE}[grid]\npolicy = ["round-robin"]\n[pareto]\nobjectives = ["ttft_p99_ms"]\n',
         "$.pareto.objectives[0]"),
        (f'{BASE}{GRID}[design]\nsamples = 2\n"workload.rate" = {{ low = 1, high = 2 }}\n',
         "$.design['workload.rate']"),
    ],
)  # fmt: skip
def test_it_refuses_what_is_refused_and_says_where(text, place, tmp_path):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(InputError):
        load_sweep(tmp_path / "sweep.toml")
    assert problems(text)[0].startswith(place)


def test_another_name_of_a_preset_is_refused_and_a_file_is_not():
    text = '[latency]\nmodel = "{}"\n'
    assert problems(text.format("llama-3.1-8b/h100/tp2")) == []
    assert problems(text.format("mine.toml")) == []
    assert problems(text.format("llama-3.1-8b/h1000/tp2")) == ["$.latency.model"]


def test_every_key_has_its_meaning_and_unit():
    found = dict(leaves(SCHEMA))
    assert set(found) == set(leaf_keys(Scenario))
    assert [key for key, (_, leaf) in found.items() if not leaf.get("description")] == []
    _, blocks = found["cache.gpu_blocks"]
    assert blocks == {
        "type": "integer",
        "minimum": 1,
        "maximum": 268_435_456,
        "default": 2200,
        "description": "usable KV blocks per instance",
        "x-unit": "block",
    }
    tables = SCHEMA["properties"]
    assert all(tables[name]["description"] for name in tables)


def test_nothing_in_it_is_null_as_toml_has_none():
    assert "null" not in json.dumps(SCHEMA)


def test_the_command_prints_it_and_keeps_files(tmp_path):
    run = CliRunner().invoke(commands, ["schema"], catch_exceptions=False)
    assert json.loads(run.output) == SCHEMA
    file = tmp_path / "sweep.schema.json"
    CliRunner().invoke(commands, ["schema", "-o", str(file)], catch_exceptions=False)
    assert json.loads(file.read_text()) == SCHEMA
    words = ["schema", "-o", str(file), "--overwrite", "--json"]
    told = CliRunner().invoke(commands, words, catch_exceptions=False)
    assert json.loads(told.output) == {"schema": str(file)}
    file.write_text("mine")
    with pytest.raises(InputError, match="is there already; --overwrite replaces it"):
        CliRunner().invoke(commands, ["schema", "-o", str(file)], catch_exceptions=False)
    assert file.read_text() == "mine"
