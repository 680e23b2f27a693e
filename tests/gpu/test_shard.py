"""One GPU's part of a model, and what it counts beside what is counted elsewhere."""

import json
from pathlib import Path

import numpy as np
import pytest
from gpu_models import DENSE, EXPERTS, LATENT, STATES, STATES_EXPERTS, WINDOWS

from kvsweep.errors import InputError
from kvsweep.gpu.counts import experts_weights, step_counts, window_counts
from kvsweep.gpu.exchange import LATENCY_US, exchange_terms
from kvsweep.gpu.shard import LayerKind, shard_of
from kvsweep.gpu.state_layers import Mamba
from kvsweep.sizing.class_defaults import text_model
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.gpus import known_gpu
from kvsweep.sizing.served_steps import Peaks, terms
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_config, load_model, model_from_config
from kvsweep.sizing.states import state_shapes
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


def known_terms(config, tp):
    """Return FLOPs and bytes as for computed step times."""
    each = Peaks(flops=1e6, flops_8bit=1e6, bandwidth=1e6, overhead_us=0.0)  # us are FLOPs, bytes
    return terms(serve(model_from_config(config, "m"), Asked(tp=tp), None), each)


NEMOTRON = json.loads(
    (
        Path(__file__).parents[2] / "docs/measurements/h200-vllm/nemotron-h-8b-config.json"
    ).read_text()
)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_a_step_with_states_is_counted_as_for_computed_step_times(tp):
    counts, known = step_counts(shard_of(NEMOTRON, "m", tp), 2.0), known_terms(NEMOTRON, tp)
    np.testing.assert_allclose(counts.flops, known.beta)
    np.testing.assert_allclose(counts.bytes, known.memory, rtol=1e-3)  # norms are not here
    # By hand: 24 layers whose states have 128 heads of 64 x 128 numbers of 4 bytes, and 3 inputs of
    # 10,240 channels of 2 bytes, read and written; four layers keep keys and values of 8 heads.
    states = 24 * 2 * (128 * 64 * 128 * 4 + 3 * 10_240 * 2)
    assert counts.bytes[2] == states / tp + 4 * 2 * (8 // tp) * 128 * 2
    assert counts.bytes[1] == counts.bytes[3] == 4 * 2 * (8 // tp) * 128 * 2


@pytest.mark.parametrize("shared", [0, 64])
@pytest.mark.parametrize("experts", [0, 4])
def test_granites_feed_forward_parts_are_counted_as_for_computed_step_times(experts, shared):
    config = STATES_EXPERTS | {"num_local_experts": experts, "shared_intermediate_size": shared}
    if not (experts or shared):
        return
    shard = shard_of(config, "m", 1)
    assert {kind.experts for kind in shard.kinds} == {experts > 0}
    counts, known = step_counts(shard, 2.0), known_terms(config, 1)
    np.testing.assert_allclose(counts.flops, known.beta)
    of_experts = 2.0 * experts_weights(shard)
    least = (counts.bytes[0] - of_experts, *counts.bytes[1:])
    np.testing.assert_allclose(least, known.memory, atol=0.02 * counts.bytes[0])
    if experts:
        np.testing.assert_allclose(known.experts, (of_experts, 0.5))


def test_layers_are_told_apart_by_what_they_keep():
    shard = shard_of(NEMOTRON, "m", 1)
    assert shard.kinds == (
        LayerKind("state", 24, None, False, "state", False),
        LayerKind("mlp", 24, None, False, "neither", True),
        LayerKind("full", 4, None, False, "full", False),
    )
    assert (shard.layers, shard.attending, shard.gated, shard.rotary) == (52, 4, False, False)
    assert shard.state_bytes == 24 * 4_255_744  # what `kvsweep blocks` says of a layer
    assert shard.mamba == Mamba(128, 64, 8, 128, 4, 128, 4, True)
    shard = shard_of(STATES_EXPERTS, "m", 1)
    assert shard.kinds == (
        LayerKind("state-experts", 3, None, True, "state"),
        LayerKind("full-experts", 1, None, True),
    )
    assert (shard.experts.inner, shard.experts.shared, shard.gated) == (32, 64, True)
    assert shard.mamba.cell_bytes == 2
    assert shard_of(STATES_EXPERTS | {"position_embedding_type": "rope"}, "m", 1).rotary
    assert shard_of(DENSE, "m", 1).state_bytes == 0


def test_a_gpu_has_its_part_of_a_state():
    assert shard_of(NEMOTRON, "m", 8).mamba == Mamba(16, 64, 1, 128, 4, 128, 4, True)
    both = shard_of(STATES_EXPERTS, "m", 2).mamba  # a group that cannot be divided is on each
    assert (both.heads, both.groups, both.channels) == (16, 1, 16 * 4 + 2 * 16)
    shape = state_shapes(*reversed(text_model(Values(STATES_EXPERTS, "m"))[1:]))[0]
    assert both.state_bytes == shape.on_gpu(2)
    # 24 layers with a state, 24 with an MLP, four with attention, and the embedding.
    assert shard_of(NEMOTRON, "m", 2).reduces == (53, 0)
    assert shard_of(STATES_EXPERTS, "m", 2).reduces == (13, 3)


@pytest.mark.parametrize(
    ("config", "tp", "told"),
    [
        (
            DENSE | {"architectures": ["FalconH1ForCausalLM"]},
            1,
            "m.json: layers that keep a state are not measured if they have attention too",
        ),
        (
            DENSE | {"architectures": ["Qwen3NextForCausalLM"]},
            1,
            "not measured if they are gated delta nets",
        ),
        (
            STATES | {"hybrid_override_pattern": "M-M*-E"},
            1,
            "m.json: experts without a gate are not measured",
        ),
        (STATES, 4, r"--tp: 4 does not divide both heads \(32\) and groups \(2\) of the layers"),
        (STATES | {"chunk_size": 12}, 1, "m.json: chunk_size: 12; allowed: powers of 2"),
    ],
)
def test_states_that_are_not_measured_are_told(config, tp, told):
    with pytest.raises(InputError, match=told):
        shard_of(config, "m.json", tp)


@pytest.mark.parametrize(
    "driver",
    [
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA H100 96GB HBM3",
        "NVIDIA H200 NVL",
    ],
)
def test_a_gpu_with_other_parts_or_memory_is_not_known_by_its_name(driver):
    """They were taken for the one whose name stands in theirs."""
    assert known_gpu(driver) == ""


def test_models_of_which_only_the_cache_is_known_are_not_measured():
    config = {"architectures": ["Cohere2ForCausalLM"]}
    with pytest.raises(InputError, match="steps of 'Cohere2ForCausalLM' are not measured"):
        shard_of(config, "m.json", 1)
