"""The protocol on a fake runtime whose clock moves by what is computed."""

import csv
import gc

import numpy as np
import pytest
from fake_runtime import PER_OUTPUT_TOKEN, PER_PROMPT_TOKEN, FakeRuntime

from kvsweep.errors import InputError
from kvsweep.llama import experiment
from kvsweep.llama.csvfiles import write_csv
from kvsweep.llama.dataset import POSITION, PROMPT_VARIABLES, TRIAL_VARIABLES
from kvsweep.llama.design import Design, parse_sizes
from kvsweep.llama.experiment import measure_prefix
from kvsweep.store import open_dataset, save_dataset

DESIGN = Design(parse_sizes("8:4,6:6,4:8"), trials=3, query=2, output=10)
CALLS_OF_A_TRIAL = 3


@pytest.fixture
def runtime(monkeypatch):
    return FakeRuntime().install(monkeypatch)


def test_a_hit_computes_the_query_and_a_miss_what_follows_a(runtime):
    ds = measure_prefix(runtime, DESIGN)
    b = ds["context_b"]
    hit, miss = (ds.sel(condition=name) for name in ("hit", "miss"))
    assert (hit["computed_tokens"] == 2).all()
    assert (miss["computed_tokens"] == b + 2).all()
    assert (hit["prompt_tokens"] == 12 + 2).all()
    assert (miss["prompt_tokens"] == b + 2).all()
    for ran in (hit, miss):
        expected = 1e3 * PER_PROMPT_TOKEN * ran["computed_tokens"]
        np.testing.assert_allclose(ran["ttft_ms"], expected)


def test_throughput_is_of_the_output_with_its_prompt_cached(runtime):
    ds = measure_prefix(runtime, DESIGN)
    # The fake computes one token of a cached prompt again; the tenth token ends the clock.
    seconds = PER_PROMPT_TOKEN + 9 * PER_OUTPUT_TOKEN
    np.testing.assert_allclose(ds["total_time_ms"], 1e3 * seconds)
    np.testing.assert_allclose(ds["throughput_tok_s"], 10 / seconds)
    assert (ds["completion_tokens"] == 10).all()
    assert (ds["finish_reason"] == "length").all()
    assert (ds["early_eos"] == 0).all()


def test_every_variable_has_a_unit_and_a_meaning(runtime):
    ds = measure_prefix(runtime, DESIGN)
    names = {variable.name for variable in (*TRIAL_VARIABLES, POSITION, *PROMPT_VARIABLES)}
    assert set(ds.data_vars) == names
    for array in ds.variables.values():
        assert array.attrs["units"]
        assert array.attrs["long_name"]


def test_the_dataset_says_where_it_comes_from(runtime):
    ds = measure_prefix(runtime, DESIGN)
    assert ds.attrs["runtime"] == "fake"
    assert (ds.attrs["seed"], ds.attrs["query_tokens"], ds.attrs["pause_ms"]) == (0, 2, 100.0)
    assert sorted(ds["position"].values.flat) == list(range(18))


@pytest.mark.parametrize("tokens", [0, 3])
def test_an_early_end_is_flagged_and_divides_nothing_by_zero(monkeypatch, tokens):
    ds = measure_prefix(FakeRuntime(end_after=tokens).install(monkeypatch), DESIGN)
    assert (ds["early_eos"] == 1).all()
    assert (ds["finish_reason"] == "stop").all()
    assert (ds["completion_tokens"] == tokens).all()
    assert np.isfinite(ds["ttft_ms"]).all()
    assert np.isnan(ds["throughput_tok_s"]).all() == (tokens == 0)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, InputError("llama.cpp failed")])
def test_trials_before_an_interruption_are_kept(monkeypatch, failure):
    rehearsed, ran = 2, 8
    runtime = FakeRuntime(fail_at=CALLS_OF_A_TRIAL * (rehearsed + ran) + 1, failure=failure)
    kept, told = [], []
    with pytest.raises((KeyboardInterrupt, InputError)):
        measure_prefix(
            runtime.install(monkeypatch),
            DESIGN,
            keep=lambda ds: kept.append(ds.copy(deep=True)),
            progress=lambda done, total: told.append((done, total)),
        )
    counts = [int((ds["position"] >= 0).sum()) for ds in kept]
    assert counts == [0, 6, 8]
    assert np.isfinite(kept[-1]["ttft_ms"]).sum() == 8
    assert (kept[-1]["completion_tokens"] == -1).sum() == 10
    assert told == [(done, 18) for done in range(9)]
    assert gc.isenabled()


def test_what_cannot_be_stored_is_known_before_the_first_trial(runtime):
    def keep(ds):
        raise InputError("nowhere")

    with pytest.raises(InputError, match="nowhere"):
        measure_prefix(runtime, DESIGN, keep=keep)
    assert next(runtime.calls) == CALLS_OF_A_TRIAL * 2


def test_a_runtime_that_keeps_what_it_should_forget_is_told(runtime, monkeypatch):
    monkeypatch.setattr(runtime, "clear", lambda: None)
    with pytest.raises(InputError, match=r"kept \d+ tokens when cleared"):
        measure_prefix(runtime, DESIGN)


def test_a_runtime_that_keeps_no_prefix_is_told(runtime, monkeypatch):
    monkeypatch.setattr(runtime, "computed_tokens", lambda: 14)
    with pytest.raises(InputError, match="computed 14 tokens of a prompt whose last 2 alone"):
        measure_prefix(runtime, DESIGN)


def test_nothing_is_collected_while_times_are_taken(runtime, monkeypatch):
    enabled = []
    run_trial = experiment.run_trial
    monkeypatch.setattr(
        experiment, "run_trial", lambda *a: enabled.append(gc.isenabled()) or run_trial(*a)
    )
    measure_prefix(runtime, DESIGN)
    assert not any(enabled)
    assert gc.isenabled()


def test_a_dataset_is_stored_and_read_back(runtime, tmp_path):
    store = tmp_path / "deep" / "m.zarr"
    ds = measure_prefix(runtime, DESIGN, keep=lambda ds: save_dataset(store, ds))
    read = open_dataset(store, ds.attrs["format"], "kvsweep measure prefix")
    assert read.equals(ds)
    assert read.attrs == ds.attrs
    assert [path.name for path in store.parent.iterdir()] == ["m.zarr"]


def test_csv_files_have_a_row_per_trial_and_per_prompt(runtime, tmp_path):
    ds = measure_prefix(runtime, DESIGN)
    ds["position"].values[0, 1, 2] = -1  # as if interrupted
    write_csv(ds, tmp_path / "csv")
    assert len(list((tmp_path / "csv").iterdir())) == 6
    with (tmp_path / "csv" / "results_a8_b4.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["trial"], row["condition"]) for row in rows] == [
        ("1", "hit"), ("1", "miss"), ("2", "hit"), ("2", "miss"), ("3", "hit"),
    ]  # fmt: skip
    assert list(rows[0]) == [
        "trial", "condition", "warmup_time_ms", "ttft_ms", "total_time_ms", "throughput_tok_s",
        "prompt_tokens", "completion_tokens", "finish_reason",
    ]  # fmt: skip
    assert float(rows[0]["ttft_ms"]) == pytest.approx(2.0)
    with (tmp_path / "csv" / "prompts_a4_b8.csv").open(newline="") as file:
        prompts = list(csv.DictReader(file))
    assert [(row["prompt_name"], row["token_count"]) for row in prompts] == [
        ("warmup", "12"), ("hit", "14"), ("miss", "10"),
    ]  # fmt: skip
    assert [len(row["prompt_text"].split()) for row in prompts] == [12, 14, 10]
    assert [len(row["sample_output"].split()) for row in prompts] == [6, 10, 10]


def test_csv_that_cannot_be_written_is_told(runtime, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_csv(measure_prefix(runtime, DESIGN), tmp_path / "file")
