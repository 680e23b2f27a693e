"""Designs: points drawn from ranges, as a sweep file asks for them."""

import numpy as np
import pytest

from kvsweep import grid, load_sweep
from kvsweep.errors import InputError

HEAD = """
[workload]
requests = 20
[latency]
model = "llama-3.1-8b/h100/tp2"
[design]
"""
RANGES = """
"cache.gpu_blocks" = { from = 400, to = 1600, log = true }
"workload.rate" = { from = 40, to = 200 }
"engine.scheduler" = ["fcfs", "sjf"]
"""
SEEDS = '[grid]\nseed = { count = 2 }\n"cluster.instances" = [1, 2]\n'


def load(tmp_path, text, overrides=()):
    path = tmp_path / "d.toml"
    path.write_text(text)
    return load_sweep(path, overrides)


@pytest.mark.parametrize(
    ("method", "size"), [("sobol", 16), ("latin-hypercube", 16), ("saltelli", 5 * 16)]
)
def test_a_design_is_an_axis_of_its_points(tmp_path, method, size):
    sweep = load(tmp_path, f'{HEAD}method = "{method}"\nsamples = 16\n{RANGES}{SEEDS}')
    plan = grid.plan(sweep)
    assert plan.dims == ("sample", "seed", "instances")
    assert plan.shape == (size, 2, 2)
    found = {(v.cache.gpu_blocks, v.workload.rate, v.engine.scheduler) for v in plan.variants}
    assert found == set(sweep.design.points)
    blocks, rates, schedulers = zip(*sweep.design.points, strict=True)
    assert all(type(n) is int and 400 <= n <= 1600 for n in blocks)
    assert all(40 <= rate <= 200 for rate in rates)
    assert set(schedulers) == {"fcfs", "sjf"}


def test_points_fill_their_ranges_evenly(tmp_path):
    for method in ("sobol", "latin-hypercube"):
        sweep = load(tmp_path, f'{HEAD}method = "{method}"\nsamples = 16\n{RANGES}')
        blocks, rates, _ = zip(*sweep.design.points, strict=True)
        # One point in each sixteenth of every range; of a log range by ratio.
        assert sorted((np.array(rates) - 40) // 10) == list(range(16))
        shares = np.log(np.array(blocks) / 400) / np.log(4)
        assert (np.bincount((shares * 4).astype(int).clip(0, 3)) == 4).all()


def test_every_integer_of_a_range_is_as_likely(tmp_path):
    text = f'{HEAD}samples = 1024\n"cluster.instances" = {{ from = 1, to = 4 }}\n'
    values = [point[0] for point in load(tmp_path, text).design.points]
    assert np.bincount(values).tolist() == [0, 256, 256, 256, 256]


def test_crossed_points_have_one_value_of_the_other_sample(tmp_path):
    sweep = load(tmp_path, f'{HEAD}method = "saltelli"\nsamples = 8\n{RANGES}')
    a, b, *crossed = (sweep.design.points[8 * i : 8 * i + 8] for i in range(5))
    for key, rows in enumerate(crossed):
        for x, y, row in zip(a, b, rows, strict=True):
            assert row == tuple(y[i] if i == key else x[i] for i in range(3))


def test_points_follow_from_the_file_and_from_its_seed(tmp_path):
    text = f"{HEAD}samples = 8\n{RANGES}"
    points = load(tmp_path, text).design.points
    assert load(tmp_path, text).design.points == points
    assert load(tmp_path, text, ["design.seed=1"]).design.points != points
    assert len(load(tmp_path, text, ["design.samples=32"]).design.points) == 32


def test_a_sweep_without_a_design_says_nothing_of_one(tmp_path):
    told = load(tmp_path, HEAD.replace("[design]", SEEDS)).to_dict()
    assert "design" not in told


def test_a_block_size_that_is_drawn_keeps_the_memory_equal(tmp_path):
    text = f'{HEAD}samples = 2\n"cache.block_size" = [16, 32]\n'
    sweep = load(tmp_path, text)
    tokens = {v.cache.gpu_blocks * v.cache.block_size for v in grid.plan(sweep).variants}
    assert len(tokens) == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("samples = 8\n", "no ranges"),
        (RANGES, "design.samples: missing"),
        ("samples = 12\n" + RANGES, "12 is no power of 2, as sobol needs: 8 or 16"),
        ("samples = true\n" + RANGES, "expected an integer"),
        ("samples = 0\n" + RANGES, "from 1 to"),
        ("seed = -1\nsamples = 8\n" + RANGES, "design.seed: expected an integer from 0"),
        ('method = "sobel"\nsamples = 8\n' + RANGES, "did you mean 'sobol'"),
        ("samples = 8\nmethd = 1\n" + RANGES, "design.methd: unknown key; did you mean 'method'"),
        (
            "points = 8\n" + RANGES,
            "design.points: unknown key; allowed: method, samples, seed, and keys of a scenario",
        ),
        ('samples = 8\n"workload.rates" = { from = 1, to = 2 }\n', "did you mean 'workload.rate'"),
        ('samples = 8\n"workload.rate" = { from = 1, too = 2 }\n', "did you mean 'to'"),
        ('samples = 8\n"workload.rate" = { from = 1 }\n', "to: expected a number"),
        ('samples = 8\n"workload.rate" = { from = 2, to = 2 }\n', "is not below to"),
        ('samples = 8\n"workload.rate" = { from = nan, to = 2.0 }\n', "from: expected a number"),
        ('samples = 8\n"workload.rate" = { from = 0, to = 2, log = true }\n', "log: needs from"),
        ('samples = 8\n"workload.rate" = { from = 1, to = 2, log = 1 }\n', "expected true or"),
        ('samples = 8\n"workload.rate" = 3\n', "expected { from, to } or a list"),
        ('samples = 8\n"workload.rate" = []\n', "at least one"),
        ('samples = 8\n"workload.rate" = { from = -1, to = 2 }\n', "rate"),
        ('samples = 8\n"cache.gpu_blocks" = { from = 1.5, to = 20 }\n', "holds integers"),
        ('samples = 8\n"engine.scheduler" = { from = 1, to = 2 }\n', "give a list"),
        ("samples = 8\nseeds = { from = 1, to = 2 }\n", "unknown key"),
        ('samples = 8\n"cluster.instances" = [1, 2]\n' + SEEDS, "grid sets this key too"),
        ('samples = 524288\nmethod = "saltelli"\n' + RANGES, "points, at most"),
    ],
)
def test_a_slip_is_told_in_one_line(tmp_path, table, said):
    with pytest.raises(InputError) as error:
        load(tmp_path, HEAD + table)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert "d.toml" in str(error.value)


def test_an_option_that_the_design_overrules_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"reaches no cell: \[design\] draws it"):
        load(tmp_path, f"{HEAD}samples = 8\n{RANGES}", ["workload.rate=5"])


def test_a_cliff_needs_an_axis_of_the_grid(tmp_path):
    cliff = '[cliff]\nmetric = "steps"\nalong = "{}"\nthreshold = 1\n'
    with pytest.raises(InputError, match=r"'gpu_blocks' is drawn by \[design\]"):
        load(tmp_path, f"{HEAD}samples = 8\n{RANGES}" + cliff.format("gpu_blocks"))
    with pytest.raises(InputError, match="'sample' is no axis to scan"):
        load(tmp_path, f"{HEAD}samples = 8\n{RANGES}" + cliff.format("sample"))
