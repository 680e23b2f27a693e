import json
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_steps import FakeSteps
from gpu_models import DENSE

from kvsweep.calibrate import step_results
from kvsweep.cli import progress
from kvsweep.gpu import machine, torch_load
from kvsweep.gpu.machine import Machine
from kvsweep.sizing.sizes import GIB

pytestmark = pytest.mark.slow

SMALL = ("measure", "gpu", "--model", "small.json", "--quick")
STORE = "results/steps-small.zarr"
SWEEP = """
[workload]
requests = 4
rate = 10.0
prompt = { dist = "constant", value = 64 }
output = { dist = "constant", value = 4 }
[cache]
gpu_blocks = 100
[latency]
model = "here.toml"
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("small.json").write_text(json.dumps(DENSE))
    monkeypatch.setattr(step_results, "DRAWS", 3)


@pytest.fixture
def gpu(monkeypatch):
    """Return a function that puts a fake in place of the GPU; it returns the device."""

    def install(**options):
        cuda = SimpleNamespace(type="cuda")
        found = Machine(cuda, "Fake GPU", "h100", 80 * GIB, 79 * GIB, 0, 0)
        device = FakeSteps(**options)
        monkeypatch.setattr(machine, "find_machine", lambda *asked: found)
        monkeypatch.setattr(torch_load, "load_device", lambda *asked: device)
        return device

    return install


def test_a_measurement_is_fitted_printed_stored_and_used_in_a_sweep(run, gpu):
    gpu()
    code, out, _ = run(*SMALL, "--out", "here.toml", "--kind", "linear")
    assert code == 0
    assert "small (bf16) on Fake GPU, one device: PyTorch 9.9" in out
    assert "linear, in the preset: " in out
    assert "added, not measured: host_overhead_us 500" in out
    assert f"\nstore: {STORE}\n" in out
    assert 'here.toml; a sweep beside it has latency.model = "here.toml"' in out
    preset = tomllib.loads(Path("here.toml").read_text())
    assert preset["beta"][1] == pytest.approx(5.0, rel=0.05)
    Path("sweep.toml").write_text(SWEEP)
    code, out, err = run("grid", "sweep.toml", "--dry-run")
    assert (code, err) == (0, "")


def test_json_has_all_fits_and_the_preset(run, gpu):
    gpu()
    code, out, _ = run(*SMALL, "--json", "--store", "mine.zarr", "--host-overhead-us", "80")
    found = json.loads(out)
    assert code == 0
    assert found["store"] == "mine.zarr"
    assert found["preset"]["added"]["host_overhead_us"] == 80
    assert found["fits"]["linear"]["held_out_error_median"] < 0.05
    assert set(found["fits"]) == {"linear", "roofline", "two-sums"}
    assert found["good"] is True


def test_a_stored_measurement_is_shown_again(run, gpu):
    gpu()
    first = run(*SMALL)[1]
    code, out, _ = run("show", STORE)
    assert code == 0
    assert first.startswith(out.rstrip())
    assert json.loads(run("show", STORE, "--json")[1])["fits"]["linear"]["beta"]


def test_a_measurement_that_is_complete_is_fitted_again_and_not_measured(run, gpu):
    gpu()
    run(*SMALL, "--kind", "linear")
    device = gpu()
    code, _, _ = run(*SMALL, "--out", "here.toml", "--kind", "roofline")
    assert (code in (0, 1), device.timed) == (True, [])
    assert tomllib.loads(Path("here.toml").read_text())["kind"] == "roofline"


def test_ctrl_c_keeps_the_timings_and_the_same_command_goes_on(run, gpu):
    gpu(fail_at=50)
    code, out, err = run(*SMALL, "--trials", "2")
    assert (code, out) == (1, "")
    assert "interrupted; 50 of " in err
    assert f"timings are in {STORE}; the same command goes on" in err
    code, _, err = run("show", STORE)
    assert code == 2
    assert "timings are missing; the same command goes on" in err
    device = gpu()
    code, out, _ = run(*SMALL, "--trials", "2")
    assert code == 0
    assert len(device.timed) > 0
    assert len(device.timed) + 50 == json.loads(run("show", STORE, "--json")[1])["timings"]


def test_ctrl_c_before_the_first_timing_leaves_nothing(run, gpu):
    gpu(fail_at=0)
    code, _, err = run(*SMALL)
    assert (code, err.rstrip()) == (1, "interrupted; no timing was made")


def test_another_measurement_in_the_store_is_kept_unless_told(run, gpu):
    gpu()
    run(*SMALL)
    code, _, err = run(*SMALL, "--seed", "1")
    assert code == 2
    assert f"{STORE}: is another measurement: seed is 0, not 1; --overwrite replaces it" in err
    assert run(*SMALL, "--seed", "1", "--overwrite")[0] == 0


def test_a_preset_of_somebody_elses_is_never_replaced(run, gpu):
    device = gpu()
    Path("here.toml").write_text("mine")
    code, _, err = run(*SMALL, "--out", "here.toml")
    assert (code, device.timed) == (2, [])
    assert "--out here.toml: is there and was not written by `kvsweep measure gpu`" in err
    assert Path("here.toml").read_text() == "mine"


def test_a_fit_that_predicts_badly_is_told_and_exits_with_one(run, gpu):
    gpu(noise=1.0)
    code, _, err = run(*SMALL, "--out", "here.toml")
    assert code == 1
    assert "kvsweep: bad fit: held-out steps are off by " in err
    assert 'fit = "BAD FIT (' in Path("here.toml").read_text()


def test_progress_is_told(run, gpu, monkeypatch):
    gpu()
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    assert " timings, " in run(*SMALL)[2]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--model", "lama-3.1-8b"), "did you mean 'llama-3.1-8b'?"),
        (("--dtype", "fp9"), "'--dtype'"),
        (("--tp", "3"), "--tp: 3 does not divide num_attention_heads of small.json, 4"),
        (("--allreduce-gb-s", "0"), "'--allreduce-gb-s'"),
        (("--host-overhead-us", "nan"), "'--host-overhead-us': expected a number, got nan"),
        (("--host-overhead-us", "inf"), "'--host-overhead-us'"),
        (("--max-num-seqs", "1"), "--max-num-seqs: 1; allowed: 2 to"),
        (("--out", "no/where.toml"), "--out no/where.toml: there is no folder no"),
        (("--out", "small.json"), "presets are files *.toml: 'small.toml'"),
        (("--store", "x.toml", "--out", "x.toml"), "is the same file as"),
    ],
)
def test_bad_options_are_told_in_one_line(run, gpu, options, told):
    device = gpu()
    at = SMALL.index(options[0]) if options[0] in SMALL else len(SMALL)
    code, out, err = run(*SMALL[:at], *SMALL[at + 2 :], *options)
    assert (code, out, device.timed) == (2, "", [])
    assert told in err
    assert err.count("\n") == 1


def test_without_pytorch_one_line_tells_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = run(*SMALL)
    assert (code, out) == (2, "")
    assert "pip install 'kvsweep[torch]'" in err
    assert err.count("\n") == 1


def test_a_processor_is_measured_from_end_to_end(run):
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'kvsweep[torch]'")
    small = ("--max-num-batched-tokens", "64", "--max-num-seqs", "2", "--max-model-len", "128",
             "--pool-tokens", "256", "--trials", "1")  # fmt: skip
    code, out, err = run(*SMALL, "--device", "cpu", "--threads", "1", *small, "--out", "here.toml")
    assert code in (0, 1)  # how well it predicts depends on what else the machine does
    assert "1 thread: PyTorch " in out
    assert "Traceback" not in err
    assert len(tomllib.loads(Path("here.toml").read_text())["beta"]) == 5


def test_what_was_edited_in_a_preset_is_kept_unless_told(run, gpu):
    """Its header asks to edit what it adds; the same command again would take that away."""
    gpu()
    command = (*SMALL, "--out", "here.toml")
    assert run(*command)[0] == 0
    path = Path("here.toml")
    edited = path.read_text().replace("host_overhead_us = 500.0", "host_overhead_us = 812.5")
    path.write_text(edited)
    code, _, err = run(*command)
    assert code == 2
    assert "--out here.toml: its host_overhead_us is 812.5, and would be 500: it is kept" in err
    assert path.read_text() == edited
    assert run(*command, "--host-overhead-us", "900")[0] == 0
    assert tomllib.loads(path.read_text())["added"]["host_overhead_us"] == 900


def test_each_term_that_was_edited_is_kept_unless_its_own_option_tells(run, gpu):
    """`--host-overhead-us` took away what was edited of the exchange, and of no table all."""
    gpu()
    path = Path("here.toml")
    command = (*SMALL, "--tp", "2", "--out", "here.toml", "--host-overhead-us", "0")
    assert run(*command)[0] == 0
    made = path.read_text()
    added = tomllib.loads(made)["added"]
    term = f"allreduce_step_us = {added['allreduce_step_us']}"
    assert term in made
    for edited in (made.replace(term, "allreduce_step_us = 1.5"), made[: made.rindex("[added]")]):
        path.write_text(edited)
        code, _, err = run(*command)
        assert code == 2
        assert "its allreduce_" in err
        assert "it is kept; say what to write (--allreduce-" in err
        assert path.read_text() == edited
    assert run(*command, "--allreduce-us", "10", "--allreduce-gb-s", "300")[0] == 0
    assert tomllib.loads(path.read_text())["added"]["host_overhead_us"] == 0


def test_a_preset_that_was_edited_wrongly_is_told_in_one_line(run, gpu):
    gpu()
    command = (*SMALL, "--out", "here.toml")
    assert run(*command)[0] == 0
    path = Path("here.toml")
    path.write_text(path.read_text().replace("host_overhead_us = 500.0", "host_overhead_us = 'x'"))
    code, _, err = run(*command, "--host-overhead-us", "3")
    assert code == 2
    assert "here.toml:" in err
    assert "added.host_overhead_us: expected a number, got 'x'; mend it, or name another" in err


def test_more_threads_than_any_machine_has_are_told(run, gpu):
    gpu()
    code, _, err = run(*SMALL, "--threads", "100000")
    assert code == 2
    assert "Invalid value for '--threads'" in err


def test_an_exchange_beyond_a_node_is_told(run, gpu):
    """That of 16 GPUs was added as if all were in one node, and nothing said so."""
    gpu()
    Path("small.json").write_text(
        json.dumps(DENSE | {"num_attention_heads": 16, "num_key_value_heads": 16})
    )
    told = "what 16 GPUs exchange is that of one node, which has 8, and too short"
    code, _, err = run(*SMALL, "--tp", "16", "--out", "here.toml")
    assert (code, f"warning: {told}; --allreduce-gb-s takes" in err) == (0, True)
    assert "as if they were in one node" in Path("here.toml").read_text()
    for more in (("--tp", "8"), ("--tp", "16", "--allreduce-gb-s", "40")):
        code, _, err = run(*SMALL, *more, "--overwrite")
        assert (code, told in err) == (0, False)
