"""Shapes of models: bytes of a token, weights, and what a config.json must say."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.errors import InputError
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.dtypes import cache_dtype
from kvsweep.sizing.gpus import find_gpu
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import _tables, load_model, model_from_config, model_names

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}

KEYS = (
    *("rope_scaling", "quantization_config", "text_config", "layer_types", "sliding_window"),
    *("num_local_experts", "num_experts", "moe_intermediate_size", "first_k_dense_replace"),
    *("head_dim", "dtype", "num_kv_shared_layers", "index_topk", "q_lora_rank", "n_shared_experts"),
)
"""Keys that not every model has."""


def token_bytes(name, tp=1, dtype="bfloat16"):
    return sum(cache.token_bytes for cache in load_model(name).caches(tp, dtype))


@pytest.mark.parametrize(
    ("name", "tp", "dtype", "expected"),
    [
        ("llama-3.1-8b", 1, "bfloat16", 131_072),
        ("llama-3.1-8b", 2, "bfloat16", 65_536),
        ("llama-3.1-70b", 1, "bfloat16", 327_680),
        ("llama-3.1-70b", 4, "bfloat16", 81_920),
        ("llama-3.1-70b", 16, "bfloat16", 40_960),  # a head on each GPU, at least
        ("qwen2.5-7b", 1, "bfloat16", 57_344),
        ("qwen3-4b", 1, "bfloat16", 147_456),
        ("qwen3-8b", 1, "bfloat16", 147_456),
        ("qwen3-32b", 1, "bfloat16", 262_144),
        ("qwen3-32b", 2, "bfloat16", 131_072),
        ("qwen3-30b-a3b", 1, "bfloat16", 98_304),
        ("qwen3-30b-a3b", 8, "bfloat16", 24_576),
        ("deepseek-v3", 1, "bfloat16", 70_272),
        ("deepseek-v3", 8, "bfloat16", 70_272),  # MLA is not divided
        ("deepseek-v3", 1, "fp8", 35_136),
        ("kimi-k2", 16, "bfloat16", 70_272),
        ("deepseek-v3.2", 1, "fp8_ds_mla", 40_016 + 8_052),  # the indexer's keys
        ("gpt-oss-120b", 1, "bfloat16", 73_728),
        ("gpt-oss-20b", 1, "bfloat16", 49_152),
        ("gemma-4-26b", 1, "bfloat16", 25 * 8_192 + 5 * 4_096),
    ],
)
def test_bytes_of_a_token(name, tp, dtype, expected):
    assert token_bytes(name, tp, dtype) == expected


def test_weights_counted_are_those_that_publishers_state():
    compared = 0
    for name in model_names():
        model, stated = load_model(name), _tables()[name].get("parameters")
        if model.weights is not None and stated is not None:
            assert model.weights.parameters == stated, name
            compared += 1
    assert compared >= 15


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("llama-3.1-8b", 14.96),  # vLLM's log: "model weights take 14.96GiB"
        ("gpt-oss-20b", 12.8),  # OpenAI's model card, MXFP4
        ("gpt-oss-120b", 60.8),
    ],
)
def test_bytes_of_weights_are_those_of_checkpoints(name, gib):
    assert load_model(name).weights.total / 2**30 == pytest.approx(gib, abs=0.05)


def test_at_least_twelve_models_have_their_sources():
    assert len(model_names()) >= 12
    assert all(load_model(name).source for name in model_names())


def test_stages_share_the_weights_and_heads_are_repeated_beyond_their_number():
    weights = load_model("qwen3-30b-a3b").weights
    halves = weights.on_gpu(1, range(24)) + weights.on_gpu(1, range(24, 48))
    assert halves == pytest.approx(weights.total)
    # Four heads on eight GPUs: keys and values of each are on two.
    kv = sum(layer.kv for layer in weights.layers)
    everything = range(48)
    assert 8 * weights.on_gpu(8, everything) - weights.total > kv


def test_a_config_of_a_file_and_of_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = load_model(str(tmp_path / "config.json"))
    assert found.attention == load_model("llama-3.1-8b").attention
    assert load_model(str(tmp_path)).weights == found.weights
    assert load_model("config.json", tmp_path).max_model_len == 131072


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["LamaForCausalLM"]}, "did you mean 'LlamaForCausalLM'"),
        ({"architectures": ["JambaForCausalLM"]}, "keeps states beside keys and values"),
        ({"architectures": ["MiniMaxM1ForCausalLM"]}, "0.23.0 was the last release that has it"),
        ({"architectures": ["BambaForCausalLM"]}, "0.23.0 was the last release that has it"),
        ({"architectures": ["MiniMaxM3SparseForCausalLM"]}, "is not known here"),
        ({"architectures": ["BailingMoeForCausalLM"]}, "is not known here"),
        ({"architectures": None}, "architectures: missing"),
        ({"architectures": "LlamaForCausalLM"}, "architectures: 'LlamaForCausalLM'"),
        ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0; allowed"),
        ({"num_key_value_heads": "8"}, "num_key_value_heads: '8'; allowed"),
        ({"num_key_value_heads": True}, "num_key_value_heads: true; allowed"),
        ({"hidden_size": 4097}, "no multiple of num_attention_heads"),
        ({"layer_types": ["full_attention"]}, "layer_types: has 1 entries"),
        ({"layer_types": ["linear_attention"] * 32}, "'linear_attention' layers are not computed"),
        ({"torch_dtype": "int8"}, "torch_dtype: 'int8'; allowed"),
        ({"rope_scaling": {"type": "linear", "factor": "2"}}, "factor: '2'; allowed"),
        ({"rope_scaling": {"type": "linear", "factor": 1e300}}, "factor: 1e+300; allowed: 1 to"),
        ({"num_hidden_layers": 10**7}, "num_hidden_layers: 10000000; allowed"),
        ({"num_local_experts": 8, "intermediate_size": {}}, "intermediate_size: an object"),
        ({"rope_scaling": 3}, "rope_scaling: 3; it must be an object"),
        (
            {
                "architectures": ["Qwen2ForCausalLM"],
                "sliding_window": 4096,
                "use_sliding_window": True,
            },
            "max_window_layers: 28 of 32 layers; vLLM does not start with windows in some layers",
        ),
        ({"text_config": []}, "text_config: a list; it must be an object"),
    ],
)
def test_what_a_config_cannot_say_is_refused_by_key(change, message):
    with pytest.raises(InputError) as refused:
        model_from_config({**LLAMA, **change}, "config.json")
    assert str(refused.value).startswith("config.json")
    assert message in str(refused.value)


def test_a_sliding_window_of_all_layers_of_some_and_of_none():
    def windows(**change):
        return [shape.window for shape in model_from_config(LLAMA | change, "x").attention]

    assert set(windows()) == {None}
    assert set(windows(sliding_window=4096)) == {4096}
    assert set(windows(sliding_window=4096, use_sliding_window=False)) == {4096}
    kinds = ["full_attention", "sliding_attention"] * 16
    assert windows(sliding_window=128, layer_types=kinds)[:3] == [None, 128, None]
    gemma = {"architectures": ["Gemma3ForCausalLM"], "sliding_window": 1024}
    assert windows(**gemma).count(None) == 5
    assert windows(**gemma)[5] is None
    oss = {"architectures": ["GptOssForCausalLM"], "sliding_window": 128, "num_local_experts": 2}
    assert windows(**oss)[:2] == [128, None]


def test_the_last_layers_of_qwen_have_a_window_all_of_them_or_none():
    """`Qwen2Config` makes ``layer_types`` of it; vLLM's `Qwen2Model` refuses a mixture."""

    def windows(name="Qwen2ForCausalLM", **change):
        change = {"architectures": [name], "sliding_window": 4096} | change
        return {shape.window for shape in model_from_config(LLAMA | change, "x").attention}

    on = {"use_sliding_window": True}
    assert windows() == windows("Qwen3ForCausalLM") == windows("Qwen3MoeForCausalLM") == {None}
    assert windows(**on, max_window_layers=32) == {None}
    assert windows(**on, max_window_layers=0) == {4096}
    assert windows("Qwen3MoeForCausalLM", **on, max_window_layers=32) == {4096}


def test_a_key_that_is_missing_has_the_default_of_its_class():
    """As vLLM reads it: `configuration_*.py` of transformers 5.20."""

    def shape(name, without, **change):
        config = {key: LLAMA[key] for key in LLAMA if key not in without}
        return model_from_config(config | {"architectures": [name]} | change, "x").attention[0]

    heads = ("num_attention_heads", "num_key_value_heads")
    gemma = shape("Gemma3ForCausalLM", heads, sliding_window=1024)
    assert (gemma.kv_heads, gemma.key, gemma.window) == (4, 256, 1024)
    assert shape("Qwen3ForCausalLM", (), num_attention_heads=16).key == 128
    assert shape("Qwen2ForCausalLM", (), num_attention_heads=16).key == 256
    assert shape("MistralForCausalLM", ()).window == 4096
    assert shape("MistralForCausalLM", (), sliding_window=None).window is None
    assert shape("MixtralForCausalLM", ("num_key_value_heads",)).kv_heads == 8
    assert shape("LlamaForCausalLM", ("num_key_value_heads",)).kv_heads == 32


def test_a_text_model_inside_has_the_defaults_of_its_class():
    """Gemma-3-4b-it's own file has as little."""
    inside = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": inside}
    model = model_from_config(config, "x")
    assert (model.heads, model.max_model_len) == (8, 131072)
    assert sum(shape.window is None for shape in model.attention) == 5


def test_the_text_model_of_mistral_3_has_the_defaults_of_its_type():
    inside = {"hidden_size": 3072, "num_hidden_layers": 26, "num_attention_heads": 32}
    for kind, window, channels in (("ministral3", None, 128), ("mistral", 4096, 96)):
        text = {"architectures": ["Mistral3ForConditionalGeneration"]}
        text["text_config"] = inside | {"model_type": kind}
        shape = model_from_config(text, "x").attention[0]
        assert (shape.window, shape.key, shape.kv_heads) == (window, channels, 8)


def test_granite_is_a_plain_model():
    """8.17 billion parameters, says the card of granite-3.3-8b-instruct."""
    change = {"architectures": ["GraniteForCausalLM"], "num_hidden_layers": 40}
    change |= {"intermediate_size": 12800, "vocab_size": 49159, "tie_word_embeddings": True}
    assert round(model_from_config(LLAMA | change, "x").weights.parameters, -7) == 8.17e9


def test_the_longest_request_is_scaled_as_vllm_scales_it():
    def longest(**change):
        return model_from_config(LLAMA | change, "x").max_model_len

    assert longest(rope_scaling={"rope_type": "llama3", "factor": 8.0}) == 131072
    assert longest(rope_scaling={"rope_type": "yarn", "factor": 4.0}) == 131072
    assert longest(rope_scaling={"type": "linear", "factor": 2.0}) == 262144


@pytest.mark.parametrize(
    ("change", "tokens"),
    [
        ({"max_sequence_length": 4096}, 4096),
        ({"max_seq_len": 4096, "seq_length": 2048}, 2048),
        ({"seq_length": 1 << 20}, 131072),
        ({"max_seq_len": 4096, "model_max_length": 1 << 20}, 1 << 20),
        ({"max_seq_len": 4096, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, 16384),
        ({"max_seq_len": None, "model_max_length": None}, 131072),
        ({"max_position_embeddings": None, "max_seq_len": 4096}, 4096),
        ({"max_position_embeddings": None, "model_max_length": 4096}, 4096),
    ],
)
def test_the_longest_request_is_the_least_that_a_file_tells(change, tokens):
    """As vLLM's ``derive_max_model_len_and_key``; ``model_max_length`` wins."""
    assert model_from_config(LLAMA | change, "x").max_model_len == tokens


@pytest.mark.parametrize("kind", [{}, {"model_type": "gemma3_text"}])
def test_the_length_of_gemma_3_is_not_scaled(kind):
    inside = {"hidden_size": 2560, "num_hidden_layers": 34} | kind
    inside["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": inside}
    assert model_from_config(config, "x").max_model_len == 131072


def test_a_longer_request_than_the_models_has_a_remedy():
    with pytest.raises(
        InputError, match=r"is not read; for that give a config\.json that has more"
    ):
        serve(model_from_config(LLAMA, "x"), Asked(max_model_len=131073), None)


def test_a_longrope_is_served_at_its_original_length_unless_told():
    """As Phi-3-mini-128k, of which vLLM 0.33.0 takes longer requests only if asked to."""
    change = {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096}
    model = model_from_config(LLAMA | change, "x")
    assert serve(model, Asked(), None).limits.max_model_len == 4096
    assert serve(model, Asked(max_model_len=131072), None).limits.max_model_len == 131072
    with pytest.raises(InputError, match="vLLM takes at most the 131,072 tokens"):
        serve(model, Asked(max_model_len=131073), None)


@pytest.mark.parametrize(
    ("name", "tp", "told"),
    [
        ("phi-4", 4, "the key-value heads of phi-4 to be divisible by it, or it by them: 1, 2"),
        ("qwen2.5-7b", 7, "the key-value heads of qwen2.5-7b to be divisible by it, or it by them"),
        ("phi-4", 3, "the 40 attention heads of phi-4 to be divisible by it: 1, 2"),
    ],
)
def test_key_value_heads_are_divided_or_copied_evenly(name, tp, told):
    with pytest.raises(InputError, match=told):
        serve(load_model(name), Asked(tp=tp), None)
    assert serve(load_model("llama-3.1-70b"), Asked(tp=16), None)  # two of each of 8


def test_the_feed_forward_part_is_divided_evenly_and_not_within_a_scale():
    """`MergedColumnParallelLinear` and `validate_fp8_block_shape` of vLLM 0.33.0."""

    def check(tp, **change):
        return serve(model_from_config(LLAMA | change, "x"), Asked(tp=tp), None)

    assert check(32, intermediate_size=14336)
    with pytest.raises(
        InputError, match="intermediate_size of x, 14,340, to be divisible by it: 1, 2, 4"
    ):
        check(8, intermediate_size=14340)
    blocks = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    assert check(16, intermediate_size=14336, quantization_config=blocks)
    with pytest.raises(InputError, match="by it in blocks of 128: 1, 2, 4, 8, 16"):
        check(32, intermediate_size=14336, quantization_config=blocks)


def test_sparse_mla_of_8_bits_has_the_format_of_the_backend_that_takes_it():
    """`platforms/cuda.py` and `mla_attention.py` of vLLM 0.33.0."""

    def dtype(gpu, name, model="deepseek-v3.2"):
        return serve(load_model(model), Asked(tp=8, dtype=name), gpu and find_gpu(gpu)).dtype

    assert dtype("h200", "fp8") == dtype("h100", "float8") == "fp8_ds_mla"
    assert dtype("h200", "auto") == dtype("b200", "auto") == "bfloat16"
    assert dtype("b200", "fp8") == dtype(None, "fp8") == "fp8"
    assert dtype("rtx-pro-6000", "auto") == "fp8_ds_mla"
    assert dtype("h200", "fp8", "deepseek-v3") == "fp8"


def test_quantized_weights_are_counted_where_the_method_says_how_and_else_unknown():
    def weights(method):
        config = LLAMA | {"quantization_config": {"quant_method": method}}
        return model_from_config(config, "x")

    assert weights("fp8").weights.total < 0.6 * weights("fp8").weights.parameters * 2
    unknown = weights("awq")
    assert unknown.weights is None
    assert unknown.weights_unknown == "quantized by awq"


FLOAT8 = {"num_bits": 8, "type": "float", "dynamic": False}


@pytest.mark.parametrize(
    ("quantized", "kept"),
    [
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": FLOAT8}, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "bfloat16"),
        ({"quant_method": "modelopt", "kv_cache_scheme": FLOAT8}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_scheme": FLOAT8 | {"dynamic": True}}, "bfloat16"),
        (
            {"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}},
            "fp8_e4m3",
        ),
        ({"quant_method": "fp8", "kv_cache_scheme": "static"}, "bfloat16"),
    ],
)
def test_keys_and_values_have_the_data_type_that_the_checkpoint_wants(quantized, kept):
    """`resolve_kv_cache_dtype_string` and `Attention` of vLLM 0.33.0."""
    for key in ("quantization_config", "compression_config"):
        model = model_from_config(LLAMA | {key: quantized}, "c.json")
        assert serve(model, Asked(), None).dtype == kept
        assert serve(model, Asked(dtype="bfloat16"), None).dtype == "bfloat16"


def test_keys_and_values_in_formats_that_are_not_computed_are_refused():
    four = {"quant_method": "modelopt", "kv_cache_scheme": FLOAT8 | {"num_bits": 4}}
    model = model_from_config(LLAMA | {"quantization_config": four}, "c.json")
    with pytest.raises(InputError, match="--dtype: auto is nvfp4 of this checkpoint"):
        serve(model, Asked(), None)
    whole = {"quant_method": "compressed-tensors", "kv_cache_scheme": FLOAT8 | {"type": "int"}}
    with pytest.raises(InputError, match=r"c.json: quantization_config: kv_cache_scheme: vLLM"):
        model_from_config(LLAMA | {"quantization_config": whole}, "c.json")
    with pytest.raises(InputError, match="fp8_ds_mla is a format of sparse MLA only"):
        serve(load_model("deepseek-v3"), Asked(dtype="fp8_ds_mla"), None)


def test_quantization_is_found_where_vllm_finds_it(tmp_path):
    """Of compressed-tensors under another key, of older ModelOpt checkpoints in another file."""
    other = {"compression_config": {"quant_method": "compressed-tensors"}}
    found = model_from_config(LLAMA | other, "c.json")
    assert found.weights_unknown == "quantized by compressed-tensors"
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert load_model(str(tmp_path)).weights
    beside = tmp_path / "hf_quant_config.json"
    algorithms = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    beside.write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": algorithms}))
    found = load_model(str(tmp_path))
    assert (found.weights_unknown, found.kept_dtype) == ("quantized by modelopt", "fp8_e4m3")
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    assert load_model("other.json", tmp_path).weights
    beside.write_text("[]")
    (tmp_path / "other.json").rename(tmp_path / "config.json")
    with pytest.raises(InputError, match=r"hf_quant_config.json: must be an object"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("key", ["decoder_sparse_step", "moe_layer_freq", "mlp_only_layers"])
def test_experts_in_some_layers_only_are_not_counted(key):
    changed = LLAMA | {key: [3] if key == "mlp_only_layers" else 2}
    assert model_from_config(changed, "x").weights is None
    assert model_from_config(LLAMA | {key: [] if key == "mlp_only_layers" else 1}, "x").weights


def test_a_float32_checkpoint_is_run_in_16_bits():
    model = model_from_config(LLAMA | {"torch_dtype": "float32"}, "x")
    assert cache_dtype("auto", model.dtype) == "bfloat16"
    assert model.weights.total == load_model("llama-3.1-8b").weights.total


def test_layers_that_share_the_cache_of_others_have_none():
    config = LLAMA | {"num_kv_shared_layers": 10}
    assert len(model_from_config(config, "x").attention) == 22
    with pytest.raises(InputError, match="leaves no layer with a cache"):
        model_from_config(LLAMA | {"num_kv_shared_layers": 32}, "x")


def test_an_unknown_data_type_is_refused():
    with pytest.raises(InputError, match=r"--dtype: 'fp9' is not known.*did you mean 'fp8'"):
        cache_dtype("fp9", "bfloat16")
    with pytest.raises(InputError, match="a format of DeepSeek's MLA only"):
        token_bytes("llama-3.1-8b", dtype="fp8_ds_mla")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
    ],
)
def test_names_of_hugging_face_are_known(name, known):
    assert load_model(name) == load_model(known)


def test_an_unknown_name_is_told_with_those_that_are_known():
    with pytest.raises(InputError, match=r"'qwen3-8' is neither.*did you mean 'qwen3-8b'"):
        load_model("qwen3-8")


@pytest.mark.parametrize("text", ["[]", "3", '"x"'])
def test_a_config_that_is_no_object_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"is no config\.json"):
        load_model(str(path))


ODD = st.sampled_from(
    [
        *(None, 0, -1, 1, 3, 2**40, 10**30, 1.5, "x", "", [], {}, True, [1], {"a": 1}),
        *(["full_attention"], {"quant_method": 3}, {"type": "linear", "factor": 1e300}),
    ]
)


@given(
    name=st.sampled_from(model_names()),
    changes=st.dictionaries(st.sampled_from(sorted({*LLAMA, *KEYS})), ODD, min_size=1, max_size=3),
)
def test_whatever_a_config_holds_it_is_a_model_or_refused_in_a_line(name, changes):
    config = {k: v for k, v in _tables()[name].items() if k not in ("source", "parameters")}
    try:
        model = model_from_config(config | changes, "config.json")
    except InputError as refused:
        message = str(refused)
    else:
        message = ""
        assert model.attention
        assert model.max_model_len >= 1
    assert message.startswith("config.json: " if message else "")
    assert "\n" not in message


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v3.2", "kimi-k2"])
def test_checkpoints_in_8_bits_are_divided_in_whole_blocks_of_scales(name):
    assert load_model(name).takes_inner(16)
    assert not load_model(name).takes_inner(32)


def test_the_remedy_for_an_unknown_architecture_names_the_command_that_has_it():
    """`--log METRICS without model.preset` was said of a sweep, which has no such option."""
    for change, hint in (
        ({"architectures": ["LamaForCausalLM"]}, "; did you mean 'LlamaForCausalLM'?"),
        ({"layer_types": ["mamba"] * 32}, ""),
    ):
        with pytest.raises(InputError) as refused:
            model_from_config({**LLAMA, **change}, "config.json")
        remedy = "; `kvsweep blocks --log METRICS` reads the blocks that the server's own /metrics"
        assert f"{remedy} tell{hint}" in str(refused.value)


def test_an_empty_quantization_is_none():
    model = model_from_config(LLAMA | {"quantization_config": {}}, "x")
    assert model.weights == model_from_config(LLAMA, "x").weights
    assert model.weights is not None


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-7B", "qwen/qwen2.5-72b"])
def test_a_base_model_is_not_taken_for_its_instruct_model(name):
    """Its longest request has 131,072 tokens, not 32,768."""
    with pytest.raises(InputError, match=r"is neither a file nor a model.*did you mean 'qwen2\.5-"):
        load_model(name)
    assert load_model(f"{name}-Instruct").max_model_len == 32_768


def test_a_model_of_another_size_is_no_misspelling():
    """A model with a third of the parameters was to have been meant, and another attention."""
    for name in ("meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen2.5-32B-Instruct", "gemma-2-9b-it",
                 "google/gemma-3-4b-it", "deepseek-ai/DeepSeek-V3.1", "llama-3-8b"):  # fmt: skip
        with pytest.raises(InputError, match=r"any other by its config\.json$"):
            load_model(name)
    for name, near in (("qwen3-8", "qwen3-8b"), ("gemma3-27b", "gemma-3-27b")):
        with pytest.raises(InputError, match=rf"config\.json; did you mean '{near}'\?$"):
            load_model(name)


def test_an_architecture_of_its_own_is_no_misspelling():
    for name in ("LlavaNextForConditionalGeneration", "ExaoneForCausalLM", "PhiForCausalLM"):
        with pytest.raises(InputError, match=r"/metrics tell$"):
            model_from_config({**LLAMA, "architectures": [name]}, "config.json")


def test_all_numbers_of_gpus_that_fit_are_offered():
    """Of phi-4's 10 key-value heads 5 and 10 were missing."""
    with pytest.raises(InputError, match=r"divisible by it: 1, 2, 5, 10, 20, 40$"):
        serve(load_model("phi-4"), Asked(tp=3), None)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("num_key_value_heads", "num_key_value_head"),
        ("num_key_value_heads", "num_kv_heads"),
        ("head_dim", "head_dims"),
        ("max_position_embeddings", "max_position_embedding"),
    ],
)
def test_a_misspelled_key_of_the_cache_is_refused(key, written):
    """It was left out: of 8 heads that were written otherwise, all 32 were taken for the cache."""
    table = {name: value for name, value in LLAMA.items() if name != key}
    where = r"^config\.json: " if key != "head_dim" else r"^config\.json: text_config: "
    if key == "head_dim":
        table = {"architectures": ["LlamaForCausalLM"], "text_config": table}
    inside = table.get("text_config", table)
    inside[written] = 128
    with pytest.raises(InputError, match=f"{where}{written}: unknown key; did you mean '{key}'"):
        model_from_config(table, "config.json")


def test_keys_that_are_alike_and_right_are_no_misspelling():
    model_from_config({**LLAMA, "v_head_dim": 128, "num_kv_heads": 8}, "config.json")


SLIDES, FULL = "sliding_attention", "full_attention"


@pytest.mark.parametrize(
    ("name", "kinds", "change", "expected"),
    [
        ("Qwen2ForCausalLM", [SLIDES] * 4, {"use_sliding_window": False}, [None] * 4),
        ("Qwen2ForCausalLM", [SLIDES] * 4, {"use_sliding_window": True}, [512] * 4),
        ("Qwen3ForCausalLM", [FULL, SLIDES] * 2, {"max_window_layers": 4}, [None] * 4),
        ("Qwen3MoeForCausalLM", [FULL, SLIDES] * 2, {"use_sliding_window": True}, [None] * 4),
        ("MixtralForCausalLM", [FULL, SLIDES] * 2, {}, [None] * 4),
        ("MixtralForCausalLM", [SLIDES] * 4, {}, [512] * 4),
        ("GptOssForCausalLM", [FULL, SLIDES] * 2, {}, [512, None] * 2),
        ("GptOssForCausalLM", [FULL] * 4, {}, [512, None] * 2),
        ("GptOssForCausalLM", [SLIDES] * 4, {}, [512] * 4),
        ("MistralForCausalLM", [FULL, SLIDES] * 2, {}, [None, 512] * 2),
        ("Phi3ForCausalLM", [FULL, SLIDES] * 2, {}, [None, 512] * 2),
    ],
)
def test_kinds_of_layers_decide_where_vllms_class_reads_them(name, kinds, change, expected):
    """As vLLM 0.33.0's classes build their layers; those named decided everywhere."""
    small = {"architectures": [name], "num_hidden_layers": 4, "num_local_experts": 2}
    window = {"sliding_window": 512, "layer_types": kinds}
    model = model_from_config(LLAMA | small | window | change, "config.json")
    assert [shape.window for shape in model.attention] == expected


def test_several_kinds_of_layers_in_qwen_are_refused_as_vllm_does():
    kinds = {"layer_types": [FULL, SLIDES] * 16, "sliding_window": 512, "max_window_layers": 2}
    with pytest.raises(InputError, match="max_window_layers: 2 of 32 layers; vLLM does not"):
        model_from_config(LLAMA | {"architectures": ["Qwen3ForCausalLM"]} | kinds, "config.json")


@pytest.mark.parametrize(
    ("name", "window"),
    [
        *((name, 512) for name in ("LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM")),
        ("Phi3ForCausalLM", 512),
        ("GptOssForCausalLM", 512),
        *((name, None) for name in ("Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM")),
    ],
)
def test_a_window_is_switched_off_where_the_class_of_the_configuration_reads_the_switch(
    name, window
):
    """As transformers 5.20 and vLLM 0.33.0 have it; it was read of a Llama made of a Qwen too."""
    off = {"sliding_window": 512, "use_sliding_window": False, "layer_types": [SLIDES] * 4}
    small = {"architectures": [name], "num_hidden_layers": 4, "num_local_experts": 2}
    kinds = {shape.window for shape in model_from_config(LLAMA | small | off, "x").attention}
    assert kinds == {window}


RECORDED = json.loads(Path(__file__).with_name("vllm-0.33.0-architectures.json").read_text())
"""Blocks of 40 GiB, from vLLM 0.33.0's own classes of models and planner, run without a GPU.

Of each model the keys that kvsweep reads, of most with fewer layers; ``lack``: without this key.
"""


def test_architectures_recorded_from_vllm_have_its_blocks():
    for model in RECORDED:
        for run in model["runs"]:
            config = json.loads(json.dumps(model["config"]))
            (config.get("text_config") or config).pop(run["lack"], None)
            asked = Asked(tp=run["tp"], pp=run["pp"], dtype=run["dtype"])
            served = serve(model_from_config(config, model["name"]), asked, find_gpu("h100"))
            plan = layout(served)
            blocks = plan.blocks([40 << 30] * run["pp"])
            found = (served.limits.max_model_len, blocks, plan.logged_tokens(blocks))
            told = (run["max_model_len"], run["blocks"], run["tokens"])
            assert found == told, (model["name"], run)
            groups = [[len(group.members), group.block_size] for group in plan.groups]
            assert groups == run["groups"], (model["name"], run)


def test_pipelines_of_gemma_3n_are_refused_as_vllm_does():
    """vLLM 0.33.0: Pipeline parallelism is not supported for this model."""
    config = next(model["config"] for model in RECORDED if model["name"] == "gemma3n-e4b")
    with pytest.raises(InputError, match=r"--pp: 2; vLLM 0\.33\.0 has no pipelines of Gemma3n"):
        serve(model_from_config(config, "gemma3n-e4b"), Asked(pp=2), None)


def test_every_width_of_a_list_is_to_be_divided():
    config = next(model["config"] for model in RECORDED if model["name"] == "gemma3n-e4b")
    text = config["text_config"] | {"intermediate_size": [16384] * 34 + [16388]}
    model = model_from_config(config | {"text_config": text}, "config.json")
    assert [tp for tp in (1, 2, 4, 8) if model.takes(tp)] == [1, 2, 4]


def test_a_head_dim_that_vllms_class_does_not_read_decides_nothing():
    """vLLM 0.33.0's own class of Qwen2, of 28 layers, 5 GiB and on an H100: 5851 blocks."""
    sizes = {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
    qwen = LLAMA | sizes | {"architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 28}
    model = model_from_config(qwen | {"head_dim": 256}, "config.json")
    assert layout(serve(model, Asked(), find_gpu("h100"))).blocks([5 << 30]) == 5851
    assert model.weights == model_from_config(qwen, "config.json").weights


def test_known_architectures_are_listed_by_what_their_names_end_in():
    with pytest.raises(InputError) as problem:
        model_from_config(LLAMA | {"architectures": ["OtherForCausalLM"]}, "config.json")
    told = str(problem.value)
    assert "known: {Llama,Mistral," in told
    assert ",FalconH1," in told
    assert told.count("ForCausalLM") == 2
    assert told.count("ForConditionalGeneration") == 1
