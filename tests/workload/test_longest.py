"""What a plan knows of request lists without drawing them holds of every list."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError
from sweeping import make_sweep

import kvsweep
from kvsweep.config import Workload
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.workload import generate
from kvsweep.workload.longest import MOST_EXPONENTIAL, MOST_NORMAL, longest_tokens

tokens = st.integers(1, 400)
lengths = st.one_of(
    st.fixed_dictionaries({"dist": st.just("constant"), "value": tokens}),
    st.builds(lambda a, b: {"dist": "uniform", "min": min(a, b), "max": max(a, b)}, tokens, tokens),
    st.fixed_dictionaries(
        {"dist": st.just("gaussian"), "mean": tokens, "std": tokens},
        optional={"min": st.integers(1, 50), "max": st.integers(50, 900)},
    ),
    st.fixed_dictionaries(
        {"dist": st.just("exponential"), "mean": tokens}, optional={"min": tokens}
    ),
    st.fixed_dictionaries({"dist": st.just("empirical"), "values": st.lists(tokens, min_size=1)}),
    st.fixed_dictionaries(
        {
            "dist": st.just("pareto-lognormal"),
            "alpha": st.floats(2, 9),
            "xm": st.floats(1, 50),
            "mu": st.floats(0, 5),
            "sigma": st.floats(0, 0.5),
            "mix_weight": st.floats(0, 1),
        },
        optional={"max": tokens},
    ),
)
sessions = st.fixed_dictionaries(
    {"rounds": st.integers(1, 5), "think_time_s": st.floats(0, 3)},
    optional={
        "think_time": st.sampled_from(["constant", "exponential"]),
        "context": st.sampled_from(["accumulate", "independent"]),
        "arrivals": st.sampled_from(["fixed", "closed-loop"]),
    },
)
clients = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt": lengths,
            "output": lengths,
            "sessions": sessions,
            "prefix_group": st.sampled_from("ab"),
            "slo_class": st.sampled_from(["batch", "mine"]),
            "rate_fraction": st.floats(0.1, 2),
        },
    ),
    max_size=3,
)


@st.composite
def workloads(draw):
    own = [{"id": str(i)} | client for i, client in enumerate(draw(clients))]
    rest = st.fixed_dictionaries(
        {"requests": st.integers(1, 40), "clients": st.just(own)},
        optional={"prompt": lengths, "output": lengths, "sessions": sessions},
    )
    try:
        return Workload.model_validate(draw(rest))
    except ValidationError:
        assume(False)


@given(workloads(), st.integers(0, 5))
def test_no_request_is_longer_than_the_parameters_tell(workload, seed):
    bounds = longest_tokens(workload)
    assume(bounds is not None)
    found = generate.generate(workload, seed)
    assert (found.prompt_tokens + found.output_tokens).max() <= bounds[0]
    assert found.prompt_tokens.max() <= bounds[1]


def test_bounds_are_reached_by_constant_lengths():
    turns = {"rounds": 3, "think_time_s": 0.0}
    fixed = {"dist": "constant", "value": 10}
    workload = Workload.model_validate(
        {"requests": 30, "prompt": fixed, "output": fixed, "sessions": turns}
    )
    found = generate.generate(workload, 0)
    longest = (found.prompt_tokens + found.output_tokens).max()
    assert longest_tokens(workload)[0] - longest in (0, 6)  # a token a length, for rounding


def test_the_largest_draws_are_what_53_random_bits_allow():
    rng = np.random.default_rng(1)
    assert 12 < rng.standard_exponential(10**6).max() < 53 * np.log(2) + 7.7 < MOST_EXPONENTIAL
    assert 4 < np.abs(rng.standard_normal(10**6)).max() < 53 * np.log(2) / 3.65 + 3.66 < MOST_NORMAL


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 1e-6},
        {"arrivals": "gamma", "cv": 3.0},
        {"output": {"dist": "exponential", "mean": 1e6}},
        {"sessions": {"rounds": 100, "think_time_s": 9e6, "think_time": "exponential"}},
        {
            "prompt": {
                **{"dist": "pareto-lognormal", "alpha": 1.0, "xm": 9.0},
                **{"mu": 1.0, "sigma": 1.0, "mix_weight": 0.5},
            }
        },
    ],
)
def test_lists_that_may_be_impossible_must_be_drawn(changes):
    assert longest_tokens(Workload.model_validate(changes)) is None


SWEEP = """
[workload]
requests = 30
{workload}
[cluster]
instances = 2
[latency]
beta = [1000, 10, 5]
[grid]
policy = ["round-robin", "least-loaded"]
"workload.rate" = [500.0, 2000.0]
"cache.gpu_blocks" = [150, 200]
seed = {{ count = 3 }}
"""


@pytest.fixture
def drawn(monkeypatch):
    """Count the lists that are drawn, by rate and seed."""
    count = Counter()
    draw = generate.draw_requests

    def counted(workload, seeds, *more):
        count.update((workload.rate, seed) for seed in seeds)
        return draw(workload, seeds, *more)

    monkeypatch.setattr(generate, "draw_requests", counted)
    return count


def test_each_request_list_is_drawn_once(tmp_path, drawn):
    sweep = make_sweep(tmp_path, SWEEP.format(workload=""))
    kvsweep.run(sweep, out=tmp_path / "small.zarr", workers=1)
    assert drawn == {(rate, seed): 1 for rate in (500.0, 2000.0) for seed in range(3)}


def test_a_plan_draws_only_what_its_parameters_do_not_tell(tmp_path, drawn):
    tail = "alpha = 1.1, xm = 50.0, mu = 3.0, sigma = 0.5, mix_weight = 0.1"
    for dist, lists in (
        ('"exponential", mean = 30.0', {}),
        (f'"pareto-lognormal", {tail}, max = 4096', {}),
        (f'"pareto-lognormal", {tail}', {(500.0, 0): 1, (2000.0, 0): 1}),
    ):
        plan(make_sweep(tmp_path, SWEEP.format(workload=f"output = {{ dist = {dist} }}")))
        assert drawn == lists


def test_latencies_that_only_a_bound_finds_too_long_are_checked_with_what_is_drawn(tmp_path, drawn):
    """Lengths of 100 without a limit may be of 100,000, for which these steps would be too long."""
    line = 'prompt = { dist = "gaussian", mean = 100, std = 10 }'
    text = SWEEP.format(workload=line).replace("[1000, 10, 5]", "[1000, 50000, 5]")
    plan(make_sweep(tmp_path, text))
    before = drawn.total()
    slow = text.replace("50000", "70000000")
    with pytest.raises(InputError, match="a step of this workload may take"):
        plan(make_sweep(tmp_path, slow))
    assert drawn.total() > before
