"""Keys that pools may have themselves: whether and by whom those of the sections are read."""

import pytest

from kvsweep import grid
from kvsweep.config import load_sweep
from kvsweep.config.memory import memory_varies
from kvsweep.config.served_text import defaults_text, model_text
from kvsweep.errors import InputError

WORKLOAD = """\
[workload]
requests = 20
rate = 500.0
prompt = { dist = "constant", value = 100 }
output = { dist = "constant", value = 50 }
"""
LATENCY = "[latency]\nbeta = [1000, 10, 5]\n"
OF_GIB = '[model]\npreset = "llama-3.1-8b"\nkv_gib = 1.0\n'
ON_H100 = '[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n'
APART = "[cluster]\nkv_transfer_bandwidth = 100.0\n"
BLOCKS, NO_OWN = "gpu_blocks = 500", ""


@pytest.fixture
def load(tmp_path):
    def load(text):
        (tmp_path / "s.toml").write_text(WORKLOAD + text)
        return load_sweep(tmp_path / "s.toml")

    return load


def pools(*owns):
    listed = ", ".join(f"{{ instances = 1, {own} }}" for own in owns)
    return f"[cluster]\npools = [{listed}]\n".replace(",  }", " }")


def roles(own):
    return APART + "".join(
        f"{role} = {{ instances = 1, {own} }}\n" for role in ("prefill", "decode")
    )


@pytest.mark.parametrize("made", [pools, roles])
@pytest.mark.parametrize(
    ("own", "key", "value", "little"),
    [
        ("max_num_batched_tokens", "long_prefill_token_threshold", 4096, 1024),
        ("gpu_blocks", "watermark", 0.0003, 60),
    ],
)
def test_limits_are_compared_with_what_pools_have(load, made, own, key, value, little):
    engine = f"[engine]\n{key} = {value}\n"
    assert load(LATENCY + engine + made(f"{own} = 60000"))
    with pytest.raises(InputError, match=f"engine.{key}: has no effect: needs "):
        load(LATENCY + engine + made(f"{own} = {little}, max_num_seqs = 9"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (LATENCY + '[grid]\n"cache.gpu_tokens" = [1000, 20000]\n', "cache.gpu_tokens"),
        (LATENCY + OF_GIB, "model.kv_gib"),
        (LATENCY + ON_H100, "model.gpu"),
        (ON_H100 + "utilization = 0.5\n", "model.utilization"),
    ],
)
def test_capacities_that_no_pool_takes_have_no_effect(load, text, key):
    with pytest.raises(InputError, match=f"{key}: has no effect: needs "):
        load(pools(BLOCKS, BLOCKS) + text)
    assert load(pools(BLOCKS, NO_OWN) + text)


def test_step_times_that_no_pool_takes_have_no_effect(load):
    own = "latency = { beta = [2000, 20, 5] }"
    with pytest.raises(InputError, match=r"latency\.beta: has no effect: needs a pool without"):
        load(pools(own, own) + LATENCY)
    assert load(pools(own, own) + "[latency]\nalpha = [1, 0, 0]\n")
    assert load(pools(own, NO_OWN) + LATENCY)


def test_a_gpu_that_only_computes_step_times_is_read(load):
    assert "all pools have their own: 500, 500 blocks" in told(
        load(pools(BLOCKS, BLOCKS) + ON_H100)
    )
    own = f"{BLOCKS}, latency = {{ beta = [2000, 20, 5] }}"
    with pytest.raises(InputError, match=r"model\.gpu: has no effect"):
        load(pools(own) + ON_H100 + "[latency]\nalpha = [1, 0, 0]\n")


def told(sweep, write=model_text):
    return write(next(sweep.probes()), sweep.base_dir)


def test_blocks_of_a_model_are_those_of_pools_without_their_own(load):
    text = told(load(pools(BLOCKS, NO_OWN) + LATENCY + OF_GIB))
    assert "511 usable blocks" in text
    assert "; other pools have their own: 500 blocks" in text


def test_a_batch_decides_the_blocks_that_a_gpu_has_left(load):
    """What a step takes of the memory is that of the section, whatever batches pools have."""
    own = "max_num_seqs = 64, max_num_batched_tokens = 1024"
    axis = '[grid]\n"engine.max_num_batched_tokens" = [1024, 16384]\n'
    sweep = load(pools(own) + LATENCY + ON_H100 + axis)
    few, many = (scenario.cache.gpu_blocks for scenario in grid.plan(sweep).variants)
    assert few > many
    for unlike in (pools(f"{own}, {BLOCKS}"), "[cache]\ngpu_blocks = 900\n" + pools(own)):
        with pytest.raises(InputError, match="max_num_batched_tokens: has no effect"):
            load(unlike + LATENCY + axis)


def test_only_batches_that_some_pool_takes_are_compared_with_the_defaults(load):
    own = "max_num_seqs = 64"
    text = told(load(pools(own) + LATENCY + ON_H100), defaults_text)
    assert "max_num_batched_tokens = 8192; here 2,048" in text
    assert "max_num_seqs" not in text


def test_blocks_of_pools_do_not_change_with_their_size(load):
    sizes = '[grid]\n"cache.block_size" = [8, 16]\n'
    fixed = memory_varies(load(pools(BLOCKS, NO_OWN) + LATENCY + sizes))
    assert fixed == (
        "block sizes are compared with unequal memory: 500 blocks hold 4,000 tokens at block_size "
        "8 and 8,000 tokens at block_size 16; cache.gpu_tokens instead of gpu_blocks of a pool "
        "keeps it equal"
    )
    assert memory_varies(load(pools(NO_OWN) + LATENCY + sizes)) is None
    assert (
        memory_varies(load("[cache]\ngpu_tokens = 16000\n" + pools(NO_OWN) + LATENCY + sizes))
        is None
    )
