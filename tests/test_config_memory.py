"""Memory in tokens, and block sizes compared at equal memory."""

import numpy as np
import pytest

import kvsweep
from kvsweep import grid
from kvsweep.analysis.cliff import find_cliff
from kvsweep.config import load_sweep, parse_scenario
from kvsweep.config.memory import memory_varies
from kvsweep.errors import InputError

BASE = """\
[workload]
requests = 40
rate = 500.0
prompt = { dist = "constant", value = 100 }
output = { dist = "constant", value = 50 }

[cluster]
instances = 2

[latency]
model = "llama-3.1-8b/h100/tp2"
"""
SIZES = '[grid]\n"cache.block_size" = [8, 16, 48]\n'


@pytest.fixture
def load(tmp_path):
    def load(text, *overrides):
        (tmp_path / "s.toml").write_text(BASE + text)
        return load_sweep(tmp_path / "s.toml", overrides)

    return load


def blocks(sweep):
    """Return (block size, blocks) of every scenario."""
    caches = [variant.cache for variant in grid.plan(sweep).variants]
    return [(cache.block_size, cache.gpu_blocks) for cache in caches]


def refused(cache):
    with pytest.raises(InputError) as caught:
        parse_scenario({"cache": cache}, "t.json")
    return str(caught.value)


def test_tokens_make_whole_blocks():
    cache = parse_scenario({"cache": {"gpu_tokens": 1000, "block_size": 48}}, "t.json").cache
    assert (cache.gpu_blocks, cache.gpu_tokens) == (20, 1000)
    assert parse_scenario({"cache": {"gpu_tokens": 16}}, "t.json").cache.gpu_blocks == 1


def test_tokens_that_make_no_block_or_contradict_the_blocks_are_refused():
    assert "cache.gpu_tokens: 15 tokens make no blocks of 16; allow" in refused({"gpu_tokens": 15})
    assert f"{2**40} tokens make {2**36} blocks of 16; allow" in refused({"gpu_tokens": 2**40})
    both = {"gpu_tokens": 160, "gpu_blocks": 10}
    assert "cache.gpu_tokens: give either gpu_blocks or gpu_tokens" in refused(both)
    assert "cache.gpu_tokens: must be at least 1, got 0" in refused({"gpu_tokens": 0})
    assert "expected an integer, got 99.5" in refused({"gpu_tokens": 99.5})


def test_a_trace_and_the_replica_get_blocks():
    given = {"engine": {"rules": "blis"}, "cache": {"gpu_tokens": 1000, "block_size": 10}}
    written = parse_scenario(given, "t.json").to_trace()["cache"]
    assert written == {"gpu_blocks": 100, "block_size": 10}


@pytest.mark.parametrize(
    "text",
    [
        SIZES,
        "[policies.a]\ncache.block_size = 8\n[policies.b]\n[policies.c]\ncache.block_size = 48\n"
        '[grid]\npolicy = ["a", "b", "c"]\n',
    ],
)
def test_block_sizes_are_compared_at_equal_memory(load, text):
    sweep = load(text)
    assert blocks(sweep) == [(8, 4400), (16, 2200), (48, 733)]
    assert memory_varies(sweep) is None
    assert "gpu_blocks" not in sweep.to_dict()["scenario"]["cache"]


def test_a_part_of_the_sweep_has_the_cells_of_the_whole(load):
    assert blocks(load(SIZES, "cache.block_size=[8]")) == [(8, 4400)]
    policies = "[policies.a]\ncache.block_size = 8\n[policies.b]\n"
    chosen = load(policies + '[grid]\npolicy = ["a", "b"]\n', "policy=['a']")
    assert blocks(chosen) == [(8, 4400)]


def test_a_block_size_that_does_not_vary_leaves_the_default_alone(load):
    assert blocks(load('[grid]\npolicy = ["round-robin"]\n', "cache.block_size=32")) == [(32, 2200)]


def test_a_block_size_of_a_wrong_type_is_refused_as_ever(load):
    with pytest.raises(InputError, match=r"cache\.block_size: expected an integer, got a list"):
        load('[policies.a]\ncache.block_size = [8]\n[grid]\npolicy = ["a", "round-robin"]\n')
    with pytest.raises(InputError, match="cache: expected a table"):
        load("", "cache=5")


def test_a_block_that_is_larger_than_the_memory_is_refused_at_its_axis(load):
    with pytest.raises(InputError, match=r"s\.toml:13: grid\.cache\.block_size: 35200 tokens make"):
        load('[grid]\n"cache.block_size" = [16, 40000]\n')


def test_written_blocks_stay_and_are_told_of(load):
    fixed = load("[cache]\ngpu_blocks = 1000\n" + SIZES)
    assert blocks(fixed) == [(8, 1000), (16, 1000), (48, 1000)]
    assert memory_varies(fixed) == (
        "block sizes are compared with unequal memory: 1,000 blocks hold 8,000 tokens at "
        "block_size 8 and 16,000 tokens at block_size 16; cache.gpu_tokens instead of "
        "cache.gpu_blocks keeps it equal"
    )
    assert memory_varies(load(SIZES + '"cache.gpu_blocks" = [500, 900]\n'))


def test_blocks_that_change_with_their_size_are_not(load):
    text = "".join(
        f"[policies.b{size}]\ncache.block_size = {size}\ncache.gpu_blocks = {16000 // size}\n"
        for size in (8, 16)
    )
    assert memory_varies(load(text + '[grid]\npolicy = ["b8", "b16"]\n')) is None
    assert memory_varies(load('[grid]\n"cache.gpu_blocks" = [5, 6]\n')) is None
    tokens = load(SIZES + '"cache.gpu_tokens" = [9600, 19200]\n')
    assert memory_varies(tokens) is None
    assert blocks(tokens) == [(8, 1200), (8, 2400), (16, 600), (16, 1200), (48, 200), (48, 400)]


def test_tokens_can_be_set_from_the_command_line(load):
    assert blocks(load(SIZES, "cache.gpu_tokens=480")) == [(8, 60), (16, 30), (48, 10)]
    axis = load('[grid]\n"cache.gpu_tokens" = [480]\n', "cache.gpu_tokens=[320, 640]")
    assert blocks(axis) == [(16, 20), (16, 40)]
    with pytest.raises(InputError, match="give either gpu_blocks or gpu_tokens"):
        load('[grid]\n"cache.gpu_blocks" = [5]\n', "cache.gpu_tokens=480")


def test_a_cliff_along_tokens_has_their_unit_and_large_pools_are_copied(load, tmp_path):
    tokens = (640, 1280, 2560, 50_000, 100_000)
    sweep = load(f'[grid]\n"cache.gpu_tokens" = {list(tokens)}\nseed = {{ count = 3 }}\n')
    ds = kvsweep.run(sweep, out=tmp_path / "a.zarr")
    assert ds["gpu_tokens"].attrs["units"] == "token"
    assert ds["pruned"].isel(gpu_tokens=-1).values.all()
    cliff = find_cliff(ds, metric="preemption_rate", along="gpu_tokens", threshold=0.05)
    assert 640 < cliff.groups[0].mean_curve.value < 50_000
    in_blocks = load(
        f'[grid]\n"cache.gpu_blocks" = {[n // 16 for n in tokens]}\nseed = [0, 1, 2]\n'
    )
    same = kvsweep.run(in_blocks, out=tmp_path / "b.zarr")
    for name in ("preemption_rate", "ttft_mean_ms", "steps"):
        np.testing.assert_array_equal(ds[name].values, same[name].values)
    with pytest.raises(InputError, match="made from another sweep"):
        kvsweep.run(in_blocks, out=tmp_path / "a.zarr")
