"""A sweep that names its model and GPU: blocks, bytes of a token and step times follow."""

import json
import re
from pathlib import Path

import pytest

import kvsweep
from kvsweep import grid
from kvsweep.config import load_sweep
from kvsweep.config.axes import axis_values
from kvsweep.config.base import KeyProblem
from kvsweep.config.preset import load_preset
from kvsweep.config.served_text import (
    defaults_text,
    exchange_text,
    model_text,
    model_texts,
    stages_text,
    states_text,
)
from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCKS
from kvsweep.sizing.asking import answer
from kvsweep.sizing.question import Question
from kvsweep.sizing.served_steps import step_terms
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_config, load_model
from kvsweep.sweep import run as run_grid

WORKLOAD = """\
[workload]
requests = 20
rate = 500.0
prompt = { dist = "constant", value = 100 }
output = { dist = "constant", value = 50 }
"""
LATENCY = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
ON_H100 = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n'
OF_GIB = '[model]\npreset = "llama-3.1-8b"\nkv_gib = 5.0547\n'


@pytest.fixture
def load(tmp_path):
    def load(text, *overrides):
        (tmp_path / "s.toml").write_text(WORKLOAD + text)
        return load_sweep(tmp_path / "s.toml", overrides)

    return load


def scenarios(sweep):
    return list(grid.plan(sweep).variants)


def told(sweep, write=model_text):
    return [write(scenario, sweep.base_dir) for scenario in scenarios(sweep)]


def test_gib_decide_the_blocks_without_the_null_block(load):
    (scenario,) = scenarios(load(OF_GIB + LATENCY))
    assert scenario.cache.gpu_blocks == 2_587
    assert scenario.cache.kv_bytes_per_token == 131_072


def test_gib_and_parallel_sizes_are_axes(load):
    sweep = load(OF_GIB + LATENCY + '[grid]\n"model.kv_gib" = [1, 2.5]\n"model.tp" = [1, 2, 4]\n')
    blocks = [scenario.cache.gpu_blocks + 1 for scenario in scenarios(sweep)]
    assert blocks == [512, 1024, 2048, 1280, 2560, 5120]


def test_a_gpu_decides_as_the_command_does_with_the_tokens_of_the_steps(load):
    from kvsweep.sizing.asking import answer
    from kvsweep.sizing.question import Question

    sweep = load(ON_H100 + LATENCY + '[grid]\n"engine.max_num_batched_tokens" = [2048, 8192]\n')
    for scenario in scenarios(sweep):
        tokens = scenario.engine.max_num_batched_tokens
        asked = Question(
            model="llama-3.1-8b", gpu="h100", max_num_batched_tokens=tokens, max_num_seqs=256
        )
        assert scenario.cache.gpu_blocks == answer(asked).blocks - 1


def test_a_value_given_wins_and_is_told(load):
    sweep = load(ON_H100 + LATENCY, "cache.gpu_blocks=300")
    assert scenarios(sweep)[0].cache.gpu_blocks == 300
    assert "cache.gpu_blocks wins: 300 blocks" in told(sweep)[0]
    tokens = load(ON_H100 + LATENCY + "[cache]\ngpu_tokens = 1600\n")
    assert scenarios(tokens)[0].cache.gpu_blocks == 100
    assert "cache.gpu_tokens wins: 100 blocks" in told(tokens)[0]


def test_an_estimate_is_told_as_one(load):
    assert "estimated, " in told(load(ON_H100 + LATENCY))[0]
    assert "estimated" not in told(load(OF_GIB + LATENCY))[0]


def test_times_of_other_gpus_than_the_models_are_told(load):
    sweep = load(OF_GIB + LATENCY + '[grid]\n"model.tp" = [1, 2]\n')
    one, two = told(sweep)
    assert "but latency.model llama-3.1-8b/h100/tp2 has the times of tp 2" in one
    assert "latency" not in two


@pytest.mark.parametrize(
    ("override", "times"),
    [
        ("model.gpu=h200", "h100"),
        ("model.preset=qwen3-8b", "llama-3.1-8b"),
        ("model.tp=1", "tp 2"),
        ("latency.model=llama-3.1-70b/h200/tp4", "llama-3.1-70b, h200, tp 4"),
        ("model.gpu=80GiB", None),
        ("model.preset=meta-llama/Llama-3.1-8B-Instruct", None),
    ],
)
def test_times_of_another_model_or_gpu_are_told(load, override, times):
    (text,) = told(load(f"{ON_H100}tp = 2\n{LATENCY}", override))
    name = override.partition("latency.model=")[2] or "llama-3.1-8b/h100/tp2"
    said = f"; but latency.model {name} has the times of {times}"
    assert text.endswith(said) if times else "has the times of" not in text


def test_the_defaults_of_a_server_are_offered_not_taken(load):
    sweep = load(ON_H100 + LATENCY)
    (offered,) = told(sweep, defaults_text)
    assert "engine.max_num_seqs = 1024, engine.max_num_batched_tokens = 8192" in offered
    assert scenarios(sweep)[0].engine.max_num_seqs == 256
    as_served = "[engine]\nmax_num_seqs = 1024\nmax_num_batched_tokens = 8192\n"
    assert told(load(ON_H100 + LATENCY + as_served), defaults_text) == [None]
    assert told(load(OF_GIB + LATENCY), defaults_text) == [None]


def test_the_block_size_of_a_server_is_offered(load):
    """FLASHMLA, the first backend of Hopper for MLA of 8 bits, has blocks of 64."""
    mla = '[model]\npreset = "deepseek-v3"\ngpu = "h200"\ntp = 16\ndtype = "fp8"\n'
    (said,) = told(load(mla), defaults_text)
    assert "cache.block_size = 64" in said
    assert said.endswith(", 16")
    (said,) = told(load(mla, "model.dtype=auto"), defaults_text)
    assert "block_size" not in said


def test_step_times_are_computed_where_none_are_given(load, tmp_path):
    (scenario,) = scenarios(load(ON_H100))
    like = load_preset("llama-3.1-8b/h100/tp1-roofline", tmp_path).coefficients()
    assert scenario.latency.beta == pytest.approx(like["beta"], rel=1e-9)
    # The preset leaves out the weights of norms.
    assert scenario.latency.memory == pytest.approx(like["memory"], rel=1e-4)
    assert "step times computed, not measured" in told(load(ON_H100))[0]
    given = load(ON_H100 + LATENCY)
    assert scenarios(given)[0].latency.model == "llama-3.1-8b/h100/tp2"


def test_windows_have_a_term_of_their_own(load, tmp_path):
    """Who does not fill a window is charged what he has."""
    shape = load_config("llama-3.1-8b")[0] | {"sliding_window": 4096}
    (tmp_path / "c.json").write_text(json.dumps(shape))
    text = '[model]\nconfig = "c.json"\ngpu = "h100"\n'
    (windowed,) = scenarios(load(text))
    (tmp_path / "c.json").write_text(json.dumps(shape | {"sliding_window": 131072}))
    (full,) = scenarios(load(text))
    assert full.latency.window == ()
    times = full.latency
    terms = (*times.beta[3:], *times.memory[3:])
    assert windowed.latency.window == pytest.approx((4096, *terms))
    assert windowed.latency.beta == pytest.approx(
        (*times.beta[:3], 0, 0)[: len(windowed.latency.beta)]
    )


def windows(scenario):
    return [group.window for group in scenario.cache.groups]


def test_a_hybrid_decides_its_groups_its_blocks_and_its_step_times(load, tmp_path):
    text = '[model]\npreset = "gpt-oss-120b"\ngpu = "h200"\n'
    (scenario,) = scenarios(load(text))
    assert windows(scenario) == [128, None]
    assert scenario.cache.gpu_blocks > 100_000
    like = load_preset("gpt-oss-120b/h200/tp1-roofline", tmp_path).coefficients()
    assert scenario.latency.memory == pytest.approx(like["memory"])
    (given,) = scenarios(load(text, "cache.gpu_blocks=20000"))
    assert (given.cache.gpu_blocks, windows(given)) == (20_000, [128, None])


def test_a_hybrid_of_gib_has_the_blocks_that_vllm_gives_it(load):
    """5.38 GiB are 9,793 blocks, the null block among them; Gemma 3 has seven groups."""
    text = '[model]\npreset = "gpt-oss-120b"\nkv_gib = 5.38\n' + LATENCY
    (scenario,) = scenarios(load(text))
    assert (scenario.cache.gpu_blocks, windows(scenario)) == (9_792, [128, None])
    (gemma,) = scenarios(load(text, "model.preset=gemma-3-27b"))
    assert windows(gemma) == [1024] * 6 + [None]


def test_a_hybrid_may_be_taken_for_a_model_with_full_attention(load):
    """By tokens, which say what fits, or by groups of its own; a CPU tier asks for one of them."""
    text = '[model]\npreset = "gpt-oss-120b"\nkv_gib = 5.38\n' + LATENCY + "[cache]\n"
    (tokens,) = scenarios(load(text + "gpu_tokens = 160000"))
    assert (tokens.cache.gpu_blocks, windows(tokens)) == (10_000, [])
    assert (
        "cache.gpu_tokens wins: 10,000 blocks of full attention"
        in told(load(text + "gpu_tokens = 160000"))[0]
    )
    full = 'groups = [{ kind = "full" }]\n'
    (own,) = scenarios(load(text + full + "cpu_blocks = 10\ntransfer_bandwidth = 1.0"))
    assert own.cache.gpu_blocks == 9_792 * 8_192 // (8_192 + 137)  # 137 of a request are windows'
    with pytest.raises(InputError, match=r"with the groups of this model.*kind = 'full'"):
        load(text + "cpu_blocks = 10\ntransfer_bandwidth = 1.0")


def test_latent_attention_in_8_bits_decides_blocks_and_step_times(load, tmp_path):
    text = '[model]\npreset = "deepseek-v3"\ngpu = "h200"\ntp = 8\n'
    (scenario,) = scenarios(load(text))
    assert scenario.cache.gpu_blocks > 40_000
    assert scenario.cache.kv_bytes_per_token == 70_272
    like = load_preset("deepseek-v3/h200/tp8-roofline", tmp_path).coefficients()
    assert scenario.latency.beta == pytest.approx(like["beta"])


@pytest.mark.parametrize("name", ["qwen3-32b/h100/tp2-roofline", "llama-3.1-70b/l40s/tp8-roofline"])
def test_presets_have_the_times_that_are_computed_of_their_model(load, tmp_path, name):
    model, gpu, tp = name.split("/")
    text = f'[model]\npreset = "{model}"\ngpu = "{gpu}"\ntp = {tp[2]}\n'
    (scenario,) = scenarios(load(text))
    like = load_preset(name, tmp_path).coefficients()
    assert scenario.latency.beta == pytest.approx(like["beta"], rel=1e-9)
    assert scenario.latency.memory == pytest.approx(like["memory"], rel=1e-3)


def test_step_times_fall_with_the_gpus_that_share_the_model(load):
    sweep = load(ON_H100 + '[grid]\n"model.tp" = [1, 2]\n')
    one, two = (scenario.latency for scenario in scenarios(sweep))
    exchange = 65 * 4096 * 2 / 337.5e3  # of a token, microseconds
    assert two.beta[1] == pytest.approx(one.beta[1] / 2 + exchange)
    assert two.memory[1] == pytest.approx(one.memory[1] / 2 + exchange)
    assert two.beta[0] == one.beta[0] + 65 * 10


def test_a_step_meets_and_reads_the_experts_that_its_tokens_are_sent_to(load):
    (few,) = scenarios(load(ON_H100, "model.preset=qwen3-30b-a3b"))
    (dense,) = scenarios(load(ON_H100, "model.preset=llama-3.1-8b"))
    assert few.latency.beta[1] < dense.latency.beta[1]
    assert few.latency.memory[0] < dense.latency.memory[0] < few.latency.experts[0]
    assert few.latency.experts[1] == 8 / 128
    assert dense.latency.experts == ()


@pytest.mark.parametrize(
    ("text", "override", "message"),
    [
        (ON_H100, "model.gpu=80GiB", "latency: missing, and not known of a GPU given by its mem"),
        (
            ON_H100,
            "model.preset=deepseek-v3.2",
            "cache.block_size: 16; the indexer of deepseek-v3.2",
        ),
        (ON_H100, "model.pp=33", "--set model.pp: 33; llama-3.1-8b has 32 layers"),
        (
            ON_H100,
            "engine.pipeline_parallel_size=33",
            "--set engine.pipeline_parallel_size: 33; llama-3.1-8b has 32 layers",
        ),
        (OF_GIB, "model.tp=2", "latency: missing; give a model"),
        (ON_H100, "model.gpu=h1000", "--set model.gpu: 'h1000' is neither a GPU"),
        (ON_H100, "model.tp=3", "--set model.tp: 3; vLLM wants the 32 attention heads"),
        (ON_H100, "model.dtype=fp9", "--set model.dtype: 'fp9' is not known"),
        (ON_H100, "model.kv_gib=3", "--set model.kv_gib: give either gpu or kv_gib"),
        (ON_H100, "model.config=x.json", "give either a preset or a config"),
        (ON_H100, "model.preset=llama", "--set model.preset: 'llama' is neither"),
        (ON_H100, "model.utilisation=0.9", "did you mean"),
        (ON_H100, "model.utilization=1.5", "--set model.utilization: must be at most 1"),
        (ON_H100, "model.preset=llama-3.1-70b", "model.gpu: no memory is left"),
        (OF_GIB + LATENCY, "model.preset=gemma-4-26b", "blocks of 16 and 32 tokens, which is not"),
        (OF_GIB + LATENCY, "model.utilization=0.9", "--set model.utilization: has no effect"),
    ],
)
def test_models_that_cannot_be_are_refused_by_key(load, text, override, message):
    with pytest.raises(InputError) as refused:
        scenarios(load(text, override))
    assert message in refused.value.for_command


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
@pytest.mark.parametrize(("gib", "blocks"), [(0.0001, 1), (0.0005, 1), (1e6, MAX_BLOCKS)])
def test_memory_of_no_block_or_too_many_is_refused_with_what_would_do(load, model, gib, blocks):
    text = f'[model]\npreset = "{model}"\nkv_gib = {gib}\n' + LATENCY
    with pytest.raises(InputError, match=r":\d+: model\.kv_gib: [\d,]+ usable blocks") as refused:
        scenarios(load(text))
    limit = str(refused.value).rpartition(" ")[2]
    allowed = scenarios(load(text, f"model.kv_gib={limit}"))[0].cache.gpu_blocks
    assert blocks * 0.999 <= allowed <= blocks * 1.001
    beyond = float(limit) * (0.999 if blocks == 1 else 1.001)
    with pytest.raises(InputError, match="usable blocks"):
        scenarios(load(text, f"model.kv_gib={beyond}"))


@pytest.mark.parametrize(
    ("key", "one", "other"),
    [
        ("model.gpu", "h100", "H100"),
        ("model.gpu", "80GiB", "80 gib"),
        ("model.gpu", "80", "80GiB"),
        ("model.preset", "llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("latency.model", "mine.toml", "./mine.toml"),
        ("workload.trace", "a/b.jsonl", "a//b.jsonl"),
    ],
)
def test_values_of_an_axis_that_mean_the_same_are_refused(load, key, one, other):
    text = ON_H100 + LATENCY + f'[grid]\n"{key}" = ["{one}", "{other}"]\n'
    said = f"{other!r} occurs twice as {one!r}, which means the same"
    with pytest.raises(InputError, match=rf":\d+: grid\.{key}: {re.escape(said)}$"):
        load(text)


def test_quantized_weights_are_why_something_is_missing_and_the_remedy_works(load, tmp_path):
    quantized = {"quantization_config": {"quant_method": "awq"}}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(load_config("llama-3.1-8b")[0] | quantized))
    text = '[model]\nconfig = "config.json"\ngpu = "h100"\n'
    with pytest.raises(InputError, match=r"as model.weights_gib = 60\.8$"):
        load(text)
    with pytest.raises(InputError, match=r"not known of weights that are quantized by awq; give"):
        load(text, "model.weights_gib=60.8")
    assert load(text + LATENCY, "model.weights_gib=60.8")


def test_a_file_beside_the_config_is_read_anew(load, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(load_config("llama-3.1-8b")[0]))
    text = f'[model]\nconfig = "config.json"\nkv_gib = 4.0\n{LATENCY}'
    (before,) = scenarios(load(text))
    quantized = {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantized))
    (after,) = scenarios(load(text))
    assert after.cache.kv_bytes_per_token == before.cache.kv_bytes_per_token / 2


def test_values_of_an_axis_that_are_unknown_or_other_memory_stay(load):
    assert axis_values("model.gpu", ["80GiB", "80GB", "h100", "x", "X"])
    assert axis_values("latency.model", ["a.toml", "A.toml"])


def test_a_hybrid_model_with_blocks_given_has_the_bytes_of_its_tokens(load):
    text = '[model]\npreset = "gpt-oss-20b"\n' + LATENCY + "[cache]\ngpu_blocks = 100\n"
    assert scenarios(load(text))[0].cache.kv_bytes_per_token == 49_152


def test_a_config_is_found_beside_the_sweep(load, tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 64,
        "intermediate_size": 64,
        "vocab_size": 100,
        "max_position_embeddings": 1024,
    }
    (tmp_path / "tiny.json").write_text(json.dumps(config))
    text = '[model]\nconfig = "tiny.json"\nkv_gib = 0.001\n'
    assert scenarios(load(text + LATENCY))[0].cache.kv_bytes_per_token == 512


def test_block_sizes_are_compared_at_equal_memory(load):
    text = OF_GIB + LATENCY + '[grid]\n"cache.block_size" = [16, 32]\n'
    small, large = (scenario.cache.gpu_blocks + 1 for scenario in scenarios(load(text)))
    assert small == 2 * large


def test_the_cpu_tier_moves_the_bytes_of_the_model(load):
    text = OF_GIB + LATENCY + "[cache]\ncpu_blocks = 100\n"
    one, two = scenarios(load(text + '[grid]\n"model.tp" = [1, 2]\n'))
    assert two.cache.transfer_bandwidth == pytest.approx(2 * one.cache.transfer_bandwidth)


def test_a_sweep_without_a_model_is_what_it_was(load):
    assert "model" not in load(LATENCY).to_dict()["scenario"]
    assert load(OF_GIB + LATENCY).to_dict()["scenario"]["model"]["kv_gib"] == 5.0547


def test_a_sweep_of_gib_runs_and_its_axis_has_the_unit(load, tmp_path):
    sweep = load(OF_GIB + LATENCY + '[grid]\n"model.kv_gib" = [0.05, 1.0]\n')
    ds = kvsweep.run(sweep, out=tmp_path / "s.zarr")
    assert ds["kv_gib"].attrs["units"] == "GiB"
    assert (ds["status"] == "ok").all()
    rate = ds["preemption_rate"]
    assert float(rate.isel(kv_gib=0).squeeze()) > float(rate.isel(kv_gib=1).squeeze()) == 0


def test_a_config_that_is_written_anew_is_read_anew(load, tmp_path):
    layers = {"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8,
              "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 2048,
              "vocab_size": 32000, "torch_dtype": "bfloat16",
              "max_position_embeddings": 8192, "architectures": ["LlamaForCausalLM"]}  # fmt: skip
    found = []
    for count in (8, 16):
        told = json.dumps(layers | {"num_hidden_layers": count})
        (tmp_path / "config.json").write_text(told)
        (scenario,) = scenarios(load('[model]\nconfig = "config.json"\nkv_gib = 1\n' + LATENCY))
        found.append(scenario.cache.gpu_blocks + 1)
    assert found == [8192, 4096]


def test_what_is_told_of_a_model_is_the_same_in_cells_with_other_settings(load):
    """Sections that cells share counted as given, so that their step times were no longer said."""
    sweep = load(ON_H100 + '[grid]\n"engine.max_num_seqs" = [64, 128]\n')
    assert len(set(told(sweep))) == 1
    assert "step times computed" in told(sweep)[0]


def test_it_is_told_where_gpus_exchange_nothing_in_computed_times(load):
    text = '[model]\npreset = "llama-3.1-70b"\ngpu = "{}"\ntp = 8\n'
    (said,) = told(load(text.format("l40s")), exchange_text)
    assert said.startswith("computed step times are too short: what 8 l40s exchange is left out")
    assert told(load(text.format("h100")), exchange_text) == [None]
    latency = '[cache]\ngpu_blocks = 5000\n[latency]\nmodel = "{}"\n'
    (said,) = told(load(latency.format("llama-3.1-70b/l40s/tp8-roofline")), exchange_text)
    assert "the 8 GPUs of llama-3.1-70b/l40s/tp8-roofline exchange" in said
    for name in ("llama-3.1-70b/h100/tp4-roofline", "llama-3.1-8b/h100/tp2"):
        assert told(load(latency.format(name)), exchange_text) == [None]


def test_a_device_alone_has_no_links(tmp_path):
    preset = Path(kvsweep.__file__).parent / "presets" / "llama-3.1-8b" / "h100"
    text = (preset / "tp1-roofline.toml").read_text()
    (tmp_path / "p.toml").write_text(f"{text}peer_bandwidth = 450e9\n")
    with pytest.raises(KeyProblem, match=r"device\.peer_bandwidth: has no effect with tp = 1"):
        load_preset("p.toml", tmp_path)


def test_blocks_that_win_are_told_once_for_all_cells(load):
    sweep = load(ON_H100 + '[grid]\n"cache.gpu_blocks" = [300, 9000, 500]\n"model.tp" = [1, 2]\n')
    first, second = model_texts(sweep)
    assert "cache.gpu_blocks wins: 300 to 9,000 blocks" in first
    assert "tp 2" in second
    assert "cache.gpu_blocks wins: 300 to 9,000 blocks" in second


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ("", "llama-3.1-8b/h100/tp1"),
        ("tp = 2\n", "llama-3.1-8b/h100/tp2"),
        ("tp = 4\n", None),
        ('dtype = "fp8"\n', None),
        ("weights_gib = 8\n", None),
    ],
)
def test_measured_step_times_are_named_beside_computed_ones(load, changes, known):
    (text,) = told(load(ON_H100 + changes + "[engine]\nasync_scheduling = true\n"))
    hint = f', but those of latency.model = "{known}" are' if known else ""
    assert text.endswith(f"step times computed, not measured{hint}")


def test_times_without_a_host_are_not_named_where_steps_wait_for_it(load):
    (text,) = told(load(ON_H100 + "[engine]\nasync_scheduling = false\n"))
    assert text.endswith("step times computed, not measured")
    (text,) = told(load(ON_H100 + "tp = 2\n[engine]\nasync_scheduling = false\n"))
    assert text.endswith('llama-3.1-8b/h100/tp2" are')


STATES = '[model]\npreset = "qwen3-next-80b-a3b"\nkv_gib = 40\n[latency]\nbeta = [9000, 10, 1]\n'
STATE = {"kind": "state", "window": None, "checkpoint": True}
FULL = {"kind": "full", "window": None, "checkpoint": None}


def test_a_model_with_states_has_their_groups_and_the_block_size_that_is_raised(load):
    cached, off = scenarios(load(STATES + '[grid]\n"engine.enable_prefix_caching" = [true, false]'))
    assert (cached.cache.gpu_blocks, cached.cache.block_size) == (3_033, 576)
    assert [group.model_dump() for group in cached.cache.groups] == [STATE, STATE, STATE, FULL]
    assert (off.cache.gpu_blocks, off.cache.block_size) == (3_211, 544)
    assert [group.checkpoint for group in off.cache.groups] == [None] * 4
    assert cached.cache.kv_bytes_per_token == 24_576
    assert "3,033 usable blocks of 576 tokens, to hold a state" in told(load(STATES))[0]


def test_a_block_size_above_a_state_is_kept_and_one_below_is_raised(load):
    sizes = '[grid]\n"cache.block_size" = [16, 48, 1024]\n'
    assert [each.cache.block_size for each in scenarios(load(STATES + sizes))] == [576, 576, 1024]


def test_a_gpu_without_checkpoints_of_gated_delta_nets_has_none(load):
    on = STATES.replace("kv_gib = 40", 'gpu = "a100"\ntp = 4')
    (scenario,) = scenarios(load(on))
    assert scenario.cache.block_size == 272
    assert [group.checkpoint for group in scenario.cache.groups] == [None] * 4
    (text,) = told(load(on.replace("a100", "h100")), defaults_text)
    assert "engine.max_num_seqs" in text
    assert "cache.block_size" not in text


def test_what_is_given_wins_over_a_model_with_states(load):
    (blocks,) = scenarios(load(STATES + "[cache]\ngpu_blocks = 900\n"))
    assert (blocks.cache.gpu_blocks, blocks.cache.block_size) == (900, 576)
    assert len(blocks.cache.groups) == 4
    (tokens,) = scenarios(load(STATES + "[cache]\ngpu_tokens = 16000\n"))
    assert (tokens.cache.gpu_blocks, tokens.cache.block_size) == (1_000, 16)
    assert tokens.cache.groups == ()
    one = '[cache]\ngpu_blocks = 900\ngroups = [{ kind = "full" }]\n'
    (full,) = scenarios(load(STATES + one))
    assert (full.cache.block_size, len(full.cache.groups)) == (16, 1)


def test_step_times_of_a_model_with_states_are_computed_and_said_to_be(load):
    sweep = load(STATES.split("kv_gib")[0] + 'gpu = "h100"\ntp = 4\n')
    (scenario,) = scenarios(sweep)
    like = step_terms(serve(load_model("qwen3-next-80b-a3b"), Asked(tp=4), None), "h100")
    assert scenario.latency.beta == pytest.approx(like.beta)
    assert scenario.latency.memory == pytest.approx(like.memory)
    assert scenario.latency.experts == pytest.approx(like.experts)
    longer = "prompts took 14 to 27 % longer"
    assert told(sweep)[0].endswith("step times computed, not measured")
    assert told(sweep, states_text) == [
        f"step times are computed; of the one model with states that was measured, {longer}"
    ]
    assert told(load(STATES), states_text) == [None]
    assert told(load(ON_H100), states_text) == [None]


def test_step_times_of_a_preset_with_the_shape_of_a_model_with_states_are_said_to_be(
    load, tmp_path
):
    preset = Path(kvsweep.__file__).parent / "presets" / "gpt-oss-120b" / "h100"
    text = (preset / "tp1-roofline.toml").read_text()
    (tmp_path / "next.toml").write_text(
        text.replace('shape_of = "gpt-oss-120b"', 'shape_of = "qwen3-next-80b-a3b"')
    )
    sweep = '[cache]\ngpu_blocks = 5000\n[latency]\nmodel = "{}"\n'
    (said,) = told(load(sweep.format("next.toml")), states_text)
    assert said.startswith("step times are computed; of the one model with states")
    for other in ("gpt-oss-120b/h100/tp1-roofline", "llama-3.1-8b/h100/tp2"):
        assert told(load(sweep.format(other)), states_text) == [None]


PIPED = ON_H100 + "pp = 2\n"


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        (PIPED, [2]),
        (ON_H100, [1]),
        (ON_H100 + "[engine]\npipeline_parallel_size = 2\n", [2]),
        (PIPED + "[engine]\npipeline_parallel_size = 2\n", [2]),
        (ON_H100 + '[grid]\n"model.pp" = [1, 2, 4]\n', [1, 2, 4]),
        (ON_H100 + '[grid]\n"engine.pipeline_parallel_size" = [1, 2, 4]\n', [1, 2, 4]),
        (PIPED.replace('gpu = "h100"', "kv_gib = 4.0") + LATENCY, [2]),
    ],
)
def test_the_stages_of_model_and_engine_are_one_number_whoever_gives_it(load, text, stages):
    found = scenarios(load(text))
    assert [scenario.model.pp for scenario in found] == stages
    assert [scenario.engine.pipeline_parallel_size for scenario in found] == stages
    blocks = [scenario.cache.gpu_blocks for scenario in found]
    assert blocks == sorted(set(blocks))  # each with more memory than before
    traced = found[-1].to_trace()
    assert traced.get("engine", {}).get("pipeline_parallel_size", 1) == stages[-1]


def test_stages_of_the_model_that_are_not_those_of_the_engine_are_refused(load):
    text = PIPED + "[engine]\npipeline_parallel_size = {}\n"
    for stages in (1, 3):
        said = f"model.pp: 2, but engine.pipeline_parallel_size is {stages}: give one of the two"
        with pytest.raises(InputError, match=re.escape(said)):
            load(text.format(stages))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[cache]\ncpu_blocks = 100\nlink = "pcie5-x16"\n',
            "cache.cpu_blocks: with model.pp = 2 there is only cpu_blocks = 0",
        ),
        (
            '[engine.speculative]\ntokens = 2\nmethod = "eagle"\nacceptance = 0.5\n',
            "engine.async_scheduling: false, but of drafts with model.pp = 2 only",
        ),
        (
            "[cluster]\nprefill_instances = 1\ndecode_instances = 1\n"
            "kv_transfer_bandwidth = 100.0\n",
            "model.pp: not with prefill and decode apart: no rule was recorded",
        ),
    ],
)
def test_what_has_no_rule_beside_a_pipeline_is_refused_by_the_key_of_the_model(load, text, said):
    model = '[model]\npreset = "llama-3.1-8b"\npp = 2\n[latency]\nbeta = [1000.0]\n'
    with pytest.raises(InputError, match=re.escape(said)):
        load(model + text)


def test_step_times_of_a_pipeline_are_those_of_all_stages_and_what_they_hand_on(load):
    sweep = load(ON_H100 + "tp = 2\n" + '[grid]\n"model.pp" = [1, 2, 4]\n')
    one, *others = (scenario.latency for scenario in scenarios(sweep))
    vectors = 2 * 4096 * 2 / 337.5e3  # of a token, microseconds on one link
    for hops, piped in zip((1, 3), others, strict=True):
        token = hops * (vectors / 2 + vectors / 2)  # half by each GPU, which then swap halves
        assert piped.beta[0] == pytest.approx(one.beta[0] + hops * 3 * 10)
        assert piped.beta[1:3] == pytest.approx([each + token for each in one.beta[1:3]])
        assert piped.beta[3:] == pytest.approx(one.beta[3:])
        assert piped.memory[0] == pytest.approx(one.memory[0])
        assert piped.memory[1:3] == pytest.approx([each + token for each in one.memory[1:3]])
    alone = load(ON_H100 + '[grid]\n"model.pp" = [1, 2]\n')
    one, two = (scenario.latency for scenario in scenarios(alone))
    assert two.beta[0] == one.beta[0] + 10
    assert two.beta[1] == pytest.approx(one.beta[1] + vectors)


def test_a_pipeline_is_told_with_what_its_step_times_do_not_know(load):
    sweep = load(PIPED, "engine.async_scheduling=true")
    assert "2 stages, up to 3 steps on their way; step times computed" in told(sweep)[0]
    (said,) = told(sweep, stages_text)
    assert "as if all GPUs were in one node" in said
    # 16 layers of 436,224,000 bytes and an output layer of 1,050,673,152, over half of the sum
    assert said.endswith("(16 of 32 layers and the output layer) takes about 7% more than that")
    (said,) = told(load(PIPED + LATENCY), stages_text)
    assert said.startswith("the times of llama-3.1-8b/h100/tp2 are taken for all stages")
    (said,) = told(load(PIPED.replace("h100", "l40s")), exchange_text)
    assert "what 2 l40s exchange is left out" in said
    assert told(load(ON_H100), stages_text) == [None]
    given = "[engine]\npipeline_parallel_size = 2\n[latency]\nbeta = [1000.0]\n"
    (said,) = told(load(given), stages_text)
    assert said.endswith("what stages hand on to each other is not added")


@pytest.mark.parametrize("axis", ["model.pp", "engine.pipeline_parallel_size"])
def test_stages_that_follow_an_axis_are_not_told_as_those_of_all_cells(load, axis):
    told_of = load(f'{ON_H100}[grid]\n"{axis}" = [1, 2]\n').to_dict()["scenario"]
    assert "pp" not in told_of["model"]
    assert "pipeline_parallel_size" not in told_of["engine"]
    fixed = load(PIPED).to_dict()["scenario"]
    assert (fixed["model"]["pp"], fixed["engine"]["pipeline_parallel_size"]) == (2, 2)


@pytest.mark.parametrize(
    ("model", "axis", "needs"),
    [
        ("", '"model.kv_gib" = [10, 20]', "which win"),
        ('gpu = "h100"\n', '"model.utilization" = [0.8, 0.9]', "which win"),
        ("", '"model.gpu" = ["h100", "a100"]', "which win, or no [latency]"),
    ],
)
@pytest.mark.parametrize("given", ["gpu_blocks = 900", "gpu_tokens = 16_000"])
def test_an_axis_of_memory_is_refused_where_the_blocks_are_given(load, model, axis, needs, given):
    text = f'[model]\npreset = "llama-3.1-8b"\n{model}{LATENCY}[grid]\n{axis}\n'
    assert len(scenarios(load(text))) == 2
    wanted = f"has no effect: needs neither cache.gpu_blocks nor cache.gpu_tokens, {needs}"
    with pytest.raises(InputError) as refused:
        load(f"[cache]\n{given}\n{text}")
    assert str(refused.value).endswith(wanted)
    alone = axis.partition(" = ")[0].strip('"') + "=" + axis.partition("[")[2].split(",")[0]
    assert len(scenarios(load(f"[cache]\n{given}\n{text}", alone))) == 1


def test_an_axis_of_gpus_decides_step_times_where_the_blocks_are_given(load):
    text = '[model]\npreset = "llama-3.1-8b"\n[cache]\ngpu_blocks = 900\n'
    sweep = load(f'{text}[grid]\n"model.gpu" = ["h100", "a100"]\n')
    assert len({scenario.latency for scenario in scenarios(sweep)}) == 2


def test_the_reference_rules_take_the_blocks_of_a_model(load):
    """They move tokens by `transfer_bandwidth`, not by bytes, so that none are written."""
    (plain,) = scenarios(load(ON_H100 + LATENCY))
    (scenario,) = scenarios(load(f'[engine]\nrules = "blis"\n{ON_H100}{LATENCY}'))
    assert scenario.cache.gpu_blocks == plain.cache.gpu_blocks
    assert scenario.cache.kv_bytes_per_token is None


def test_the_reference_rules_have_no_computed_step_times(load):
    with pytest.raises(InputError, match=r"latency: missing; rules 'blis' .* give beta of three"):
        load(f'[engine]\nrules = "blis"\n{ON_H100}')


def test_latencies_that_tell_no_steps_are_told_beside_a_model(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(f"{ON_H100}[latency]\nfirst_steps_us = [1000]\n{WORKLOAD}")
    with pytest.raises(InputError) as told:
        run_grid(load_sweep(path), out=tmp_path / "out.zarr")
    assert "latency: first_steps_us: added to steps, of which nothing is told" in str(told.value)


def test_blocks_that_are_given_win_over_an_estimate_that_leaves_none(tmp_path):
    """A server's own log has them; activations are known to a factor of two."""
    model = '[model]\npreset = "{}"\ngpu = "{}"\ntp = {}\n'
    engine = "[engine]\nmax_num_batched_tokens = 32768\n"
    path = tmp_path / "s.toml"

    def scenario(text):
        path.write_text(text + WORKLOAD)
        return load_sweep(path).scenario({})

    kimi = model.format("kimi-k2", "h200", 8) + engine
    with pytest.raises(InputError, match="no memory is left for the KV cache"):
        scenario(kimi)
    given = scenario(f"{kimi}[cache]\ngpu_blocks = 9999\n")
    assert given.cache.gpu_blocks == 9999
    told = model_text(given, tmp_path)
    assert "on h200: no memory is left, as estimated; cache.gpu_blocks wins: 9,999 blocks" in told
    with pytest.raises(InputError, match=r"weights take 131\.42 and activations"):
        scenario(model.format("llama-3.1-70b", "h100", 1) + "[cache]\ngpu_blocks = 9999\n")


def test_measured_step_times_are_told_of_a_model_by_its_name_on_hugging_face(tmp_path):
    path = tmp_path / "s.toml"
    for name in ("qwen3-32b", "Qwen/Qwen3-32B"):
        model = f'[model]\npreset = "{name}"\ngpu = "h100"\ntp = 2\n'
        path.write_text(f"{model}[engine]\nasync_scheduling = true\n{WORKLOAD}")
        told = model_text(load_sweep(path).scenario({}), tmp_path)
        assert told.endswith('not measured, but those of latency.model = "qwen3-32b/h100/tp2" are')


def test_fewer_tokens_of_a_step_are_a_remedy_by_their_key(tmp_path):
    path = tmp_path / "s.toml"
    model = 'preset = "qwen3-next-80b-a3b"\ngpu = "h100"\ntp = 4\n'
    path.write_text(f"[model]\n{model}[engine]\nmax_num_batched_tokens = 262144\n{WORKLOAD}")
    with pytest.raises(InputError, match=r"a smaller engine\.max_num_batched_tokens or a larger"):
        load_sweep(path).scenario({})


def test_a_model_with_other_layers_taken_for_full_attention_holds_as_many_tokens(load, tmp_path):
    """As many blocks of Gemma 3 held a quarter more."""
    text = '[model]\npreset = "{}"\nkv_gib = 20.0\n' + LATENCY + "[cache]\n{}"
    full = 'groups = [{ kind = "full" }]\n'
    for name in ("gpt-oss-120b", "gemma-3-27b", "qwen3-next-80b-a3b"):
        found = answer(
            Question(
                model=name, kv_memory="20GiB", max_num_batched_tokens=2048, async_scheduling=False
            )
        )
        sweep = load(text.format(name, full))
        (one,) = scenarios(sweep)
        tokens = one.cache.gpu_blocks * one.cache.block_size
        assert found.tokens * 0.99 < tokens <= found.tokens
        assert f"{one.cache.gpu_blocks:,} blocks of full attention hold as many" in told(sweep)[0]
    config = load_config("llama-3.1-8b")[0] | {"sliding_window": 512}
    (tmp_path / "config.json").write_text(json.dumps(config))
    windows = text.format("llama-3.1-8b", full).replace("preset", "config")
    (alone,) = scenarios(load(windows, f"model.config={tmp_path}/config.json"))
    assert alone.cache.gpu_blocks == 20 * 2**30 // (16 * 131_072) - 1


def test_a_hybrid_model_keeps_in_its_cache_what_vllm_does(load):
    def interval(model, cache=""):
        text = f'[model]\npreset = "{model}"\ngpu = "h200"\ntp = 2\n[cache]\n{cache}\n'
        (scenario,) = scenarios(load(text + LATENCY))
        return scenario.cache.prefix_cache_retention_interval

    assert interval("gpt-oss-120b") == 0
    assert interval("qwen3-next-80b-a3b") == 0
    assert interval("llama-3.1-8b") is None
    assert interval("gpt-oss-120b", "prefix_cache_retention_interval = 64") == 64
    given = 'groups = [{ kind = "full" }, { kind = "sliding", window = 128 }]'
    assert interval("gpt-oss-120b", given) is None


@pytest.mark.parametrize(
    ("gpu", "offload", "size"),
    [("mi300x", "vllm", 64), ("mi300x", "write-through", 16), ("h100", "vllm", 16)],
)
def test_the_blocks_of_a_server_with_a_connector_are_told_on_amd(load, gpu, offload, size):
    engine = "[engine]\nmax_num_seqs = 8\nmax_num_batched_tokens = 512\n"
    text = ON_H100.replace("h100", gpu) + engine
    tier = f'[cache]\ncpu_blocks = 9\nlink = "pcie5-x16"\noffload = "{offload}"\n'
    there = f"vllm serve on {gpu} takes cache.block_size = {size}; here 16"
    assert told(load(text + tier), defaults_text) == [there if size != 16 else None]


def test_a_block_of_a_hybrid_model_has_the_bytes_of_padded_layers(load):
    """Gemma 3 27B: 62 layers, 10 of them full, in groups of 10: the last two have 8 more each."""
    text = '[model]\npreset = "gemma-3-27b"\n' + LATENCY + "[cache]\ngpu_blocks = 100\n"
    (scenario,) = scenarios(load(text))
    groups = len(scenario.cache.groups)
    layers, token = 10, 2 * 16 * 128 * 2
    assert (groups, scenario.cache.kv_bytes_per_token) == (7, 7 * layers * token)


def test_an_exchange_that_a_preset_adds_is_not_left_out(load, tmp_path):
    shipped = Path(kvsweep.__file__).parent / "presets" / "llama-3.1-70b" / "l40s"
    text = (shipped / "tp8-roofline.toml").read_text()
    latency = '[cache]\ngpu_blocks = 5000\n[latency]\nmodel = "mine.toml"\n'
    for added, left_out in (
        ("allreduce_token_us = 190.0", False),
        ("host_overhead_us = 1.0", True),
    ):
        (tmp_path / "mine.toml").write_text(f"{text}\n[added]\n{added}\n")
        (said,) = told(load(latency), exchange_text)
        assert (said is not None) == left_out


def test_it_is_told_where_gpus_are_more_than_a_node_has(load):
    """Their links were taken for those within a node, without a word beside the times."""
    text = '[model]\npreset = "deepseek-v3"\ngpu = "h200"\ntp = {}\n'
    (said,) = told(load(text.format(16)), exchange_text)
    assert said.startswith(
        "computed step times are too short: what 16 h200 exchange is that of one node, which has 8"
    )
    assert told(load(text.format(8)), exchange_text) == [None]
    latency = '[cache]\ngpu_blocks = 5000\n[latency]\nmodel = "deepseek-v3/h100/tp16-roofline"\n'
    (said,) = told(load(latency), exchange_text)
    assert "what the 16 GPUs of deepseek-v3/h100/tp16-roofline exchange is that of one node" in said


def test_models_whose_blocks_differ_are_told_apart(load):
    """Two lines said "on 40 GiB", with one of twice the blocks, and not of which cells."""
    first, second = model_texts(
        load(OF_GIB + LATENCY + '[grid]\n"model.dtype" = ["auto", "fp8"]\n')
    )
    assert "tp 1, pp 1 on 5.0547 GiB: " in first
    assert "tp 1, pp 1, keys and values in fp8 on 5.0547 GiB: " in second
    shares = '[grid]\n"model.utilization" = [0.8, 0.9]\n"cache.block_size" = [16, 32]\n'
    told = [text.partition(" on h100")[0] for text in model_texts(load(ON_H100 + shares))]
    known = ("block_size 16, utilization 0.8", "block_size 16, utilization 0.9")
    assert [text.partition("pp 1, ")[2] for text in told] == [
        *known,
        "block_size 32, utilization 0.8",
    ]


def test_an_interval_fits_the_blocks_that_hold_a_state(load):
    """160 with blocks of 576 tokens was taken, and was as 0; vLLM does not start with it."""
    text = STATES + "[cache]\nprefix_cache_retention_interval = {}\n"
    with pytest.raises(InputError, match="160 is no multiple of a block, of 576 tokens to hold"):
        scenarios(load(text.format(160)))
    for interval in (0, 576, 1152):
        (found,) = scenarios(load(text.format(interval)))
        assert found.cache.prefix_cache_retention_interval == interval


def test_tokens_that_win_are_told_of_all_models(load):
    """Of all models but the first the first size alone was told, beside a range."""
    grid = '[grid]\n"cache.gpu_tokens" = [1600, 16000, 160]\n"model.tp" = [1, 2, 4]\n'
    texts = model_texts(load(ON_H100 + grid))
    assert len(texts) == 3
    assert all("cache.gpu_tokens wins: 10 to 1,000 blocks" in text for text in texts)


@pytest.mark.parametrize(("one", "other"), [("bf16", "bfloat16"), ("fp8", "float8")])
def test_two_names_of_a_data_type_are_no_two_values(load, one, other):
    """Each was a value of an axis, whose effect was told to be none."""
    said = f"grid.model.dtype: '{other}' occurs twice as '{one}', which means the same"
    with pytest.raises(InputError, match=re.escape(said)):
        load(f'{ON_H100}{LATENCY}[grid]\n"model.dtype" = ["{one}", "{other}"]\n')
    load(f'{ON_H100}{LATENCY}[grid]\n"model.dtype" = ["{one}", "fp8_e5m2"]\n')
