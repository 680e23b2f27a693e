"""Logs and metrics of servers: blocks exactly where they tell them."""

import gzip
import json

import pytest

from kvsweep.errors import InputError
from kvsweep.sizing.asking import answer
from kvsweep.sizing.question import Question
from kvsweep.sizing.server_log import read_log_text, read_server

V0 = """\
INFO 01-16 09:40:00 worker.py:238] the current vLLM instance can use 71.29GiB
INFO 01-16 09:40:00 executor_base.py:95] # CUDA blocks: 6001, # CPU blocks: 1638
"""

V023 = """\
(APIServer pid=1) INFO 06-05 10:00:00 [utils.py:1] vLLM API server version 0.23.1
(APIServer pid=1) INFO 06-05 10:00:00 [utils.py:1] non-default args: {'max_model_len': 8192}
(EngineCore pid=2) INFO 06-05 10:00:20 [gpu_worker.py:475] Available KV cache memory: 16.00 GiB
(EngineCore pid=2) INFO 06-05 10:00:20 [kv_cache_utils.py:1733] GPU KV cache size: 299,584 tokens
(EngineCore pid=2) INFO 06-05 10:00:20 [kv_cache_utils.py:1734] Maximum concurrency for 8,192 \
tokens per request: 36.57x
"""

V033 = """\
INFO 11-20 10:00:00 [startup.py:96] non-default args: {'tensor_parallel_size': 2}
INFO 11-20 10:00:01 [core.py:140] Initializing a V1 LLM engine (v0.33.0) with config: \
tensor_parallel_size=2, pipeline_parallel_size=1
INFO 11-20 10:00:01 [config.py:1] Chunked prefill is enabled with max_num_batched_tokens=8192.
(Worker_TP0) INFO 11-20 10:00:20 [gpu_worker.py:773] Available KV cache memory: 8.01 GiB
(Worker_TP1) INFO 11-20 10:00:20 [gpu_worker.py:773] Available KV cache memory: 8.00 GiB
INFO 11-20 10:00:20 [kv_cache_utils.py:1147] GPU KV cache size: 131,072 tokens, Maximum \
concurrency for 131,072 tokens per request: 1.00x
"""

GPT_OSS_019 = """\
INFO 12-01 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.12.0) with config: model=x
INFO 12-01 10:00:20 [gpu_worker.py:349] Available KV cache memory: 5.38 GiB
INFO 12-01 10:00:20 [kv_cache_utils.py:1229] GPU KV cache size: 78,384 tokens
INFO 12-01 10:00:20 [kv_cache_utils.py:1234] Maximum concurrency for 131,072 tokens per request: \
1.13x
"""

EAGLE = """\
INFO 03-01 10:00:20 [gpu_worker.py:475] Available KV cache memory: 51.63 GiB
INFO 03-01 10:00:20 [kv_cache_utils.py:1307] GPU KV cache size: 410,128 tokens
INFO 03-01 10:00:20 [kv_cache_utils.py:1312] Maximum concurrency for 2,048 tokens per request: \
200.26x
"""

METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="0",\
gpu_memory_utilization="0.92",kv_cache_size_tokens="829056",num_gpu_blocks="25908"} 1.0
vllm:num_requests_running{engine="0",model_name="x"} 3.0
"""


@pytest.fixture
def log(tmp_path):
    def write(text, name="server.log"):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def of(path, **options):
    return answer(Question(log=path, **options))


def test_blocks_of_an_old_log_are_taken_as_they_are(log):
    found = of(log(V0))
    assert found.blocks == 6001
    assert found.tokens == 6001 * 16


@pytest.mark.parametrize("name", ["server.log", "server.log.gz"])
def test_tokens_of_a_log_are_blocks_exactly(log, name):
    found = of(log(V023, name), model="qwen2.5-7b")
    assert found.blocks == 18_724
    assert found.tokens == 299_584
    assert found.concurrency == pytest.approx(36.57, abs=0.005)
    assert found.to_dict()["kv_gib"] == 16.0
    assert found.to_dict()["bytes_per_token"] == 57_344
    without = of(log(V023, name))
    assert without.blocks == 18_724
    assert without.concurrency == 36.57
    assert without.to_dict()["bytes_per_token"] is None
    assert any("--model tells if not" in warning for warning in without.warnings)


def test_size_and_concurrency_on_one_line_and_the_settings_of_the_server(log):
    found = of(log(V033), model="llama-3.1-8b")
    assert found.blocks == 8192
    assert found.served.asked.tp == 2
    assert found.served.defaults.max_num_batched_tokens == 8192
    assert found.to_dict()["bytes_per_token"] == 65_536
    assert found.to_dict()["kv_gib"] == 8.0  # of the worker with least
    assert not any("formula" in warning for warning in found.warnings)


def test_an_option_wins_over_the_log(log):
    found = of(log(V033), model="llama-3.1-8b", tp=1)
    assert found.served.asked.tp == 1
    assert any("4,096 blocks of this model by the formula" in text for text in found.warnings)


def test_tokens_of_a_hybrid_model_before_020_are_those_of_one_group(log):
    """78,384 tokens: two groups of 4,899 blocks, and one lost; 5.38 GiB by the formula: 9,793."""
    found = of(log(GPT_OSS_019), model="gpt-oss-120b")
    assert found.blocks == 9_798
    assert "before 0.20, to 2 blocks" in found.source_text
    # The difference to the formula is within the rounding of 5.38 GiB.
    assert not any("formula" in warning for warning in found.warnings)


def test_tokens_of_a_hybrid_model_since_then_depend_on_the_longest_request(log):
    now = answer(Question(model="gpt-oss-120b", kv_memory="5.38GiB", max_num_batched_tokens=8192))
    text = (
        "LLM engine (v0.33.0) max_num_batched_tokens=8192\n"
        f"Available KV cache memory: 5.38 GiB\nGPU KV cache size: {now.tokens:,} tokens, "
        "Maximum concurrency for 131,072 tokens per request: 1.06x"
    )
    found = of(log(text), model="gpt-oss-120b")
    assert found.blocks == now.blocks == 9_793
    with pytest.raises(InputError, match="--max-num-batched-tokens"):
        of(
            log(text.replace("8192", "4000").replace(f"{now.tokens:,}", "139,141")),
            model="gpt-oss-120b",
        )


def test_tokens_of_a_hybrid_model_without_its_name_are_refused(log):
    path = log("Resolved architecture: GptOssForCausalLM\n" + GPT_OSS_019)
    with pytest.raises(InputError, match="the tokens of GptOssForCausalLM depend on its layers"):
        of(path)


def test_a_log_of_an_unknown_architecture_asks_for_what_can_be_given(log):
    """The model would be refused, and pointed to the log."""
    told = V023 + "Resolved architecture: NoForCausalLM\n"
    with pytest.raises(InputError, match="NoForCausalLM, which is not known here, may depend on"):
        of(log(told))
    blocks = "Resolved architecture: NoForCausalLM\n# GPU blocks: 5385, # CPU blocks: 0\n"
    assert of(log(blocks)).blocks == 5_385


def test_a_draft_model_is_why_log_and_formula_differ(log):
    """33 layers with EAGLE's: 51.63 GiB are 25,633 blocks, and 26,434 of the model alone."""
    found = of(log(EAGLE), model="llama-3.1-8b")
    assert found.blocks == 25_633
    assert found.tokens == 410_128
    (told,) = [warning for warning in found.warnings if "formula" in warning]
    assert "26,434 blocks" in told
    assert "draft" in told


def test_blocks_that_the_log_tells_beside_its_memory(log):
    """12,116 MiB of Qwen3-4B are 5,384 blocks by the formula; the MiB are rounded."""
    path = log("Available KV cache memory: 11.83 GiB\n# GPU blocks: 5385, # CPU blocks: 0\n")
    found = of(path, model="qwen3-4b")
    assert found.blocks == 5_385
    assert not any("formula" in warning for warning in found.warnings)


def test_a_log_of_memory_only_needs_the_model(log):
    path = log("Available KV cache memory: 5.05 GiB\n")
    assert of(path, model="llama-3.1-8b").blocks == 2585
    with pytest.raises(InputError, match="tells only GiB; give the --model"):
        of(path)


def test_an_override_and_the_sum_of_several_engines(log):
    override = "Overriding num_gpu_blocks=9 with num_gpu_blocks_override=8192\n"
    assert of(log(override)).blocks == 8192
    told = "4 Engines: vllm cache_config_info with initialization after num_gpu_blocks is: 40000\n"
    assert of(log(told)).blocks == 10_000


FP8 = "non-default args: {'kv_cache_dtype': 'fp8', 'tensor_parallel_size': 1}\n"


def test_the_data_type_of_the_server_counts(log):
    """A log without its line on tokens; 53 GiB were 27,136 blocks of 16 bits."""
    memory = "Available KV cache memory: 53.00 GiB\n"
    found = of(log(FP8 + memory), model="llama-3.1-8b")
    assert (found.blocks, found.served.dtype) == (54_272, "fp8")
    resolved = "LLM engine (v0.33.0) with config: dtype=torch.bfloat16, kv_cache_dtype=fp8\n"
    assert of(log(resolved + memory), model="llama-3.1-8b").blocks == 54_272
    assert of(log(FP8 + memory), model="llama-3.1-8b", dtype="bfloat16").blocks == 27_136
    scraped = METRICS.replace('cache_dtype="auto"', 'cache_dtype="fp8"')
    assert of(log(scraped), model="llama-3.1-8b").layout.token_bytes == 131_072 / 2


@pytest.mark.parametrize(
    "line", ["'async_scheduling': False", "Async scheduling is disabled because of X."]
)
def test_synchronous_scheduling_of_the_server_counts(log, line):
    options = {"model": "gpt-oss-120b", "max_num_batched_tokens": 8192}
    one = answer(Question(kv_memory="5.38GiB", async_scheduling=False, **options))
    text = (
        f"LLM engine (v0.33.0) max_num_batched_tokens=8192 {line}\nGPU KV cache size: "
        f"{one.tokens:,} tokens, Maximum concurrency for 131,072 tokens per request: 1.06x"
    )
    assert of(log(text), model="gpt-oss-120b").blocks == one.blocks
    with pytest.raises(InputError, match="and --no-async-scheduling if it has it"):
        of(log(text), model="gpt-oss-120b", async_scheduling=True)


def test_memory_of_blocks_that_are_overridden_is_theirs(log):
    text = (
        "Available KV cache memory: 53.00 GiB\n"
        "Overriding num_gpu_blocks=27136 with num_gpu_blocks_override=512\n"
    )
    found = of(log(text), model="llama-3.1-8b")
    assert (found.blocks, found.kv_bytes) == (512, 2**30)
    assert "num_gpu_blocks_override, exactly" in found.source_text
    assert not any("formula" in warning for warning in found.warnings)
    assert of(log(text)).kv_bytes is None


def test_a_server_without_memory_is_refused(log):
    with pytest.raises(InputError, match=r"memory: -3.13 GiB; this server had none"):
        of(log("Available KV cache memory: -3.13 GiB\n"), model="llama-3.1-8b")


def test_a_log_of_several_starts_tells_the_last(log):
    twice = V023 + V023.replace("299,584", "131,072").replace("36.57", "16.00")
    found = of(log(twice))
    assert found.tokens == 131_072
    assert any("2 starts" in warning for warning in found.warnings)


def test_the_block_size_of_the_server_counts(log):
    text = V023 + "Setting kv cache block size to 64 for FLASHMLA backend(s).\n"
    found = of(log(text))
    assert (found.block_size, found.blocks) == (64, 299_584 // 64)
    connector = "kv_connector_extra_config={'block_size': 256} " + V023
    assert of(log(connector)).block_size == 16


def test_a_scrape_of_metrics(log):
    found = of(log(METRICS, "metrics.txt"), model="llama-3.1-8b")
    assert (found.blocks, found.block_size) == (25_908, 32)
    assert found.to_dict()["tokens"] == 25_908 * 32


@pytest.mark.parametrize(
    ("dtype", "token_bytes", "told"),
    [
        ("fp8", 65_536, False),
        ("float8_e4m3fn", 65_536, False),
        ("bfloat16", 131_072, False),
        ("float16", 131_072, False),
        ("int4_per_token_head", 131_072, True),
    ],
)
def test_a_server_that_has_started_is_believed_its_data_type(log, dtype, token_bytes, told):
    for text in (
        METRICS.replace('cache_dtype="auto"', f'cache_dtype="{dtype}"'),
        f"# GPU blocks: 25908, # CPU blocks: 0\nblock_size=32 kv_cache_dtype=torch.{dtype}\n",
    ):
        found = of(log(text, "told.txt"), model="llama-3.1-8b")
        assert found.blocks == 25_908
        assert found.to_dict()["bytes_per_token"] == token_bytes
        assert any(f"keys and values are {dtype}" in each for each in found.warnings) == told


def test_engines_of_a_scrape_add_their_blocks(log):
    second = METRICS.splitlines()[2].replace('engine="0"', 'engine="1"')
    found = of(log(f"{METRICS}{second}\n", "metrics.txt"))
    assert found.blocks == 25_908 // 2
    assert any("2 engines" in warning for warning in found.warnings)
    other = second.replace("25908", "25900")
    with pytest.raises(InputError, match=r"engines differ in num_gpu_blocks \(25908, 25900\)"):
        of(log(f"{METRICS}{other}\n", "metrics.txt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "says nothing of the KV cache"),
        ("INFO started\n", "says nothing of the KV cache"),
        ("GPU KV cache size: 100,001 tokens\n", "no whole number of blocks of 16"),
        ("# GPU blocks: 0, # CPU blocks: 0\n", "0 blocks; allowed"),
        ('vllm:cache_config_info{num_gpu_blocks="many"} 1.0\n', "'many' is no whole number"),
        ('vllm:cache_config_info{num_gpu_blocks="None"} 1.0\n', "says nothing of the KV cache"),
    ],
)
def test_files_that_tell_no_blocks_are_refused_with_their_name(log, text, message):
    path = log(text)
    with pytest.raises(InputError) as refused:
        of(path)
    assert str(refused.value).startswith(str(path))
    assert message in str(refused.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        read_server(tmp_path / "no.log")


@pytest.mark.parametrize("before", [V023, "non-default args: {}\n# GPU blocks: 900\n"])
def test_a_last_start_that_failed_is_told(log, before):
    """The file does say something of the KV cache, of a start before."""
    again = "INFO 11-21 [utils.py:1] non-default args: {}\nERROR out of memory\n"
    with pytest.raises(
        InputError, match=r"server\.log: the last start in it says nothing .* one before does"
    ):
        read_server(log(before + again))


@pytest.mark.parametrize("key", ["log", "message", "msg", "MESSAGE"])
def test_lines_of_json_have_what_the_server_wrote(log, key):
    written = ["GPU KV cache size: 65,536 tokens", 'it\'s "block_size": 16', "{no json", "[1]", "7"]
    lines = [json.dumps({"level": "INFO", key: f"{line}\n"}) for line in written]
    path = log("\n".join([*lines, "{", "plain", '{"level": 3}', "[" * 99_999]))
    assert of(path, block_size=16).blocks == 4096
    text = read_log_text(path)
    assert text.splitlines()[:5] == written
    assert text.splitlines()[5:8] == ["{", "plain", '{"level": 3}']


OF_A_PIPELINE = """\
non-default args: {'pipeline_parallel_size': 8, 'block_size': 16, 'max_model_len': 8192}
(Worker_PP0) INFO 11-20 10:00:30 [gpu_worker.py:773] Available KV cache memory: 66.10 GiB
"""
SIZE = (
    "GPU KV cache size: 3,344,512 tokens, Maximum concurrency for 8,192 tokens per request: 408.27x"
)


def test_a_pipeline_may_have_fewer_blocks_than_its_first_stage_has_memory_for(log):
    """vLLM logs the memory of a node's first GPU; the last stage has the output layer too."""
    with_tokens = of(log(f"{OF_A_PIPELINE}{SIZE}\n"), model="qwen3-8b")
    assert (with_tokens.blocks, with_tokens.warnings) == (209_032, [])
    alone = of(log(OF_A_PIPELINE), model="qwen3-8b")
    assert "of the stages that the log tells (others may have less)" in alone.source_text


def test_a_pipeline_has_no_more_blocks_than_the_memory_of_a_stage_holds(log):
    """36.10 GiB of a stage with four layers are 147,865 blocks."""
    text = f"{OF_A_PIPELINE}{SIZE}\n".replace("66.10", "36.10")
    (told,) = of(log(text), model="qwen3-8b").warnings
    assert "not 209,032: another model" in told


@pytest.mark.parametrize(
    ("blocks", "alike"), [(4092, False), (4093, True), (4098, True), (4099, False)]
)
def test_a_log_and_the_formula_differ_by_more_than_the_rounding_of_its_gib(log, blocks, alike):
    """8.00 GiB are anything from 7.995 to 8.005, in blocks of 2 MiB."""
    text = "non-default args: {'max_model_len': 8192}\nAvailable KV cache memory: 8.00 GiB\n"
    text += f"# GPU blocks: {blocks}\n"
    options = {"model": "llama-3.1-8b", "block_size": 16}
    assert any("by the formula" in told for told in of(log(text), **options).warnings) != alike
    # Of two stages blocks have 1 MiB, and one of them may have had room for fewer.
    two = text.replace("'max", "'pipeline_parallel_size': 2, 'max")
    assert not any("by the formula" in told for told in of(log(two), **options).warnings)


def test_of_several_engines_the_one_with_the_least_concurrency_counts(log):
    lines = "".join(
        f"GPU KV cache size: {size} tokens\nMaximum concurrency for {longest} tokens per request: "
        f"{times}x\n"
        for size, longest, times in (("16,384", "8,192", "2.00"), ("163,840", "16,384", "10.00"))
    )
    found = read_server(log(lines))
    assert (found.tokens, found.max_model_len, found.concurrency) == (16_384, 8_192, 2.0)


def test_memory_that_an_override_passes_over_may_be_none(log):
    text = (
        "non-default args: {'block_size': 16}\nAvailable KV cache memory: -0.50 GiB\n"
        "Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512\n"
    )
    assert of(log(text)).blocks == 512
    with pytest.raises(InputError, match="this server had none, and did not start"):
        of(log(text.partition("Overriding")[0]))


def test_tokens_of_a_hybrid_are_not_divided_by_its_groups_since_vllm_020(log):
    """Before it 78,384 tokens were half of the blocks of gpt-oss."""
    text = GPT_OSS_019.replace("v0.12.0", "v0.28.0")
    with pytest.raises(InputError, match=r"78,384 tokens do not fit 131,072 tokens a request"):
        of(log(text), model="gpt-oss-120b")


def test_no_tokens_are_no_blocks(log):
    with pytest.raises(InputError, match="0 tokens are no whole number of blocks"):
        of(log("GPU KV cache size: 0 tokens\n"))


def test_a_server_that_had_no_memory_at_all_did_not_start(log):
    with pytest.raises(InputError, match=r"0\.00 GiB; this server had none"):
        of(log("Available KV cache memory: 0.00 GiB\n"), model="llama-3.1-8b")


def test_lines_of_several_engines_have_the_blocks_of_all(log):
    """Of older releases, and of later ones that debug, each has a line, and all tell the sum."""
    told = "Engine {:03}: vllm cache_config_info with initialization after num_gpu_blocks is: {}\n"
    size = "GPU KV cache size: 410,128 tokens\n"
    two = log(2 * size + "".join(told.format(index, 51_266) for index in (0, 1, 0, 1)))
    found = of(two, model="llama-3.1-8b")
    assert (found.blocks, found.tokens) == (25_633, 410_128)
    assert any("2 engines, whose blocks vLLM adds up" in text for text in found.warnings)
    alone = of(log(size + told.format(1, 25_633)), model="llama-3.1-8b")
    assert alone.blocks == 25_633
    assert not any("adds up" in text for text in alone.warnings)


@pytest.mark.parametrize("line", ["2 Engines: ", "Engine 000: ", ""])
def test_of_engines_that_differ_the_smallest_is_told(log, line):
    """Half of the sum is no engine's blocks; it was told as exact."""
    told = "{}vllm cache_config_info with initialization after num_gpu_blocks is: 51268\n"
    each = told.format(line) + (told.format("Engine 001: ") if "000" in line else "")
    sizes = "GPU KV cache size: 410,160 tokens\nGPU KV cache size: 410,128 tokens\n"
    found = of(log(sizes + each), model="llama-3.1-8b")
    assert found.blocks == (25_633 if line else 51_268)
    if line:
        with pytest.raises(InputError, match=r"51,269 is no sum of 2 equal engines; give the log"):
            of(log(each.replace("51268", "51269")))


def test_no_engines_are_no_division(log):
    told = "0 Engines: vllm cache_config_info with initialization after num_gpu_blocks is: 50\n"
    assert of(log(told)).blocks == 50
