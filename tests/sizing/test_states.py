"""Models whose layers keep states: their blocks, as vLLM 0.33.0 plans them.

``vllm-0.33.0-states.json`` was recorded from vLLM 0.33.0 itself, on random ``config.json``: what
its models say of the shapes and types of states, ``Platform.update_block_size_for_backend``, the
layers' ``get_kv_cache_spec``, ``get_kv_cache_configs`` and ``get_kv_cache_capacity``.

``transformers-5.20.2-weights.json`` has the numbers of parameters of random small models, as
transformers' classes have them.
"""

import json
from pathlib import Path

import pytest

from kvsweep.errors import InputError
from kvsweep.sizing.answer_text import answer_text
from kvsweep.sizing.asking import answer
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.gpus import find_gpu, gpu_names
from kvsweep.sizing.question import Question
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import model_from_config

PLANS = json.loads(Path(__file__).with_name("vllm-0.33.0-states.json").read_text())

WEIGHTS = json.loads(Path(__file__).with_name("transformers-5.20.2-weights.json").read_text())

NEXT = {
    "architectures": ["Qwen3NextForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 262144,
    "torch_dtype": "bfloat16",
}
GRANITE = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "hidden_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "layer_types": ["mamba", "attention", "mamba", "mamba"],
    "mamba_n_heads": 48,
    "mamba_d_state": 128,
    "max_position_embeddings": 131072,
}
NEMOTRON = {
    "architectures": ["NemotronHForCausalLM"],
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "hybrid_override_pattern": "M-M*-ME",
}


def served(config, gpu=None, **asked):
    model = model_from_config(config, "config.json")
    return serve(model, Asked(**asked), find_gpu(gpu) if gpu else None)


@pytest.mark.parametrize(
    "plan", PLANS, ids=[f"{i} {plan['config']['architectures'][0]}" for i, plan in enumerate(PLANS)]
)
def test_plans_are_those_of_vllm(plan):
    found = served(
        plan["config"],
        tp=plan["tp"],
        pp=plan["pp"],
        dtype=plan["dtype"],
        block_size=plan["given"],
        max_model_len=plan["longest"],
        max_num_batched_tokens=plan["batched"],
        prefix_caching=plan["caching"],
        gdn_prefill="flashinfer" if plan["flashinfer"] else "triton",
        mamba_dtype=plan["mamba"],
        mamba_ssm_dtype=plan["ssm"],
    )
    shape = layout(found)
    assert found.limits.max_model_len == plan["max_model_len"]
    assert found.state.size == plan["state"]
    assert found.block_size == plan["block"]
    assert found.state.block_size == plan["state_block"]
    assert found.state.checkpoint == plan["checkpoints"]
    assert {page.page_bytes for group in shape.groups for page in group.pages} == {plan["page"]}
    groups = [[group.pages[0].layer.kind, len(group.members)] for group in shape.groups]
    assert groups == plan["groups"]
    blocks = shape.blocks([plan["memory"]] * plan["pp"])
    assert blocks == plan["blocks"]
    assert shape.concurrency(blocks) == plan["concurrency"]
    assert shape.logged_tokens(blocks) == plan["tokens"]


def test_the_state_of_qwen3_next_is_counted_by_hand():
    """3 tokens of 2 * 16 + 32 heads of 128 channels, and 32 heads of 128 * 128, of 2 bytes."""
    found = served(NEXT, prefix_caching=False)
    assert found.state.size == 3 * 64 * 128 * 2 + 32 * 128 * 128 * 2 == 1_097_728
    assert (found.block_size, found.raised_from) == (544, 16)  # 536 blocks of 2,048 bytes a token
    assert (found.state.copies, found.state.block_size) == (1, 262_144)
    cached = served(NEXT, gdn_prefill="triton")
    assert (cached.block_size, cached.state.copies) == (544, 2)
    told = served(NEXT)
    assert (told.block_size, told.state.copies) == (576, 3)  # a multiple of 64


def test_a_gpu_decides_whether_a_gated_delta_net_tells_checkpoints():
    assert {gpu for gpu in gpu_names() if served(NEXT, gpu).state.checkpoint} == {
        *("h100", "h200", "b200", "rtx5090", "rtx-pro-6000"),
    }
    narrow = NEXT | {"linear_key_head_dim": 64}
    assert {gpu for gpu in gpu_names() if served(narrow, gpu).state.checkpoint} == {"h100", "h200"}
    assert served(NEXT, "a100").block_size == 544
    assert not served(NEXT, "a100", gdn_prefill="flashinfer").state.checkpoint
    assert all(served(GRANITE, gpu).state.checkpoint for gpu in gpu_names())


def test_a_block_size_below_a_state_is_raised_and_one_above_is_kept(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(NEXT))
    small = answer(Question(model=str(path), kv_memory="40GiB", block_size=48))
    assert small.block_size == 576
    assert small.warnings == [
        "--block-size: 48; vLLM raises it to 576, for a block of attention to be as large as a "
        "state"
    ]
    large = answer(Question(model=str(path), kv_memory="40GiB", block_size=1024))
    assert (large.block_size, large.warnings) == (1024, [])
    assert large.to_dict()["block_size_raised_from"] is None


def test_the_answer_tells_the_states_and_what_vllm_logs(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(NEXT))
    found = answer(Question(model=str(path), kv_memory="40GiB"))
    text = answer_text(found)
    assert "3,034  of 576 tokens, raised from 16 to hold a state" in text
    assert "state  3 x  12 layers; a request takes 3 blocks" in text
    assert "full   1 x  12 layers in blocks of 576 tokens; a request takes up to 456" in text
    assert "a request holds 3 states of 1,097,728 bytes in each layer, for prefix" in text
    assert "Setting attention block size to 576 tokens; Padding mamba page size by 7.46%" in text
    assert "cache.gpu_blocks = 3033, cache.block_size = 576" in text
    state = '{ kind = "state", checkpoint = true }'
    assert f'cache.groups = [{state}, {state}, {state}, {{ kind = "full" }}]' in text
    told = found.to_dict()
    assert (told["block_size_raised_from"], told["state_bytes"]) == (16, 1_097_728)
    assert [group["checkpoint"] for group in told["groups"]] == [True, True, True, None]
    off = answer_text(answer(Question(model=str(path), kv_memory="40GiB", prefix_caching=False)))
    assert "state  3 x  12 layers; a request takes 1 block\n" in off
    assert "in each layer: prefix caching is off" in off
    assert '[{ kind = "state" }, { kind = "state" }, { kind = "state" }, { kind = "full" }]' in off


def test_a_hybrid_without_states_is_plain():
    """As granite-4.0-micro: vLLM raises nothing then."""
    plain = served(GRANITE | {"layer_types": ["attention"] * 4})
    assert (plain.block_size, plain.state) == (16, None)
    assert layout(plain).plain


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GRANITE | {"layer_types": ["mamba"] * 4}, "has no layer with keys and values"),
        (GRANITE | {"layer_types": None}, "layer_types: missing; the kind of each layer"),
        (GRANITE | {"layer_types": ["mamba"] * 3}, "layer_types: has 3 entries"),
        (GRANITE | {"layer_types": ["mamba", "rwkv"] * 2}, "'rwkv' layers are not computed here"),
        (GRANITE | {"mamba_d_head": 32}, "mamba_d_head: 32; 48 heads of it are not the 3,072"),
        (NEMOTRON | {"hybrid_override_pattern": "M*X"}, "'X' layers are not computed here"),
        (NEMOTRON | {"sliding_window": 4096}, "windows beside states are not computed here"),
        (NEMOTRON | {"mamba_ssm_cache_dtype": "fp8"}, "mamba_ssm_cache_dtype: 'fp8'; allowed"),
        (NEXT | {"linear_num_value_heads": None}, "linear_num_value_heads: missing"),
    ],
)
def test_what_a_config_cannot_say_is_refused_by_key(config, message):
    with pytest.raises(InputError) as refused:
        model_from_config(config, "config.json")
    assert message in str(refused.value)
    assert str(refused.value).startswith("config.json: ")


@pytest.mark.parametrize(
    ("config", "asked", "message"),
    [
        (NEXT, {"gdn_prefill": "fla"}, "--gdn-prefill-backend: 'fla'; allowed: flashinfer, tri"),
        (NEXT, {"mamba_ssm_dtype": "fp8"}, "--mamba-ssm-cache-dtype: 'fp8'; allowed: auto"),
        (NEXT, {"mamba_dtype": "int8"}, "--mamba-cache-dtype: 'int8'; allowed: auto"),
        (NEXT | {"linear_num_key_heads": 1}, {"tp": 2}, "the heads and channels of the states"),
        (NEMOTRON | {"n_groups": 2}, {"tp": 4}, "the heads and channels of the states of"),
        (NEMOTRON | {"ssm_state_size": 10**6}, {}, "tokens to hold a state; allowed: at most 262"),
    ],
)
def test_settings_that_vllm_does_not_take_are_refused(config, asked, message):
    with pytest.raises(InputError) as refused:
        served(config, **asked)
    assert message in str(refused.value)


def test_a_pattern_says_how_many_layers_there_are():
    model = model_from_config(NEMOTRON | {"num_hidden_layers": 99}, "config.json")
    assert model.layers == 7
    assert [shape.layer for shape in model.states] == [0, 2, 5]
    assert [shape.layer for shape in model.attention] == [3]
    assert model.states[0].cell_bytes == 4


LOG = """non-default args: {{'model': 'x', 'enable_prefix_caching': {caching}}}
Using {prefill} GDN prefill kernel (requested=auto, head_k_dim=128).
{raised}Available KV cache memory: 40.0 GiB
GPU KV cache size: {tokens} tokens, Maximum concurrency for 262,144 tokens per request: {times}x
"""


@pytest.mark.parametrize(
    ("caching", "prefill", "block", "blocks"),
    [
        (True, "FlashInfer", 576, 3_034),
        (True, "Triton/FLA", 544, 3_212),
        (True, "AITER FlyDSL", 544, 3_212),
        (False, "FlashInfer", 544, 3_212),
    ],
)
def test_a_log_tells_how_states_are_kept(tmp_path, caching, prefill, block, blocks):
    (tmp_path / "config.json").write_text(json.dumps(NEXT))
    backend = "flashinfer" if prefill == "FlashInfer" else "triton"
    asked = {"prefix_caching": caching, "gdn_prefill": backend}
    model = str(tmp_path / "config.json")
    known = answer(Question(model=model, kv_memory="40GiB", **asked))
    assert (known.block_size, known.blocks) == (block, blocks)
    for raised in (f"Setting attention block size to {block} tokens to ensure that\n", ""):
        path = tmp_path / "vllm.log"
        said = {"caching": caching, "prefill": prefill, "raised": raised}
        times = f"{known.concurrency:.2f}"
        path.write_text(LOG.format(**said, tokens=f"{known.tokens:,}", times=times))
        found = answer(Question(model=model, log=path))
        assert (found.block_size, found.blocks) == (block, blocks)
        assert found.layout.request_blocks == known.layout.request_blocks


def test_options_of_states_need_a_model(tmp_path):
    for given, option in (
        ({"prefix_caching": False}, "--no-prefix-caching"),
        ({"gdn_prefill": "triton"}, "--gdn-prefill-backend"),
        ({"mamba_dtype": "float32"}, "--mamba-cache-dtype"),
        ({"mamba_ssm_dtype": "float32"}, "--mamba-ssm-cache-dtype"),
    ):
        with pytest.raises(InputError, match=f"{option}: has no effect without --model"):
            answer(Question(log=tmp_path / "vllm.log", **given))


def test_qwen3_next_comes_with_the_package():
    """`NEXT` by name; its publisher states 80 billion parameters."""
    found = answer(Question(model="qwen3-next-80b-a3b", gpu="h100", tp=4))
    assert found.served.model.states == model_from_config(NEXT, "config.json").states
    assert found.served.model.weights.parameters == 79_674_391_296
    assert found.plan.weights[0].size / 2**30 == pytest.approx(37.2, abs=0.1)
    assert found.served.state.size == 1_097_728 // 4
    assert (found.block_size, found.served.raised_from) == (320, 16)


def test_a_layer_of_falcon_h1_keeps_both():
    config = {
        "architectures": ["FalconH1ForCausalLM"],
        "hidden_size": 2048,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "mamba_d_ssm": None,
        "mamba_n_heads": 64,
    }
    model = model_from_config(config, "config.json")
    assert [shape.layer for shape in model.kept[:4]] == [0, 0, 1, 1]
    assert [len(group.members) for group in layout(served(config)).groups] == [24, 24]
    assert [group.pages[0].layer.kind for group in layout(served(config)).groups] == [
        "full",
        "state",
    ]
    assert model.states[0].channels == 2 * 2048  # mamba_expand


@pytest.mark.parametrize(
    "row",
    WEIGHTS,
    ids=[f"{i} {row['config']['architectures'][0]}" for i, row in enumerate(WEIGHTS)],
)
def test_weights_are_as_many_as_those_of_transformers(row):
    assert model_from_config(row["config"], "config.json").weights.parameters == row["parameters"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "not counted (config.json: vocab_size: missing"),
        ({"vocab_size": 1000, "mlp_bias": True}, "with biases or of 8 bits"),
        ({"architectures": ["Qwen3_5MoeForConditionalGeneration"]}, "not counted for this arch"),
    ],
)
def test_blocks_follow_without_what_weights_need(change, message):
    model = model_from_config(NEXT | change, "config.json")
    assert model.weights is None
    assert message in model.weights_unknown
    assert layout(serve(model, Asked(), None)).request_blocks == 465


def test_an_output_layer_of_its_own_is_counted_whatever_the_file_says():
    full = next(row["config"] for row in WEIGHTS if "Nemotron" in row["config"]["architectures"][0])
    tied, apart = (
        model_from_config(full | {"tie_word_embeddings": says}, "config.json").weights
        for says in (True, False)
    )
    assert tied.total == apart.total


def test_tokens_of_a_log_need_the_model_where_layers_keep_states(tmp_path):
    path = tmp_path / "vllm.log"
    path.write_text(
        "Resolved architecture: Qwen3NextForCausalLM\nGPU KV cache size: 1,710,419 tokens\n"
    )
    with pytest.raises(InputError, match="depend on its layers; give its --model"):
        answer(Question(log=path))


def test_a_gpu_that_is_not_named_is_taken_to_tell_checkpoints():
    """As Hopper's do, and an A100 does not."""
    for gpu, copies in (("80GiB", 3), ("h100", 3), ("a100", 2)):
        found = answer(Question(model="qwen3-next-80b-a3b", gpu=gpu, tp=4))
        assert found.served.state.copies == copies
