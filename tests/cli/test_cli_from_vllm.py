"""``kvsweep from-vllm``: what it prints and writes, and how it ends."""

import json
import tomllib

import pytest

COMMAND = ("vllm", "serve", "meta-llama/Llama-3.1-8B", "-tp", "2", "--max-num-seqs", "64")


def test_a_command_is_printed_as_the_begin_of_a_sweep(run):
    code, out, err = run("from-vllm", "--gpu", "h100", *COMMAND)
    assert (code, err) == (0, "")
    tables = tomllib.loads(out)
    assert tables["engine"]["max_num_seqs"] == 64
    assert tables["model"] == {"preset": "llama-3.1-8b", "gpu": "h100", "tp": 2}
    assert "# [workload]\n" in out


def test_options_of_the_server_are_not_those_of_kvsweep(run):
    """Both have --model, and whatever follows the command is the server's."""
    code, out, _ = run("from-vllm", "--gpu", "h100", *COMMAND, "--served-model-name", "--help")
    assert code == 2
    code, out, _ = run(
        "from-vllm", "--gpu", "h100", "--", "vllm", "serve", "--model", "qwen3-8b", "--port", "80"
    )
    assert code == 0
    assert 'preset = "qwen3-8b"' in out


def test_a_script_becomes_a_sweep_that_runs(run, tmp_path):
    script, out_file, trace = (tmp_path / name for name in ("s.sh", "s.toml", "t.csv"))
    script.write_text(f"#!/bin/sh\nset -e\n{' '.join(COMMAND)} \\\n  --port 8000\n")
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,5\n")
    arguments = ("from-vllm", "--gpu", "h100", "--trace", trace, "-o", out_file)
    code, out, _ = run(*arguments, str(script))
    assert code == 0
    assert out.startswith(f"{out_file}\n- ")
    code, out, err = run("grid", str(out_file), "--out", str(tmp_path / "s.zarr"))
    assert code == 0, out + err
    code, _, err = run(*arguments, str(script))
    assert code == 2
    assert "is there already; --overwrite replaces it" in err
    code, out, _ = run(*arguments, "--overwrite", "--json", str(script))
    assert json.loads(out)["sweep"] == str(out_file)
    assert json.loads(out)["scenario"]["engine"]["max_num_seqs"] == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "COMMAND: missing; as in `kvsweep from-vllm --gpu h100 vllm serve"),
        (("vllm", "serve", "qwen3-8b"), "--gpu: missing: "),
        (("--gpu", "h1000", "vllm", "serve", "qwen3-8b"), "'h1000' is neither a GPU"),
        (("--gpu", "h100", "--trase", "x", *COMMAND), "No such option '--trase'"),
        (("nothing.sh",), "the command: no command that starts vLLM"),
        (("--gpu", "h100", "--acceptance", "many", *COMMAND), "--acceptance: 'many': expected a"),
        (("--log", "no.log"), "no.log: cannot read"),
        (("--gpu", "h100", *COMMAND, "--port"), "--port: its value is missing"),
        (("--gpu", "h100", "-o", "s3://b/x.toml", *COMMAND), "an address, not a path"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, arguments, message):
    code, out, err = run("from-vllm", *arguments)
    assert (code, out) == (2, "")
    err = err.replace("option: --trase ", "option '--trase' ")  # click 8.2.0 says it so
    assert message in err
    assert err.count("\n") == 1


def test_json_names_the_trace_as_the_file_does(run, tmp_path):
    """It was left out."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n")
    out_file = tmp_path / "sub" / "s.toml"
    given = ("--gpu", "h100", "--trace", tmp_path / "t.csv", "--json")
    code, out, _ = run("from-vllm", *given, *COMMAND)
    assert code == 0
    assert json.loads(out)["trace"] == str(tmp_path / "t.csv")
    code, out, _ = run("from-vllm", *given, "-o", out_file, *COMMAND)
    assert json.loads(out)["trace"] in out_file.read_text()
    code, out, _ = run("from-vllm", "--gpu", "h100", "--json", *COMMAND)
    assert "trace" not in json.loads(out)
