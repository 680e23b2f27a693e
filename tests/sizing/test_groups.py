"""Groups, blocks and concurrency, as vLLM 0.33.0 plans them.

``vllm-0.33.0-plans.json`` was recorded from vLLM 0.33.0 itself: ``get_kv_cache_groups``,
``get_kv_cache_config_from_groups`` and ``get_kv_cache_capacity`` on the layers of every model that
is shipped, under several parallel sizes and data types, and on random mixtures of layers.
"""

import json
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.errors import InputError
from kvsweep.sizing.capacity import Layout
from kvsweep.sizing.groups import block_bytes, blocks_per_request, group_layers, stages
from kvsweep.sizing.layers import LayerCache, Limits

PLANS = json.loads(Path(__file__).with_name("vllm-0.33.0-plans.json").read_text())


def layout_of(layers, parts, block_size, limits):
    groups = group_layers(layers, block_size)
    sizes = tuple(block_bytes(groups, part) for part in parts)
    needed = blocks_per_request(groups, limits)
    return Layout(groups, sizes, 0, 0, needed, limits, block_size)


@pytest.mark.parametrize("plan", PLANS, ids=[plan["name"] for plan in PLANS])
def test_plans_are_those_of_vllm(plan):
    kinds = [LayerCache(*kind) for kind in plan["kinds"]]
    layers = [kinds[int(kind)] for kind in plan["layers"]]
    ends = list(accumulate(plan["stages"]))
    parts = [range(end - size, end) for end, size in zip(ends, plan["stages"], strict=True)]
    limits = Limits(plan["max_model_len"], plan["in_flight"])
    shape = layout_of(layers, parts, plan["block_size"], limits)
    blocks = shape.blocks([plan["memory"]] * len(parts))
    assert blocks == plan["blocks"]
    assert shape.request_blocks == plan["need"]
    assert shape.concurrency(blocks) == plan["concurrency"]
    assert shape.logged_tokens(blocks) == plan["tokens"]
    groups = sorted([len(group.members), group.block_size] for group in shape.groups)
    assert groups == plan["groups"]


def test_stages_of_a_pipeline_leave_the_rest_to_the_middle():
    assert [len(stage) for stage in stages(61, 4)] == [15, 15, 16, 15]
    assert [len(stage) for stage in stages(62, 4)] == [15, 16, 16, 15]
    assert [len(stage) for stage in stages(32, 1)] == [32]


@given(layers=st.integers(1, 200), pp=st.integers(1, 16))
def test_stages_have_every_layer_once(layers, pp):
    parts = stages(layers, min(pp, layers))
    assert [layer for part in parts for layer in part] == list(range(layers))
    assert all(len(part) for part in parts)


def test_latent_pages_that_cannot_be_made_equal_are_refused_as_by_vllm():
    layers = [LayerCache(1, 1152, latent=True), LayerCache(8, 500, window=128)]
    with pytest.raises(InputError, match=r"cannot make blocks of 18,432 bytes \(MLA\)"):
        group_layers(layers, 16)


kinds = st.builds(
    LayerCache,
    heads=st.sampled_from([1, 2, 4, 8]),
    head_bytes=st.sampled_from([128, 256, 512]),
    window=st.sampled_from([None, 128, 1024]),
)


@given(
    layers=st.lists(kinds, min_size=1, max_size=40),
    longest=st.integers(1, 200_000),
    blocks=st.integers(0, 10**6),
)
def test_the_longest_request_that_starts_is_the_longest(layers, longest, blocks):
    shape = layout_of(layers, [range(len(layers))], 16, Limits(longest, 4096))
    fits = shape.longest(blocks)
    assert 0 <= fits <= longest
    assert (fits == longest) == shape.starts(blocks)
    if 0 < fits < longest:
        needed = blocks_per_request(shape.groups, Limits(fits + 1, 4096))
        assert needed > blocks - 1 >= blocks_per_request(shape.groups, Limits(fits, 4096))


@given(
    layers=st.lists(kinds, min_size=1, max_size=40),
    memory=st.integers(0, 2**40),
    more=st.integers(0, 2**35),
)
def test_more_memory_never_has_fewer_blocks_nor_blocks_more_memory_than_there_is(
    layers, memory, more
):
    shape = layout_of(layers, [range(len(layers))], 16, Limits(8192, 4096))
    blocks = shape.blocks([memory])
    assert blocks * shape.block_bytes[0] <= memory < (blocks + 1) * shape.block_bytes[0]
    assert shape.blocks([memory + more]) >= blocks


def test_kinds_of_layers_are_padded_to_the_larger_one_below_one_and_a_half_times():
    """Two and three layers are just not; three and four are."""
    full, sliding = LayerCache(1, 4), LayerCache(1, 4, window=64)
    sizes = [
        [len(group.members) for group in group_layers([full] * few + [sliding] * more, 16)]
        for few, more in ((2, 3), (3, 4))
    ]
    assert sizes == [[2, 2, 1], [3, 4]]
