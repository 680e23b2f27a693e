"""Blocks from a GPU or an amount of memory, and the memory of blocks."""

import pytest

from kvsweep.errors import InputError
from kvsweep.sizing.answer_text import answer_text
from kvsweep.sizing.asking import answer
from kvsweep.sizing.gpus import find_gpu, gpu_names
from kvsweep.sizing.question import Question
from kvsweep.sizing.settings import Asked, serve, usual_block
from kvsweep.sizing.shapes import load_config, load_model, model_from_config
from kvsweep.sizing.sizes import parse_size
from kvsweep.sizing.unserved import unserved


def ask(**options):
    return answer(Question(**options))


@pytest.mark.parametrize(
    ("options", "blocks", "tokens"),
    [
        # Logged: 299,584 tokens (vllm-project/vllm#44594).
        ({"model": "qwen2.5-7b", "kv_memory": "16GiB"}, 18_724, 299_584),
        # Logged: 5,385 blocks; the MiB are rounded.
        ({"model": "qwen3-4b", "kv_memory": "12116MiB"}, 5_384, 86_144),
        # An RTX 4090 that vLLM 0.19 gave 2,588 blocks, 5.05 GiB.
        ({"model": "llama-3.1-8b", "kv_memory": "5.0547 GiB"}, 2_588, 41_408),
        ({"model": "deepseek-v3", "kv_memory": "40", "tp": 8, "dtype": "fp8"}, 76_398, 1_222_368),
    ],
)
def test_blocks_and_tokens_of_an_amount_of_memory(options, blocks, tokens):
    found = ask(**options)
    assert (found.blocks, found.tokens) == (blocks, tokens)
    assert found.margin is None


def test_hybrid_gpt_oss():
    """Pages of 32,768 bytes, two groups of 18 layers, blocks of 589,824 bytes."""
    options = {"model": "gpt-oss-120b", "kv_memory": "5.38GiB"}
    found = ask(**options, max_num_batched_tokens=8192, async_scheduling=False).to_dict()
    assert found["blocks"] == 9_793
    assert found["block_bytes"] == 589_824
    assert found["blocks_per_request"] == 8_192 + 521
    assert found["max_concurrency"] == 1.124
    assert found["tokens"] == 147_318
    assert {group["page_bytes"] for group in found["groups"]} == {32_768}
    assert [group["layers"] for group in found["groups"]] == [18, 18]
    small = ask(**options, max_num_batched_tokens=2048, async_scheduling=False)
    assert (small.layout.request_blocks, small.tokens) == (8_329, 154_110)


def test_a_hybrid_tells_its_groups_as_a_sweep_has_them():
    lines = answer_text(ask(model="gpt-oss-120b", kv_memory="5.38GiB"))
    assert "in a sweep: cache.gpu_blocks = 9792" in lines
    groups = '[{ kind = "sliding", window = 128 }, { kind = "full" }]'
    assert f"cache.groups = {groups}" in lines
    gemma = answer_text(ask(model="gemma-4-26b", kv_memory="20GiB"))
    assert "whose groups have blocks of one size" in gemma
    assert "cache.gpu_tokens = " in gemma


def test_two_steps_under_way_hold_more_of_a_sliding_window():
    """vLLM 0.33 schedules the next step during one: ``max_in_flight_tokens`` is of both."""
    found = ask(model="gpt-oss-120b", kv_memory="5.38GiB", max_num_batched_tokens=8192)
    assert found.layout.request_blocks == 8_192 + 1_033
    piped = ask(model="gpt-oss-120b", kv_memory="5.38GiB", max_num_batched_tokens=8192, pp=2)
    assert piped.layout.request_blocks == 8_192 + 1_545


def test_hybrid_gemma_4():
    """Full attention in blocks of 32 tokens; a request's blocks are those of six groups."""
    options = {"model": "gemma-4-26b", "max_num_batched_tokens": 8192, "async_scheduling": False}
    found = ask(**options, kv_memory="20GiB", max_model_len=32_768)
    assert max(found.layout.block_bytes) == 655_360
    assert [(g.block_size, len(g.members)) for g in found.layout.groups] == [(16, 5)] * 5 + [
        (32, 5)
    ]
    assert found.layout.request_blocks == 1_024 + 5 * 577 == 3_909
    assert found.layout.request_blocks * 655_360 / 2**30 == pytest.approx(2.386, abs=5e-4)
    longest = ask(**options, kv_memory="20GiB").layout.request_blocks
    assert longest == 8_192 + 5 * 577 == 11_077
    assert longest * 655_360 / 2**30 == pytest.approx(6.761, abs=5e-4)


def bytes_of_16_tokens(model):
    """Return the bytes of 16 tokens in a layer of each kind, before pages are made equal."""
    groups = ask(model=model, kv_memory="20GiB").to_dict()["groups"]
    return {g["kind"]: 16 * g["page_bytes"] // g["block_size"] for g in groups}


def test_pages_of_gemma_4_are_made_equal_by_longer_blocks_of_its_full_layers():
    """25 layers of 8 heads of 256, and 5 of 2 heads of 512: half the bytes, twice the tokens."""
    assert bytes_of_16_tokens("gemma-4-26b") == {"sliding": 131_072, "full": 65_536}
    groups = ask(model="gemma-4-26b", kv_memory="20GiB").to_dict()["groups"]
    assert {group["page_bytes"] for group in groups} == {131_072}
    assert {group["page_bytes"] * group["layers"] for group in groups} == {655_360}


@pytest.mark.parametrize(("model", "half"), [("gpt-oss-120b", 36_864), ("gpt-oss-20b", 24_576)])
def test_a_token_of_gpt_oss_takes_half_of_its_bytes_in_the_full_layers(model, half):
    groups = ask(model=model, kv_memory="20GiB").to_dict()["groups"]
    found = {g["kind"]: g["page_bytes"] * g["layers"] // g["block_size"] for g in groups}
    assert found == {"sliding": half, "full": half}


def test_the_estimate_of_llama_on_an_h100_is_near_the_one_by_hand():
    """79.18 GiB x 0.92 - 14.96 - 4.8 - 0.15 = 52.9 GiB: 27,100 blocks of 2 MiB."""
    found = ask(model="llama-3.1-8b", gpu="79.18GiB")
    low, high = found.margin
    assert low <= 27_100 <= high
    assert found.blocks == pytest.approx(27_100, rel=0.03)


def test_a_pipeline_has_the_blocks_of_its_fullest_stage():
    whole = ask(model="llama-3.1-8b", kv_memory="8GiB")
    halves = ask(model="llama-3.1-8b", kv_memory="8GiB", pp=2)
    thirds = ask(model="llama-3.1-8b", kv_memory="8GiB", pp=3)
    assert halves.blocks == 2 * whole.blocks
    assert thirds.blocks == 8 * 2**30 // (11 * 65_536)  # 10, 11 and 11 layers


def test_an_estimate_holds_what_servers_logged_within_its_margin():
    """Servers' own figures: within the margin, and most of them near the estimate."""
    runs = [
        # vLLM 0.19 on an RTX 4090: 2,588 blocks (docs/validation.md).
        ({"model": "llama-3.1-8b", "gpu": "rtx4090", "utilization": 0.9}, 5.05, 0.1),
        # gpt-oss-120b on an H100: 5.38 GiB (alvarobartt/hf-mem#60).
        ({"model": "gpt-oss-120b", "gpu": "h100"}, 5.38, 0.4),
        # vLLM 0.6 on an H100: 53.29 GiB (vllm-project/vllm#10511).
        ({"model": "llama-3.1-8b", "gpu": "79.22GiB", "utilization": 0.9}, 53.29, 1.5),
    ]
    for options, logged, near in runs:
        found = ask(**options)
        low, high = (blocks * max(found.layout.block_bytes) / 2**30 for blocks in found.margin)
        assert low <= logged <= high
        assert found.kv_bytes / 2**30 == pytest.approx(logged, abs=near)


def test_memory_adds_up():
    found = ask(model="llama-3.1-8b", gpu="h100")
    parts = found.plan.weights[0].size + found.plan.activation.size + found.plan.other.size
    left = found.plan.requested - parts
    assert 0 <= left - found.kv_bytes < 2_097_152
    assert found.margin[0] < found.blocks < found.margin[1]


def test_what_is_given_is_not_estimated():
    found = ask(model="gemma-4-26b", gpu="80GiB", weights="48GiB", activation="4GiB", tp=2)
    assert found.plan.weights[0].size == 24 * 2**30
    assert found.plan.activation.size == 4 * 2**30
    assert [part["kind"] for part in found.to_dict()["memory"]] == ["given", "given", "estimate"]


def test_more_tokens_of_a_step_leave_less_memory():
    def size(tokens):
        return ask(model="qwen3-8b", gpu="h100", max_num_batched_tokens=tokens).kv_bytes

    assert size(2048) > size(8192) > size(16384)


def test_the_inverse_gives_back_the_memory_and_the_utilization():
    found = ask(model="llama-3.1-8b", gpu="h100")
    back = ask(model="llama-3.1-8b", gpu="h100", blocks=found.blocks)
    assert back.kv_bytes == found.kv_bytes
    assert back.utilization == pytest.approx(0.92, abs=1e-4)
    alone = ask(model="llama-3.1-8b", blocks=2588)
    assert alone.to_dict()["kv_gib"] == pytest.approx(5.055, abs=1e-3)
    assert alone.utilization is None


def test_the_utilization_of_the_inverse_leaves_the_blocks():
    for blocks in (1_000, 12_345, 27_001):
        asked = {"model": "llama-3.1-8b", "gpu": "h100"}
        utilization = ask(**asked, blocks=blocks).utilization
        assert ask(**asked, utilization=utilization).blocks >= blocks


def test_tokens_of_a_step_are_no_more_than_those_of_all_requests():
    """`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`."""
    few = ask(model="llama-3.1-8b", gpu="h100", max_num_seqs=2, max_model_len=1000)
    assert few.served.defaults.max_num_batched_tokens == 2000


def test_blocks_that_do_not_fit_are_said_not_to():
    found = ask(model="llama-3.1-8b", gpu="rtx4090", blocks=10_000)
    assert found.utilization > 1
    assert "10,000 blocks do not fit" in found.warnings[0]


def test_a_server_that_does_not_start_is_told_with_what_would():
    found = ask(model="llama-3.1-8b", kv_memory="5.0547GiB")
    (warning,) = found.warnings
    assert "vLLM does not start: a request of 131,072 tokens needs 8,192 blocks" in warning
    longest = int(warning.rpartition(" ")[2])
    assert longest == 2_587 * 16  # all but the null block
    assert not ask(model="llama-3.1-8b", kv_memory="5.0547GiB", max_model_len=longest).warnings


@pytest.mark.parametrize(
    ("gpu", "seqs", "tokens"),
    [("rtx4090", 256, 2048), ("a100", 256, 2048), ("h100", 1024, 8192), ("b200", 1024, 16384)],
)
def test_defaults_of_servers(gpu, seqs, tokens):
    usual = find_gpu(gpu).defaults()
    assert (usual.max_num_seqs, usual.max_num_batched_tokens) == (seqs, tokens)


def test_every_gpu_has_its_source_and_reports_less_than_its_name_says():
    for name in gpu_names():
        gpu = find_gpu(name)
        assert gpu.source
        assert gpu.low <= gpu.memory <= gpu.high
        assert find_gpu(name.upper()) == gpu


def test_blocks_of_mla_are_as_large_as_its_first_backend_takes_them():
    assert ask(model="deepseek-v3", gpu="h200", tp=8).block_size == 16
    assert ask(model="deepseek-v3", gpu="h200", tp=8, dtype="fp8").block_size == 64
    assert ask(model="deepseek-v3", gpu="b200", tp=8).block_size == 32
    assert ask(model="deepseek-v3", gpu="b200", tp=8, dtype="fp8").block_size == 32
    assert ask(model="deepseek-v3", gpu="b200", tp=8, block_size=64).block_size == 64
    assert ask(model="deepseek-v3.2", kv_memory="40", tp=8).block_size == 64
    assert ask(model="deepseek-v3.2", gpu="mi300x", tp=8).block_size == 16
    assert ask(model="deepseek-v3.2", gpu="h200", tp=16, block_size=128).block_size == 128
    with pytest.raises(InputError, match=r"--block-size: 16; the indexer of deepseek-v3.2 "):
        ask(model="deepseek-v3.2", gpu="h200", tp=16, block_size=16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--model: missing"),
        ({"model": "qwen3-8b"}, "--gpu, --kv-memory, --log: missing"),
        ({"model": "qwen3-8b", "gpu": "h100", "kv_memory": "3"}, "--gpu and --kv-memory together"),
        (
            {"model": "qwen3-8b", "gpu": "h100", "dtype": "half"},
            "--dtype: float16; of qwen3-8b vLLM takes bfloat16 or auto, or 8 bits",
        ),
        ({"model": "qwen3-8b", "gpu": "h1000"}, "did you mean 'h100'"),
        ({"model": "qwen3-8b", "gpu": "A100-PCIE-80GB"}, "did you mean 'a100-80gb'"),
        ({"model": "qwen3-8b", "gpu": "0GiB"}, "allowed: 1 byte to"),
        ({"model": "qwen3-8b", "kv_memory": "3 apples"}, "--kv-memory: '3 apples'"),
        ({"model": "qwen3-8b", "kv_memory": "-3"}, "--kv-memory: '-3'"),
        ({"model": "qwen3-8b", "kv_memory": "9e9"}, "--kv-memory: '9e9'"),
        ({"model": "qwen3-8b", "gpu": "h100", "tp": 3}, "divisible by it: 1, 2, 4, 8, 16, 32"),
        ({"model": "qwen3-8b", "gpu": "h100", "tp": 0}, "--tp: 0; allowed"),
        ({"model": "qwen3-8b", "gpu": "h100", "pp": 37}, "has 36 layers"),
        ({"model": "qwen3-8b", "gpu": "h100", "utilization": 1.2}, "--utilization: 1.2"),
        ({"model": "qwen3-8b", "gpu": "h100", "utilization": float("nan")}, "--utilization: nan"),
        ({"model": "qwen3-8b", "gpu": "h100", "block_size": 0}, "--block-size: 0"),
        ({"model": "qwen3-8b", "blocks": 0}, "--blocks: 0"),
        (
            {
                "model": "qwen3-8b",
                "gpu": "h100",
                "max_num_seqs": 600,
                "max_num_batched_tokens": 512,
            },
            "--max-num-seqs: 600; vLLM takes at most max_num_batched_tokens, here 512",
        ),
        (
            {"model": "qwen3-8b", "kv_memory": "9", "max_model_len": 50_000},
            "--max-model-len: 50,000; vLLM takes at most the 40,960 tokens of qwen3-8b",
        ),
        ({"model": "qwen3-8b", "blocks": 5, "kv_memory": "3"}, "--kv-memory: --blocks asks"),
        ({"model": "qwen3-8b", "kv_memory": "3", "weights": "3"}, "--weights: has no effect"),
        ({"model": "qwen3-8b", "kv_memory": "3", "utilization": 0.9}, "--utilization: has no"),
        ({"model": "qwen3-8b", "kv_memory": "3", "max_num_seqs": 9}, "--max-num-seqs: has no"),
        ({"log": "x.log", "tp": 2}, "--tp: has no effect without --model"),
        (
            {"model": "qwen3-8b", "blocks": 9, "gpu": "h100", "utilization": 0.9},
            "--utilization: has no effect with --blocks",
        ),
        ({"model": "gemma-4-26b", "gpu": "h100"}, "--weights: missing"),
        ({"model": "llama-3.1-70b", "gpu": "h100"}, "no memory is left for the KV cache"),
        ({"model": "llama-3.1-70b", "gpu": "h100"}, "try --tp 2 or a larger --gpu"),
        ({"model": "llama-3.1-8b", "gpu": "1"}, "activations 1.16; try a larger --gpu"),
        (
            {"model": "llama-3.1-8b", "gpu": "h100", "utilization": 0.2},
            "try --tp 2, a higher --utilization or a larger --gpu",
        ),
    ],
)
def test_questions_that_cannot_be_answered_are_refused_in_a_line(options, message):
    with pytest.raises(InputError) as refused:
        ask(**options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_remedy_is_one():
    assert ask(model="llama-3.1-70b", gpu="h100", tp=2).blocks > 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("16", 2**34), ("16GiB", 2**34), ("16 gib", 2**34), ("80GB", 80 * 10**9), ("1.5MiB", 1572864)],
)
def test_amounts_of_memory(text, size):
    assert parse_size(text, "x") == size


def test_the_text_has_the_figures_and_says_what_is_estimated():
    text = answer_text(ask(model="gpt-oss-120b", gpu="h100"))
    for words in (
        "gpt-oss-120b on 1 x h100",
        "an estimate",
        "used by vLLM",
        "sliding 128",
        "2 steps under way at a time",
        "max_num_seqs 1,024, max_num_batched_tokens 8,192",
        "llm-d-planner",
        "in a sweep: cache.gpu_blocks = ",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) <= 110


def test_blocks_that_no_attention_takes_are_warned_of():
    found = answer(Question(model="llama-3.1-8b", kv_memory="1GiB", block_size=8))
    assert "its attention takes blocks of 16 tokens, or of a multiple" in found.warnings[0]


@pytest.mark.parametrize("number", ["3090", "4090", "5090"])
def test_a_number_of_a_card_is_no_memory(number):
    """A card of 3,090 GiB has 1,657,014 blocks."""
    for name in (number, f"RTX {number}", f"rtx-{number}"):
        assert find_gpu(name).name == f"rtx{number}"


def test_where_the_tokens_of_a_step_leave_no_memory_fewer_are_the_remedy():
    options = {"model": "qwen3-next-80b-a3b", "gpu": "h100", "tp": 4}
    with pytest.raises(InputError) as refused:
        ask(**options, max_num_batched_tokens=262144)
    assert str(refused.value).endswith("; try a smaller --max-num-batched-tokens or a larger --gpu")
    assert ask(**options, max_num_batched_tokens=16000).blocks > 0
    with pytest.raises(InputError) as refused:  # the weights alone leave none
        ask(model="llama-3.1-70b", gpu="h100", max_num_batched_tokens=131072)
    assert "smaller" not in str(refused.value)


@pytest.mark.parametrize(
    ("gpu", "seqs", "tokens"),
    [
        ("69.9GiB", 256, 2048),
        ("70GiB", 1024, 8192),
        ("159GiB", 1024, 8192),
        ("160GiB", 1024, 16384),
    ],
)
def test_defaults_of_servers_go_by_the_memory_of_the_gpu(gpu, seqs, tokens):
    """vLLM compares with 70 and 160 GiB, both included."""
    usual = find_gpu(gpu).defaults()
    assert (usual.max_num_seqs, usual.max_num_batched_tokens) == (seqs, tokens)


def test_stages_of_one_gpu_each_have_the_memory_of_several_outside_of_pytorch():
    for options, gib in (({}, 0.15), ({"pp": 2}, 0.6), ({"tp": 2}, 0.6)):
        plan = ask(model="llama-3.1-8b", gpu="h100", **options).plan
        assert plan.other.size == int(gib * 2**30)


def test_steps_below_the_small_run_are_not_taken_to_save_memory():
    """Of what they take less than that run nothing is known."""
    small, less = (
        ask(model="llama-3.1-8b", gpu="h100", max_num_seqs=seqs, max_num_batched_tokens=tokens)
        for seqs, tokens in ((256, 2048), (8, 64))
    )
    assert less.plan.activation.size == small.plan.activation.size == int(0.21 * 4.8 * 2**30)
    assert less.blocks == small.blocks


def test_as_many_requests_as_tokens_of_a_step_are_served_and_no_more():
    options = {"model": "llama-3.1-8b", "gpu": "h100", "max_num_batched_tokens": 64}
    assert ask(**options, max_num_seqs=64).blocks > 0
    with pytest.raises(InputError, match=r"--max-num-seqs: 65; vLLM takes at most .* here 64"):
        ask(**options, max_num_seqs=65)


def test_amd_serves_attention_sinks_in_blocks_of_64():
    found = ask(model="gpt-oss-120b", gpu="mi300x")
    assert (found.block_size, ask(model="gpt-oss-120b", gpu="h100").block_size) == (64, 16)
    assert "attention sinks on mi300x" in found.served.block_size_from
    assert ask(model="llama-3.1-8b", gpu="mi300x").block_size == 16


def test_amd_serves_what_only_triton_takes_in_blocks_of_16_beside_a_connector():
    amd = find_gpu("mi300x")
    for name, size in (("llama-3.1-8b", 64), ("gemma-4-26b", 16), ("deepseek-v3", 16)):
        assert usual_block(load_model(name), amd, "bfloat16", connector=True)[0] == size
        assert usual_block(load_model(name), find_gpu("h100"), "bfloat16", connector=True)[0] == 16


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("a100-40g", "a100-40gb"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_gpu_is_found_by_its_drivers_name(driver, name):
    assert find_gpu(driver) == find_gpu(name)


def test_a_gpu_that_a_driver_names_and_nobody_knows_is_refused():
    with pytest.raises(InputError, match="'NVIDIA H100 NVL' is neither a GPU that is known"):
        find_gpu("NVIDIA H100 NVL")


@pytest.mark.parametrize("name", ["v100", "h20", "NVIDIA H100 NVL", "gh200", "mi325x", "rtx 3080"])
def test_a_gpu_of_its_own_is_no_misspelling(name):
    """A V100 was to have been an H100, and an H20 an H200."""
    with pytest.raises(InputError, match=r"nor an amount of memory as 80GiB$"):
        find_gpu(name)


@pytest.mark.parametrize("name", ["h100 x 2", "H100 x4", "2 x h100", "8x H100"])
def test_how_many_gpus_there_are_is_not_lost(name):
    """`--gpu "h100 x 2"` was one H100 without a word."""
    with pytest.raises(InputError, match=r"--gpu: .*name one of the GPUs; how many is told apart"):
        find_gpu(name)
    assert find_gpu("1 x H100").name == find_gpu("NVIDIA H100 80GB HBM3").name == "h100"


def test_a_number_of_parameters_is_no_size_of_weights():
    """`--weights 8B` were eight bytes, so that all of the GPU was left for blocks."""
    with pytest.raises(InputError, match="--weights: '8B' is 8 bytes, and no number of parameters"):
        ask(model="llama-3.1-8b", gpu="h100", weights="8B")
    assert ask(model="llama-3.1-8b", gpu="h100", weights="8GB").blocks > 20_000


GEMMA3_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "sliding_window": 1024,
    },
}


@pytest.mark.parametrize(
    ("gpu", "dtype", "of_3", "of_4", "of_4_without_images"),
    [
        ("b200", "auto", 64, 64, 16),
        ("b200", "fp8", 64, 64, 16),
        ("h100", "auto", 16, 16, 16),
        ("h100", "fp8", 16, 64, 64),
        ("h200", "fp8_e4m3", 16, 64, 64),
        ("h200", "fp8_e5m2", 16, 16, 16),
        ("a100", "auto", 16, 16, 16),
        ("l40s", "fp8", 16, 16, 16),
        ("rtx5090", "auto", 16, 16, 16),
    ],
)
def test_blocks_of_wide_heads_are_those_of_their_attention(
    gpu, dtype, of_3, of_4, of_4_without_images
):
    """Of Gemma 3 and 4, as vLLM 0.33.0's model classes have them where it takes such a GPU."""
    config, where, _ = load_config("gemma-4-26b")
    assert config["use_bidirectional_attention"] == "vision"
    text_only = config | {"use_bidirectional_attention": None}
    models = [model_from_config(GEMMA3_4B, "4b"), load_model("gemma-4-26b")]
    models.append(model_from_config(text_only, where))
    served = [serve(model, Asked(dtype=dtype), find_gpu(gpu)) for model in models]
    assert [each.block_size for each in served] == [of_3, of_4, of_4_without_images]


def test_narrow_heads_have_usual_blocks_beside_images():
    narrow = GEMMA3_4B | {"text_config": GEMMA3_4B["text_config"] | {"head_dim": 128}}
    model = model_from_config(narrow, "27b")
    assert usual_block(model, find_gpu("b200"), "bfloat16") == (16, "vLLM's default")


@pytest.mark.parametrize(
    ("model", "gpu", "dtype", "says"),
    [
        ("gpt-oss-20b", "a100", "fp8", "Triton's attention, the only one for gpt-oss-20b, takes"),
        ("deepseek-v3", "a100", "fp8", "takes no FP8 on a100"),
        ("gemma-4-26b", "a100", "fp8", "takes no FP8 on a100"),
        ("deepseek-v3.2", "a100", "auto", "it has no sparse latent attention on a100"),
        ("deepseek-v3.2", "l40s", "auto", "it has no sparse latent attention on l40s"),
        ("deepseek-v3", "h100", "fp8_e5m2", "takes FP8 as fp8_e4m3, not fp8_e5m2"),
        ("llama-3.1-8b", "a100", "fp8", None),
        ("gpt-oss-20b", "a100", "auto", None),
        ("gpt-oss-20b", "h100", "fp8", None),
        ("deepseek-v3", "l40s", "fp8", None),
        ("deepseek-v3", "h100", "fp8", None),
        ("deepseek-v3.2", "h100", "fp8", None),
        ("qwen3-next-80b-a3b", "a100", "fp8", None),
    ],
)
def test_keys_and_values_that_no_attention_takes_are_told(model, gpu, dtype, says):
    """As vLLM 0.33.0's own choice of a backend, and the backends, refused them; or did not."""
    told = unserved(serve(load_model(model), Asked(dtype=dtype), find_gpu(gpu)), find_gpu(gpu))
    assert says is None if told is None else says is not None and says in told


def test_an_answer_tells_that_vllm_has_no_attention_for_it():
    found = ask(model="gpt-oss-20b", gpu="a100", dtype="fp8")
    assert any("takes no FP8 on a100" in warning for warning in found.warnings)
