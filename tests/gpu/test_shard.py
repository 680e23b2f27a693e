"""One GPU's part of a model, and what it counts beside what is counted elsewhere."""

import numpy as np
import pytest
from gpu_models import DENSE, EXPERTS, LATENT, WINDOWS

from kvsweep.errors import InputError
from kvsweep.gpu.counts import experts_weights, step_counts, window_counts
from kvsweep.gpu.exchange import LATENCY_US, exchange_terms
from kvsweep.gpu.hardware_names import known_gpu
from kvsweep.gpu.shard import LayerKind, shard_of
from kvsweep.sizing.served_steps import Peaks, terms
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_config, load_model, model_from_config
from kvsweep.sizing.weights import FP8_BLOCK

FP8 = 1 + 4 / FP8_BLOCK


@pytest.mark.parametrize(
    ("model", "tp", "weight_bytes"),
    [
        ("llama-3.1-8b", 1, 2),
        ("llama-3.1-70b", 4, 2),
        ("qwen3-32b", 2, 2),
        ("qwen3-30b-a3b", 2, 2),
        ("deepseek-v3", 8, FP8),
    ],
)
def test_a_step_is_counted_as_for_the_roofline_presets(model, tp, weight_bytes):
    config, where, _ = load_config(model)
    shard = shard_of(config, where, tp)
    counts = step_counts(shard, weight_bytes)
    each = Peaks(flops=1e6, flops_8bit=1e6, bandwidth=1e6, overhead_us=0.0)  # us are FLOPs, bytes
    known = terms(serve(load_model(model), Asked(tp=tp), None), each)
    np.testing.assert_allclose(counts.flops, known.beta)
    # Norms, biases and routers are counted there and not here.
    of_experts = weight_bytes * experts_weights(shard)
    least = (counts.bytes[0] - of_experts, *counts.bytes[1:])
    np.testing.assert_allclose(least, known.memory, atol=0.003 * counts.bytes[0])
    np.testing.assert_allclose(least[1:], known.memory[1:])
    if of_experts:
        chosen = shard.experts.chosen / shard.experts.count
        np.testing.assert_allclose(known.experts, (of_experts, chosen), rtol=1e-4)


def test_layers_are_told_apart_by_windows_and_experts():
    assert shard_of(DENSE, "m", 1).kinds == (LayerKind("full", 4, None, False),)
    assert shard_of(EXPERTS, "m", 1).kinds == (LayerKind("full-experts", 4, None, True),)
    assert shard_of(WINDOWS, "m", 1).kinds == (
        LayerKind("window-experts", 2, 8, True),
        LayerKind("full-experts", 2, None, True),
    )
    assert shard_of(LATENT, "m", 1).kinds == (
        LayerKind("full", 1, None, False),
        LayerKind("full-experts", 3, None, True),
    )


def test_a_shard_has_its_part_of_heads_widths_and_vocabulary():
    shard = shard_of(EXPERTS, "m", 2)
    assert (shard.heads, shard.kv_heads, shard.vocab) == (2, 1, 128)
    assert shard.experts.inner == 16
    assert shard_of(EXPERTS, "m", 4).kv_heads == 1  # copied where there are fewer than GPUs
    latent = shard_of(LATENT, "m", 2)
    assert (latent.heads, latent.token_channels) == (2, 40)  # every GPU has the whole vector


@pytest.mark.parametrize(
    ("change", "tp", "told"),
    [
        ({}, 3, "--tp: 3 does not divide num_attention_heads of m.json, 4"),
        (
            {"num_attention_heads": 12, "num_key_value_heads": 3},
            2,
            "--tp: 2 neither divides num_key",
        ),
        ({"intermediate_size": 130}, 4, "--tp: 4 does not divide intermediate_size of m.json"),
        ({"architectures": None}, 1, "m.json: architectures: missing"),
        ({"architectures": ["MambaForCausalLM"]}, 1, "m.json: architectures: 'MambaForCausalLM'"),
        ({"hidden_size": 0}, 1, "m.json: hidden_size: 0; allowed"),
        ({"index_topk": 64}, 1, "m.json: index_topk: sparse attention is not measured"),
        ({"mlp_only_layers": [1]}, 1, "m.json: experts in some layers only are not measured"),
        ({"architectures": ["FalconH1ForCausalLM"]}, 1, "m.json: layers that keep a state are not"),
    ],
)
def test_what_is_not_measured_is_told(change, tp, told):
    with pytest.raises(InputError, match=told):
        shard_of(DENSE | change, "m.json", tp)


def test_an_exchange_is_a_latency_and_a_share_of_the_link_for_each_all_reduce():
    shard = shard_of(DENSE, "m", 2)
    found = exchange_terms(shard, "h100", gb_s=1.0)
    assert found.step_us == 9 * LATENCY_US  # two a layer, and the embedding
    assert found.token_us == pytest.approx(9 * 64 * 2 / 1e3)  # 2 (n - 1) / n is 1
    assert "vllm-project/vllm#24111" in found.source
    assert exchange_terms(shard, "h100").token_us == pytest.approx(9 * 128 / (0.75 * 450e3))
    assert "given" in exchange_terms(shard, "", latency_us=0.0, gb_s=1.0).source
    assert "vllm-project/vllm#24111" in exchange_terms(shard, "h100", latency_us=0.0).source
    assert exchange_terms(shard_of(DENSE, "m", 1), "")[:2] == (0.0, 0.0)


def test_links_that_are_not_known_are_asked_for():
    with pytest.raises(InputError, match=r"--allreduce-gb-s: missing; .* not of Some GPU"):
        exchange_terms(shard_of(DENSE, "m", 2), "Some GPU")


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA H100 PCIe", ""),  # slower than what the tables have
        ("Tesla T4", ""),
    ],
)
def test_a_gpu_is_known_by_its_drivers_name(driver, name):
    assert known_gpu(driver) == name


def test_what_is_inside_a_window_is_counted_as_for_computed_step_times():
    config, where, _ = load_config("llama-3.1-8b")
    config = config | {"sliding_window": 4096}
    shard = shard_of(config, where, 2)
    inside, counts = window_counts(shard), step_counts(shard, 2.0)
    each = Peaks(flops=1e6, flops_8bit=1e6, bandwidth=1e6, overhead_us=0.0)  # us are FLOPs, bytes
    known = terms(serve(model_from_config(config, where), Asked(tp=2), None), each)
    np.testing.assert_allclose(known.window, (4096, *inside.flops, *inside.bytes))
    assert counts.flops[2] - 4095 * inside.flops[0] == pytest.approx(known.beta[2])
    assert counts.bytes[2] - 4095 * inside.bytes[0] == pytest.approx(known.memory[2])
    assert window_counts(shard_of(load_config("llama-3.1-8b")[0], where, 1)).window == 0


def test_an_exchange_that_is_given_of_one_gpu_is_refused():
    shard = shard_of(DENSE, "m", 1)
    with pytest.raises(InputError, match="--allreduce-us: has no effect with --tp 1"):
        exchange_terms(shard, "h100", latency_us=5.0)
    with pytest.raises(InputError, match="--allreduce-gb-s: has no effect with --tp 1"):
        exchange_terms(shard, "h100", gb_s=5.0)
