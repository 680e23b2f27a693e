import json
import sys
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime

from kvsweep.cli import progress
from kvsweep.llama import llama_load

pytestmark = pytest.mark.slow

SMALL = ("measure", "prefix", "--model", "m.gguf", "--sizes", "8:4,6:6", "--trials", "3",
         "--query-tokens", "2")  # fmt: skip
STORE = "results/prefix-m.zarr"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def load(monkeypatch):
    """Return a function that puts a fake in place of llama.cpp; it returns what was asked for."""

    def install(**options):
        asked = []
        runtime = FakeRuntime(**options).install(monkeypatch)
        monkeypatch.setattr(
            llama_load, "load_llama", lambda *a, **named: asked.append((a, named)) or runtime
        )
        return asked

    return install


def test_a_measurement_is_printed_stored_and_drawn(run, load):
    asked = load()
    code, out, err = run(*SMALL, "--threads", "3", "--gpu-layers", "-1", "--csv", "csv")
    assert code == 0
    assert "warning" not in err
    assert "A miss costs 1 ms per token of B: R2 1.000 of all trials." in out
    assert "its slope over B is 0.0% of the miss's" in out
    assert f"store: {STORE}" in out
    assert Path("results/prefix-m-prefix.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(Path("csv").iterdir())) == 4
    assert asked == [((Path("m.gguf"), 12 + 2 + 50), {"threads": 3, "gpu_layers": -1})]


def test_json_has_the_findings_and_the_files(run, load):
    load()
    code, out, _ = run(*SMALL, "--out", "other.zarr", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["store"] == "other.zarr"
    assert found["miss"]["slope"] == pytest.approx(1.0)
    assert [size["label"] for size in found["sizes"]] == ["8:4", "6:6"]
    assert found["sizes"][0]["ttft_ms"]["miss"]["median"] == pytest.approx(6.0)


def test_a_stored_measurement_is_shown_and_drawn_again(run, load):
    load()
    first = run(*SMALL)[1]
    code, out, _ = run("show", STORE)
    assert code == 0
    assert first.startswith(out.rstrip())
    assert json.loads(run("show", STORE, "--json")[1])["trials"] == 12
    assert run("plot", STORE, "prefix", "-o", "p.svg") == (0, "p.svg\n", "")
    assert "<svg" in Path("p.svg").read_text()
    assert "--at: has no effect on a store of measurements" in run("show", STORE, "--at", "a=1")[2]


def test_a_store_is_replaced_only_when_told(run, load):
    load()
    run(*SMALL)
    code, out, err = run(*SMALL)
    assert (code, out) == (2, "")
    assert err == (
        f"kvsweep: {STORE}: exists; --overwrite replaces it, --out names another store\n"
    )
    code, out, _ = run(*SMALL, "--overwrite", "--seed", "7", "--sleep-ms", "0")
    assert code == 0


def test_something_else_is_never_replaced(run, load):
    load()
    Path("folder").mkdir()
    code, _, err = run(*SMALL, "--out", "folder", "--overwrite")
    assert code == 2
    assert "folder: is no store of kvsweep and is not overwritten" in err


def test_ctrl_c_keeps_the_trials_so_far(run, load):
    load(fail_at=3 * (2 + 5))
    code, out, err = run(*SMALL)
    assert (code, out) == (1, "")
    assert f"interrupted; 5 of 12 trials are in {STORE}\n" in err
    assert "Traceback" not in err
    code, out, _ = run("show", STORE, "--json")
    assert code == 0
    assert json.loads(out)["trials"] == 5


def test_ctrl_c_before_the_first_trial_leaves_nothing(run, load):
    load(fail_at=0)
    code, out, err = run(*SMALL)
    assert (code, out, err.rstrip()) == (1, "", "interrupted; no trial was done")
    assert not Path(STORE).exists()


def test_outputs_that_end_at_once_are_warned_of(run, load):
    load(end_after=0)
    code, out, err = run(*SMALL)
    assert code == 0
    assert "\nwarning: 12 of 12 outputs ended before 50 tokens" in err
    assert err.count("\n") == 2
    assert "Throughput of the output: none" in out


def test_texts_that_make_other_tokens_are_warned_of(run, load, monkeypatch):
    load()
    monkeypatch.setattr(FakeRuntime, "detokenize", lambda self, tokens: " a")
    code, _, err = run(*SMALL)
    assert code == 0
    assert "\nwarning: 6 of 6 prompts, sent as tokens, have a text" in err


def test_progress_is_told_trial_by_trial(run, load, monkeypatch):
    load()
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    err = run(*SMALL)[2]
    assert "3 of 12 trials, " in err
    assert "12 of 12 trials, " in err


def test_without_the_extra_the_command_that_installs_it_is_told(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    code, out, err = run(*SMALL)
    assert (code, out) == (2, "")
    assert err == "kvsweep: measuring needs llama.cpp: pip install 'kvsweep[llama]'\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sizes", "8"), "--sizes: '8' is not A:B"),
        (("--trials", "0"), "'--trials'"),
        (("--threads", "0"), "'--threads'"),
    ],
)
def test_bad_options_are_told_in_one_line(run, load, options, message):
    load()
    code, out, err = run(*SMALL, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_stores_of_the_two_kinds_are_not_confused(run, load):
    load()
    run(*SMALL)
    assert "attribute `format` is not 'kvsweep-store/2'" in run("plot", STORE)[2]
    err = run("plot", "none.zarr", "prefix")[2]
    assert err == "kvsweep: none.zarr: no such store; `kvsweep measure prefix` makes one\n"


def test_make_model_writes_a_file_once(run):
    pytest.importorskip("gguf", reason="the extra kvsweep[llama] is not installed")
    small = ("measure", "make-model", "m.gguf", "--layers", "1", "--dim", "16", "--heads", "2",
             "--context", "32", "--vocab", "300")  # fmt: skip
    code, out, err = run(*small)
    size = Path("m.gguf").stat().st_size
    assert (code, out, err) == (0, f"m.gguf: {size:,} bytes\n", "")
    first = Path("m.gguf").read_bytes()
    assert run(*small)[::2] == (
        2,
        "kvsweep: FILE m.gguf: is there already; --overwrite replaces it\n",
    )
    told = json.loads(run(*small, "--overwrite", "--seed", "1", "--json")[1])
    assert (told["file"], told["bytes"], told["seed"]) == ("m.gguf", size, 1)
    assert Path("m.gguf").read_bytes() != first


def test_a_misspelt_subcommand_is_suggested(run):
    assert "no command 'prefx'; did you mean 'prefix'?" in run("measure", "prefx")[2]


def test_a_file_in_the_place_of_the_folder_is_told_before_anything_is_measured(run, load):
    asked = load()
    Path("mine").write_text("a")
    code, out, err = run(*SMALL, "--csv", "mine")
    assert (code, out, asked) == (2, "", [])
    assert err == "kvsweep: --csv mine: is a file; name a folder\n"


@pytest.mark.parametrize(
    "asked",
    [
        ("--sleep-ms", f"{10**30}"),
        ("--threads", "100000"),
        ("--trials", f"{10**11}"),
        ("--gpu-layers", f"{2**31}"),
    ],
)
def test_numbers_that_no_machine_has_are_told(run, load, asked):
    """A rest was an internal error, threads ended the process, trials were called out of memory."""
    began = load()
    code, _, err = run(*SMALL, *asked)
    assert (code, began) == (2, [])
    assert f"Invalid value for '{asked[0]}'" in err


@pytest.mark.parametrize("option", ["--dim", "--layers", "--heads", "--context", "--vocab"])
def test_a_model_larger_than_any_is_told(run, option):
    code, _, err = run("measure", "make-model", "m.gguf", option, f"{10**20}")
    assert code == 2
    assert f"Invalid value for '{option}'" in err


def test_a_store_of_another_kind_is_named_as_one_and_kept(run, load):
    load()
    assert run(*SMALL)[0] == 0
    root = Path(STORE, "zarr.json")
    root.write_text(root.read_text().replace("kvsweep-prefix/1", "kvsweep-steps/1"))
    code, _, err = run(*SMALL, "--overwrite")
    assert code == 2
    assert "is a store of another kind and is not overwritten; name another" in err


def test_a_damaged_measurement_is_told_with_the_option_that_replaces_it(run, load):
    load()
    assert run(*SMALL)[0] == 0
    next(file for file in Path(STORE).rglob("c/0") if file.is_file()).unlink()
    assert "; `kvsweep measure prefix --overwrite` measures it again" in run("show", STORE)[2]


def test_a_measurement_that_was_ended_early_says_so_when_it_is_shown(run, load):
    """It was shown as a whole one, with "one size of B alone" for two."""
    load(fail_at=3 * (2 + 3))
    assert run(*SMALL)[0] == 1
    code, out, err = run("show", STORE)
    told = "warning: 3 of 12 trials were run, as it was ended early"
    assert (code, err) == (0, f"{told}; without 1 of 2 sizes\n")
    assert "one size of B alone" in out
