"""Shapes of models: bytes of a token, weights, and what a config.json must say."""

import json

import pytest

from kvsweep.errors import InputError
from kvsweep.sizing.dtypes import cache_dtype
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
        ({"architectures": ["Qwen3NextForCausalLM"]}, "keeps states beside keys and values"),
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
        ({"rope_scaling": 3}, "rope_scaling: 3; it must be an object"),
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
    assert set(windows(sliding_window=4096, use_sliding_window=False)) == {None}
    kinds = ["full_attention", "sliding_attention"] * 16
    assert windows(sliding_window=128, layer_types=kinds)[:3] == [None, 128, None]
    gemma = {"architectures": ["Gemma3ForCausalLM"], "sliding_window": 1024}
    assert windows(**gemma).count(None) == 5
    assert windows(**gemma)[5] is None
    oss = {"architectures": ["GptOssForCausalLM"], "sliding_window": 128, "num_local_experts": 2}
    assert windows(**oss)[:2] == [128, None]


def test_the_longest_request_is_scaled_as_vllm_scales_it():
    def longest(**change):
        return model_from_config(LLAMA | change, "x").max_model_len

    assert longest(rope_scaling={"rope_type": "llama3", "factor": 8.0}) == 131072
    assert longest(rope_scaling={"rope_type": "yarn", "factor": 4.0}) == 131072
    assert longest(rope_scaling={"type": "linear", "factor": 2.0}) == 262144


def test_quantized_weights_are_counted_where_the_method_says_how_and_else_unknown():
    def weights(method):
        config = LLAMA | {"quantization_config": {"quant_method": method}}
        return model_from_config(config, "x")

    assert weights("fp8").weights.total < 0.6 * weights("fp8").weights.parameters * 2
    unknown = weights("awq")
    assert unknown.weights is None
    assert unknown.weights_unknown == "quantized by awq"


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


def test_an_unknown_name_is_told_with_those_that_are_known():
    with pytest.raises(InputError, match=r"'qwen3-8' is neither.*did you mean 'qwen3-8b'"):
        load_model("qwen3-8")


@pytest.mark.parametrize("text", ["[]", "3", '"x"'])
def test_a_config_that_is_no_object_is_refused(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"is no config\.json"):
        load_model(str(path))
