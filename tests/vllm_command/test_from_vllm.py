"""Scenarios from commands of vLLM: keys, reasons, refusals, and the way back."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import kvsweep
from kvsweep.config import scenario as scenarios
from kvsweep.errors import InputError
from kvsweep.search.flags import served
from kvsweep.sizing.asking import answer as blocks_answer
from kvsweep.sizing.question import Question as OfBlocks
from kvsweep.vllm_command.to_sweep import Question, answer

LLAMA = "vllm serve meta-llama/Llama-3.1-8B"
LOG = """\
INFO 11-24 03:12:01 [api_server.py:1890] vLLM API server version 0.33.0
INFO 11-24 03:12:01 [utils.py:233] non-default args: {'model_tag': 'meta-llama/Llama-3.1-8B', \
'api_key': ['s3cret'], 'model': 'meta-llama/Llama-3.1-8B', 'tensor_parallel_size': 2, \
'enable_prefix_caching': False, 'max_num_seqs': 128, 'async_scheduling': False, \
'max_model_len': 16384, 'compilation_config': CompilationConfig(mode=<Mode.FULL: 2>), 'uds': None}
INFO 11-24 03:12:09 [scheduler.py:222] Chunked prefill is enabled with max_num_batched_tokens=4096.
INFO 11-24 03:13:02 [kv_cache_utils.py:1] GPU KV cache size: 987,136 tokens, Maximum concurrency \
for 16,384 tokens per request: 60.25x
"""


SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_size": 256,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


def taken(text="", gpu="h100", **more):
    """Return what is made of the options of a server of Llama-3.1-8B on an H100."""
    return answer(Question((f"{LLAMA} {text}",), gpu=gpu, **more))


def keys(found):
    """Return the keys of the sections, as the file has them."""
    tables = tomllib.loads(found.text)
    return {f"{section}.{key}": v for section, table in tables.items() for key, v in table.items()}


def test_defaults_are_those_of_the_gpu():
    assert keys(taken()) == {
        "model.preset": "llama-3.1-8b",
        "model.gpu": "h100",
        "engine.max_model_len": 131072,
        "engine.max_num_seqs": 1024,
        "engine.max_num_batched_tokens": 8192,
        "engine.async_scheduling": True,
        "cache.block_size": 16,
    }
    assert keys(taken(gpu="a100"))["engine.max_num_batched_tokens"] == 2048
    assert keys(taken(gpu="b200"))["engine.max_num_batched_tokens"] == 16384


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--max-num-seqs 64", {"engine.max_num_seqs": 64}),
        ("--max-num-batched-tokens 4k", {"engine.max_num_batched_tokens": 4000}),
        (
            "--max-num-batched-tokens 512",
            {"engine.max_num_seqs": 512, "engine.max_num_batched_tokens": 512},
        ),
        (
            "--performance-mode throughput",
            {"engine.max_num_seqs": 2048, "engine.max_num_batched_tokens": 16384},
        ),
        ("--max-num-seqs 1 --max-model-len 1K", {"engine.max_num_batched_tokens": 1024}),
        ("--max-num-seqs 64 --max-num-active-seqs 16", {"engine.max_num_seqs": 16}),
        ("--max-num-scheduled-tokens 4096", {"engine.max_num_batched_tokens": 4096}),
        (
            "--performance-mode throughput --max-num-seqs 10000",
            {"engine.max_num_seqs": 10_000, "engine.max_num_batched_tokens": 16_384},
        ),
        (
            "--no-enable-chunked-prefill --max-model-len 32768",
            {"engine.enable_chunked_prefill": False, "engine.max_num_batched_tokens": 32768},
        ),
        ("--no-enable-prefix-caching", {"engine.enable_prefix_caching": False}),
        ("--no-async-scheduling", {"engine.async_scheduling": False}),
        ("--no-scheduler-reserve-full-isl", {"engine.reserve_full_prompt": False}),
        ("--scheduling-policy priority", {"engine.scheduler": "priority"}),
        ("--watermark 0.05", {"engine.watermark": 0.05}),
        ("--long-prefill-token-threshold 512", {"engine.long_prefill_token_threshold": 512}),
        ("-tp 2 --kv-cache-dtype fp8", {"model.tp": 2, "model.dtype": "fp8"}),
        ("--gpu-memory-utilization 0.8", {"model.utilization": 0.8}),
        ("--block-size 32", {"cache.block_size": 32}),
        ("--num-gpu-blocks-override 1001", {"cache.gpu_blocks": 1000}),
        ("--kv-cache-memory-bytes 16G", {"cache.gpu_blocks": 8191}),
        ("-dp 4", {"cluster.instances": 4, "cluster.routing": "least-loaded"}),
    ],
)
def test_options_become_keys(text, expected):
    found = keys(taken(text))
    assert {key: found[key] for key in expected} == expected


def test_each_key_says_which_option_decides_it():
    text = taken("--max-num-seqs 64 --no-enable-prefix-caching").text
    assert "max_num_seqs = 64 # --max-num-seqs\n" in text
    assert "enable_prefix_caching = false # --no-enable-prefix-caching\n" in text
    assert "max_num_batched_tokens = 8192 # vLLM's default on h100\n" in text


def test_deepep_with_several_instances_has_small_steps():
    """``use_batched_dp_moe``."""
    text = "vllm serve qwen3-30b-a3b -dp 2 -ep --all2all-backend deepep_low_latency"
    found = keys(answer(Question((text,), gpu="h100")))
    assert found["engine.max_num_batched_tokens"] == found["engine.max_num_seqs"] == 256


def test_a_tier_on_the_cpu_has_the_chunks_of_all_gpus():
    link = ("cache.link=pcie5-x16",)
    found = keys(taken("-tp 2 --kv-offloading-size 8", overrides=link))
    assert found["cache.cpu_blocks"] == 8 * 2**30 // (131_072 * 16)
    assert (found["cache.offload"], found["cache.link"]) == ("vllm", "pcie5-x16")
    told = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "cpu_bytes_to_use": 8 * 2**30,
            "block_size": 64,
            "eviction_policy": "arc",
            "offload_prompt_only": False,
        },
    }
    found = keys(taken(f"--kv-transfer-config '{json.dumps(told)}'", overrides=link))
    assert found["cache.cpu_blocks"] == 8 * 2**30 // (131_072 * 64)
    assert found["cache.offload_block_factor"] == 4
    assert found["cache.offload_eviction"] == "arc"
    assert found["cache.offload_prompt_only"] is False


def test_a_latent_vector_is_kept_once_on_the_cpu():
    """``replicated_layout``."""
    text = "vllm serve deepseek-v3 -tp 8 --kv-offloading-size 100"
    found = answer(Question((text,), gpu="h200", overrides=("cache.link=pcie5-x16",)))
    chunk = -(-61 * 576 * 2 * 16 // 4096) * 4096
    assert found.scenario.cache.cpu_blocks == 100 * 2**30 // chunk == 95_325
    command = served(found.scenario, Path()).command
    assert "--kv-offloading-size 99.999905 " in command  # as many chunks again


def test_instances_share_the_experts():
    """So a model fits of which no instance could hold all experts."""
    found = answer(Question(("vllm serve deepseek-v3 -dp 8 -ep",), gpu="h200"))
    weights = found.scenario.model.weights_gib
    experts = 58 * 256 * 3 * 7168 * 2048 * (1 + 4 / 128**2) / 2**30
    assert weights == pytest.approx(626.9 - experts * 7 / 8, rel=0.01)
    one, two = (
        answer(Question((f"vllm serve qwen3-30b-a3b {text}",), gpu="h100")).scenario.cache
        for text in ("", "-dp 2")
    )
    assert two.gpu_blocks > 3 * one.gpu_blocks
    text = "vllm serve qwen3-30b-a3b -dp 2 --max-num-active-seqs 16"
    assert answer(Question((text,), gpu="h100")).scenario.cache.gpu_blocks == two.gpu_blocks


def test_fewer_requests_than_there_is_room_for_change_no_memory():
    blocks = taken().scenario.cache.gpu_blocks
    found = taken("--max-num-active-seqs 16")
    assert found.scenario.cache.gpu_blocks == blocks
    assert "gpu_blocks = " in found.text
    assert "# estimated, for 1,024 requests and 8,192 tokens\n" in found.text


def test_a_threshold_that_holds_nobody_is_left_out():
    text = "--long-prefill-token-threshold 8192"
    assert "engine.long_prefill_token_threshold" not in keys(taken(text))


def test_a_server_that_does_not_start_is_told():
    notes = " ".join(taken(gpu="rtx4090").notes)
    assert "vLLM does not start: a request of 131,072 tokens needs 8,192 blocks" in notes
    assert "it does with --max-model-len" in notes
    assert "start" not in " ".join(taken("--max-model-len 8192", gpu="rtx4090").notes)
    assert "start" not in " ".join(taken("--max-model-len auto", gpu="rtx4090").notes)


def test_drafts_need_to_know_what_is_accepted():
    text = "--spec-method eagle3 --spec-model x --spec-tokens 3"
    assert "nor keys and values of drafts" in " ".join(taken(text, acceptance=(0.7,)).notes)
    found = taken(text, acceptance=(0.7, 0.5, 0.3)).scenario.engine.speculative
    assert (found.tokens, found.method, found.acceptance) == (3, "eagle", (0.7, 0.5, 0.3))
    config = '{"method": "draft_model", "model": "x", "num_speculative_tokens": 2}'
    found = taken(f"-sc '{config}'", acceptance=(0.6,)).scenario.engine.speculative
    assert (found.tokens, found.method, found.acceptance) == (2, "draft", 0.6)
    with pytest.raises(InputError, match="--acceptance: missing: no command tells"):
        taken(text)
    with pytest.raises(InputError, match="--acceptance: 4 shares for 3 drafts"):
        taken(text, acceptance=(0.7, 0.5, 0.3, 0.1))
    with pytest.raises(InputError, match="--acceptance: has no effect: the command drafts nothing"):
        taken(acceptance=(0.7,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--max-num-queued-reqs 8", "--max-num-queued-reqs 8: requests that are refused when"),
        ("--prefill-schedule-interval 2", "--prefill-schedule-interval 2: steps that admit no"),
        ("--hf-overrides '{\"a\": 1}'", '--hf-overrides {"a": 1}: what it changes is not read'),
        ("--dtype float32", "--dtype float32: weights of 4 bytes are not counted"),
        ("--dtype fp16", "of those of 2 vLLM knows bfloat16, float16 and half"),
        (
            '--kv-transfer-config \'{"kv_connector": "NixlConnector"}\'',
            "'NixlConnector' is not simulated; prefill and decode apart are [cluster]",
        ),
        ("--kv-offloading-size 8 --kv-offloading-backend lmcache", "'lmcache' is not simulated"),
        ("--kv-offloading-size 8", "(--kv-offloading-size): the speed of transfers is not known"),
        ('-sc \'{"method": "ngram", "num_speculative_tokens": 2}\'', "'ngram' is not simulated"),
        ('-sc \'{"model": "x", "num_speculative_tokens": 2}\'', "method: missing: vLLM finds"),
        ('-sc \'{"method": "mtp"}\'', "num_speculative_tokens: missing; a whole number"),
        (
            '-sc \'{"method": "mtp", "num_speculative_tokens": 2, "tree": 1}\'',
            "tree: what it does is not simulated",
        ),
        ("--hf-config-path /x", "--hf-config-path /x: its config.json is not looked for"),
        ("--max-num-active-seqs 3000", "3,000; vLLM takes at most the 1,024 of --max-num-seqs"),
        ("--max-num-scheduled-tokens 512", "512, fewer than the 1,024 requests that run"),
        (
            "--no-enable-chunked-prefill --max-num-batched-tokens 4096",
            "4,096; without chunked prefill vLLM wants the 131,072 tokens",
        ),
        ("--long-prefill-token-threshold 200000", "200,000; vLLM takes at most the 131,072"),
        ("--kv-offloading-size 0.0001", "--kv-offloading-size: 0.0001 GiB are less than a block"),
        ("--kv-offloading-size 0", "--kv-offloading-size: 0 GiB; expected more than 0"),
        ("--max-num-seqs many", "--max-num-seqs: expected a whole number, got 'many'"),
        ("--watermark much", "--watermark: expected a number, got 'much'"),
        ("--watermark 2", "engine.watermark (--watermark): "),
        ("--scheduling-policy lifo", "--scheduling-policy: 'lifo'; vLLM takes fcfs, priority"),
        ("--block-size 0", "--block-size: 0; allowed: 1 to"),
        ("-tp 3", "--tensor-parallel-size: 3; vLLM wants the 32 attention heads"),
        ("--num-gpu-blocks-override 1", "--num-gpu-blocks-override: leaves no block beside"),
    ],
)
def test_what_is_not_simulated_is_refused(text, message):
    with pytest.raises(InputError) as told:
        taken(text)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_the_blocks_of_latent_attention_follow_from_its_backend():
    text = "vllm serve deepseek-v3 -tp 8 --attention-backend FLASHMLA"
    with pytest.raises(InputError, match="with latent attention: give --block-size"):
        answer(Question((text,), gpu="h200"))
    assert (
        answer(Question((f"{text} --block-size 64",), gpu="h200")).scenario.cache.block_size == 64
    )


@pytest.mark.parametrize("text", ["--prefill-schedule-interval 1", "--dtype bfloat16", "-dcp 1"])
def test_what_is_as_it_is_without_it_is_taken(text):
    assert keys(taken(text)) == keys(taken())


def test_what_is_not_in_the_numbers_is_told():
    notes = " | ".join(taken("--enforce-eager --port 80 --attention-backend X -dp 2").notes)
    assert "neither the estimate of the blocks nor step times know of --enforce-eager" in notes
    assert "step times do not know of --attention-backend" in notes
    assert "without effect here: --port" in notes
    assert "usable blocks, estimated" in notes
    known = " | ".join(taken("--enforce-eager --num-gpu-blocks-override 500").notes)
    assert "estimate" not in known
    assert "step times do not know of --enforce-eager" in known
    by_set = taken("--enforce-eager", overrides=("cache.gpu_blocks=500",)).notes
    assert "estimate" not in " ".join(by_set)
    experts = answer(Question(("vllm serve qwen3-30b-a3b -dp 2",), gpu="h100"))
    assert "wait for each other in each step" in " ".join(experts.notes)
    assert not any("to have all experts" in note for note in experts.notes)
    piped = answer(Question(("vllm serve qwen3-30b-a3b -dp 2 -pp 2",), gpu="h100"))
    assert any("takes each instance to have all experts" in note for note in piped.notes)
    assert "variables of the environment are not read: VLLM_X" in " ".join(
        answer(Question((f"VLLM_X=1 {LLAMA}",), gpu="h100")).notes
    )


def test_a_gpu_is_asked_for_where_something_follows_from_it():
    for text in ("", "--max-num-seqs 64", "--max-num-seqs 64 --max-num-batched-tokens 2048"):
        with pytest.raises(InputError, match="--gpu: missing: "):
            taken(text, gpu=None)
    whole = "--max-num-seqs 64 --max-num-batched-tokens 2048 --num-gpu-blocks-override 1001"
    with pytest.raises(InputError, match="latency: missing"):
        taken(whole, gpu=None)
    found = taken(whole, gpu=None, overrides=("latency.model=llama-3.1-8b/h100/tp2",))
    assert "model.gpu" not in keys(found)
    assert found.scenario.latency.beta


def test_a_log_tells_options_blocks_and_tokens(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    found = answer(Question((), gpu="h100", log=path))
    told = keys(found)
    blocks = blocks_answer(OfBlocks(model="llama-3.1-8b", log=path)).blocks
    assert told["cache.gpu_blocks"] == blocks - 1 == 61_695
    assert told["engine.max_num_seqs"] == 128
    assert told["engine.max_num_batched_tokens"] == 4096
    assert told["engine.enable_prefix_caching"] is False
    assert told["engine.async_scheduling"] is False
    assert told["model.tp"] == 2
    assert "s3cret" not in found.text
    larger = answer(
        Question((f"{LLAMA} -tp 2 --max-num-seqs 8 --block-size 32",), gpu="h100", log=path)
    )
    assert keys(larger)["cache.gpu_blocks"] == 987_136 // 32 - 1
    other = answer(Question((f"{LLAMA} -tp 4",), gpu="h100", log=path))
    assert "the log has --tensor-parallel-size 2, the command 4" in other.notes
    both = answer(Question((f"{LLAMA} -tp 2 --max-num-seqs 8",), gpu="h100", log=path))
    assert keys(both)["engine.max_num_seqs"] == 8
    assert keys(both)["cache.gpu_blocks"] == 61_695


def test_a_log_has_what_its_objects_are_made_with(tmp_path):
    path = tmp_path / "vllm.log"
    told = (
        "'kv_transfer_config': KVTransferConfig(kv_connector='OffloadingConnector', "
        "kv_role='kv_both', kv_connector_extra_config={'cpu_bytes_to_use': 8589934592}), 'uds'"
    )
    path.write_text(LOG.replace("'uds'", told).replace("None}", "None}\x1b[0m"))
    found = answer(Question((), gpu="h100", log=path, overrides=("cache.link=pcie5-x16",)))
    assert found.scenario.cache.cpu_blocks == 8 * 2**30 // (131_072 * 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("non-default args", "args"), "does not tell the server's options"),
        (("'uds': None}", "'uds': No"), "is cut or garbled; give the server's command"),
        (("'uds'", "'swap_space': 4, 'uds'"), "swap_space: no option of vLLM 0.33.0; give the"),
        (("GPU KV cache size", "cache"), "says nothing of the KV cache"),
    ],
)
def test_a_log_that_tells_too_little_is_refused(tmp_path, change, message):
    path = tmp_path / "vllm.log"
    path.write_text(LOG.replace(*change))
    with pytest.raises(InputError) as told:
        answer(Question((), gpu="h100", log=path))
    assert message in str(told.value)


def test_a_log_of_another_release_is_told(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG.replace("version 0.33.0", "version 0.22.1"))
    assert "the log is of vLLM 0.22.1" in answer(Question((), gpu="h100", log=path)).notes[0]


def test_a_model_that_is_not_known_needs_its_config(tmp_path):
    (tmp_path / "m").mkdir()
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps(SMALL))
    with pytest.raises(InputError, match=r"our/model: neither a folder .* --model FILE"):
        answer(Question(("vllm serve our/model",), gpu="h100"))
    for question in (
        Question(("vllm serve our/model",), gpu="h100", model=str(path)),
        Question((f"vllm serve {tmp_path / 'm'}",), gpu="h100"),
    ):
        assert keys(answer(question))["model.config"] == str(path)


def test_names_of_files_begin_where_the_sweep_will_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,5\n")
    Path("sweeps").mkdir()
    found = taken(trace="t.csv", folder=Path("sweeps"))
    path = Path("sweeps/s.toml")
    path.write_text(found.text)
    ds = kvsweep.run(kvsweep.load_sweep(path))
    assert (ds["status"] == "ok").all()
    Path("mine.toml").write_text(
        'model = "m"\nhardware = "h"\nkind = "linear"\nbeta = [9.0]\nsource = "s"\nfit = "f"\n'
    )
    pools = 'cluster.pools=[{instances=1,latency={model="mine.toml"}}]'
    text = taken(trace="t.csv", folder=Path("sweeps"), overrides=(pools,)).text
    path.write_text(text)
    assert kvsweep.load_sweep(path)
    with pytest.raises(InputError, match=r"--trace: nowhere\.csv: no such file"):
        taken(trace="nowhere.csv")


def test_a_key_that_is_set_wins():
    found = taken("--max-num-seqs 64", overrides=("engine.max_num_seqs=3", "cache.eviction=lfu"))
    assert "max_num_seqs = 3 # --set\n" in found.text
    assert keys(found)["cache.eviction"] == "lfu"
    with pytest.raises(InputError, match="did you mean"):
        taken(overrides=("cache.gpu_blcks=3",))
    with pytest.raises(InputError, match="give --gpu"):
        taken(overrides=("model.gpu=a100",))
    text = "--spec-method eagle3 --spec-model x --spec-tokens 3"
    part = ("engine.speculative.acceptance=0.9",)
    drafting = taken(text, acceptance=(0.5,), overrides=part)
    assert keys(drafting)["engine.speculative"]["acceptance"] == 0.9


def test_names_cannot_write_lines_of_their_own(tmp_path):
    folder = tmp_path / "evil\n[engine]\nmax_num_seqs = 1\n#"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMALL))
    found = answer(Question(("vllm", "serve", str(folder)), gpu="h100"))
    assert keys(found)["engine.max_num_seqs"] == 1024
    assert all(line.isprintable() for line in found.text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-tp 2 --max-num-seqs 64 --no-async-scheduling --watermark 0.1",
        "--kv-cache-dtype fp8 --block-size 32 --scheduling-policy priority",
        "--num-gpu-blocks-override 4001 --no-enable-prefix-caching --no-scheduler-reserve-full-isl "
        "--max-model-len 64000",
        "--long-prefill-token-threshold 512 --no-enable-chunked-prefill --max-model-len 2048 "
        "--num-gpu-blocks-override 4001",
    ],
)
def test_the_way_back_is_the_same_scenario(text):
    """What `kvsweep size` recommends for a scenario gives that scenario."""
    there = taken(text).scenario
    back = answer(Question((served(there, Path()).command,), gpu="h100")).scenario
    assert isinstance(back, scenarios.Scenario)
    assert back.engine == there.engine
    assert back.cache == there.cache
    assert back.latency == there.latency


def test_the_page_shows_what_comes_of_its_script(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "from-vllm.md").read_text(encoding="utf-8")
    script, sweep = re.search(r"```sh\n(.*?)```.*?```toml\n(.*?)```", page, re.DOTALL).groups()
    monkeypatch.chdir(tmp_path)
    Path("serve.sh").write_text(script)
    Path("mooncake.jsonl.gz").write_bytes(b"")
    question = Question(("serve.sh",), gpu="h100", trace="mooncake.jsonl.gz")
    assert answer(question).text == sweep


def test_step_times_without_an_exchange_are_told():
    found = taken("-tp 4", gpu="l40s")
    assert any("what 4 l40s exchange is left out" in note for note in found.notes)
    assert not any("exchange" in note for note in taken("-tp 4").notes)


def test_measured_step_times_are_told_where_they_are_known():
    measured = 'latency.model = "llama-3.1-8b/h100/tp1" has measured ones'
    assert any(measured in note for note in taken().notes)
    assert not any("measured ones" in note for note in taken("-tp 4").notes)
    assert not any("measured ones" in note for note in taken("--kv-cache-dtype fp8").notes)
    found = taken(overrides=("latency.model=llama-3.1-8b/h100/tp1",))
    assert not any("measured ones" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-tp 3", "the command: --tensor-parallel-size: 3; vLLM wants the 32 attention heads"),
        ("-pp 99", "the command: --pipeline-parallel-size: 99; llama-3.1-8b has 32 layers"),
        ("-pp 2 --kv-offloading-size 9", "--kv-offloading-size: not simulated beside --pipeline-"),
        (
            "-pp 2 --spec-method eagle --no-async-scheduling",
            "--spec-method: simulated beside --pipeline-parallel-size with asynchronous scheduling",
        ),
        ("-pp 2 --distributed-executor-backend uni", "'uni'; vLLM takes ray, mp or external_l"),
        ("--kv-cache-dtype fp4", "the command: --kv-cache-dtype: 'fp4' is not known"),
        ("--max-model-len 1M", "the command: --max-model-len: 1,048,576; vLLM takes at most"),
        ("--gpu-memory-utilization 0.1", "try --tensor-parallel-size 8, a higher --gpu-memory-"),
        ("--max-num-seqs 0", "the command: --max-num-seqs: 0; expected 1 or more"),
        ("--data-parallel-size 0", "the command: --data-parallel-size: 0; expected 1 or more"),
        ("--kv-cache-memory-bytes 0", "--kv-cache-memory-bytes: 0; expected 1 or more"),
        ("--scheduling-policy sjf", "--scheduling-policy: 'sjf'; vLLM takes fcfs, priority"),
        ("--performance-mode fast", "--performance-mode: 'fast'; vLLM takes balanced,"),
        ("--kv-offloading-backend x", "--kv-offloading-backend: 'x'; vLLM takes native, lmcache"),
        ("--kv-offloading-size 3", "is not known; give by --set cache.link (pcie4-x16, "),
        ("--max-num-seqs 9000", "the 8,192 tokens of a step (vLLM's default on h100)"),
        (
            '--kv-transfer-config \'{"kv_connector": "OffloadingConnector"}\'',
            "--kv-transfer-config: cpu_bytes_to_use: missing",
        ),
        (
            '--kv-transfer-config \'{"kv_connector": "LMCacheConnectorV1"}\'',
            "'LMCacheConnectorV1' is not simulated; leave it out to go on without it",
        ),
        (
            "--config /etc/vllm/a.yaml",
            "the command: --config: /etc/vllm/a.yaml: cannot read: No such file or directory; name",
        ),
    ],
)
def test_what_vllm_refuses_is_said_by_its_options(text, message):
    with pytest.raises(InputError) as told:
        taken(text)
    assert message in str(told.value)


def test_shares_of_memory_that_decide_nothing_are_listed():
    told = "without effect here: --gpu-memory-utilization"
    assert told in taken("--gpu-memory-utilization 0.5 --kv-cache-memory-bytes 9G").notes
    assert told not in taken("--gpu-memory-utilization 0.9").notes
    both = taken("--num-gpu-blocks-override 9000 --kv-cache-memory-bytes 9G")
    assert "without effect here: --kv-cache-memory-bytes" in both.notes
    longer = taken("--long-prefill-token-threshold 9000 --gpu-memory-utilization 0.9")
    assert "without effect here: --long-prefill-token-threshold" in longer.notes
    # Room for more than is scheduled makes no estimate of blocks that are given.
    less = taken("--kv-cache-memory-bytes 9G --max-num-active-seqs 8 --enforce-eager")
    assert "step times do not know of --enforce-eager" in less.notes


def test_the_older_name_of_llama_is_known():
    found = answer(Question(("vllm serve meta-llama/Meta-Llama-3.1-8B-Instruct",), gpu="h100"))
    assert keys(found)["model.preset"] == "llama-3.1-8b"


def test_memory_that_a_command_gives_decides_nothing_beside_a_log(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    found = taken("-tp 2 --no-async-scheduling --kv-cache-memory-bytes 9G", log=path)
    assert "without effect here: --kv-cache-memory-bytes" in found.notes


def test_a_log_in_lines_of_json_tells_the_options_too(tmp_path):
    plain, of_docker = tmp_path / "a.log", tmp_path / "b.log"
    plain.write_text(LOG)
    of_docker.write_text(
        "".join(json.dumps({"log": f"{line}\n"}) + "\n" for line in LOG.splitlines())
    )
    texts = [answer(Question((), gpu="h100", log=path)).text for path in (plain, of_docker)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("option", ["--gpu", "--gpu=h100", "--trace", "-o"])
def test_our_options_behind_the_command_are_told(option):
    words = ("vllm", "serve", "Qwen/Qwen3-8B", option, "h100")
    with pytest.raises(InputError, match=rf"the command: {option}: an option of `kvsweep from-vl"):
        answer(Question(words, gpu="h100"))


def test_a_file_that_is_missing_is_told_by_its_name():
    with pytest.raises(InputError, match=r"no command that starts vLLM, .* there: no-serve\.sh$"):
        answer(Question(("no-serve.sh",), gpu="h100"))


def test_a_server_that_schedules_synchronously_is_believed(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG.replace(" 'async_scheduling': False,", ""))
    assert keys(answer(Question((), gpu="h100", log=path)))["engine.async_scheduling"] is True
    path.write_text(path.read_text() + "INFO [vllm.py:1] Asynchronous scheduling is disabled.\n")
    found = answer(Question((), gpu="h100", log=path))
    assert "async_scheduling = false # the server's own log" in found.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('--hf-overrides "{$X}"', "--hf-overrides {$X}: what it changes is not read"),
        ("--worker-cls $CLS", "--worker-cls $CLS: a worker of one's own"),
        ("--speculative-config.method $M", '--speculative-config: {"method": "$M"}: a variable of'),
        ("--config $CFG", "--config: $CFG: a variable of the shell"),
        ("--$FLAG 3", "--$FLAG: a variable of the shell"),
        ("--$FLAG=3", "--$FLAG: a variable of the shell"),
        ("--port '$P --seed $S", "--port '$P --seed $S: no closing quotation"),
        (f"--speculative-config.{'.'.join('a' * 9_000)} 3", "-config: nested too deeply"),
        ("--kv-offloading-size $N", "--kv-offloading-size: $N: a variable of the shell"),
    ],
)
def test_variables_of_the_shell_are_told_as_they_are_written(text, message):
    with pytest.raises(InputError) as told:
        taken(text)
    assert message in str(told.value)


def test_garbled_options_of_a_log_are_told_without_a_warning(tmp_path, recwarn):
    path = tmp_path / "vllm.log"
    path.write_text(LOG.replace("'max_num_seqs': 128", "'max_num_seqs': 12and 8"))
    with pytest.raises(InputError):
        answer(Question((), gpu="h100", log=path))
    assert not recwarn.list


@pytest.mark.parametrize("setting", ["model.utilization=5", "model.gpu=h200", "model.tp=3"])
def test_what_is_set_is_called_as_it_was_set(setting):
    with pytest.raises(InputError, match=f"--set {setting.partition('=')[0]}: "):
        taken(overrides=(setting,))


@pytest.mark.parametrize("before", ["srun -o log.txt", "nsys profile --trace cuda -o report"])
def test_options_before_the_server_are_those_of_another_program(before):
    words = (*before.split(), *LLAMA.split())
    assert keys(answer(Question(words, gpu="h100"))) == keys(taken())
    with pytest.raises(InputError, match="-o: an option of `kvsweep from-vllm`"):
        answer(Question((*words, "-o", "a.toml"), gpu="h100"))


NEXT = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4"
TIMES = ("latency.beta=[9000, 10, 1]",)


def of_states(text="", gpu="h100", log=None):
    return answer(Question((f"{NEXT} {text}",), gpu=gpu, log=log, overrides=TIMES))


def test_a_model_with_states_has_the_block_size_that_is_raised():
    found = of_states()
    assert keys(found)["cache.block_size"] == 320
    assert "block_size = 320 # 16, raised by vLLM to hold a state" in found.text
    assert [group.kind for group in found.scenario.cache.groups] == ["state"] * 3 + ["full"]
    assert found.scenario.cache.groups[0].checkpoint
    off = of_states("--no-enable-prefix-caching")
    assert (keys(off)["cache.block_size"], off.scenario.cache.block_size) == (272, 272)
    assert keys(of_states("--block-size 512"))["cache.block_size"] == 512


@pytest.mark.parametrize(("gpu", "size", "told"), [("h100", 320, True), ("a100", 272, None)])
def test_memory_that_is_given_holds_the_states_of_the_gpu(gpu, size, told):
    found = of_states("--kv-cache-memory-bytes 10G", gpu)
    state = {"kind": "state"} if told is None else {"kind": "state", "checkpoint": True}
    assert keys(found)["cache.groups"] == [state] * 3 + [{"kind": "full"}]
    assert keys(found)["cache.gpu_blocks"] == 10 * 2**30 // (12 * size * 1024) - 1
    assert found.scenario.cache.block_size == size
    assert found.scenario.cache.groups[0].checkpoint is told


def test_a_log_tells_the_states_of_its_gpu(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(
        "Using Triton/FLA GDN prefill kernel (requested=auto, head_k_dim=128).\n"
        "Setting attention block size to 272 tokens to ensure that attention page size is >= "
        "mamba page size.\n"
        "# GPU blocks: 900, # CPU blocks: 0\n"
    )
    limits = "--max-num-batched-tokens 8192 --max-num-seqs 64"
    found = of_states(limits, gpu=None, log=path).scenario.cache
    assert (found.gpu_blocks, found.block_size) == (899, 272)
    assert [group.checkpoint for group in found.groups] == [None] * 4


@pytest.mark.parametrize(
    "option",
    [
        "--mamba-ssm-cache-dtype float32",
        "--mamba-cache-dtype float32",
        "--gdn-prefill-backend triton",
    ],
)
def test_other_states_than_those_of_the_model_are_refused(option):
    with pytest.raises(InputError, match=f"{option.split()[0]}: .* keeps other states than"):
        of_states(option)
    of_states(option.replace("float32", "bfloat16").replace("triton", "flashinfer"))
    taken(option)  # no states


@pytest.mark.parametrize("name", ["--tp: 3", "model.gpu", "x --dtype y"])
def test_values_that_look_like_options_of_kvsweep_are_quoted_as_they_are(name, tmp_path):
    """Options of ``kvsweep blocks`` in messages are named as vLLM's; values of the user are not."""
    with pytest.raises(InputError, match=f"--kv-cache-dtype: '{name}' is not known"):
        answer(Question(("vllm", "serve", "qwen3-8b", f"--kv-cache-dtype={name}"), gpu="h100"))
    with pytest.raises(InputError, match=f"--model: '{name}' is neither a file nor"):
        answer(Question(("vllm", "serve", "m"), gpu="h100", model=name))
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text("{}")
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / name}/config.json: architec")):
        answer(Question(("vllm", "serve", str(tmp_path / name)), gpu="h100"))
    with pytest.raises(InputError, match="the command: --tensor-parallel-size: 3; vLLM wants"):
        answer(Question(("vllm", "serve", "qwen3-8b", "-tp", "3"), gpu="h100"))


def test_a_model_with_a_short_name_hides_no_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    Path("m/config.json").write_text(json.dumps(SMALL))
    with pytest.raises(InputError, match="the command: --tensor-parallel-size: 97; vLLM wants"):
        answer(Question(("vllm", "serve", "m", "-tp", "97"), gpu="h100"))


def test_step_times_of_a_model_with_states_are_computed_and_said_to_be():
    found = answer(Question((NEXT,), gpu="h100"))
    assert found.scenario.latency.memory[2] > found.scenario.latency.memory[1]
    longer = "prompts took 14 to 27 % longer"
    assert any(note.endswith(longer) for note in found.notes)
    assert not any(note.endswith(longer) for note in of_states().notes)


def test_a_pipeline_is_simulated_as_one():
    found = taken("-tp 2 -pp 2")
    assert keys(found)["model.pp"] == 2
    assert keys(found)["engine.async_scheduling"] is True
    engine = found.scenario.engine
    assert (engine.pipeline_parallel_size, engine.steps_on_way) == (2, 3)
    assert not any("several steps" in note for note in found.notes)
    assert any("never compared with a measurement of a pipeline" in note for note in found.notes)
    fixed = taken("-pp 2 --num-gpu-blocks-override 5000 --no-async-scheduling")
    assert fixed.scenario.engine.steps_on_way == 2
    assert fixed.scenario.cache.gpu_blocks == 4999


@pytest.mark.parametrize(
    "option",
    ["--distributed-executor-backend external_launcher", "--enable-dbo", "--ubatch-size 2"],
)
def test_a_pipeline_of_the_older_runner_is_synchronous(option):
    found = taken(f"-pp 2 {option}")
    assert found.scenario.engine.steps_on_way == 2
    assert f"# vLLM's default of a pipeline with {option.removesuffix(' 2')}" in found.text
    assert keys(taken(option))["engine.async_scheduling"] is True
    with pytest.raises(InputError, match="--async-scheduling: vLLM refuses it in a pipeline with"):
        taken(f"-pp 2 --async-scheduling {option}")


def test_a_pipeline_is_asynchronous_whoever_runs_it():
    assert keys(taken("-pp 2 --ubatch-size 1"))["engine.async_scheduling"] is True
    assert keys(taken("-pp 2 --distributed-executor-backend ray"))["engine.async_scheduling"]


def test_the_longest_request_of_the_server_is_that_of_the_sweep():
    drafts = "--spec-method eagle3 --spec-model x --spec-tokens 3"
    found = taken(f"--max-model-len 8k {drafts}", acceptance=(0.5,))
    assert "max_model_len = 8000 # --max-model-len\n" in found.text
    assert "max_model_len = 131072 # the model's\n" in taken().text
    for auto in ("auto", "-1"):
        fits = f"--max-model-len {auto}"
        assert "max_model_len = 131072 # --max-model-len auto: the model's\n" in taken(fits).text
        few = f"{fits} --num-gpu-blocks-override 501"
        assert (
            "max_model_len = 8000 # --max-model-len auto: what the blocks hold\n" in taken(few).text
        )
        own = taken(few, overrides=("engine.max_model_len=4000",))
        assert (own.scenario.engine.max_model_len, "start" in str(own.notes)) == (4000, False)
        none = taken(f"{fits} --num-gpu-blocks-override 2").scenario
        assert (none.cache.gpu_blocks, none.engine.max_model_len) == (1, 16)
    whole = "--no-enable-chunked-prefill --max-model-len 2048"
    with pytest.raises(InputError, match="fewer than the 2,048 tokens of the longest request, is"):
        taken(f"{whole} --max-num-seqs 64 --max-num-scheduled-tokens 1024")


def test_instances_read_their_part_of_the_experts():
    """An H200 would need 189 ms to read all of DeepSeek-V3's; of eight each reads an eighth."""
    found = answer(Question(("vllm serve deepseek-v3 -dp 8 -ep",), gpu="h200"))
    experts = 58 * 256 * 3 * 7168 * 2048 * (1 + 4 / 128**2)
    reading, share = found.scenario.latency.experts
    assert reading == pytest.approx(experts / 8 / (4.8e12 * 0.72) * 1e6, rel=1e-3)
    # A token of an instance comes with one of each other.
    assert share == pytest.approx(1 - (1 - 8 / 256) ** 8, rel=1e-5)
    alone = answer(Question(("vllm serve deepseek-v3 -tp 8",), gpu="h200")).scenario.latency
    assert alone.experts == pytest.approx((reading, 8 / 256), rel=1e-5)
    assert "what they exchange for the experts is left out" in " ".join(found.notes)
    assert "latency.experts" not in keys(taken("-dp 2"))
    again = answer(Question((served(found.scenario, Path()).command,), gpu="h200"))
    assert again.scenario == found.scenario


def test_step_times_that_are_given_are_taken_of_instances_that_share_experts():
    times = ("latency.model=deepseek-v3/h200/tp8",)
    found = answer(Question(("vllm serve deepseek-v3 -dp 8",), gpu="h200", overrides=times))
    assert {k for k in keys(found) if k.startswith("latency")} == {"latency.model"}
    assert "exchange" not in " ".join(found.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_role": None}, "kv_role: null; vLLM takes kv_producer, kv_consumer, kv_both"),
        ({"kv_rol": 1}, "kv_rol: no key of vLLM's; did you mean 'kv_role'?"),
        ({"kv_connector": None}, "kv_connector: missing; without it vLLM has no connector"),
        (
            {"kv_connector_extra_config": {"block_size": 64, "blocks_per_chunk": 4}},
            "block_size and blocks_per_chunk: vLLM takes one of the two",
        ),
        (
            {"kv_connector_extra_config": {"cpu_bytes_to_use": 1e10, "eviction_policy": "fifo"}},
            "unknown tier eviction 'fifo'; allowed: lru, arc",
        ),
    ],
)
def test_a_connector_that_vllm_refuses_is_refused(change, message):
    more = {"cpu_bytes_to_use": 1e10}
    told = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
    told |= {"kv_connector_extra_config": more} | change
    with pytest.raises(InputError) as refused:
        taken(f"--kv-transfer-config '{json.dumps(told)}'", overrides=("cache.link=pcie5-x16",))
    assert message in str(refused.value)


def test_a_connector_without_a_role_is_refused_unless_the_size_gives_both():
    told = '--kv-transfer-config \'{"kv_connector": "OffloadingConnector"%s}\''
    link = ("cache.link=pcie5-x16",)
    assert taken(f"--kv-offloading-size 9 {told % ''}", overrides=link)
    size = ', "kv_connector_extra_config": {"cpu_bytes_to_use": 1e10}'
    with pytest.raises(InputError, match="kv_role: missing; vLLM takes kv_producer, kv_cons"):
        taken(told % size, overrides=link)


def test_a_method_that_is_null_is_missing():
    text = '--speculative-config \'{"method": null, "num_speculative_tokens": 2}\''
    with pytest.raises(InputError, match="method: missing: vLLM finds it"):
        taken(text, acceptance=(0.5,))


def test_what_is_added_to_steps_needs_times_of_steps():
    """The file would be refused by `kvsweep grid`: [model] computes times only without others."""
    late = "latency.first_steps_us=[100000]"
    with pytest.raises(InputError, match="first_steps_us: added to steps, of which nothing is tol"):
        taken(overrides=(late,))
    both = taken(overrides=(late, "latency.model=llama-3.1-8b/h100/tp1")).scenario.latency
    assert both.first_steps_us == (100_000,)
    assert both.beta[0] > 1000
    text = "vllm serve deepseek-v3 -dp 8"
    found = answer(Question((text,), gpu="h200", overrides=(late,))).scenario.latency
    assert found.first_steps_us == (100_000,)
    assert found.experts[0] > 20_000


def test_blocks_of_a_log_are_taken_where_an_estimate_leaves_none(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text("INFO GPU KV cache size: 160,000 tokens\n")
    command = ("vllm serve kimi-k2 -tp 8 --max-num-batched-tokens 32768",)
    with pytest.raises(InputError, match="no memory is left"):
        answer(Question(command, gpu="h200"))
    found = answer(Question(command, gpu="h200", log=path))
    assert found.scenario.cache.gpu_blocks == 9999


@pytest.mark.parametrize("option", ["--num-gpu-blocks-override 5000", "--kv-cache-memory-bytes 9G"])
def test_instances_that_share_experts_fit_with_blocks_that_are_given(option):
    """None of them holds all 627 GiB."""
    found = answer(Question((f"vllm serve deepseek-v3 -dp 8 {option}",), gpu="h200"))
    assert found.scenario.model.weights_gib == pytest.approx(93.9, abs=0.1)


def test_options_that_decide_nothing_beside_others_are_left_out():
    """`kvsweep grid` would refuse the file for them, and vLLM takes them."""
    found = taken("--no-enable-chunked-prefill --no-scheduler-reserve-full-isl")
    assert "engine.reserve_full_prompt" not in keys(found)
    assert "without effect here: --no-scheduler-reserve-full-isl" in found.notes
    assert found.scenario.engine.reserve_full_prompt is True
    few = taken("--watermark 0.0001 --num-gpu-blocks-override 500")
    assert "engine.watermark" not in keys(few)
    assert keys(taken("--watermark 0.01"))["engine.watermark"] == 0.01


@pytest.mark.parametrize(
    ("option", "gpu"),
    [("--distributed-executor-backend ray", "h200"), ("--nnodes 2", "h200"), ("", "mi300x")],
)
def test_a_latent_vector_is_kept_by_each_gpu_where_processes_share_no_memory(option, gpu):
    """As with Ray's executor, on several nodes, and on AMD's GPUs."""
    text = f"vllm serve deepseek-v3 -tp 8 --block-size 16 --kv-offloading-size 100 {option}"
    found = answer(Question((text,), gpu=gpu, overrides=("cache.link=pcie5-x16",)))
    chunk = -(-61 * 576 * 2 * 16 * 8 // 4096) * 4096
    assert found.scenario.cache.cpu_blocks == 100 * 2**30 // chunk == 11_937
    if gpu == "mi300x":
        assert "--kv-offloading-size 99.99" in served(found.scenario, Path()).command


def test_a_file_of_options_is_not_the_command(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("model: meta-llama/Llama-3.1-8B\nmax_model_len: 8192\nport: 8000\n")
    with pytest.raises(InputError, match=r"config\.yaml: options of vLLM: give the command that"):
        answer(Question((str(path),), gpu="h100"))
    found = answer(Question((f"vllm serve --config {path}",), gpu="h100"))
    assert keys(found)["engine.max_model_len"] == 8192
    path.write_text("model: meta-llama/Llama-3.1-8B\nlearning_rate: 1\n")
    with pytest.raises(InputError, match="no command that starts vLLM"):
        answer(Question((str(path),), gpu="h100"))


def test_slots_of_a_draft_model_are_not_of_the_tokens_that_are_scheduled():
    """vLLM's scheduler takes them from ``max_num_batched_tokens``; rule R13.2 has one budget."""
    text = "--spec-model x --spec-tokens 3 --max-num-scheduled-tokens {} --spec-method {}"
    with pytest.raises(InputError, match="max-num-scheduled-tokens: not simulated beside a draft"):
        taken(text.format(2048, "draft_model"), acceptance=(0.5,))
    assert taken(text.format(8192, "draft_model"), acceptance=(0.5,))
    assert taken(text.format(2048, "eagle3"), acceptance=(0.5,))


def test_blocks_for_which_a_gpu_has_no_room_are_told():
    """Beside 15 GiB of weights an H100 has 64 at most."""
    told = " blocks do not fit: h100 has room for "
    assert f"524,288{told}" in " ".join(taken("--kv-cache-memory-bytes 1T").notes)
    assert f"40,000{told}" in " ".join(taken("--num-gpu-blocks-override 40000").notes)
    for option in ("--num-gpu-blocks-override 30000", "--kv-cache-memory-bytes 60G", ""):
        assert told not in " ".join(taken(option).notes)


def test_keys_and_values_of_16_bits_are_those_that_the_model_runs_in(tmp_path):
    """``--dtype`` may be another one than the checkpoint's, as wide."""
    path = tmp_path / "vllm.log"
    path.write_text("INFO GPU KV cache size: 160,000 tokens\n")
    for more in ({}, {"log": path}):
        found = taken("--dtype half --kv-cache-dtype float16", **more)
        assert keys(found)["model.dtype"] == "bfloat16"
        assert found.scenario.cache.kv_bytes_per_token == 131_072
    with pytest.raises(InputError, match="bfloat16; with --dtype half vLLM takes float16 or auto"):
        taken("--dtype half --kv-cache-dtype bfloat16")
    assert keys(taken("--dtype half --kv-cache-dtype fp8"))["model.dtype"] == "fp8"
    with pytest.raises(InputError, match=r"of llama-3\.1-8b vLLM takes bfloat16 or"):
        taken("--kv-cache-dtype float16")


def test_blocks_that_no_attention_takes_are_told():
    """FlashAttention, FlashInfer and Triton take multiples of 16; AITER's MLA any."""
    told = "vLLM does not start: its attention takes blocks of 16 tokens, or of a multiple, not of"
    assert f"{told} 24" in taken("--block-size 24").notes
    assert told not in " ".join(taken("--block-size 48").notes)
    latent = "vllm serve deepseek-v3 -tp 8 --block-size 1"
    for gpu, count in (("h200", 1), ("mi300x", 0)):
        notes = answer(Question((latent,), gpu=gpu)).notes
        assert sum(note.startswith(told) for note in notes) == count


def test_a_model_of_the_same_config_as_a_known_one_is_known():
    found = answer(Question(("vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4",), gpu="h100"))
    assert keys(found)["model.preset"] == "llama-3.1-70b"


def test_the_nearest_model_that_is_known_is_told_with_how_to_name_it():
    told = r"; did you mean 'qwen3-32b'\?; give the name .* --model NAME, or its config\.json: --"
    with pytest.raises(InputError, match=told):
        answer(Question(("vllm serve Qwen/Qwen3-32B-FP8 -tp 2",), gpu="h100"))


def test_a_model_that_stands_in_for_another_is_told():
    """An FP8 checkpoint had the blocks of one in 16 bits without a word."""
    other = "vllm serve Qwen/Qwen3-32B-FP8 -tp 2"
    note = "weights and step times are those of qwen3-32b (--model); if Qwen/Qwen3-32B-FP8 has"
    told = answer(Question((other,), gpu="h100", model="qwen3-32b")).notes
    assert any(line.startswith(note) for line in told)
    same = answer(Question((other.replace("-FP8", ""),), gpu="h100", model="qwen3-32b")).notes
    assert not any("(--model)" in line for line in same)


def test_where_set_tells_what_follows_from_a_gpu_none_is_asked_for():
    """Blocks were asked for by `--gpu`, though `--set` gave them."""
    limits = "--max-num-batched-tokens 2048 --max-num-seqs 64"
    told = ("cache.gpu_blocks=500", "latency.beta=[5000, 10, 10]")
    found = keys(taken(limits, gpu=None, overrides=told))
    assert (found["cache.gpu_blocks"], found["latency.beta"]) == (500, [5000, 10, 10])
    assert "model.gpu" not in found
    with pytest.raises(InputError, match=r"latency: missing; .*--gpu, or --set latency\.model"):
        taken(limits, gpu=None, overrides=told[:1])
    with pytest.raises(InputError, match=r"--gpu: missing: .* blocks .* or --set cache\.gpu_block"):
        taken(limits, gpu=None, overrides=told[1:])


@pytest.mark.parametrize(
    "option",
    ["--num-gpu-blocks-override 0", "--kv-cache-memory-bytes 3M"],
)
def test_no_block_beside_the_null_block_is_told_by_the_option(option):
    with pytest.raises(InputError) as refused:
        taken(option)
    name = option.partition(" ")[0]
    assert str(refused.value) == (
        f"the command: {name}: leaves no block beside vLLM's null block; give more"
    )


def test_acceptance_is_one_share_or_one_for_each_draft():
    """As of a log of a server with fewer drafts, of which the third would never be accepted."""
    text = """--speculative-config '{"method": "mtp", "num_speculative_tokens": 3}'"""
    told = "--acceptance: 2 shares for 3 drafts; give one, or one for each position"
    with pytest.raises(InputError, match=told):
        taken(text, acceptance=(0.7, 0.5))
    assert keys(taken(text, acceptance=(0.7,)))["engine.speculative"]["acceptance"] == 0.7


def test_fewer_tokens_of_a_step_are_a_remedy_by_the_option_of_the_command():
    command = ("vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --max-num-batched-tokens 262144",)
    with pytest.raises(InputError, match="try a smaller --max-num-batched-tokens or a larger"):
        answer(Question(command, gpu="h100"))


def test_what_is_still_to_be_given_leaves_the_blocks_to_the_gpu(tmp_path):
    """The lines that were offered swept 1,000 to 8,000 blocks, of a server that has 27,646."""
    head, asked = taken().text.split("# What is asked of the server is missing")
    given = "\n".join(line.removeprefix("#").removeprefix(" ") for line in asked.split("\n")[1:])
    (tmp_path / "s.toml").write_text(head + given, encoding="utf-8")
    assert "cache" not in tomllib.loads(given)
    (axis,) = kvsweep.load_sweep(tmp_path / "s.toml").axes
    assert axis.name == "seed"


def test_a_gpu_without_peaks_is_named_with_what_gives_its_step_times():
    """It was said to be given by its memory, with no way on."""
    remedy = "give --set latency.model=..., a file with its peaks"
    named = "not known of a10g, whose peaks kvsweep has not"
    with pytest.raises(InputError, match=f"{named}; {remedy}"):
        taken(gpu="a10g")
    with pytest.raises(InputError, match=rf"a GPU given by its memory \(24GiB\); {remedy}"):
        taken(gpu="24GiB")


KEPT = "cache.prefix_cache_retention_interval"


@pytest.mark.parametrize(
    ("option", "interval"),
    [
        ("", 0),
        ("--prefix-cache-retention-interval 0", 0),
        ("--prefix-cache-retention-interval 64", 64),
        ("--prefix-cache-retention-interval None", 16),  # a block: all are kept
    ],
)
def test_what_windows_keep_in_the_cache_is_taken(option, interval):
    found = answer(Question((f"vllm serve openai/gpt-oss-120b {option}",), gpu="h100"))
    assert keys(found)[KEPT] == interval
    reason = "--prefix-cache-retention-interval" if option else "vLLM's default"
    assert f"interval = {interval} # {reason}\n" in found.text


def test_nothing_is_kept_where_nothing_is_cached():
    command = "vllm serve openai/gpt-oss-120b --no-enable-prefix-caching"
    assert KEPT not in keys(answer(Question((command,), gpu="h100")))
    assert KEPT not in keys(taken())
    assert KEPT not in keys(taken("--prefix-cache-retention-interval 0"))


def test_intervals_that_vllm_does_not_start_with_are_refused():
    with pytest.raises(InputError, match="interval: the model has no windows and no states"):
        taken("--prefix-cache-retention-interval 16")
    command = "vllm serve openai/gpt-oss-120b --prefix-cache-retention-interval 24"
    with pytest.raises(InputError, match="interval: 24 is no multiple of the 16 tokens of a block"):
        answer(Question((command,), gpu="h100"))


def test_an_instruct_model_that_stands_in_for_its_base_is_told():
    served = ("vllm serve Qwen/Qwen2.5-7B",)
    told = answer(Question(served, gpu="h100", model="qwen2.5-7b")).notes
    assert any("or takes longer requests, give its config.json" in line for line in told)


def test_limits_of_a_step_may_be_as_large_as_what_bounds_them():
    """The longest request, the tokens of a step and the requests that run are included."""
    command = "vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --max-num-batched-tokens 2048 {}"

    def of(options):
        return keys(answer(Question((command.format(options),), gpu="h100")))

    assert of("--max-num-scheduled-tokens 64")["engine.max_num_batched_tokens"] == 64
    threshold = "engine.long_prefill_token_threshold"
    assert of("--long-prefill-token-threshold 2047")[threshold] == 2047
    assert threshold not in of("--long-prefill-token-threshold 2048")
    assert threshold not in of("--long-prefill-token-threshold 40960")
    with pytest.raises(InputError, match="at most the 40,960 tokens of the longest request"):
        of("--long-prefill-token-threshold 40961")


OTHER = "defaults here are those of 0.33.0, and docs/vllm-releases.md has what it does otherwise"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("docker run {}:v0.8.5 --model meta-llama/Llama-3.1-8B", "{}:v0.8.5"),
        ("docker run hub:5000/{}:v0.11.0-x86_64 --model meta-llama/Llama-3.1-8B", None),
        ("docker run {}:v0.8.5.post1 serve meta-llama/Llama-3.1-8B", None),
        ("docker run rocm/vllm:rocm6.4_vllm_0.10.0_2025 vllm serve meta-llama/Llama-3.1-8B", None),
        (f"pip install -q 'vllm[audio]==0.11.0' &&\n{LLAMA}", "vllm[audio]==0.11.0"),
        (f"uvx vllm@0.12.0 serve meta-llama/Llama-3.1-8B || {LLAMA}", "vllm@0.12.0"),
        ('FROM {}:v0.9.1 AS base\nFROM base\nCMD ["meta-llama/Llama-3.1-8B"]', "{}:v0.9.1"),
        (f"FROM python\nRUN pip install \\\n  vllm==0.9.2\nCMD {LLAMA}", "vllm==0.9.2"),
        (
            "services: {a: {image: '{}:${TAG:-v0.10.0}', command: meta-llama/Llama-3.1-8B}}",
            "{}:v0.10.0",
        ),
        (
            "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {containers: [{name: b, image: "
            "'{}:v0.7.3', args: [meta-llama/Llama-3.1-8B]}]}",
            "{}:v0.7.3",
        ),
        (
            "servingEngineSpec: {modelSpec: [{name: a, repository: {}, tag: v0.7.3, "
            "modelURL: meta-llama/Llama-3.1-8B}]}",
            "{}:v0.7.3",
        ),
        (
            "image: {repository: {}, tag: v0.7.3, command: [vllm, serve, meta-llama/Llama-3.1-8B]}",
            "{}:v0.7.3",
        ),
    ],
)
def test_another_release_of_an_image_is_told(tmp_path, text, said):
    path = tmp_path / "server"
    path.write_text(text.replace("{}", "vllm/vllm-openai"), encoding="utf-8")
    notes = [note for note in answer(Question((str(path),), gpu="h100")).notes if OTHER in note]
    assert len(notes) == 1
    assert said is None or notes[0].startswith(said.replace("{}", "vllm/vllm-openai") + " is vLLM")


@pytest.mark.parametrize(
    "text",
    [
        "docker run vllm/vllm-openai:v0.33.1-cu130 --model meta-llama/Llama-3.1-8B",
        "docker run vllm/vllm-openai:latest --model meta-llama/Llama-3.1-8B",
        "docker run lmcache/vllm-openai:v0.3.5 --model meta-llama/Llama-3.1-8B",
        f"# not vllm==0.8.5\npip install vllm==0.33.0 my-vllm==0.1.0\n{LLAMA}",
    ],
)
def test_the_same_or_no_release_is_not_told(text):
    assert not any("is vLLM" in note for note in answer(Question((text,), gpu="h100")).notes)


def test_a_log_knows_its_release_better_than_an_image(tmp_path):
    path, text = tmp_path / "vllm.log", "docker run vllm/vllm-openai:v0.8.5 --model Qwen/Qwen3-8B"
    path.write_text(LOG, encoding="utf-8")
    assert OTHER not in str(answer(Question((text,), gpu="h100", log=path)).notes)
    path.write_text(LOG.replace("vLLM API server version 0.33.0", ""), encoding="utf-8")
    assert OTHER in str(answer(Question((text,), gpu="h100", log=path)).notes)


@pytest.mark.parametrize(
    ("gpu", "text", "size", "by"),
    [
        ("h100", "--attention-backend hpc_attn", 64, "--attention-backend HPC_ATTN"),
        ("rtx5090", "-ac.backend=B12X", 128, "--attention-config B12X"),
        ("mi300x", "--attention-backend=ROCM_AITER_UNIFIED_ATTN", 64, "--attention-backend ROCM"),
        ("h100", '--attention-config \'{"backend": "FLASHINFER"}\'', 16, "--attention-config FLA"),
        ("h100", "--attention-backend auto", 16, "vLLM's default"),
        ("h100", "--attention-backend HPC_ATTN --block-size 128", 128, "--block-size"),
        ("mi300x", "--kv-offloading-size 20", 64, "AITER's attention, which vLLM takes for a conn"),
        ("h100", "--kv-offloading-size 20", 16, "vLLM's default"),
        ("mi300x", "", 16, "vLLM's default"),
    ],
)
def test_the_blocks_follow_from_the_attention_that_is_chosen(gpu, text, size, by):
    link = ("cache.link=pcie5-x16",) if "offloading" in text else ()
    link += ("latency.model=llama-3.1-8b/rtx4090/tp1",) if gpu == "rtx5090" else ()
    found = taken(f"--max-model-len 4096 {text}", gpu, overrides=link)
    assert found.scenario.cache.block_size == size
    assert f"\nblock_size = {size} # {by}" in found.text
    fixed = taken(f"{text} --kv-cache-memory-bytes 2G --max-model-len 4096", gpu, overrides=link)
    assert fixed.scenario.cache.gpu_blocks == 1024 * 16 // size - 1


def test_attention_by_kind_whose_blocks_are_its_own_asks_for_their_size():
    text = "--attention-config.backend_per_kind.full_attention HPC_ATTN"
    with pytest.raises(InputError, match=r"backend_per_kind: .* give --block-size"):
        taken(text)
    assert taken(f"{text} --block-size 64").scenario.cache.block_size == 64


def test_the_blocks_of_latent_attention_may_be_told_by_the_log(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(LOG + "Setting kv cache block size to 64 for FLASHMLA backend(s).\n", "utf-8")
    text = "vllm serve deepseek-v3 -tp 8 --attention-backend FLASHMLA"
    assert answer(Question((text,), gpu="h200", log=path)).scenario.cache.block_size == 64


def test_the_most_tokens_of_answers_are_told():
    for text in ("='{\"max_new_tokens\": 512}'", ".max_new_tokens 512"):
        notes = " | ".join(taken(f"--override-generation-config{text}").notes)
        assert "the server ends answers after 512 tokens, here requests say" in notes
    assert "ends answers" not in str(taken("--override-generation-config.top_k 5").notes)


OF_DTYPE = "keys and values in fp8, the command bfloat16"
OF_CACHING = "prefix caching off, the command on"
SCRAPE = """\
vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="False",\
gpu_memory_utilization="0.9",num_gpu_blocks="20001"} 1.0
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "",
            ["keys and values in fp8, the command bfloat16", "prefix caching off, the command on"],
        ),
        ("--kv-cache-dtype fp8_e4m3", ["prefix caching off, the command on"]),
        ("--no-enable-prefix-caching", ["keys and values in fp8, the command bfloat16"]),
        ("--no-enable-prefix-caching --kv-cache-dtype fp8", []),
    ],
)
def test_what_a_log_says_otherwise_than_the_command_is_told(tmp_path, text, said):
    path = tmp_path / "metrics.txt"
    path.write_text(SCRAPE, encoding="utf-8")
    notes = [note for note in taken(text, log=path).notes if note.startswith("the log has")]
    assert notes == [f"the log has {each}" for each in said]


def test_the_blocks_of_wide_heads_on_blackwell_are_asked_for():
    text = "vllm serve qwen3-next-80b-a3b -tp 2 --attention-backend FLASH_ATTN"
    with pytest.raises(InputError, match="with heads of 256 channels on b200: give --block-size"):
        answer(Question((text,), gpu="b200"))
    assert answer(Question((f"{text} --block-size 128",), gpu="b200")).scenario.cache.block_size
    assert answer(Question((text,), gpu="h200")).scenario.cache.block_size
    assert taken("--attention-backend FLASH_ATTN", "b200").scenario.cache.block_size == 16


@pytest.mark.parametrize(
    ("command", "block"),
    [
        ("vllm serve openai/gpt-oss-20b --kv-offloading-size 10", 12 * 16 * 2 * 8 * 64 * 2),
        ("vllm serve openai/gpt-oss-20b -tp 2 --kv-offloading-size 10", 12 * 16 * 2 * 8 * 64 * 2),
    ],
)
def test_a_tier_of_a_hybrid_model_has_blocks_of_one_group(command, block):
    found = answer(Question((command,), gpu="h100", overrides=("cache.link=pcie5-x16",)))
    cache = found.scenario.cache
    assert (len(cache.groups), cache.cpu_blocks) == (2, 10 * 2**30 // block)
    told = served(found.scenario, Path()).command
    words = told.split()
    size = float(words[words.index("--kv-offloading-size") + 1])
    assert size == pytest.approx(cache.cpu_blocks * block / 2**30, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "gpu", "tokens"),
    [
        ("", "l40s", 32 * 78),
        ('--limit-mm-per-prompt \'{"image": 4, "audio": 1}\'', "a100", 32 * 78),
        ("--limit-mm-per-prompt.video.num_frames 30", "l40s", 30 * 78),
        ('--limit-mm-per-prompt \'{"image": 0, "video": {"count": 0}}\'', "l40s", 2048),
        ("--language-model-only", "l40s", 2048),
        ("--performance-mode throughput", "l40s", 4096),
        ("", "h100", 8192),
    ],
)
def test_a_step_of_gemma_4_has_room_for_a_video(options, gpu, tokens):
    """It had 2,048 tokens, with which vLLM does not start (vllm-project/recipes#441)."""
    overrides = ("latency.beta=[7000]", "model.weights_gib=24", "cache.gpu_tokens=100000")
    question = Question(
        (f"vllm serve m {options}",), gpu=gpu, model="gemma-4-26b", overrides=overrides
    )
    assert keys(answer(question))["engine.max_num_batched_tokens"] == tokens


def test_a_step_of_gemma_4_that_has_no_room_for_a_video_is_told():
    overrides = ("latency.beta=[7000]", "model.weights_gib=24", "cache.gpu_tokens=100000")
    told = {"gpu": "l40s", "model": "gemma-4-26b", "overrides": overrides}
    few = "vllm serve m --max-num-batched-tokens 2048"
    note = (
        "vLLM does not start: a step of 2,048 tokens has no room for a video; it does with 2,496, "
        "or with --limit-mm-per-prompt.video 0"
    )
    assert note in answer(Question((few,), **told)).notes
    without = f"{few} --limit-mm-per-prompt.video 0"
    assert not any("video" in text for text in answer(Question((without,), **told)).notes[:3])


def test_what_mtp_loses_beside_a_tier_is_told():
    text = "-sc '{}' --kv-offloading-size 10"
    known = {"acceptance": (0.7,), "overrides": ("cache.link_gb_per_s=25",)}

    def notes(method):
        config = f'{{"method": "{method}", "num_speculative_tokens": 2}}'
        return " ".join(taken(text.format(config), **known).notes)

    assert "a hit does without its last block" in notes("mtp")
    assert "a hit does without its last block" not in notes("draft_model")


def test_one_group_of_all_layers_is_refused_where_there_are_several_kinds():
    """It was refused of models that have one kind, for which vLLM changes nothing."""
    option = "--disable-hybrid-kv-cache-manager"
    found = taken(option)
    assert keys(found) == keys(taken())
    assert f"without effect here: {option}" in " | ".join(found.notes)
    for model in ("gpt-oss-20b", "qwen3-next-80b-a3b -tp 4"):
        with pytest.raises(InputError, match=f"{option}: layers of all kinds in one group are not"):
            answer(Question((f"vllm serve {model} {option}",), gpu="h100"))
        assert answer(Question((f"vllm serve {model} --no{option[1:]}",), gpu="h100"))
    drafts = "--spec-method eagle3 --spec-model x --spec-tokens 3"
    with pytest.raises(InputError, match=f"{option}: layers of all kinds"):
        taken(f"{option} {drafts}", acceptance=(0.7,))


def test_an_option_of_ones_own_behind_a_command_in_quotes_is_told_as_such():
    """`"vllm serve M" --gpu h100` was asked to have --gpu in the command, where vLLM has none."""
    told = r"--gpu: an option of `kvsweep from-vllm`, not of vLLM: give it before the command"
    with pytest.raises(InputError, match=told):
        answer(Question(("vllm serve meta-llama/Llama-3.1-8B", "--gpu", "h100")))
    with pytest.raises(InputError, match="-tp: is not in the text that has the command"):
        answer(Question(("vllm serve meta-llama/Llama-3.1-8B", "-tp", "2"), gpu="h100"))


@pytest.mark.parametrize(
    ("options", "gpu", "tokens"),
    [
        ("", "b200", 64),
        ("--language-model-only", "b200", 16),
        ("--limit-mm-per-prompt.image 0", "b200", 64),
        ("--limit-mm-per-prompt.image 0 --limit-mm-per-prompt.video 0", "b200", 16),
        ("--attention-backend TRITON_ATTN", "b200", 16),
        ("--attention-backend TRITON_FLASHINFER", "b200", 64),
        ("--block-size 128", "b200", 128),
        ("--kv-cache-dtype fp8", "h100", 64),
        ("--kv-cache-dtype fp8 --attention-backend FLASH_ATTN", "h100", 64),
        ("--kv-cache-dtype fp8 --language-model-only", "h100", 64),
        ("--kv-cache-dtype fp8 --attention-backend TRITON_ATTN", "h100", 16),
    ],
)
def test_blocks_of_gemma_4_are_those_of_the_attention_for_wide_heads(options, gpu, tokens):
    overrides = ("latency.beta=[7000]", "model.weights_gib=24", "cache.gpu_tokens=100000")
    told = {"gpu": gpu, "model": "gemma-4-26b", "overrides": overrides}
    found = keys(answer(Question((f"vllm serve m {options}",), **told)))
    assert found["cache.block_size"] == tokens
