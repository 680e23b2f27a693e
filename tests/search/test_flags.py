"""The command that starts the servers of a scenario."""

import json
import shlex

import pytest
from sweeping import make_sweep

from kvsweep.search.flags import served
from kvsweep.search.server_model import start_text
from kvsweep.sizing.asking import answer
from kvsweep.sizing.capacity import cpu_chunk, cpu_copies, layout
from kvsweep.sizing.question import Question
from kvsweep.sizing.settings import Asked, serve
from kvsweep.sizing.shapes import load_config, load_model, model_names, published_name

BASE = """
[workload]
requests = 20
"""


def served_by(tmp_path, text):
    sweep = make_sweep(tmp_path, BASE + text)
    return served(sweep.scenario({}), tmp_path)


def test_a_model_on_a_gpu_needs_no_override_of_its_blocks(tmp_path):
    found = served_by(
        tmp_path,
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ntp = 2\nutilization = 0.9\n'
        "[engine]\nasync_scheduling = true\nmax_num_seqs = 64\n",
    )
    assert found.command == (
        "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --block-size 16 "
        "--gpu-memory-utilization 0.9 --max-num-seqs 64 --max-num-batched-tokens 2048 "
        "--async-scheduling"
    )
    assert found.instances == 1
    assert found.notes == ()


def test_the_server_is_told_the_name_that_hugging_face_knows(tmp_path):
    preset = served_by(tmp_path, '[latency]\nmodel = "qwen3-32b/h100/tp2-roofline"\n')
    assert preset.command.startswith("vllm serve Qwen/Qwen3-32B ")
    for name in model_names():
        assert published_name(name).count("/") == 1
        assert load_model(published_name(name)).name == name


def test_given_blocks_count_vllms_null_block_and_are_compared_with_the_gpu(tmp_path):
    found = served_by(
        tmp_path,
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n[cache]\ngpu_blocks = 40000\n',
    )
    assert "--num-gpu-blocks-override 40001" in found.command
    assert any(note.startswith("h100 has only about 2") for note in found.notes)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("[engine]\nenable_prefix_caching = false\n", "--no-enable-prefix-caching"),
        ("[engine]\nenable_chunked_prefill = false\n", "--no-enable-chunked-prefill"),
        ("[engine]\nscheduler = 'priority'\n", "--scheduling-policy priority"),
        ("[engine]\nreserve_full_prompt = false\n", "--no-scheduler-reserve-full-isl"),
        ("[engine]\nlong_prefill_token_threshold = 512\n", "--long-prefill-token-threshold 512"),
        ("[cache]\nblock_size = 32\n", "--block-size 32"),
    ],
)  # fmt: skip
def test_what_is_not_vllms_default_has_its_flag(tmp_path, text, flag):
    latency = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    assert flag in served_by(tmp_path, latency + text).command


@pytest.mark.parametrize(
    "model",
    [
        '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n',
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ntp = 2\n',
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n',
    ],
)
def test_a_cpu_tier_has_the_size_of_all_gpus(tmp_path, model):
    """Of 20,000 blocks of 16 tokens of 128 KiB."""
    cache = '[cache]\ngpu_blocks = 4000\ncpu_blocks = 20000\noffload = "vllm"\n'
    cache += 'link = "pcie5-x16"\n'
    found = served_by(tmp_path, model + cache)
    assert "--kv-offloading-size 39.0625 --kv-offloading-backend native" in found.command
    assert not any("kv_connector_extra_config" in note for note in found.notes)
    found = served_by(tmp_path, model + cache + 'offload_eviction = "arc"\n')
    assert any(note.startswith("cache.offload_eviction: to be set in") for note in found.notes)


def test_a_request_as_long_as_the_models_that_does_not_fit_is_cut(tmp_path):
    """1,640 blocks of 16 tokens are 26,240; vLLM does not start for Llama's 131,072."""
    few = f"{LATENCY}[cache]\ngpu_blocks = 1640\n"
    assert "--max-model-len 26240 " in served_by(tmp_path, few).command
    enough = f"{LATENCY}[cache]\ngpu_blocks = 8192\n"
    assert "--max-model-len" not in served_by(tmp_path, enough).command
    whole = "[engine]\nenable_chunked_prefill = false\nmax_num_batched_tokens = 4096\n"
    assert "--max-model-len 4096 " in served_by(tmp_path, enough + whole).command
    gpu = '[model]\npreset = "llama-3.1-8b"\ngpu = "rtx4090"\n'
    blocks = answer(
        Question(model="llama-3.1-8b", gpu="rtx4090", max_num_batched_tokens=2048, max_num_seqs=256)
    ).blocks
    assert f"--max-model-len {(blocks - 1) * 16} " in served_by(tmp_path, gpu).command
    pools = "[cluster]\npools = [{ instances = 1, gpu_blocks = 1640 }, { instances = 1 }]\n"
    notes = served_by(tmp_path, enough + pools).notes
    assert "--max-model-len: 26240, as it is, in the order of the pools" in notes


def test_the_longest_request_of_a_hybrid_counts_the_blocks_of_all_its_groups(tmp_path):
    text = '[model]\npreset = "gpt-oss-120b"\ngpu = "h200"\n[cache]\ngpu_blocks = {}\n'
    options = {"max_num_batched_tokens": 2048, "async_scheduling": False}
    shape = answer(Question(model="gpt-oss-120b", gpu="h200", **options)).layout
    assert "--max-model-len" not in served_by(tmp_path, text.format(9000)).command
    cut = f"--max-model-len {shape.longest(1001)} "
    assert cut in served_by(tmp_path, text.format(1000)).command
    (told,) = [n for n in served_by(tmp_path, text.format(2)).notes if "start" in n]
    assert told == "vLLM does not start with so few blocks, whatever --max-model-len is"


def test_a_longrope_model_is_told_to_take_requests_beyond_its_original_length(tmp_path):
    shape = load_config("llama-3.1-8b")[0] | {"rope_scaling": {"type": "longrope"}}
    shape |= {"original_max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    text = '[model]\nconfig = "config.json"\ngpu = "h200"\n[workload.prompt]\ndist = "constant"\n'
    assert "--max-model-len" not in served_by(tmp_path, f"{text}value = 100\n").command
    assert "--max-model-len 131072 " in served_by(tmp_path, f"{text}value = 9000\n").command


def test_a_sweep_of_servers_that_do_not_start_as_they_are_says_so(tmp_path):
    """Without a model it may have any length."""

    def said(blocks, model='[model]\npreset = "llama-3.1-8b"\n'):
        grid = f'[grid]\n"cache.gpu_blocks" = {blocks}\n'
        return start_text(make_sweep(tmp_path, BASE + LATENCY + model + grid))

    assert said([8192, 9000]) is said([1000, 2000], "") is None
    assert said([8192, 1000]).startswith("vLLM must be told --max-model-len 16,000, or")
    assert said([1000, 2000]).startswith("vLLM must be told --max-model-len 16,000 to 32,000, or")


def test_a_data_type_has_vllms_own_name(tmp_path):
    text = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ndtype = "float8"\n'
    assert "--kv-cache-dtype fp8 " in served_by(tmp_path, text).command


@pytest.mark.parametrize(
    ("file", "served"),
    [
        ("config.json", "."),
        ("my/config.json", "my"),
        ("my", "my"),
        ("my/other.json", "MODEL"),
    ],
)
def test_a_model_by_its_config_is_served_from_the_folder_that_has_it(tmp_path, file, served):
    (tmp_path / "my").mkdir()
    for name in ("config.json", "my/config.json", "my/other.json"):
        (tmp_path / name).write_text(json.dumps(load_config("llama-3.1-8b")[0]))
    found = served_by(tmp_path, f'[model]\nconfig = "{file}"\ngpu = "h100"\n')
    assert found.command.startswith(f"vllm serve {served} ")
    told = "MODEL: the model's folder, which has my/other.json as config.json" in found.notes
    assert told == (served == "MODEL")


def test_what_no_flag_says_is_noted(tmp_path):
    found = served_by(
        tmp_path,
        "[latency]\nbeta = [1000, 10, 5]\n[cluster]\ninstances = 3\n[engine]\nscheduler = 'sjf'\n"
        "victim = 'random'\n",
    )
    told = "\n".join(found.notes)
    assert found.command.startswith("vllm serve MODEL ")
    assert found.instances == 3
    for word in ("MODEL: the sweep does not name", "--data-parallel-size 3", "'sjf'", "'random'"):
        assert word in told


def test_drafts_have_their_flag_and_pools_are_noted(tmp_path):
    drafts = 'speculative = { tokens = 3, method = "eagle", acceptance = 0.5 }'
    pools = "[cluster]\npools = [{ instances = 3 }, { instances = 1, gpu_blocks = 9000 }]\n"
    latency = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    found = served_by(tmp_path, f"{latency}[engine]\n{drafts}\n{pools}")
    config = '{"method": "eagle", "num_speculative_tokens": 3}'
    assert f"--speculative-config '{config}'" in found.command
    told = "\n".join(found.notes)
    assert "3 of role both and 1 of role both: the command has the settings that all" in told
    assert "add the draft model" in told


LATENCY = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'


def test_flags_that_pools_have_otherwise_are_left_out_and_told(tmp_path):
    small = "{ instances = 2, gpu_blocks = 500 }"
    large = "{ instances = 1, gpu_blocks = 900, max_num_seqs = 64 }"
    found = served_by(tmp_path, f"{LATENCY}[cluster]\npools = [{small}, {large}]\n")
    assert "--num-gpu-blocks-override" not in found.command
    assert "--max-num-seqs" not in found.command
    assert "--max-num-batched-tokens 2048" in found.command
    assert "--num-gpu-blocks-override: 501, 901, in the order of the pools" in found.notes
    assert "--max-num-seqs: 256, 64, in the order of the pools" in found.notes


def test_what_all_pools_have_themselves_is_their_flag(tmp_path):
    roles = "".join(
        f"{role} = {{ instances = 1, gpu_blocks = 700 }}\n" for role in ("prefill", "decode")
    )
    cluster = f"[cluster]\nkv_transfer_bandwidth = 100.0\n{roles}"
    command = served_by(tmp_path, LATENCY + cluster).command
    assert "--num-gpu-blocks-override 701" in command
    notes = served_by(tmp_path, LATENCY + cluster).notes
    for part in ("prefill: add --kv-transfer-config", '"kv_producer"', '"kv_consumer"'):
        assert part in "\n".join(notes)
    gpu = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n'
    assert "--num-gpu-blocks-override 701" in served_by(tmp_path, gpu + cluster).command
    one = cluster.replace("700", "40000", 1)
    notes = served_by(tmp_path, gpu + one).notes
    assert any("usable blocks for 40,000" in note for note in notes)


def test_gpus_of_pools_are_those_of_their_own_step_times(tmp_path):
    other = 'instances = 1, latency = { model = "llama-3.1-8b/h100/tp1-roofline" }'
    same = served_by(tmp_path, f"{LATENCY}[cluster]\npools = [{{ {other} }}, {{ {other} }}]\n")
    assert "--tensor-parallel-size" not in same.command
    assert not any("number of GPUs" in note for note in same.notes)
    unlike = served_by(
        tmp_path, f"{LATENCY}[cluster]\npools = [{{ {other} }}, {{ instances = 1 }}]\n"
    )
    assert unlike.command.startswith("vllm serve meta-llama/Llama-3.1-8B --block-size")
    assert any(note.startswith("nothing tells the number of GPUs") for note in unlike.notes)


def test_computed_step_times_of_a_model_with_states_are_noted(tmp_path):
    text = '[model]\npreset = "qwen3-next-80b-a3b"\ngpu = "h100"\ntp = 4\n'
    longer = "prompts took 14 to 27 % longer"
    assert any(note.endswith(longer) for note in served_by(tmp_path, text).notes)
    given = served_by(tmp_path, f"{text}[latency]\nbeta = [9000, 10, 1]\n").notes
    assert not any(note.endswith(longer) for note in given)


@pytest.mark.parametrize(
    "text",
    [
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ntp = 2\npp = 4\n',
        '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ntp = 2\n'
        "[engine]\npipeline_parallel_size = 4\n",
        '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n[engine]\npipeline_parallel_size = 4\n',
    ],
)
def test_a_pipeline_has_its_flag_and_is_told_whichever_key_gives_it(tmp_path, text):
    found = served_by(tmp_path, text)
    flags = "--tensor-parallel-size 2 --pipeline-parallel-size 4 --block-size 16"
    assert flags in found.command
    assert any("of a pipeline" in note or "the pipeline" in note for note in found.notes)


@pytest.mark.parametrize(
    ("engine", "key"),
    [
        ("scheduler = 'priority'\npreempt_for_urgent = true", "preempt_for_urgent"),
        ("pipeline_parallel_size = 2\npipeline_fair_share = true", "pipeline_fair_share"),
    ],
)
def test_experiments_that_vllm_does_not_have_are_told(tmp_path, engine, key):
    latency = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    told = f"engine.{key} = true: vLLM does not do this"
    assert told in served_by(tmp_path, f"{latency}[engine]\n{engine}\n").notes
    assert told not in served_by(tmp_path, latency).notes


@pytest.mark.parametrize("blocks", [1, 777, 20_001, 1_234_567])
@pytest.mark.parametrize(
    ("model", "tp", "factor"),
    [("llama-3.1-8b", 1, 1), ("qwen2.5-7b", 4, 1), ("llama-3.1-70b", 8, 3), ("deepseek-v3", 8, 1)],
)
def test_the_size_of_a_cpu_tier_holds_the_blocks_that_were_simulated(
    tmp_path, blocks, model, tp, factor
):
    """Read again, the command has as many; four digits made 19,998 of 20,000."""
    cache = f'[cache]\ngpu_blocks = 4000\ncpu_blocks = {blocks}\noffload = "vllm"\n'
    cache += f'link = "pcie5-x16"\noffload_block_factor = {factor}\n'
    served_model = f'[model]\npreset = "{model}"\ngpu = "h200"\ntp = {tp}\n'
    words = shlex.split(served_by(tmp_path, served_model + cache).command)
    size = float(words[words.index("--kv-offloading-size") + 1])
    asked = serve(load_model(model), Asked(tp=tp), None)
    chunk = cpu_chunk(max(layout(asked).block_bytes), cpu_copies(asked.model, tp, 1, None), factor)
    assert int(size * 2**30) // chunk == blocks


def test_the_longest_request_of_the_engine_is_told(tmp_path):
    engine = "[engine]\nmax_model_len = {}\n"
    assert "--max-model-len 9000 " in served_by(tmp_path, LATENCY + engine.format(9000)).command
    few = f"{LATENCY}[cache]\ngpu_blocks = 500\n"
    assert "--max-model-len 8000 " in served_by(tmp_path, few + engine.format(9000)).command
    unknown = "[latency]\nbeta = [1000, 10, 5]\n"
    assert "--max-model-len 9000 " in served_by(tmp_path, unknown + engine.format(9000)).command
    usual = served_by(tmp_path, f"{LATENCY}[cache]\ngpu_blocks = 9000\n" + engine.format(131072))
    assert "--max-model-len" not in usual.command
    model = '[model]\npreset = "llama-3.1-8b"\n[cache]\ngpu_blocks = {}\n' + engine.format(9000)
    assert start_text(make_sweep(tmp_path, BASE + LATENCY + model.format(600))) is None
    told = start_text(make_sweep(tmp_path, BASE + LATENCY + model.format(500)))
    assert told.startswith("vLLM must be told --max-model-len 8,000, or")


def test_pools_by_length_are_told_theirs_where_nothing_tells_the_model(tmp_path):
    times = "[latency]\nalpha = [0, 0, 0]\nbeta = [6000.0, 30.0, 15.0]\n"
    pools = times + "[[cluster.pools]]\ninstances = 1\nmax_model_len = 4096\n"
    pools += "[[cluster.pools]]\ninstances = 1\n"
    notes = served_by(tmp_path, pools).notes
    assert "--max-model-len: 4096, as it is, in the order of the pools" in notes
    bounded = served_by(tmp_path, "[engine]\nmax_model_len = 9000\n" + pools).notes
    assert "--max-model-len: 4096, 9000, in the order of the pools" in bounded


EXPERTS = """
[model]
preset = "gpt-oss-20b"
gpu = "h100"
{}
[cluster]
instances = {}
routing = "least-loaded"
"""


def test_instances_of_one_command_share_the_experts(tmp_path):
    """Of a model without experts they are as servers of their own."""
    whole = " ".join(served_by(tmp_path, EXPERTS.format("", 2)).notes)
    assert "2 such servers behind a router (here least-loaded); instances of one command" in whole
    assert "would share the experts" in whole
    part = served_by(tmp_path, EXPERTS.format("weights_gib = 8.089", 2))
    assert part.notes == ("one server, whose 2 instances share the experts (here least-loaded)",)
    assert " --data-parallel-size 2 " in part.command
    assert part.instances == 1


def test_other_weights_than_a_server_loads_are_told(tmp_path):
    """So of a part of the experts where another number of instances is found."""
    one = EXPERTS.format("weights_gib = 8.089", 1).replace('routing = "least-loaded"\n', "")
    (told,) = served_by(tmp_path, one).notes
    assert told.startswith("model.weights_gib = 8.089: a server of the command loads 12.8 GiB, and")
    three = " ".join(served_by(tmp_path, EXPERTS.format("weights_gib = 8.089", 3)).notes)
    assert "3 such servers behind a router" in three
    assert "model.weights_gib = 8.089" in three
    logged = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\nweights_gib = {}\n'
    assert served_by(tmp_path, logged.format(15.0)).notes == ()
    assert "loads 15.0 GiB" in " ".join(served_by(tmp_path, logged.format(8.5)).notes)


def test_a_threshold_longer_than_the_longest_request_is_left_out(tmp_path):
    """vLLM refuses it, and it holds nobody."""
    text = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n[cache]\ngpu_blocks = {}\n'
    text += "[engine]\nlong_prefill_token_threshold = 1024\n"
    few, more = (served_by(tmp_path, text.format(blocks)).command for blocks in (50, 500))
    assert "--max-model-len 800 " in few
    assert "--long-prefill-token-threshold" not in few
    assert "--long-prefill-token-threshold 1024" in more


def test_what_windows_keep_has_its_flag_unless_it_is_vllms_default(tmp_path):
    """None, which was vLLM's default before 0.29, keeps all, as the tokens of a block do."""
    text = '[model]\npreset = "gpt-oss-120b"\ngpu = "h200"\n'
    flag = "--prefix-cache-retention-interval"
    assert flag not in served_by(tmp_path, text).command
    kept = "[cache]\nprefix_cache_retention_interval = {}\n"
    assert f"{flag} 64" in served_by(tmp_path, text + kept.format(64)).command
    assert flag not in served_by(tmp_path, text + kept.format(0)).command
    given = '[cache]\ngroups = [{ kind = "full" }, { kind = "sliding", window = 128 }]\n'
    assert f"{flag} 16" in served_by(tmp_path, text + given).command
    off = "[engine]\nenable_prefix_caching = false\n"
    assert flag not in served_by(tmp_path, text + off).command
    assert (
        flag not in served_by(tmp_path, '[model]\npreset = "llama-3.1-8b"\ngpu = "h200"\n').command
    )


@pytest.mark.parametrize(
    "name", ["gpt-oss-120b", "gemma-3-27b", "gemma-4-26b", "qwen3-next-80b-a3b", "llama-3.1-8b"]
)
def test_blocks_of_full_attention_are_told_as_those_of_the_models_own_layers(tmp_path, name):
    """A server of Gemma 3 with as many blocks held an eighth of the requests."""
    asked = {"max_num_batched_tokens": 2048, "async_scheduling": False}
    told = answer(Question(model=name, kv_memory="20GiB", **asked))
    text = f'[model]\npreset = "{name}"\ngpu = "h200"\nweights_gib = 60\n[cache]\ngpu_tokens = '
    text += f'{told.tokens}\n[latency]\nmodel = "qwen3-32b/h100/tp2"\n'
    found = served_by(tmp_path, text)
    words = shlex.split(found.command)
    blocks = int(words[words.index("--num-gpu-blocks-override") + 1])
    assert blocks == pytest.approx(told.blocks, abs=2)
    room = next(note for note in found.notes if note.startswith("h200 has about "))
    assert room.endswith(f" usable blocks for {blocks - 1:,}")
    longest = told.served.limits.max_model_len
    said = f"those of the command hold as many requests of {longest:,} tokens, and fewer shorter"
    assert (said in " ".join(found.notes)) == (not told.layout.plain)


def test_windows_alone_are_not_told_fewer_blocks_than_were_simulated(tmp_path):
    """Requests of a prompt or two take them all."""
    config = load_config("llama-3.1-8b")[0] | {"sliding_window": 512}
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = '[model]\nconfig = "config.json"\n[latency]\nmodel = "llama-3.1-8b/h100/tp1"\n'
    text += "[cache]\ngpu_blocks = 3000\n"
    assert "--num-gpu-blocks-override 3001" in served_by(tmp_path, text).command
    full = text + 'groups = [{ kind = "full" }]\n'
    assert "--num-gpu-blocks-override 3001" in served_by(tmp_path, full).command


def test_stages_of_a_pipeline_keep_a_latent_vector_each():
    """vLLM keeps it once only where all GPUs have all layers."""
    latent = load_model("deepseek-v3")
    assert [cpu_copies(latent, 4, pp, None) for pp in (1, 2)] == [1, 8]


def test_a_threshold_as_long_as_the_longest_request_is_told(tmp_path):
    """vLLM refuses longer ones only."""
    text = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n[cache]\ngpu_blocks = 50\n'
    text += "[engine]\nlong_prefill_token_threshold = 800\n"
    assert "--max-model-len 800 " in (command := served_by(tmp_path, text).command)
    assert "--long-prefill-token-threshold 800" in command


@pytest.mark.parametrize(
    ("served_model", "told"),
    [
        ('[latency]\nmodel = "llama-3.1-8b/h100/tp1"\n', True),
        ('[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n', True),
        ('[model]\npreset = "deepseek-v3"\ngpu = "h200"\ntp = 8\n', True),
        ('[model]\npreset = "deepseek-v3"\ngpu = "mi300x"\ntp = 8\n', False),
    ],
)
def test_blocks_that_no_attention_takes_are_told(tmp_path, served_model, told):
    """`kvsweep blocks` and `from-vllm` say so; of MLA on AMD's GPUs AITER takes any."""
    for size, wrong in ((8, told), (16, False), (32, False)):
        text = f"{served_model}[cache]\ngpu_blocks = 9000\nblock_size = {size}\n"
        notes = " ".join(served_by(tmp_path, text).notes)
        assert ("its attention takes blocks of 16 tokens" in notes) == wrong


def test_a_tier_has_its_size_where_a_preset_tells_the_bytes_of_a_token(tmp_path):
    """They were asked of the link alone, so that with tokens/us the command had no tier."""
    cache = '[cache]\ncpu_blocks = 20000\noffload = "vllm"\ntransfer_bandwidth = 0.4\n'
    found = served_by(tmp_path, '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n' + cache)
    assert "--kv-offloading-size 39.0625 --kv-offloading-backend native" in found.command
    assert not any("kv-offloading" in note for note in found.notes)


def test_a_tier_without_a_size_is_told(tmp_path):
    cache = '[cache]\ncpu_blocks = 20000\noffload = "vllm"\ntransfer_bandwidth = 0.4\n'
    found = served_by(tmp_path, "[latency]\nbeta = [7000, 17, 3]\n" + cache)
    assert "offloading" not in found.command
    assert any(note.startswith("cache.cpu_blocks = 20000: nothing tells") for note in found.notes)


def test_connectors_are_told_of_leases_and_pools_of_step_times(tmp_path):
    text = """
[cluster]
prefill = { instances = 1, latency = { model = "llama-3.1-8b/h100/tp1" } }
decode = { instances = 2 }
kv_transfer_bandwidth = 0.4
kv_lease_us = 60_000_000
kv_load_failure_policy = "recompute"
[latency]
model = "llama-3.1-8b/h100/tp2"
"""
    notes = served_by(tmp_path, text).notes
    told = "prefill: has step times of its own (llama-3.1-8b/h100/tp1), as its GPUs"
    assert any(note.startswith(told) for note in notes)
    assert not any(note.startswith("decode: has") for note in notes)
    told = '"kv_connector_extra_config": {"kv_lease_duration": 60}'
    assert sum(told in note and '"recompute"' in note for note in notes) == 2
    usual = text.replace("60_000_000", "30_000_000").replace("recompute", "fail")
    notes = served_by(tmp_path, usual).notes
    assert not any("kv_lease" in note or "failure" in note for note in notes)


def told_connectors(notes):
    """Return the configuration of the connectors of each role."""
    found = {}
    for note in notes:
        role, _, rest = note.partition(": add --kv-transfer-config '")
        if rest:
            found[role] = json.loads(rest.rpartition("'")[0])
    return found


def test_a_tier_beside_prefill_and_decode_apart_is_a_connector_behind_the_link(tmp_path):
    """--kv-offloading-size would take the place of NixlConnector."""
    model = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\ntp = 2\n'
    cache = '[cache]\ngpu_blocks = 4000\ncpu_blocks = 20000\noffload = "vllm"\nlink = "pcie5-x16"\n'
    more = 'offload_eviction = "arc"\noffload_block_factor = 2\n'
    cluster = "[cluster]\nkv_transfer_bandwidth = 1.0\nkv_lease_us = 60_000_000\n"
    cluster += "prefill = { instances = 1 }\ndecode = { instances = 1, cpu_blocks = 0 }\n"
    found = served_by(tmp_path, model + cache + more + cluster)
    assert "--kv-offloading-size" not in found.command
    assert not any("to be set in kv_connector_extra_config" in note for note in found.notes)
    told = told_connectors(found.notes)
    link = {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}
    lease = {"kv_connector_extra_config": {"kv_lease_duration": 60}}
    assert told["decode"] == link | lease
    first, second = told["prefill"]["kv_connector_extra_config"]["connectors"]
    assert told["prefill"]["kv_connector"] == "MultiConnector"
    assert first == link | lease | {"kv_role": "kv_producer"}
    assert second["kv_connector"] == "OffloadingConnector"
    assert second["kv_connector_extra_config"] == {
        "cpu_bytes_to_use": 20000 * 2 * 16 * 131072,  # chunks of two blocks, of both GPUs
        "blocks_per_chunk": 2,
        "eviction_policy": "arc",
    }


def test_the_kv_role_of_a_prefill_server_is_that_of_the_sweep(tmp_path):
    model = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n[engine]\nasync_scheduling = true\n'
    cluster = "[cluster]\nkv_transfer_bandwidth = 1.0\n"
    cluster += "prefill = { instances = 1 }\ndecode = { instances = 1 }\n"
    usual = told_connectors(served_by(tmp_path, model + cluster).notes)
    assert usual["prefill"]["kv_role"] == "kv_producer"
    both = served_by(tmp_path, model + cluster + 'prefill_kv_role = "kv_both"\n')
    told = told_connectors(both.notes)
    assert [told[side]["kv_role"] for side in ("prefill", "decode")] == ["kv_both", "kv_consumer"]
