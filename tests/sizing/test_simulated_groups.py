"""A simulated request of a hybrid model holds the blocks that vLLM plans for it."""

from types import SimpleNamespace

import naive
import pytest
from naive.explicit.tables import Tables
from naive.pool import BlockPool
from naive.scenario import Cache, Engine

FULL = {"kind": "full"}
GPT_OSS = [{"kind": "sliding", "window": 128}, FULL]
GEMMA = [FULL, *[{"kind": "sliding", "window": 1024}] * 5]


def planned(groups, tokens, budget, asynchronous=False):
    """Return the most blocks of each group that an admission plans with."""
    engine = Engine(max_num_batched_tokens=budget, async_scheduling=asynchronous)
    tables = Tables(BlockPool(1), engine, Cache(groups=groups))
    return [tables.most(group, tokens) for group in range(len(groups))]


def test_admissions_plan_as_many_blocks_as_vllm_does():
    assert planned(GPT_OSS, 131_072, 8192) == [521, 8192]
    assert planned(GPT_OSS, 131_072, 8192, asynchronous=True) == [1033, 8192]
    assert sum(planned(GPT_OSS, 131_072, 2048)) == 8_329
    assert planned(GEMMA, 32_768, 8192)[1:] == [577] * 5
    assert planned(GEMMA, 262_144, 8192)[1:] == [577] * 5


def test_a_simulated_gemma_4_has_a_full_group_of_twice_the_blocks():
    """Its full layers have blocks of 32 tokens in vLLM; simulated groups have blocks of one size.

    So `kvsweep blocks` says that it gives tokens for a sweep, and no groups.
    """
    for tokens, planned_by_vllm in ((32_768, 3_909), (262_144, 11_077)):
        full, *windows = planned(GEMMA, tokens, 8192)
        assert full // 2 + sum(windows) == planned_by_vllm


@pytest.mark.parametrize("groups", [GPT_OSS, GEMMA])
def test_a_decoding_request_holds_its_windows_and_one_block_more(groups):
    """Steady decode: ceil(n / 16) blocks of the full group, and a window's that may begin inside.

    Of gpt-oss-120b ceil(127 / 16) + 1 = 9 blocks.
    """
    row = {"id": 0, "arrival_us": 0, "prompt": [[0, 3000]], "output": [1, 100]}
    scenario = {"cache": {"groups": groups, "gpu_blocks": 2000}, "latency": {"beta": [10, 0, 0]}}
    result = naive.simulate({"scenario": scenario, "requests": [row]})
    decodes = [step for step in result.instances[0].steps if step.dc]
    for number, step in enumerate(decodes):
        computed = 3000 + number + 1
        held = 2000 - step.free - -(-computed // 16)
        windows = [group["window"] for group in groups if group["kind"] == "sliding"]
        most = sum(-(-(window - 1) // 16) + 1 for window in windows)
        assert most - len(windows) <= held <= most
    assert SimpleNamespace(**result.instances[0].totals).window_freed > 0
