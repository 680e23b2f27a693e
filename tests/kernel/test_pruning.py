"""Cells copied from a smaller pool are equal to cells that were run."""

import numpy as np
import pytest
import routers

from kvsweep.config import parse_scenario
from kvsweep.config.workload import Workload
from kvsweep.policies import CACHE, Routing, Scorer
from kvsweep.simulate import simulate_batch
from kvsweep.workload.generate import generate

BLOCKS = (150, 200, 300, 500, 1000, 1001)
SEEDS = range(6)
SHARED = [
    {"id": "a", "prefix_group": "g", "prefix_len": 100},
    {"id": "b", "prefix_group": "g", "prefix_len": 100},
]


def variants(engine=(), cluster=(), **workload):
    requests = Workload(requests=20, rate=200.0, **workload)
    base = {"latency": {"beta": [7000, 17.7, 2.8]}, "engine": dict(engine)}
    base["cluster"] = dict(cluster)
    return [
        parse_scenario(base | {"cache": {"gpu_blocks": n}}, "test").model_copy(
            update={"workload": requests}
        )
        for n in BLOCKS
    ]


def run(cells, prune):
    return simulate_batch(
        cells,
        SEEDS,
        entropy=5,
        policies=[None] * len(cells),
        base_dir=None,
        keep_requests=True,
        prune=prune,
    )


@pytest.mark.parametrize("clients", [[], SHARED])
@pytest.mark.parametrize("scheduler", ["fcfs", "priority", "sjf"])
def test_copies_equal_runs(clients, scheduler):
    cells = variants({"scheduler": scheduler}, clients=clients)
    pruned, complete = run(cells, True), run(cells, False)
    assert not complete["pruned"].any()
    assert pruned["pruned"][-1].all()  # 1001 blocks repeat 1000
    assert not pruned["pruned"][0].any()
    for name in pruned:
        if name != "pruned":
            np.testing.assert_array_equal(pruned[name], complete[name], err_msg=name)


def test_order_of_variants_does_not_matter():
    cells = variants()
    forward, backward = run(cells, True), run(cells[::-1], True)
    for name in forward:
        np.testing.assert_array_equal(forward[name], backward[name][::-1], err_msg=name)


def test_nothing_is_copied_with_a_watermark():
    assert not run(variants({"watermark": 0.1}), True)["pruned"].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [*Scorer, *(routing for routing in Routing if "vllm" in routing.rules)],
    ids=lambda policy: policy.label,
)
def test_who_reads_how_full_a_cache_is_are_those_that_choose_by_it(policy):
    cluster = {"instances": 2, "routing": "weighted", "scorers": {"queue-depth": 1}}
    if isinstance(policy, Scorer):
        cluster["scorers"] = {policy.label: 1}
    else:
        cluster["routing"] = policy.label
    scenario = variants(cluster=cluster)[0]
    requests = generate(scenario.workload, 0, entropy=5)
    shape = len(requests), scenario.cluster.instances
    idle = {name: np.zeros(shape) for name in routers.SEEN}
    chosen = [
        routers.choose(scenario, requests, idle | {name: np.tile([value, 0.0], (shape[0], 1))})
        for name, value in [("utilization", 0.9), ("transfer", 9000), ("thrashing", 0.3)]
    ]
    unmoved = routers.choose(scenario, requests, idle)
    assert any(one != unmoved for one in chosen) == (CACHE in policy.reads)


@pytest.mark.parametrize("scorer", [s.label for s in Scorer if CACHE not in s.reads])
def test_copies_equal_runs_where_the_router_does_not_see_the_share_in_use(scorer):
    cluster = {"instances": 2, "routing": "weighted", "scorers": {scorer: 2, "load-balance": 1}}
    cells = variants(cluster=cluster, clients=SHARED)
    pruned, complete = run(cells, True), run(cells, False)
    assert pruned["pruned"][-1].all()
    for name in pruned:
        if name != "pruned":
            np.testing.assert_array_equal(pruned[name], complete[name], err_msg=name)


@pytest.mark.parametrize("scorer", [s.label for s in Scorer if CACHE in s.reads])
def test_nothing_is_copied_where_the_router_sees_the_share_in_use(scorer):
    cluster = {"instances": 2, "routing": "weighted", "scorers": {"queue-depth": 9, scorer: 1}}
    assert not run(variants(cluster=cluster), True)["pruned"].any()
    unread = cluster | {"routing": "least-loaded"}
    assert run(variants(cluster=unread), True)["pruned"].any()
