"""Calibration on first-token times with and without a cached prefix."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from kvsweep.calibrate.direct import fit_prefix, not_told, simulate_first_token
from kvsweep.calibrate.prefix_results import calibrate_prefix
from kvsweep.calibrate.prefix_trials import Measured, Trial, is_prefix, read_prefix
from kvsweep.calibrate.wording import prefix_json, prefix_text
from kvsweep.cli import main
from kvsweep.config import Latency
from kvsweep.errors import InputError
from kvsweep.llama.dataset import FORMAT
from kvsweep.store import save_dataset

TOKENS = "condition,ttft_ms,prompt_tokens,throughput_tok_s\nhit,1,{},{}\n"

# The table of the seed: a GTX 1650, ms by contexts A and B.
TABLE = {(512, 256): (28, 150), (384, 384): (29, 221), (256, 512): (28, 281)}

TRUTH = Latency(alpha=(2000.0,), beta=(5000.0, 300.0, 0.0, 0.4, 0.05))


def write_table(folder):
    for (a, b), (hit, miss) in TABLE.items():
        text = f"condition,ttft_ms\nhit,{hit}\nmiss,{miss}\n"
        (folder / f"results_a{a}_b{b}.csv").write_text(text)


def made(a, b, condition, noise=1.0):
    """Return a trial as the simulation gives it."""
    prompt = b + 32 + (a if condition == "hit" else 0)
    trial = Trial(a, b, condition, prompt, 1.0, np.nan, 50)
    token = (TRUTH.beta[0] + TRUTH.beta[3] * (prompt - 1 + 49 / 2)) / 1e3
    return trial._replace(ttft_ms=simulate_first_token(TRUTH, trial) * noise, token_ms=token)


def test_the_seeds_table_is_fitted_and_predicted(tmp_path):
    write_table(tmp_path)
    found = calibrate_prefix(tmp_path, read_prefix(tmp_path), {"model": "GPT-2"})
    fitted = {(c.trial.size, c.trial.condition): c.fitted_ms / c.measured_ms for c in found.cells}
    predicted = {
        (c.trial.size, c.trial.condition): c.predicted_ms / c.measured_ms for c in found.cells
    }
    assert max(abs(ratio - 1) for ratio in fitted.values()) < 0.03
    assert predicted["384:384", "miss"] == pytest.approx(1, abs=0.04)  # between the other two
    assert predicted["256:512", "miss"] == pytest.approx(1, abs=0.08)  # beyond them
    assert found.preset.model == "GPT-2"
    assert "each size predicted from the others" in found.preset.fit


def test_known_coefficients_are_found_again():
    sizes = ((512, 256), (384, 384), (256, 512))
    trials = [made(a, b, condition) for a, b in sizes for condition in ("hit", "miss")]
    found = fit_prefix(trials)
    assert found.alpha[0] == pytest.approx(TRUTH.alpha[0], rel=0.02)
    assert found.beta == pytest.approx(TRUTH.beta, rel=0.02)


def test_an_outlier_moves_little():
    sizes = ((512, 256), (384, 384), (256, 512))
    trials = [made(a, b, c) for a, b in sizes for c in ("hit", "miss") for _ in range(10)]
    found = fit_prefix([*trials, made(384, 384, "miss", noise=3.0)])
    assert found.beta[1] == pytest.approx(TRUTH.beta[1], rel=0.02)


def test_what_is_cached_is_found_by_the_simulated_engine():
    """A hit computes the query only, whatever the trial says of its times."""
    beta = Latency(beta=(0.0, 1000.0))
    trial = Trial(100, 50, "hit", 170, 1.0, np.nan, 1)
    assert simulate_first_token(beta, trial) == 20.0
    assert simulate_first_token(beta, trial._replace(condition="miss", prompt=70)) == 70.0


def stored():
    """Return what `kvsweep measure prefix` stores, as far as it is used."""
    shape = (2, 2, 3)
    ttft = np.full(shape, 10.0)
    ttft[0, 1, 2] = np.nan  # a trial that was not run
    dims = ("size", "condition", "trial")
    return xr.Dataset(
        {
            "ttft_ms": (dims, ttft),
            "throughput_tok_s": (dims, np.full(shape, 200.0)),
            "prompt_tokens": (dims, np.full(shape, 90)),
            "completion_tokens": (dims, np.full(shape, 50)),
        },
        coords={
            "size": np.array(["40:20", "20:40"], object),
            "condition": np.array(["hit", "miss"], object),
            "context_a": ("size", [40, 20]),
            "context_b": ("size", [20, 40]),
        },
        attrs={"format": FORMAT, "model_name": "tiny", "cpu": "Xeon", "threads": 2},
    )


def test_a_store_is_read_as_csv_is(tmp_path):
    save_dataset(tmp_path / "p.zarr", stored())
    measured = read_prefix(tmp_path / "p.zarr")
    assert len(measured.trials) == 11
    assert measured.sizes == ["40:20", "20:40"]
    assert measured.about["model_name"] == "tiny"
    first = measured.trials[0]
    assert (first.a, first.b, first.cached, first.computed) == (40, 20, 60, 30)
    assert first.token_ms == 5.0
    preset = calibrate_prefix(tmp_path, measured, {}).preset
    assert (preset.model, preset.hardware) == ("tiny", "Xeon, threads: 2")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("results_a1_b2.csv", "condition,ttft_ms\nwarm,1\n", ":2: condition: 'warm' is not hit"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,soon\n", ":2: ttft_ms: expected a number of"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,1\nhit,\n", ":3: ttft_ms: expected a number"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,0\n", ":2: ttft_ms: expected more than 0"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,-3\n", ":2: ttft_ms: expected a number of"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,nan\n", ":2: ttft_ms: expected more than 0"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,inf\n", ":2: ttft_ms: expected a number of"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,1e99\n", ":2: ttft_ms: expected more than 0"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,1,2\n", ":2: 3 fields, expected 2 as in"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit\n", ":2: 1 fields, expected 2 as in"),
        ("results_a1_b2.csv", "condition,ttft_ms,ttft_ms\n", ":1: duplicate column 'ttft_ms'"),
        ("results_a1_b2.csv", TOKENS.format(0, 5), ":2: prompt_tokens: expected an integer from 1"),
        (
            "results_a9_b2.csv",
            TOKENS.format(10, 5),
            ":2: prompt_tokens: 10 are less than the 11 of A",
        ),
        ("results_a1_b2.csv", TOKENS.format("1_0", 5), ":2: prompt_tokens: expected an integer fr"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,1_0\n", "expected a number of at least 0, g"),
        ("results_a1_b2.csv", "condition,ttft_ms\nhit,٣\n", "expected a number of at least 0, go"),
        ("results_a1_b2.csv", TOKENS.format("7.5", 5), ":2: prompt_tokens: expected an integer"),
        ("results_a1_b2.csv", TOKENS.format(10**9, 5), ":2: prompt_tokens: expected an integer"),
        ("results_a1_b2.csv", TOKENS.format(7, -5), ":2: throughput_tok_s: expected a number"),
        ("results_a0_b2.csv", "condition,ttft_ms\nhit,1\n", ":2: context A: expected an integer"),
        ("results_a1_b99999999.csv", "condition,ttft_ms\nhit,1\n", ":2: context B: expected an"),
        ("results_a1_b2.csv", "condition\0", ":1: not a text file: it has a NUL byte"),
        ("results_a1_b2.csv", "trial,ttft\n1,2\n", ":1: missing column condition"),
        ("results_a1_b2.csv", "", "results_a1_b2.csv: is empty: expected columns condition and"),
        ("results_a1_b2.csv", "condition,ttft_ms\n\n", "results_a1_b2.csv: no trials: expected"),
        (
            "results_a1_b2.csv",
            "condition;ttft_ms\nhit;1\n",
            ":1: missing column condition: expected columns that commas separate, got 'condition;",
        ),
        ("results_a1_b2.csv.gz", "", "results_a1_b2.csv.gz: is compressed: unpack it first"),
        ("prompts_a1_b2.csv", "prompt_name,token_count\nA,1\n", "no measurements: expected a st"),
        (
            "results_a1_b2.csv",
            "condition,ttft\nhit,2\n",
            ":1: missing column ttft_ms; did you",
        ),
        ("notes.txt", "hello", "no measurements: expected a store of"),
    ],
)
def test_what_is_no_measurement_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as caught:
        read_prefix(tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.drop_vars("ttft_ms"), "no variable 'ttft_ms' of size, condition, trial"),
        (lambda ds: ds.isel(trial=0), "no variable 'ttft_ms' of size, condition, trial"),
        (lambda ds: ds.drop_vars("context_b"), "no variable 'context_b' of size"),
        (lambda ds: ds.assign(ttft_ms=-ds["ttft_ms"]), "trial 1 of 40:20: ttft_ms: expected a num"),
        (
            lambda ds: ds.assign(prompt_tokens=ds["ttft_ms"] / 0),
            "of 40:20: prompt_tokens: ",
        ),
        (
            lambda ds: ds.assign_coords(condition=np.array(["hit", "mis"], object)),
            "condition: 'mis' is not hit or mi",
        ),
        (lambda ds: ds.assign_coords(context_a=ds["context_a"] - 40), "context A: expected an int"),
    ],
)
def test_a_store_of_what_cannot_be_is_refused(tmp_path, change, message):
    save_dataset(tmp_path / "p.zarr", change(stored()))
    with pytest.raises(InputError) as caught:
        read_prefix(tmp_path / "p.zarr")
    assert message in str(caught.value)


def test_a_table_of_another_name_is_told_what_its_name_should_say(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("condition,ttft_ms\nhit,1\n")
    assert is_prefix(path)
    with pytest.raises(InputError, match=r"_aA_bB\.csv, the .*; for a log of .*--read format=csv$"):
        read_prefix(path)


def test_compressed_copies_and_prompts_are_left_out(tmp_path):
    write_table(tmp_path)
    before = read_prefix(tmp_path)
    for name in ("results_a512_b256.csv.gz", "prompts_a512_b256.csv.gz"):
        (tmp_path / name).write_bytes(b"packed")
    assert read_prefix(tmp_path) == before
    (tmp_path / "results_a512_b256.csv").unlink()
    with pytest.raises(InputError, match=r"results_a512_b256\.csv\.gz: is compressed: unpack it"):
        read_prefix(tmp_path)


@pytest.mark.parametrize("column", ["timestamp", "TIMESTAMP", "arrival_ms"])
@pytest.mark.parametrize(
    ("name", "columns", "trials"),
    [
        ("results_a1_b2.csv", "condition,ttft_ms", True),
        ("results_a1_b2.csv", "condition,ttft_ms,prompt_tokens", True),
        ("results_a1_b2.csv", "condition,ttft_ms,prompt_tokens,output_tokens", False),
        ("results_a1_b2.csv", "condition,ttft_ms,ContextTokens,GeneratedTokens", False),
        ("results_a1_b2.csv", "condition,latency_ms", False),
        ("results.csv", "condition,ttft_ms", False),
    ],
)
def test_trials_may_say_when_they_began(tmp_path, column, name, columns, trials):
    path = tmp_path / name
    path.write_text(f"{columns},{column}\n")
    assert is_prefix(path) == trials
    assert not is_prefix(path, ("format=csv",))


def test_blanks_after_commas_are_no_part_of_names_and_values(tmp_path):
    (tmp_path / "results_a1_b2.csv").write_text("trial, condition, ttft_ms\n1, hit, 3\n")
    (trial,) = read_prefix(tmp_path).trials
    assert (trial.condition, trial.ttft_ms) == ("hit", 3)


def test_a_trial_without_output_is_read(tmp_path):
    """So `kvsweep measure prefix --csv` writes one that ended at once: no tokens, no throughput."""
    text = "condition,ttft_ms,throughput_tok_s,completion_tokens\nhit,1,nan,0\nmiss,2,,\n"
    (tmp_path / "results_a1_b2.csv").write_text(text)
    trials = read_prefix(tmp_path / "results_a1_b2.csv").trials
    assert [np.isnan(trial.token_ms) for trial in trials] == [True, True]


def test_one_size_predicts_nothing(tmp_path):
    trials = [made(512, 256, condition) for condition in ("hit", "miss")]
    found = calibrate_prefix(tmp_path, Measured(trials, {}), {})
    assert all(np.isnan(cell.predicted_ms) for cell in found.cells)
    assert "nothing held out" in found.preset.fit


def test_logs_and_packed_trials_are_told_where_they_go(tmp_path, capsys):
    """A packed file of trials was said to lack Azure's columns."""
    packed = tmp_path / "r_a1_b2.csv.gz"
    packed.write_bytes(b"")
    log = tmp_path / "log.csv"
    log.write_text("condition,ts\nx,1\n")
    told = (
        ([packed], "is compressed: unpack it first"),
        ([log, "--set", "cache.gpu_blocks=9"], "log of requests, say --read format=csv"),
        ([tmp_path], "is compressed: unpack it first"),
    )
    for words, message in told:
        with pytest.raises(SystemExit):
            main(["calibrate", *map(str, words)])
        assert message in capsys.readouterr().err


def test_a_time_below_a_nanosecond_is_no_measurement(tmp_path):
    """NumPy told of an overflow in the fit."""
    path = tmp_path / "r_a1_b2.csv"
    path.write_text("condition,ttft_ms\nhit,1e-300\n")
    with pytest.raises(InputError, match=r":2: ttft_ms: expected at least 1e-06 and at most"):
        read_prefix(path)


def test_trials_of_a_size_that_no_name_tells_are_not_left_out(tmp_path):
    write_table(tmp_path)
    (tmp_path / "results_a256_bX.csv").write_text("condition,ttft_ms\nhit,3\n")
    with pytest.raises(InputError, match=r"results_a256_bX\.csv: has trials, and its name does"):
        read_prefix(tmp_path)
    (tmp_path / "results_a256_bX.csv").write_text("mean,median\n3,4\n")  # of something else
    assert len(read_prefix(tmp_path).trials) == 2 * len(TABLE)


def test_coefficients_that_trials_do_not_tell_are_named(tmp_path):
    """Of one size others than the true ones fit as exactly; of three none do."""
    write_table(tmp_path)
    sizes = ((512, 256), (384, 384), (256, 512))
    trials = [made(a, b, condition) for a, b in sizes for condition in ("hit", "miss")]
    one = trials[:2]
    found = calibrate_prefix(tmp_path, Measured(one, {}), {})
    assert (found.latency.alpha[0], found.latency.beta[4]) == (pytest.approx(3151, abs=1), 0.0)
    assert [cell.fitted_ms for cell in found.cells] == pytest.approx(
        [trial.ttft_ms for trial in one], rel=1e-4
    )
    named = "alpha[0], beta[1], beta[4]: not told apart by trials of these lengths"
    (told,) = found.cautions
    assert told.startswith(named)
    assert told in prefix_text(found)
    assert prefix_json(found)["cautions"] == [told]
    assert calibrate_prefix(tmp_path, Measured(trials, {}), {}).cautions == ()

    (untimed,) = calibrate_prefix(tmp_path, read_prefix(tmp_path), {}).cautions
    assert untimed.startswith("no output tokens were timed: beta[0] has what alpha[0] takes")
    hits = [trial._replace(token_ms=np.nan) for trial in trials if trial.condition == "hit"]
    assert "beta[0], beta[1], beta[4]: not told" in " ".join(not_told(hits))


def test_trials_of_a_size_may_have_queries_of_several_lengths():
    """The median of all was compared with what the first one takes, and a right fit called bad."""
    longer = [made(a, a, kind) for a in (256, 512, 1024) for kind in ("hit", "miss")]
    trials = []
    for one in longer:
        for query in (600, 32, 32, 32, 32):
            prompt = one.prompt - 32 + query
            trial = one._replace(prompt=prompt, token_ms=np.nan)
            trials.append(trial._replace(ttft_ms=simulate_first_token(TRUTH, trial)))
    found = calibrate_prefix(Path("t"), Measured(trials, {}), {})
    assert found.problems == ()
    assert all(cell.fitted_ms == pytest.approx(cell.measured_ms, rel=0.01) for cell in found.cells)
    assert [cell.trial.prompt for cell in found.cells] == [one.prompt for one in longer]
