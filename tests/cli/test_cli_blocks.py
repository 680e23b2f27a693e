import json

import pytest


def test_blocks_of_a_model_on_a_gpu(run):
    code, out, err = run("blocks", "--model", "llama-3.1-8b", "--gpu", "h100")
    assert code == 0
    assert "llama-3.1-8b on 1 x h100, keys and values in bfloat16" in out
    assert "an estimate, from the memory of h100" in out
    assert err == ""


def test_json_has_the_figures_and_nothing_else_on_stdout(run):
    code, out, _ = run(
        "blocks",
        "--model",
        "qwen2.5-7b",
        "--kv-memory",
        "16GiB",
        "--max-model-len",
        "8192",
        "--json",
    )
    found = json.loads(out)
    assert code == 0
    expected = {
        "blocks": 18_724,
        "usable_blocks": 18_723,
        "tokens": 299_584,
        "bytes_per_token": 57_344,
        "kv_gib": 16.0,
        "max_concurrency": 36.57,
        "starts": True,
    }
    assert expected.items() <= found.items()


def test_a_log_without_a_model_has_null_for_what_is_not_known(run, tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text("# GPU blocks: 2588, # CPU blocks: 0\n")
    code, out, err = run("blocks", "--log", path, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["blocks"], found["tokens"]) == (2588, 41_408)
    assert found["bytes_per_token"] is None
    assert "warning: the log does not tell the block size: 16 is taken" in err


def test_the_inverse(run):
    code, out, _ = run("blocks", "--model", "llama-3.1-8b", "--blocks", "2588", "--gpu", "rtx4090")
    assert code == 0
    assert "5.05 GiB" in out
    assert "0.9001  gpu_memory_utilization, estimated" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "lama-3.1-8b", "--gpu", "h100"), "did you mean 'llama-3.1-8b'"),
        (("--model", "llama-3.1-8b", "--gpu", "h100", "--tp", "x"), "'x' is not a valid integer"),
        (("--model", "llama-3.1-8b", "--log", "no.log"), "no.log: cannot read"),
        (("--model", "no.json", "--gpu", "h100"), "no.json: cannot read"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, arguments, message):
    code, out, err = run("blocks", *arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_options_of_states_and_a_block_size_that_is_raised(run):
    model = ("blocks", "--model", "qwen3-next-80b-a3b", "--kv-memory", "40GiB", "--json")
    code, out, err = run(*model, "--block-size", "32")
    found = json.loads(out)
    assert (code, found["block_size"], found["block_size_raised_from"]) == (0, 576, 32)
    assert "warning: --block-size: 32; vLLM raises it to 576" in err
    others = {
        ("--no-prefix-caching",): (544, 1),
        ("--prefix-caching", "--gdn-prefill-backend", "triton"): (544, 2),
        ("--mamba-ssm-cache-dtype", "float32"): (1_088, 3),
        ("--mamba-cache-dtype", "float32"): (1_088, 3),
    }
    for options, (size, copies) in others.items():
        found = json.loads(run(*model, *options)[1])
        states = [group for group in found["groups"] if group["kind"] == "state"]
        assert (found["block_size"], states[0]["blocks_per_request"]) == (size, copies), options


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        ("llama-3.1-8b", ("--mamba-cache-dtype", "float32"), "--mamba-cache-dtype: has no effect"),
        ("llama-3.1-8b", ("--mamba-ssm-cache-dtype", "x"), "--mamba-ssm-cache-dtype: has no effe"),
        (
            "gpt-oss-120b",
            ("--gdn-prefill-backend", "triton"),
            "gpt-oss-120b, which keeps no states",
        ),
        ("llama-3.1-8b", ("--no-prefix-caching",), "--no-prefix-caching: has no effect on llama-3"),
        ("qwen3-next-80b-a3b", ("--no-prefix-caching",), None),
        (
            "qwen3-next-80b-a3b",
            ("--gdn-prefill-backend", "triton", "--no-prefix-caching"),
            "--gdn-prefill-backend: has no effect without prefix caching",
        ),
    ],
)
def test_options_of_states_are_for_models_that_keep_some(run, model, options, told):
    """They were taken without a word."""
    code, _, err = run("blocks", "--model", model, "--kv-memory", "40GiB", *options)
    assert (code, err.count("\n")) == ((2, 1) if told else (0, 0))
    assert told is None or told in err
