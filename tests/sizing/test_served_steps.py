"""Step times that are computed: experts, latent attention, sliding windows, 8 bits; by hand."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kvsweep
from kvsweep.config.preset import load_preset, preset_names
from kvsweep.errors import InputError
from kvsweep.sizing.exchange import reached_bandwidth
from kvsweep.sizing.gpus import figures
from kvsweep.sizing.groups import stages
from kvsweep.sizing.pipeline import longest_stage
from kvsweep.sizing.served_steps import Peaks, step_terms, terms
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_config, load_model, model_from_config

DOC = (Path(__file__).parents[2] / "docs" / "presets.md").read_text(encoding="utf-8")
PLAIN = Peaks(flops=1e12, flops_8bit=2e12, bandwidth=1e12, overhead_us=7.0)
"""A microsecond has a million FLOPs of 16 bits, two of 8, and moves a million bytes."""

OF_MODEL = [
    name
    for name in preset_names()
    if name.startswith(("gpt-oss", "deepseek", "qwen3-next")) and name.endswith("-roofline")
]


SMALL = {
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_local_experts": 8,
    "vocab_size": 100,
    "max_position_embeddings": 1024,
}
"""A mixture of experts, small."""


PLAIN_MODEL = {
    **{key: value for key, value in SMALL.items() if key != "num_local_experts"},
    "architectures": ["Phi3ForCausalLM"],
}
"""The same without experts."""


def of(name, tp=1, peaks=PLAIN):
    return terms(serve(load_model(name), Asked(tp=tp), None), peaks)


def test_latent_attention_prefills_by_heads_and_decodes_on_the_vector():
    beta, memory, *_ = of("deepseek-v3", tp=8)
    heads = 128 // 8
    assert beta[4] == pytest.approx(61 * 2 * heads * (128 + 64 + 128) / 1e6)
    assert beta[3] == pytest.approx(61 * 2 * heads * (512 + 64 + 512) / 1e6)
    latent = 61 * (512 + 64) * 2 / 1e6  # on every GPU the whole vector
    assert memory[1:] == pytest.approx((latent, latent, latent, 0))
    assert of("deepseek-v3", tp=1)[1][1:] == memory[1:]


def test_a_token_of_deepseek_meets_37_billion_weights_most_of_them_in_8_bits():
    shared = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    expert = 3 * 7168 * 2048
    divided = 61 * shared + 3 * 3 * 7168 * 18432 + 58 * (8 + 1) * expert
    copied, output = 61 * 7168 * (1536 + 512 + 64), 7168 * 129280
    assert (divided + copied + output) / 1e9 == pytest.approx(37, abs=0.5)
    beta = of("deepseek-v3", tp=8).beta
    assert beta[1] == pytest.approx(2 * (divided / 8 + copied) / 2e6)
    assert beta[2] - beta[1] == pytest.approx(2 * output / 8 / 1e6)


def test_a_step_of_deepseek_reads_its_weights_once_but_not_the_embedding():
    embedding = 2 * 7168 * 129280
    read = load_model("deepseek-v3").weights.total - embedding
    found = of("deepseek-v3")
    assert found.memory[0] + found.experts[0] == pytest.approx(read / 1e6)


def test_windows_bound_the_context_that_is_attended_to_and_read():
    beta, memory, _, window = of("gpt-oss-120b")
    pair, token = 4 * 64 * 64, 2 * 8 * 64 * 2  # FLOPs and bytes in a layer
    full, sliding = 18, 18
    assert beta[3:] == pytest.approx((full * pair / 1e6,) * 2)
    layer = 2 * 2880 * (64 + 8) * 64 + 4 * 3 * 2880 * 2880
    assert beta[1] == pytest.approx(2 * 36 * layer / 1e6)
    assert memory[1:3] == pytest.approx((36 * token / 1e6,) * 2)
    assert memory[3] == pytest.approx(full * token / 1e6)
    flop, moved = sliding * pair / 1e6, sliding * token / 1e6
    assert window == pytest.approx((128, flop, flop, moved, 0))


def test_a_window_that_no_request_outgrows_is_full_attention():
    """Phi-4-mini has windows of 262,144 tokens and takes 131,072: a step read them all, always."""

    def steps(window, **asked):
        config = {**PLAIN_MODEL, "sliding_window": window}
        return terms(serve(model_from_config(config, "c.json"), Asked(**asked), None), PLAIN)

    assert steps(262144) == steps(1024) == steps(None)
    assert steps(512, max_model_len=512) == steps(None)
    assert steps(None).window == ()
    assert steps(512).window[:2] == (512, steps(None).beta[3])
    assert steps(512).beta[3] == 0.0
    assert steps(1).window == ()


def test_experts_in_mxfp4_are_computed_in_16_bits():
    slower = of("gpt-oss-120b", peaks=PLAIN._replace(flops_8bit=1e12))
    assert slower == of("gpt-oss-120b")


@pytest.mark.parametrize(("name", "chosen"), [("gpt-oss-120b", 4 / 128), ("deepseek-v3", 8 / 256)])
def test_experts_are_a_term_of_their_own(name, chosen):
    found, weights = of(name, tp=2), load_model(name).weights
    experts = sum(layer.experts for layer in weights.layers) / 2
    assert found.experts == (pytest.approx(experts / 1e6), chosen)
    read = sum(layer.on_gpu(2) for layer in weights.layers) + weights.output / 2
    assert found.memory[0] == pytest.approx((read - experts) / 1e6)
    assert of("llama-3.1-8b").experts == ()


def test_experts_that_all_tokens_are_sent_to_are_weights_as_others():
    config = SMALL | {"num_experts_per_tok": 8}
    found = terms(serve(model_from_config(config, "c.json"), Asked(), None), PLAIN)
    assert found.experts == ()
    layer = 4 * 64 * 64 + 8 * 3 * 64 * 64 + 8 * 64 + 2 * 64
    assert found.memory[0] == pytest.approx(2 * (2 * layer + 64 * 100) / 1e6)


def chance(chosen, tokens):
    """Return the share of experts that any of so many tokens is sent to."""
    return 1 - (1 - chosen) ** tokens


def test_a_step_reads_the_experts_that_tokens_touch_at_random():
    """So the kernel's steps tell, of a preset that comes with the package."""
    rng = np.random.default_rng(0)
    experts, chosen, tokens = 128, 4, 20
    touched = [
        len({e for _ in range(tokens) for e in rng.choice(experts, chosen, replace=False)})
        for _ in range(300)
    ]
    assert chance(chosen / experts, tokens) == pytest.approx(np.mean(touched) / experts, abs=0.01)
    latency = load_preset("gpt-oss-120b/h100/tp1-roofline", Path()).coefficients()
    requests = [
        {"id": i, "arrival_us": 0, "prompt": [[i, 1]], "output": [tokens + i, 3]}
        for i in range(tokens)
    ]
    document = {
        "format": "kvsweep-trace/1",
        "scenario": {"latency": latency, "cache": {"gpu_blocks": 100}},
        "requests": requests,
    }
    found = kvsweep.replay(document)
    assert (found["cached_tokens"] == 0).all()
    two_steps = found["finish_us"] - found["first_token_us"]
    assert (two_steps == int(decode(latency, tokens, 1)) + int(decode(latency, tokens, 2))).all()


def decode(latency, requests, context):
    """Return the time of a step of so many decoding requests, microseconds."""
    beta, memory, (experts, chosen) = latency["beta"], latency["memory"], latency["experts"]
    window, flop, _, byte, _ = latency["window"] or (1, 0, 0, 0, 0)
    sums = (0, requests, requests * context, requests * min(context, window - 1))
    computed, moved = (
        first + sum(a * b for a, b in zip((*row[1:4], inside), sums, strict=True))
        for first, row, inside in ((0, beta, flop), (memory[0], memory, byte))
    )
    return beta[0] + max(computed, moved + experts * chance(chosen, requests))


def test_the_steps_of_experts_are_those_of_the_docs():
    names = ("gpt-oss-120b/h100/tp1-roofline", "deepseek-v3/h200/tp8-roofline")
    presets = [load_preset(name, Path()).coefficients() for name in names]
    rows = re.findall(r"^\| (\d+) \|(.*)\|$", DOC, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    for requests, cells in rows:
        share, *told = (float(cell.strip(" %")) for cell in cells.split("|"))
        assert share == round(100 * chance(1 / 32, int(requests)), 1)
        found = [decode(latency, int(requests), 1_000) / 1000 for latency in presets]
        assert told == pytest.approx(found, abs=0.0501)


MEASURED = {
    "Llama-3.1-8B, 1": "llama-3.1-8b/h200/tp1",
    "Qwen3-32B, 1": "qwen3-32b/h200/tp1",
    "Llama-3.1-70B, 4": "llama-3.1-70b/h200/tp4",
    "Llama-3.1-70B, 8": "llama-3.1-70b/h200/tp8",
    "gpt-oss-120b in bfloat16, 2": "gpt-oss-120b/h200/tp2-bf16",
    "DeepSeek-V3, 8": "deepseek-v3/h200/tp8",
    "Llama-3.1-8B, 1 H100": "llama-3.1-8b/h100/tp1",
    "Qwen3-32B, 2 H100": "qwen3-32b/h100/tp2",
    "Llama-3.1-70B, 4 H100": "llama-3.1-70b/h100/tp4",
    "Llama-3.1-70B, 8 H100": "llama-3.1-70b/h100/tp8",
}


def milliseconds(latency, requests, prompt):
    """Return the time of a step of decoding requests, or of a prompt alone."""
    beta, memory, experts = latency["beta"], latency["memory"], latency["experts"] or (0, 0.5)
    window, *inside = latency["window"] or (1, 0, 0, 0, 0)
    sums = (prompt, requests, requests * 1_000, prompt * (prompt - 1) / 2)
    sums += (requests * min(1_000, window - 1), sum(min(p, window - 1) for p in range(prompt)))
    computed, moved = (
        sum(a * b for a, b in zip((*row[1:], *more), sums, strict=True))
        for row, more in ((beta, inside[:2]), (memory, inside[2:]))
    )
    moved += memory[0] + experts[0] * chance(experts[1], requests + prompt)
    return (beta[0] + max(computed, moved)) / 1000


@pytest.mark.parametrize("label", MEASURED)
def test_computed_times_are_as_far_from_measured_ones_as_the_docs_say(label):
    (cells,) = re.findall(rf"^\| {label} \|(.*)\|$", DOC, re.MULTILINE)
    model, gpu, gpus = MEASURED[label].split("/")
    config, where, _ = load_config(model)
    if gpus.endswith("bf16"):
        config = {key: value for key, value in config.items() if key != "quantization_config"}
    tp = int(re.search(r"\d+", gpus)[0])
    served = serve(model_from_config(config, where), Asked(tp=tp), None)
    computed = step_terms(served, gpu)._asdict()
    measured = load_preset(MEASURED[label], Path()).coefficients()
    steps = [(1, 0), (8, 0), (64, 0), (256, 0), (0, 128), (0, 512), (0, 2_048), (0, 8_192)]
    found = [milliseconds(computed, *step) / milliseconds(measured, *step) - 1 for step in steps]
    told = [float(cell.strip(" %")) for cell in cells.split("|")]
    assert told == [round(100 * each) for each in found]


@pytest.mark.parametrize("name", OF_MODEL)
def test_a_preset_has_the_figures_and_times_of_its_gpu(name):
    model, gpu, times = name.split("/")
    tp = int(times.removeprefix("tp").removesuffix("-roofline"))
    found = load_preset(name, Path()).coefficients()
    expected = step_terms(serve(load_model(model), Asked(tp=tp), None), gpu)
    assert found["beta"] == pytest.approx(expected.beta, rel=1e-12)
    assert found["memory"] == pytest.approx(expected.memory, rel=1e-12)
    assert found["experts"] == pytest.approx(expected.experts, rel=1e-12)


@pytest.mark.parametrize("name", OF_MODEL)
def test_a_preset_fits_its_gpus(name):
    from kvsweep.sizing.asking import answer
    from kvsweep.sizing.question import Question

    model, gpu, times = name.split("/")
    tp = int(times.removeprefix("tp").removesuffix("-roofline"))
    assert answer(Question(model=model, gpu=gpu, tp=tp)).blocks > 1_000


def test_products_of_8_bits_are_not_faster_on_a_gpu_without_them():
    assert "flops_8bit" not in figures()["gpus"]["a100"]
    served = serve(load_model("deepseek-v3"), Asked(tp=1), None)
    slow, fast = step_terms(served, "a100"), step_terms(served, "h100")
    ratio = (1978.9 / 312.0, 989.4 / 312.0)
    assert slow.beta[1] / fast.beta[1] == pytest.approx(ratio[0])
    assert slow.beta[3] / fast.beta[3] == pytest.approx(ratio[1])


def test_experts_without_a_number_for_each_token_have_no_step_times():
    config = dict(SMALL)
    served = serve(model_from_config(config, "c.json"), Asked(), None)
    with pytest.raises(InputError, match="not known of MixtralForCausalLM"):
        terms(served, PLAIN)
    config["num_experts_per_tok"] = 2
    served = serve(model_from_config(config, "c.json"), Asked(), None)
    layer = 4 * 64 * 64 + 2 * 3 * 64 * 64
    assert terms(served, PLAIN).beta[1] == pytest.approx(2 * 2 * layer / 1e6)


def test_gpus_that_share_a_model_exchange_as_those_of_a_measured_one():
    """Two all-reduces a layer and one of the embedding, of both sums' tokens, and once a step."""
    served = serve(load_model("llama-3.1-70b"), Asked(tp=4), None)
    peaks = Peaks(1e12, 1e12, 1e12, 7.0)
    without, found = terms(served, peaks), terms(served, peaks._replace(exchange=337.5e9))
    added = load_preset("llama-3.1-70b/h200/tp4", Path()).added
    once, token = added.allreduce_step_us, added.allreduce_token_us
    assert (once, token) == pytest.approx((161 * 10, 161 * 1.5 * 8192 * 2 / 337.5e3), rel=1e-5)
    for sums, where in (("beta", (once, token, token)), ("memory", (0, token, token))):
        more = np.subtract(getattr(found, sums), getattr(without, sums))
        assert more == pytest.approx((*where, 0, 0), rel=1e-5)
    alone = serve(load_model("llama-3.1-70b"), Asked(), None)
    assert terms(alone, peaks._replace(exchange=1.0)) == terms(alone, peaks)


def test_a_group_without_a_switch_exchanges_by_its_own_links():
    """Two MI300X have one link of 64 GB/s, of which AMD reaches 48; eight have seven."""
    of_group = [reached_bandwidth("mi300x", tp) / 1e9 for tp in (2, 4, 8, 16)]
    assert of_group == pytest.approx([48, 144, 336, 336])
    assert reached_bandwidth("h100", 2) == reached_bandwidth("h100", 8) == 337.5e9


def test_links_that_are_not_known_add_nothing():
    served = serve(load_model("llama-3.1-70b"), Asked(tp=8), None)
    assert reached_bandwidth("l40s", 8) is None
    about, used = figures()["gpus"]["l40s"], figures()["efficiency"]
    byte = about["bandwidth"] * used["bandwidth"] / 1e6
    weights = load_model("llama-3.1-70b").weights
    read = sum(layer.on_gpu(8) for layer in weights.layers) + weights.output / 8
    found = step_terms(served, "l40s")
    assert found.memory[0] == pytest.approx(read / byte)
    assert found.beta[0] == used["overhead_us"]
    assert found.memory[1] == found.memory[3]


@pytest.mark.parametrize("name", [name for name in preset_names() if name.endswith("-roofline")])
def test_a_preset_has_the_links_of_its_gpus_or_says_that_it_has_none(name):
    preset, (_, gpu, _) = load_preset(name, Path()), name.split("/")
    tp = preset.device.tp
    known = reached_bandwidth(gpu, tp) if tp > 1 else None
    assert preset.device.exchange == known
    assert ("without what the devices exchange" in preset.fit) == (tp > 1 and known is None)
    assert ("vllm-project/vllm#24111" in preset.source) == (known is not None)


def test_qwen3_next_on_four_gpus_is_counted_by_hand():
    """36 gated delta nets and 12 layers of attention, each with 512 experts, 10 for a token."""
    delta = 2048 * (8192 + 4096 + 64) + 4096 * 2048 + 8192 * 4 + 64
    attention, pairs = 3 * 2048 * 16 * 256, 2 * 2048 * 2 * 256
    expert = 3 * 2048 * 512
    divided = 36 * delta + 12 * attention + 48 * expert
    on_each = 36 * 128 + 12 * 2 * 256 + 48 * (2 * 2048 + 2048 * 512 + 2048)
    output = 2048 * 151936
    read = 2 * (divided / 4 + 12 * pairs / 2 + on_each + output / 4)
    found = of("qwen3-next-80b-a3b", tp=4)
    assert found.memory[0] == pytest.approx(read / 1e6)
    assert found.experts == (pytest.approx(48 * 512 * expert * 2 / 4 / 1e6), 10 / 512)
    token = 12 * 1 * 2 * 256 * 2  # bytes of keys and values: of one of the two heads
    state = 36 * (8192 // 4 * 3 * 2 + 32 // 4 * 128 * 128 * 2)
    moved = (token / 1e6, (token + 2 * state) / 1e6, token / 1e6, 0)
    assert found.memory[1:] == pytest.approx(moved)
    active = divided + 12 * pairs + 48 * 10 * expert
    recurrences = 36 * 7 * 32 * 128 * 128
    assert found.beta[1] == pytest.approx((2 * active + recurrences) / 4 / 1e6)
    assert found.beta[2] - found.beta[1] == pytest.approx(2 * output / 4 / 1e6)
    assert found.beta[3:] == pytest.approx((12 * 4 * 16 * 256 / 4 / 1e6,) * 2)
    assert (active + output) / 1e9 == pytest.approx(3.5, abs=0.05)
    assert recurrences < 0.03 * 2 * active


def test_steps_of_qwen3_next_take_some_milliseconds():
    served = serve(load_model("qwen3-next-80b-a3b"), Asked(tp=4), None)
    found = step_terms(served, "h100")._asdict()
    assert found["beta"][0] == pytest.approx(500 + 97 * 10)
    steps = [milliseconds(found, 1, 0), milliseconds(found, 64, 0), milliseconds(found, 0, 2_048)]
    told = r"([\d.]+) ms a step of one request, ([\d.]+) of 64, ([\d.]+) of a prompt of 2,048"
    (numbers,) = re.findall(told, DOC)
    assert [float(number) for number in numbers] == pytest.approx(steps, abs=0.0501)
    assert steps[0] < 5
    assert 10 < steps[2] < 50


HYBRID = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "max_position_embeddings": 1024,
}
GRANITE = {
    **HYBRID,
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"],
    "mamba_n_heads": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 16,
    "mamba_conv_bias": False,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "intermediate_size": 32,
    "shared_intermediate_size": 48,
}
NEMOTRON = {
    **HYBRID,
    "architectures": ["NemotronHForCausalLM"],
    "hybrid_override_pattern": "M-*ME",
    "head_dim": 16,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "ssm_state_size": 16,
    "intermediate_size": 96,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
FALCON = {
    **HYBRID,
    "architectures": ["FalconH1ForCausalLM"],
    "num_hidden_layers": 3,
    "head_dim": 16,
    "intermediate_size": 96,
    "mamba_d_ssm": 128,
    "mamba_n_heads": 8,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
}


def of_config(config, peaks=PLAIN, **asked):
    return terms(serve(model_from_config(config, "c.json"), Asked(**asked), None), peaks)


def test_a_hybrid_with_mamba_2_is_counted_by_hand():
    found = of_config(GRANITE, tp=2)
    channels = 128 + 2 * 16
    mamba = 64 * (128 + channels + 8) + 128 * 64 + channels * 4 + 3 * 8 + 128
    attention, expert = 4 * 64 * 64 - 2 * 64 * 32, 3 * 64 * 32
    active = 2 * mamba + attention + 3 * (2 * expert + 3 * 64 * 48)
    recurrences = 2 * 5 * 8 * 16 * 16
    assert found.beta[1] == pytest.approx((2 * active + recurrences) / 2 / 1e6)
    assert found.beta[3] == pytest.approx(4 * 4 * 16 / 2 / 1e6)
    assert found.experts == (pytest.approx(3 * 8 * expert * 2 / 2 / 1e6), 2 / 8)
    # The only group is on both GPUs.
    state = (64 + 2 * 16) * 3 * 2 + 4 * 16 * 16 * 2
    token = 1 * 2 * 16 * 2
    assert found.memory[1:] == pytest.approx(
        (token / 1e6, (token + 2 * 2 * state) / 1e6, token / 1e6, 0)
    )


def test_states_are_moved_in_the_bytes_that_are_asked_for():
    cells = 2 * 2 * 4 * 16 * 16  # read and written of two layers
    moved = [of_config(GRANITE, tp=2, mamba_ssm_dtype=d).memory[2] for d in (None, "float32")]
    assert moved[1] - moved[0] == pytest.approx(cells * 2 / 1e6)


@pytest.mark.parametrize(
    ("config", "vectors", "numbers"),
    [
        (GRANITE, 1 + 3 * 3, 2),  # experts and the shared part are reduced apart
        (GRANITE | {"shared_intermediate_size": 0}, 1 + 3 * 2, 2),
        (GRANITE | {"num_local_experts": 0}, 1 + 3 * 2, 2),
        (GRANITE | {"mamba_n_groups": 2}, 1 + 3 * 3, 0),
        (NEMOTRON, 1 + 5, 0),  # a layer is one of them
        (FALCON, 1 + 3 * 3, 0),  # attention, Mamba-2 and a feed-forward part
        (FALCON | {"mamba_rms_norm": True}, 1 + 3 * 3, 3),
    ],
)
def test_layers_with_states_exchange_as_vllms_do(config, vectors, numbers):
    without, found = of_config(config, tp=2), of_config(config, PLAIN._replace(exchange=1e9), tp=2)
    once, token = np.subtract(found.beta, without.beta)[:2]
    assert once == pytest.approx((vectors + numbers) * 10)
    assert token == pytest.approx(vectors * 2 * 64 / 1e3)


def test_experts_that_no_layer_has_need_no_number_for_each_token():
    config = {key: value for key, value in NEMOTRON.items() if key != "num_experts_per_tok"}
    assert of_config(config | {"hybrid_override_pattern": "M-*M"}).experts == ()
    with pytest.raises(InputError, match="not known of NemotronHForCausalLM"):
        of_config(config)


@pytest.mark.parametrize(
    ("name", "pp", "layers", "times"),
    [
        ("llama-3.1-70b", 2, range(40, 80), 1.0152),  # 40 layers and an output layer of 1.23
        ("llama-3.1-70b", 3, range(54, 80), 1.0057),  # 26 and 1.23 of 81.23
        ("llama-3.1-8b", 4, range(24, 32), 1.2098),
    ],
)
def test_the_longest_stage_is_found_by_the_weights_that_it_reads(name, pp, layers, times):
    model = load_model(name)
    found = longest_stage(model, 1, pp)
    assert found[0] == layers
    assert found[1] == pytest.approx(times, abs=1e-3)
    uncounted = replace(model, weights=None)
    parts = sorted(range(pp), key=lambda stage: (-len(stages(model.layers, pp)[stage]), stage))
    assert longest_stage(uncounted, 1, pp)[0] == stages(model.layers, pp)[parts[0]]
