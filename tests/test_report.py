"""Reports: the finding first, aligned columns, nothing left out in silence."""

import io
import json

import click
import numpy as np
import pytest
import xarray as xr
from analysis.synthetic import dataset, h8, status

from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.effects import factorial_effects, joint_effects
from kvsweep.analysis.pareto import pareto_front
from kvsweep.analysis.statistics import Interval
from kvsweep.analysis.wording import interval_ends, label, number
from kvsweep.cli import commands
from kvsweep.report import cliff_text, effects_text, outcome, pareto_text, summary, summary_text
from kvsweep.report.folding import LEAST, columns_of, width_of_terminal
from kvsweep.report.table import mean_and_sd, table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2143.4, "2,143"),
        (0.05, "0.05"),
        (123456.7, "123,457"),
        (2.0, "2"),
        (0.06615, "0.06615"),
        (-0.5, "-0.5"),
        (1.23e-9, "1.23e-09"),
        (0.0, "0"),
        (np.inf, "inf"),
        (np.nan, "-"),
    ],
)
def test_numbers_keep_four_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2131.2, 2158.4, ("2,131", "2,158")),
        (0.99967, 1.00174, ("0.9997", "1.0017")),
        (-np.inf, 1500.0, ("outside", "1,500")),
        (1.0, 1.0, ("1", "1")),
    ],
)
def test_interval_ends_show_two_digits_of_the_width(low, high, text):
    assert interval_ends(Interval(low, high, 0.95)) == text


def test_a_spread_sets_the_digits_of_its_mean():
    assert mean_and_sd(2115.29, 49.37) == "2,115 ± 49"
    assert mean_and_sd(1.0004, 0.0041) == "1.0004 ± 0.0041"
    assert mean_and_sd(2115.29, np.nan) == "2,115"


def test_labels_name_numbers_with_their_axis():
    assert label({"policy": "round-robin", "rate": 2000.0}) == "round-robin, rate 2,000"


def test_tables_align_numbers_right_and_words_left():
    text = table(("", "n", "who"), [("a", "1,000", "x y"), ("bcd", "-", "z")])
    assert text.splitlines() == ["         n  who", "a    1,000  x y", "bcd      -  z"]


def test_an_empty_column_is_left_out():
    assert table(("", "n"), [("", "1"), ("", "2")]) == "n\n1\n2"


def test_the_cliff_comes_first_with_interval_and_seeds():
    ds = h8(100)
    cliff = find_cliff(ds)
    first, second, *rest = cliff_text(cliff).splitlines()
    group = cliff.groups[0]
    assert first == (
        f"round-robin: preemption_rate passes 0.05 at {group.mean_curve.value:,.0f} blocks "
        f"(95% CI {group.interval.low:,.0f} to {group.interval.high:,.0f}; 100 seeds)"
    )
    assert second.startswith("least-loaded: ")
    assert any(line.startswith("round-robin / least-loaded") for line in rest)
    assert "\x1b" not in cliff_text(cliff)


def test_every_line_fits_a_wide_terminal():
    assert max(map(len, cliff_text(find_cliff(h8(20))).splitlines())) <= 120


def test_pairs_without_cliffs_of_both_are_counted_instead_of_listed():
    ds = h8(4)
    without = ds.assign_coords(policy=["none", "nothing"])
    without["preemption_rate"] = ds["preemption_rate"].copy(data=0.0 * ds["preemption_rate"].values)
    several = xr.concat([ds, without], dim="policy", data_vars="all")
    text = cliff_text(find_cliff(several))
    table = text.partition("Ratios of cliffs")[2].partition("\n\n")[0].splitlines()
    assert [line.split("  ")[0] for line in table[2:]] == ["round-robin / least-loaded"]
    assert "\n5 pairs without a ratio: not both have a cliff.\n" in text
    assert "none / nothing" not in text
    alone = cliff_text(find_cliff(several.isel(policy=[2, 3])))
    assert "Ratios" not in alone
    assert "1 pair without a ratio" in alone


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        ([0.9, 0.0], "preemption_rate passes 0.05 at 1,944 blocks (no seeds: no interval)"),
        (
            [0.04, 0.0],
            "preemption_rate does not pass 0.05 from 1,000 to 2,000 blocks: "
            "a cliff, if any, lies below 1,000",
        ),
        (
            [0.9, 0.1],
            "preemption_rate is above 0.05 all over 1,000 to 2,000 blocks: "
            "the cliff lies above 2,000",
        ),
        (
            [np.nan, 0.9],
            "preemption_rate is above 0.05 where it has a value from 1,000 to 2,000 blocks: "
            "the cliff lies above 2,000",
        ),
        (
            [np.nan, 0.01],
            "preemption_rate may pass 0.05 where cells have no value: no cliff can be given",
        ),
        (
            [0.9, np.nan],
            "preemption_rate may pass 0.05 where cells have no value: no cliff can be given",
        ),
    ],
)
def test_a_cliff_outside_the_range_is_said_to_be_so(rates, sentence):
    text = cliff_text(find_cliff(dataset(rates, blocks=[1000, 2000])))
    assert text.splitlines()[0] == sentence


@pytest.mark.parametrize(
    ("rates", "where"),
    [
        ([0.0, np.nan, 0.5, 0.4, 0.3, 0.2], "from 30 to 60 blocks, but not at 10"),
        ([0.0, 0.01, 0.5, np.nan, 0.3, 0.2], "from 30 to 60 blocks, but not from 20 down"),
        ([0.04, 0.03, 0.03, 0.02, 0.01, 0.2], "at 60 blocks, but not from 50 down"),
    ],
)
def test_a_curve_that_begins_past_the_threshold_says_how_far(rates, where):
    worse = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]  # so that the high end is the generous one
    ds = dataset([rates, worse], policies=["a", "b"], blocks=[10, 20, 30, 40, 50, 60])
    line = cliff_text(find_cliff(ds)).splitlines()[0]
    assert line == f"a: preemption_rate is above 0.05 {where}: the cliff lies above 60"


def test_a_curve_that_begins_past_the_threshold_at_the_low_end_says_so_too():
    rates = [0.4, 0.97, 0.98, 0.95, 0.91, 0.9]
    ds = dataset(rates, blocks=[10, 20, 30, 40, 50, 60], name="prefix_hit_rate")
    ds = ds.rename(gpu_blocks="watermark")  # of which it is not known which end is generous
    cliff = find_cliff(ds, "prefix_hit_rate", along="watermark", threshold=0.5)
    assert cliff_text(cliff).startswith(
        "prefix_hit_rate is below 0.5 at 10 blocks, but not from 20 up: the cliff lies below 10"
    )


def test_a_single_seed_says_why_there_is_no_interval():
    text = cliff_text(find_cliff(dataset([[0.9], [0.0]], blocks=[1000, 2000], seeds=[0])))
    assert "(one seed: no interval)" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("threshold", "words"), [(1, "1 step at"), (2, "2 steps at"), (0.5, "0.5 steps at")]
)
def test_units_that_are_counted_are_plural_of_all_but_one(threshold, words):
    ds = dataset([3.0, 0.0], blocks=[1000, 2000], name="steps")
    ds["steps"].attrs["units"] = "step"
    assert f"steps passes {words}" in cliff_text(find_cliff(ds, "steps", threshold=threshold))


def test_measures_with_units_say_them():
    text = cliff_text(find_cliff(h8(4), "ttft_p99_ms", threshold=100))
    assert "ttft_p99_ms passes 100 ms at" in text


def test_everything_left_out_is_counted():
    a = [[0.4, 0.4, 0.4, 0.4], [0.2, 0.0, 0.2, 0.2], [0.0, 0.0, 0.0, 0.1]]
    b = [[0.0, 0.0, 0.0, 0.4], [0.0, 0.0, 0.0, 0.2], [0.0, 0.0, 0.0, 0.0]]
    ds = dataset([a, b], policies=["a", "b"], blocks=[1, 2, 3], seeds=range(4))
    ds["status"] = status(ds, livelock={"policy": "a", "gpu_blocks": 1, "seed": 1})
    lines = cliff_text(find_cliff(ds)).splitlines()
    assert (
        "a: of 4 seeds, 1 are past it from the start, 1 may cross where cells have no value."
        in lines
    )
    assert "b: of 4 seeds, 3 never cross." in lines
    assert any(line.startswith("b: of 2,000 resamples, ") for line in lines)
    assert any("resamples lack one of the cliffs" in line for line in lines)
    assert "Cells without a value, left out: 1 (livelock 1)." in lines


def routing(latency, throughput):
    return xr.Dataset(
        {
            "ttft_p99_ms": (("policy", "seed"), latency, {"units": "ms"}),
            "throughput_rps": (("policy", "seed"), throughput, {"units": "request/s"}),
        },
        coords={"policy": ["fast", "wide", "same", "slow"]},
    )


def test_the_front_is_named_with_ties_and_dominance():
    latency = np.array([10.0, 20.0, 20.0, 30.0])[:, None] + [0.0, 1.0, 2.0]
    throughput = np.array([1.0, 5.0, 5.0, 4.0])[:, None] + [0.0, 0.1, 0.3]
    text = pareto_text(pareto_front(routing(latency, throughput)))
    lines = text.splitlines()
    assert lines[0].startswith("front over policy: fast, wide, same (hypervolume 0.")
    assert lines[3].split() == [
        "fast", "11", "[8.5,", "13.3]", "1.133", "[0.77,", "1.50]",
        "yes", "100%", "100%", "-", "-",
    ]  # fmt: skip
    assert lines[4].split()[-2:] == ["same", "-"]
    assert lines[6].split()[-3:] == ["-", "wide,", "same"]


def test_a_front_of_nothing_says_so():
    empty = np.full((4, 2), np.nan)
    text = pareto_text(pareto_front(routing(empty, empty)))
    assert "no member has values" in text
    assert "Cells without a value, left out: 8 (no value 8)." in text


def factorial(seeds=8):
    """Two changes that help more together, over two sizes; `seeds` paired seeds."""
    noise = np.random.default_rng(7).lognormal(0.0, 0.05, (2, 2, 2, seeds))
    helped = np.array([[1.0, 0.8], [0.9, 0.5]])[:, :, None, None]
    cells = 100.0 * helped * np.array([1.0, 1.5])[:, None] * noise
    dims = ("scheduler", "routing", "gpu_blocks", "seed")
    return xr.Dataset(
        {"ttft_p99_ms": (dims, cells, {"units": "ms"})},
        coords={
            "scheduler": ["fcfs", "priority"],
            "routing": ["round-robin", "least-loaded"],
            "gpu_blocks": [2000, 1600],
        },
    )


def test_effects_are_told_largest_first_then_in_tables():
    found = factorial_effects(factorial(), "ttft_p99_ms")
    lines = effects_text(found).splitlines()
    assert lines[0] == (
        "Effects on ttft_p99_ms (ms) against scheduler fcfs, routing round-robin, gpu_blocks 2,000"
    )
    assert lines[1].startswith("largest effect: gpu_blocks 1,600 raises ttft_p99_ms by ")
    assert lines[2].startswith("scheduler priority x routing least-loaded: super-additive, -")
    assert "; 8 seeds)" in lines[2]
    assert (
        sum(line.startswith("scheduler priority x routing least-loaded  ") for line in lines) == 2
    )
    assert any(line.endswith("super-multiplicative") for line in lines)
    assert lines[-1].startswith("Each interval stands for itself: of 6 effects, 0.3 are shown by")
    assert max(map(len, lines[lines.index("") :])) <= 120


def test_effects_without_seeds_or_values_say_so():
    ds = factorial().isel(seed=0, drop=True)
    ds["ttft_p99_ms"][0, 0, 0] = np.nan
    text = effects_text(factorial_effects(ds, "ttft_p99_ms", ["routing"]))
    assert "; means over scheduler, gpu_blocks" in text
    assert "no effect of a single change is shown" in text
    assert "No intervals: they take two seeds or more." in text
    assert "differences: 1 of 1 effects lack some of 1 seeds, up to 1, in which a cell" in text
    assert "Cells without a value, left out: 1 (no value 1)." in text


def test_effects_of_seeds_without_values_do_not_ask_for_seeds():
    ds = factorial()
    ds["ttft_p99_ms"][:] = np.nan
    text = effects_text(factorial_effects(ds, "ttft_p99_ms", ["routing"]))
    assert "No intervals: no effect has a value in two seeds or more." in text


def test_effects_without_ratios_have_no_table_of_them():
    ds = factorial()
    assert "(ratios)" in effects_text(factorial_effects(ds, "ttft_p99_ms"))
    ds["ttft_p99_ms"][:] -= 1e6
    text = effects_text(factorial_effects(ds, "ttft_p99_ms"))
    assert "(differences)" in text
    assert "(ratios)" not in text
    assert "ratios (values must be positive): " in text


def test_axes_of_one_level_and_missing_interactions_are_named():
    ds = factorial().isel(gpu_blocks=[0])
    ds["ttft_p99_ms"][:] = 5.0
    lines = effects_text(factorial_effects(ds, "ttft_p99_ms")).splitlines()
    assert "gpu_blocks: a single level, no factor." in lines
    assert "no interaction is shown" in lines


def test_many_effects_are_cut_and_counted():
    values = np.random.default_rng(0).gamma(5.0, size=(60, 2, 4))
    ds = dataset(values.transpose(1, 0, 2), policies=["a", "b"], blocks=range(60), seeds=range(4))
    ds["preemption_rate"] += 50.0 * ds["gpu_blocks"] * (ds["policy"] == "b")
    text = effects_text(factorial_effects(ds, "preemption_rate"))
    assert text.count("... and 20 more; --json, or to_dict() in Python, has all") == 2
    assert "\nand 5" in text


def test_a_design_is_named_by_the_level_that_stands_for_both():
    ds = dataset([[4.0, 4.1], [3.0, 3.1], [2.0, 2.0], [0.5, 0.4]], policies=["z", "a", "b", "ab"],
                 blocks=[1, 2]).rename(gpu_blocks="seed")  # fmt: skip
    text = effects_text(joint_effects(ds, "preemption_rate", [["z", "a", "b", "ab"]]))
    assert text.startswith("Effects on preemption_rate against policy z\n")
    assert "\nab (a x b)  " in text


def test_the_summary_shows_axes_status_and_a_few_numbers():
    ds = h8(4)
    ds["status"] = status(ds, livelock={"gpu_blocks": 1000, "policy": "round-robin"})
    text = summary_text(ds)
    assert text.startswith("H8: KV cache pressure\nWhere is the preemption cliff")
    assert "536 cells: livelock 4, ok 532" in text
    lines = text.splitlines()
    assert ["gpu_blocks", "67", "1,000", "5,000", "blocks"] in [line.split() for line in lines]
    assert "Means over 4 seeds, at 7 of 67 gpu_blocks" in lines
    assert "Means over 4 seeds" in summary_text(ds.isel(gpu_blocks=slice(7))).splitlines()
    assert ["round-robin", "1,000", "-", "-", "-"] in [line.split() for line in lines]
    expected = float(ds["preemption_rate"].sel(policy="least-loaded", gpu_blocks=1000).mean())
    assert ["least-loaded", "1,000", number(expected)] in [line.split()[:3] for line in lines]


def test_names_of_an_axis_stand_behind_the_ranges_of_the_others():
    ds = h8(2).assign_coords(policy=["p" * 90, "q" * 90])
    lines = summary_text(ds).splitlines()
    (head,) = (line for line in lines if line.startswith("axis"))
    assert head.split() == ["axis", "values", "from", "to", "names"]
    assert len(head) < 60
    (blocks,) = (line for line in lines if line.startswith("gpu_blocks ") and "blocks" in line[10:])
    assert blocks.index("1,000") + len("1,000") == head.index("from") + len("from")
    (names,) = (line for line in lines if line.startswith("policy"))
    assert names.index("p" * 90) == head.index("names")
    only = summary_text(ds.isel(gpu_blocks=0, seed=0, drop=True)).splitlines()
    assert ["axis", "values", "names"] in [line.split() for line in only]


def test_the_summary_is_plain_json():
    ds = h8(4)
    ds["status"] = status(ds, livelock={"gpu_blocks": 1000})
    found = summary(ds)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [axis["name"] for axis in found["axes"]] == ["policy", "gpu_blocks", "seed"]
    assert found["status"] == {"livelock": 8, "ok": 528}
    assert found["main_axis"] == "gpu_blocks"
    assert len(found["headlines"]) == 2 * 7
    assert found["headlines"][0]["means"]["preemption_rate"] is None


def test_many_combinations_are_cut_and_counted():
    ds = h8(2)
    many = xr.concat([ds] * 3, dim=xr.Variable("rate", [1.0, 2.0, 3.0]), data_vars="all")
    text = summary_text(many)
    assert "... and 2 more combinations" in text
    assert len(summary(many)["headlines"]) == 6 * 7


def test_a_dataset_without_seeds_status_or_numeric_axes_is_summarised():
    values = summary_text(dataset([0.1, 0.0], blocks=[1, 2]))
    assert "2 cells\n" in values
    assert "Values\n" in values
    names = summary_text(h8(1).isel(gpu_blocks=0, seed=0, drop=True))
    rows = [line.split() for line in names.splitlines()]
    assert ["2", "cells,", "all", "ok"] in rows
    assert rows[-3][0] == "preemption_rate"
    assert [row[0] for row in rows[-2:]] == ["round-robin", "least-loaded"]


def test_a_tier_and_unequal_instances_are_told_where_there_are_any():
    ds = h8(2)
    plain = (ds["preemption_rate"] * 0).assign_attrs(units="1")
    ds = ds.assign(cpu_hit_rate=plain, offloads=plain, fairness_instances=plain + 1)
    assert not {"cpu_hit_rate", "fairness_instances"} & set(summary_text(ds).split())
    used = ds.assign(offloads=plain + 5, fairness_instances=plain + 0.3)
    assert {"cpu_hit_rate", "fairness_instances", "0.3"} <= set(summary_text(used).split())
    assert "cpu_hit_rate" in summary_text(used.drop_vars("offloads"))


def test_a_summary_of_a_design_has_its_parameters():
    points = {"gpu_blocks": [400, 900, 1600], "scheduler": ["sjf", "fcfs", "sjf"]}
    coords = {"sample": [0, 1, 2], **{name: ("sample", values) for name, values in points.items()}}
    ds = xr.Dataset({"preemption_rate": ("sample", [0.5, 0.2, 0.0])}, coords)
    ds["status"] = ("sample", np.full(3, "ok"))
    lines = summary_text(ds).splitlines()
    assert lines[3].split() == ["parameter", "of", "the", "design", "points", "from", "to", "names"]
    assert lines[4].split() == ["gpu_blocks", "3", "400", "1,600"]
    assert lines[5].split() == ["scheduler", "3", "sjf,", "fcfs"]
    assert lines[-1].split() == ["2", "1,600", "sjf", "0"]
    assert [p["name"] for p in summary(ds)["parameters"]] == list(points)


def test_letters_of_full_width_take_two_columns_of_a_table():
    lines = table(("", "x"), [("\u65e5\u672c", "1"), ("abcd", "2"), ("e\u0301", "3")]).splitlines()
    assert lines == ["      x", "\u65e5\u672c  1", "abcd  2", "e\u0301     3"]


def test_cells_that_ended_badly_are_named_in_their_order_and_pending_ones_counted(monkeypatch):
    """A million dictionaries of pending cells took a share of a large sweep six minutes."""
    monkeypatch.setattr("kvsweep.analysis.variables.AT_ONCE", 2)
    codes = np.array([[0, 2, 0, 1], [2, 0, 4, 0]], np.int8)
    flags = {"flag_values": [0, 1, 2, 3, 4], "flag_meanings": "pending ok livelock limit failed"}
    ds = xr.Dataset(
        {"status": (("size", "seed"), codes, flags)}, {"size": [10, 20], "seed": [3, 4, 5, 6]}
    )
    found = outcome(ds)
    assert found["status"] == {"failed": 1, "livelock": 2, "ok": 1, "pending": 4}
    assert [(cell["cell"], cell["status"]) for cell in found["incomplete"]] == [
        ({"size": 10, "seed": 4}, "livelock"),
        ({"size": 20, "seed": 3}, "livelock"),
        ({"size": 20, "seed": 5}, "failed"),
    ]
    texts = np.array([["", "a", "", ""], ["b", "", "c", ""]], object)
    told = outcome(ds.assign(status_detail=(("size", "seed"), texts)))["incomplete"]
    assert [cell["detail"] for cell in told] == ["a", "b", "c"]


def wrapped(text, width):
    """Return a table of two rows as a terminal of so many columns shows it."""
    header = ("", "gpu_blocks", "preemption_rate", "ttft_p99_ms", "verdict")
    rows = [
        ("round-robin", "1,000", "0.3", "2,858", "higher"),
        (text, "2,000", "0", "461", "lower"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsweep.report.folding.width_of_terminal", lambda: width)
        return table(header, rows, keys=2)


@pytest.mark.parametrize("width", [20, 40, 60, 80])
@pytest.mark.parametrize(
    "name",
    ["least-loaded", "a policy whose name is a whole sentence", "x" * 70, "\u65e5\u672c" * 20],
)
def test_tables_have_the_width_of_the_terminal(width, name):
    made = wrapped(name, width)
    wide = max(map(columns_of, made.splitlines()))
    assert wide <= max(width, LEAST + 10 + 15 + 4)  # keys and one column more are never parted
    assert made.rows[1][0] == name  # as pages have it


def test_columns_without_room_follow_below_with_what_says_the_row():
    assert wrapped("least-loaded", 45).splitlines() == [
        "              gpu_blocks  preemption_rate",
        "round-robin        1,000              0.3",
        "least-loaded       2,000                0",
        "",
        "              gpu_blocks  ttft_p99_ms",
        "round-robin        1,000        2,858",
        "least-loaded       2,000          461",
        "",
        "              gpu_blocks  verdict",
        "round-robin        1,000  higher",
        "least-loaded       2,000  lower",
    ]


def test_a_long_name_goes_on_in_the_next_line():
    rows = [("policy", "2", "round-robin, least-loaded"), ("seed", "20", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsweep.report.folding.width_of_terminal", lambda: 36)
        made = table(("axis", "values", "names"), rows)
    assert made.splitlines() == [
        "axis    values  names",
        "policy       2  round-robin,",
        "                  least-loaded",
        "seed        20",
    ]


def test_the_width_is_that_of_a_terminal_and_of_nothing_else(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "60")
    closed = io.StringIO()
    closed.close()
    with click.Context(commands):
        for stream in (io.StringIO(), closed, object(), None):
            monkeypatch.setattr("sys.stdout", stream)
            assert width_of_terminal() == 0
        monkeypatch.setattr("sys.stdout", Terminal())
        assert width_of_terminal() == 60
    assert width_of_terminal() == 0  # a script in a terminal, which may write its texts to files


@pytest.mark.parametrize(
    ("means", "told"),
    [
        ([0.9, 0.0], "passes 0.05 at gpu_blocks 1,944 (no seeds: no interval)"),
        ([0.0, 0.0], "does not pass 0.05 from gpu_blocks 1,000 to 2,000: "),
        ([0.9, 0.9], "is above 0.05 all over gpu_blocks 1,000 to 2,000: "),
    ],
)
def test_an_axis_without_a_unit_is_named(means, told):
    ds = dataset(means, blocks=[1000, 2000])
    ds["gpu_blocks"].attrs["units"] = "1"
    assert cliff_text(find_cliff(ds)).startswith(f"preemption_rate {told}")


def test_the_odds_of_many_effects_are_not_told_of_one():
    text = effects_text(factorial_effects(factorial(), "ttft_p99_ms", ["routing"]))
    assert "Each interval stands for itself" not in text


def test_an_axis_that_stack_made_of_several_is_told_by_the_value_of_each():
    ds = factorial().stack(setting=("scheduler", "routing"))
    text = effects_text(factorial_effects(ds, "ttft_p99_ms", ["setting"]))
    assert "against setting fcfs, round-robin; means over" in text


def folded(width, *made):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvsweep.report.folding.width_of_terminal", lambda: width)
        return table(*made).splitlines()


def test_a_column_without_a_name_stays_with_the_one_before_it():
    header = ("A:B", "hit TTFT ms", "", "miss TTFT ms", "")
    row = ("16:2048", "9.034", "[8.91, 9.14]", "212.4", "[211.0, 213.9]")
    assert folded(50, header, [row]) == [
        "A:B      hit TTFT ms",
        "16:2048        9.034  [8.91, 9.14]",
        "",
        "A:B      miss TTFT ms",
        "16:2048         212.4  [211.0, 213.9]",
    ]


def test_what_is_set_in_is_so_where_it_goes_on_too():
    rows = [("  a policy of all that is a very long name", "3.25")]
    assert folded(24, ("  not in", "ttft_p99"), rows) == [
        "  not in            ttft_p99",
        "  a policy of all       3.25",
        "  that is a very",
        "  long name",
    ]


def test_an_interval_without_ends_is_not_parted():
    header = ("", "cliff", "interval", "seeds: mean and sd", "no crossing")
    rows = [("max_num_seqs 64", "-", "[outside, outside]", "-", "4")]
    assert any("[outside, outside]" in line for line in folded(40, header, rows))


def test_names_that_have_room_stay_whole(monkeypatch):
    """They are copied; what has no room beside them follows below."""
    rows = [("llama-3.1-8b/h100/tp1-roofline", "computed", "6.78", "10.20", "46.66")]
    monkeypatch.setattr("kvsweep.report.folding.width_of_terminal", lambda: 60)
    made = table(("preset", "times", "1 decodes", "64 decode", "prompt"), rows)
    assert made.count("llama-3.1-8b/h100/tp1-roofline") == 2
    assert max(map(len, made.splitlines())) <= 60


def test_switches_are_named_as_a_sweep_file_has_them_wherever_they_stand():
    both = xr.concat([h8(3), h8(3)], dim="enable_prefix_caching")
    switched = both.isel(policy=0, drop=True).assign_coords(enable_prefix_caching=[True, False])
    row = next(
        line for line in summary_text(switched).splitlines() if line.startswith("enable_prefix")
    )
    assert row.split()[1:] == ["2", "true,", "false"]
    text = cliff_text(find_cliff(switched))
    assert "true / false" in text
    assert "True" not in text


def test_what_is_shown_by_ratios_alone_is_told():
    """The sentence said that no interaction is shown, and the table below that one is."""
    ds = factorial().isel(gpu_blocks=0)
    scale = xr.DataArray([1.0, 10.0, 100.0, 1000.0, 1e4, 1e5, 1e6, 1e7], dims="seed")
    rows = xr.DataArray([[1.0, 1.0], [1.0, 2.0]], dims=("scheduler", "routing"))
    ds["ttft_p99_ms"] = scale * rows
    lines = effects_text(factorial_effects(ds, "ttft_p99_ms")).splitlines()
    assert "no effect of a single change is shown as a difference, 2 as a ratio" in lines
    assert "no interaction is shown as a difference, 1 as a ratio" in lines


def test_the_summary_counts_the_seeds_that_have_numbers():
    ds = h8(4).isel(gpu_blocks=slice(7))
    status = ds["status"].where(ds["seed"] < 3, "pending")
    one = status.where((ds["gpu_blocks"] > 1000) | (ds["seed"] > 0), "failed")
    assert "Means over 3 of 4 seeds" in summary_text(ds.assign(status=one)).splitlines()


def test_thousands_of_seeds_are_written_as_other_numbers_are():
    ds = dataset(np.arange(8000.0).reshape(2, 2, 2000), policies=["a", "b"], blocks=[1, 2],
                 seeds=range(2000))  # fmt: skip
    text = effects_text(factorial_effects(ds, "preemption_rate"))
    assert "2,000" in text
    assert "2000" not in text
    text = cliff_text(find_cliff(ds, threshold=2500.0))
    assert "2,000" in text
    assert "2000" not in text.replace("2000.", "")


def test_the_summary_tells_which_means_are_of_fewer_seeds():
    values = np.arange(20.0).reshape(2, 2, 5)
    values[0, 1, :2] = np.nan
    ds = dataset(values, policies=["a", "b"], blocks=[1, 2], seeds=range(5))
    told = "1 of 4 rows: means of fewer seeds, 3 at fewest; the others have no value there."
    assert summary_text(ds).splitlines()[-1] == told
    counts = [row["seeds"]["preemption_rate"] for row in summary(ds)["headlines"]]
    assert counts == [5, 3, 5, 5]
    assert "fewer seeds" not in summary_text(ds.sel(policy="b"))
    assert "fewer seeds" not in summary_text(ds.isel(seed=2))


def test_equal_values_have_the_mean_that_any_number_has():
    assert mean_and_sd(0.6356, 0.0) == "0.6356 ± 0"
    assert mean_and_sd(393.25, 0.0) == "393.2 ± 0"
    assert mean_and_sd(0.6356, 1e-17) == "0.6356 ± 0"  # a rounding is no spread
    assert mean_and_sd(0.0, 0.0) == "0 ± 0"
    values = np.array([[0.0, 0.0, 0.08], [0.0, 0.1, 0.2]])[:, ::-1, None].repeat(3, axis=2)
    ds = dataset(values, policies=["a", "b"], blocks=[100, 200, 400], seeds=range(3))
    (row,) = (line for line in cliff_text(find_cliff(ds)).splitlines() if "a / b" in line)
    assert "0.4583 ± 0" in row


@pytest.mark.parametrize(
    ("low", "high", "null", "text"),
    [
        (0.3, 41.2, 0.0, ("0.3", "41")),
        (-41.2, -0.2, 0.0, ("-41", "-0.2")),
        (-0.2, 41.2, 0.0, ("-0.2", "41")),
        (0.00012, 0.031, 0.0, ("0.0001", "0.031")),
        (1.04, 60.0, 1.0, ("1.04", "60")),
        (0.9960, 0.99998, 1.0, ("0.9960", "0.99998")),
        (1499.6, 1800.0, 1500.0, ("1,499.6", "1,800")),
        (0.0, 41.2, 0.0, ("0", "41")),
        (-1e-15, 2.0, 0.0, ("0.0", "2.0")),  # a rounding is none
        (1.04, 60.0, 0.0, ("1", "60")),
    ],
)
def test_no_end_is_told_as_the_null_that_it_is_not(low, high, null, text):
    assert interval_ends(Interval(low, high, 0.95), null) == text


def test_intervals_of_effects_agree_with_what_is_said_to_be_shown():
    values = np.full((2, 1, 3), 60.0)
    values[1] += [15.04, 25.04, 35.04]
    ds = dataset(values, policies=["a", "b"], blocks=[1], seeds=range(3))
    (row,) = (line for line in effects_text(factorial_effects(ds, "preemption_rate", order=1))
              .splitlines() if line.startswith("policy b  +"))  # fmt: skip
    assert "[0.2, 50]" in row
    assert row.endswith("raises")


def test_effects_that_have_no_interval_are_not_told_as_not_shown_alone():
    ds = factorial().isel(gpu_blocks=0)
    ds["ttft_p99_ms"][:] = 5.0
    one = effects_text(factorial_effects(ds.isel(seed=[0]), "ttft_p99_ms")).splitlines()
    assert "no effect of a single change is shown: none has an interval" in one
    assert "no interaction is shown: none has an interval" in one
    ds["ttft_p99_ms"][-1] = np.nan
    ds = xr.concat([ds, ds.isel(scheduler=[0]).assign_coords(scheduler=["sjf"])], "scheduler")
    some = effects_text(factorial_effects(ds, "ttft_p99_ms", ["scheduler"])).splitlines()
    assert "no effect of a single change is shown; 1 of 2 have no interval" in some


def test_axes_that_are_stacked_have_a_value_of_each():
    """Of a place of both the summary ended in a traceback."""
    ds = dataset(np.zeros((2, 2, 3)), policies=["a", "b"], blocks=[10, 20], seeds=range(3))
    lines = summary_text(ds.stack(x=("policy", "gpu_blocks"))).splitlines()
    (axis,) = [line.split() for line in lines if line.endswith("a, 10, a, 20, b, 10, b, 20")]
    assert axis[:2] == ["x", "4"]
    assert [line.split()[-1] for line in lines if line.startswith("x a, 10")] == ["0"]


@pytest.mark.parametrize(
    "values",
    [(1234.5671, 1234.5672), (0.12345678, 0.12345679), (12345678.5, 12345678.25), (1.00000001, 1)],
)
def test_settings_of_many_digits_have_names_of_their_own(values):
    """Of eight digits and more four were written: two rates of a table were both 1,235."""
    names = [label({"rate": value}) for value in values]
    assert len(set(names)) == len(values)
    assert [float(name.removeprefix("rate ").replace(",", "")) for name in names] == list(values)


def test_headlines_of_many_combinations_are_not_selected_one_by_one(monkeypatch):
    """At 5 ms each, a summary of 1,600 settings of 20 sizes took two minutes."""
    ds = dataset(np.arange(24.0).reshape(3, 4, 2), policies=["a", "b", "c"],
                 blocks=[10, 20, 30, 40], seeds=range(2))  # fmt: skip
    ds = ds.transpose("gpu_blocks", "seed", "policy")
    selected = []
    select = xr.DataArray.sel
    monkeypatch.setattr(
        xr.DataArray, "sel", lambda *given, **more: selected.append(1) or select(*given, **more)
    )
    rows = summary(ds)["headlines"]
    assert not selected
    assert [(row["labels"], row["means"]["preemption_rate"], row["seeds"]) for row in rows] == [
        (
            {"policy": policy, "gpu_blocks": 10 * (1 + k)},
            8 * i + 2 * k + 0.5,
            {"preemption_rate": 2},
        )
        for i, policy in enumerate("abc")
        for k in range(4)
    ]
