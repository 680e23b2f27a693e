"""Kinds of figures beside curves and cliffs, and what is common to all: panels, sizes, titles."""

import itertools
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from analysis.synthetic import dataset, prefix_trials
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from sweeping import BASE, make_sweep, stand_in
from test_plot import (
    KINDS,
    RATES,
    at_rates,
    check_layout,
    difference,
    h8,
    loaded,
    routing_study,
    with_requests,
)

import kvsweep
from kvsweep import plot
from kvsweep.analysis import statistics
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.effects import factorial_effects
from kvsweep.analysis.pareto import pareto_front
from kvsweep.analysis.prefix_cost import prefix_cost
from kvsweep.analysis.request_times import times
from kvsweep.analysis.statistics import Interval
from kvsweep.analysis.wording import labels_of, level, number
from kvsweep.config.design import Design
from kvsweep.errors import InputError, PlainWarning
from kvsweep.plot import style
from kvsweep.plot.cliff_rows import plot_many_cliffs
from kvsweep.plot.curve import split_lines
from kvsweep.plot.extent import near_threshold
from kvsweep.plot.labels import elided, panel_title
from kvsweep.plot.medium import current
from kvsweep.report.cliff import cliff_text


def lines_of(axes):
    """Return the curves of a panel, by what they have of points."""
    return [line for line in axes.lines if len(line.get_xdata()) > 2]


def test_a_bar_is_as_long_as_the_mean_and_has_its_number():
    ds = h8(4).sel(gpu_blocks=[1000, 1500])
    (axes,) = plot.plot_bars(ds, "ttft_p99_ms", "gpu_blocks").axes
    mean = ds["ttft_ms"].sel(quantile=0.99).mean("seed")
    bars = {(round(bar.get_y() + bar.get_height() / 2, 2)): bar.get_width() for bar in axes.patches}
    assert [bars[place] for place in (-0.2, 0.2, 0.8, 1.2)] == pytest.approx(
        mean.transpose("gpu_blocks", "policy").values.ravel().tolist()
    )
    texts = check_layout(axes.figure)
    assert {"1,000", "1,500", "KV blocks per instance", "round-robin", "least-loaded"} <= set(texts)
    assert f"{mean.values[0, 1]:.0f}" in texts


def test_bars_that_do_not_fit_are_refused():
    told = r"134 bars in groups of 2 do not fit, at most 42.*: --at AXIS=VALUE, or .sel\(\) in"
    with pytest.raises(InputError, match=told):
        plot.plot_bars(h8(2), "preemption_rate", "gpu_blocks")
    with pytest.raises(InputError, match="does not vary along"):
        plot.plot_bars(h8(2).assign(flat=h8(2)["gpu_blocks"] * 1.0), "flat", "policy")


def test_a_tradeoff_has_a_point_for_each_value_in_order():
    ds = loaded()
    axes = plot.plot_tradeoff(
        ds.isel(rate=[2, 0, 4]), "throughput_rps", "ttft_p99_ms", "rate"
    ).axes[0]
    line = lines_of(axes)[0]
    one = ds.isel(policy=0, rate=[0, 2, 4]).mean("seed")
    assert line.get_xdata().tolist() == pytest.approx(one["throughput_rps"].values.tolist())
    assert line.get_ydata() == pytest.approx(one["ttft_ms"].sel(quantile=0.99).values)
    assert "\npoints: arrival rate (request/s) 500 (open) to 2,500\n" in axes.get_xlabel()
    first = axes.lines[1]
    assert first.get_markerfacecolor() == style.PAPER
    assert (first.get_xdata()[0], first.get_ydata()[0]) == (
        line.get_xdata()[0],
        line.get_ydata()[0],
    )


def test_a_tradeoff_needs_measures_along_its_axis():
    ds = loaded()
    with pytest.raises(InputError, match="'flat' does not vary along 'rate'"):
        plot.plot_tradeoff(ds.assign(flat=ds["policy"].size * 1.0), "flat", "ttft_p99_ms", "rate")
    with pytest.raises(InputError, match="of the same axes"):
        plot.plot_tradeoff(
            ds.assign(sum=ds["throughput_rps"].sum("policy")), "sum", "ttft_p99_ms", "rate"
        )


def test_a_cdf_counts_requests_that_never_got_so_far():
    ds = with_requests()
    (axes,) = plot.plot_cdf(ds, "ttft_ms").axes
    line = lines_of(axes)[0]
    values = ds["request_ttft_us"].isel(policy=0).values[:, :35] / 1000  # arrived
    for place in (0.2, 0.7):
        x = line.get_xdata()[int(place * len(line.get_xdata()))]
        share = np.mean([np.mean((seed >= 0) & (seed <= x)) for seed in values])
        assert np.interp(x, *line.get_data()) == pytest.approx(share)
    assert line.get_ydata()[-1] == pytest.approx(30 / 35)


def test_a_cdf_leaves_out_the_warm_up_and_single_tokens():
    (axes,) = plot.plot_cdf(with_requests(warmup=10), "ttft_ms").axes
    assert lines_of(axes)[0].get_ydata()[-1] == pytest.approx(20 / 25)
    ds = with_requests()
    ds["request_tpot_us"][:, :, :10] = np.nan  # completed: of one token
    (axes,) = plot.plot_cdf(ds, "tpot_ms").axes
    assert lines_of(axes)[0].get_ydata()[-1] == pytest.approx(20 / 25)


def test_a_time_per_token_is_found_without_its_column():
    ds = with_requests()
    known = times(ds, "tpot_ms")
    tokens = ds["request_status"].copy(data=np.full(ds["request_status"].shape, 11))
    tokens[:, :, 3] = 1
    ds = ds.drop_vars("request_tpot_us").assign(
        request_output_tokens=tokens,
        request_first_token_us=tokens * 0 + 500,
        request_finish_us=(known * 10_000 + 500).fillna(-1),
    )
    found = times(ds, "tpot_ms")
    assert np.isnan(found.values[:, :, 3]).all()
    np.testing.assert_allclose(found.values[:, :, 4:], known.values[:, :, 4:])


@pytest.mark.parametrize(
    ("ds", "metric", "told"),
    [
        (h8(2), "ttft_ms", "`kvsweep grid --requests` stores"),
        (with_requests(), "ttft_p99_ms", "did you mean 'ttft_ms'"),
        (with_requests().isel(request=slice(30, 40)), "ttft_ms", "no request has a ttft_ms"),
    ],
)
def test_a_cdf_needs_requests(ds, metric, told):
    with pytest.raises(InputError, match=told):
        plot.plot_cdf(ds, metric)


def share_kept(ds, ttft, tpot):
    """Return the share of a policy's requests that keep both levels, milliseconds."""
    kept = (ds["request_status"] == "completed") & (ds["request_ttft_us"] <= 1000 * ttft)
    kept &= ds["request_tpot_us"] <= 1000 * tpot
    return float(kept.isel(request=slice(35)).mean())


def test_an_attainment_at_one_is_that_of_the_levels():
    ds = with_requests()
    (axes,) = plot.plot_attainment(ds, {"ttft_ms": 300, "tpot_ms": 16}).axes
    x, y = lines_of(axes)[1].get_data()
    one = ds.isel(policy=1)
    for scale in (0.5, 1.0, 2.0):
        place = int(np.argmin(np.abs(x - scale)))
        assert y[place] == pytest.approx(share_kept(one, 300 * x[place], 16 * x[place]), abs=0.02)
    assert y[int(np.argmin(np.abs(x - 1.0)))] == pytest.approx(share_kept(one, 300, 16))
    assert "\n1: ttft 300 ms, tpot 16 ms\n" in axes.get_xlabel()


def test_an_attainment_takes_the_levels_of_the_sweep_and_its_classes():
    ds = with_requests(slo={"ttft_ms": 300, "classes": {"batch": {"ttft_ms": 1e6}}})
    (axes,) = plot.plot_attainment(ds).axes
    x, y = lines_of(axes)[0].get_data()
    one = ds.isel(policy=0, request=slice(35))
    batch = (one["request_slo_class"] == "batch") & (one["request_status"] == "completed")
    chat = (one["request_slo_class"] == "chat") & (one["request_status"] == "completed")
    share = float((batch | (chat & (one["request_ttft_us"] <= 300_000))).mean())
    assert y[int(np.argmin(np.abs(x - 1.0)))] == pytest.approx(share)
    assert ", others by class\n" in axes.get_xlabel()


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        (None, "the sweep has no"),
        ({}, "the sweep has no"),
        ({"ttft": 3}, "did you mean 'ttft_ms'"),
        ({"ttft_ms": 0}, "must be more than 0"),
    ],
)
def test_an_attainment_needs_levels(levels, told):
    with pytest.raises(InputError, match=told):
        plot.plot_attainment(with_requests(), levels)


def test_several_choices_of_levels_or_warm_ups_are_refused():
    ds = with_requests(slo={"ttft_ms": 300})
    sweep = json.loads(ds.attrs["sweep"])
    ds.attrs["sweep"] = json.dumps(sweep | {"grid": {"slo.ttft_ms": [1, 2]}})
    with pytest.raises(InputError, match="several choices"):
        plot.plot_attainment(ds)
    one, other = ds["policy"].values.tolist()
    policies = {one: {"engine.max_num_seqs": 3}, other: {"workload.warmup": 3}}
    for more in ({"policies": policies}, {"design": {"ranges": {"workload.warmup": [1, 2]}}}):
        ds.attrs["sweep"] = json.dumps(sweep | more)
        with pytest.raises(InputError, match=r"cells differ in workload\.warmup"):
            plot.plot_cdf(ds, "ttft_ms")


CHOSEN = """
[[workload.clients]]
id = "one"
[[workload.clients]]
id = "two"
slo_class = "of.two"
[policies.judged]
workload.warmup = 8
slo.ttft_ms = 400
[policies.loose]
slo.ttft_ms = 4000
slo.classes."of.two".ttft_ms = 100
[grid]
policy = ["judged", "loose"]
"slo.tpot_ms" = [20.0, 30.0]
seed = { count = 2 }
"""


def test_levels_and_warm_ups_are_those_of_what_is_selected(tmp_path, monkeypatch):
    stand_in(monkeypatch)
    sweep = make_sweep(tmp_path, BASE + CHOSEN)
    ds = kvsweep.run(sweep, out=tmp_path / "a.zarr", workers=1, keep_requests=True)
    ds["request_status"] = xr.full_like(ds["request_status"], "completed")  # whatever is made up
    remedy = r"; select one: --at AXIS=VALUE, or \.sel\(\) in Python"
    with pytest.raises(InputError, match=f"differ in workload.warmup{remedy}"):
        plot.plot_cdf(ds, "ttft_ms")
    counted = []
    for policy in ("judged", "loose"):
        one = ds.sel(policy=policy)
        plot.plot_cdf(one, "ttft_ms")
        counted.append(int(np.isfinite(times(one, "ttft_ms").values[0, 0]).argmax()))
        for unclear in (ds, one, ds.sel(slo_tpot_ms=30.0), one.sel(slo_tpot_ms=30.0, drop=True)):
            with pytest.raises(InputError, match=f"several choices of .slo.{remedy}"):
                plot.plot_attainment(unclear)
        told = plot.plot_attainment(one.sel(slo_tpot_ms=30.0)).axes[0].get_xlabel()
        wanted = {"judged": "ttft 400 ms, tpot 30 ms", "loose": "ttft 4,000 ms, tpot 30 ms, others"}
        assert wanted[policy] in told
        plot.plot_attainment(ds.sel(policy=[policy], slo_tpot_ms=[30.0]))
    assert counted == [8, 0]


def test_requests_of_policies_of_a_real_store_are_drawn(tmp_path, monkeypatch):
    stand_in(monkeypatch)
    policies = "[policies.few]\nengine.max_num_seqs = 4\n[policies.many]\nengine.max_num_seqs = 8\n"
    sweep = make_sweep(
        tmp_path, f'{BASE}{policies}[grid]\nseed = [1, 2]\npolicy = ["few", "many"]\n'
    )
    ds = kvsweep.run(sweep, out=tmp_path / "a.zarr", workers=1, keep_requests=True)
    check_layout(plot.plot_cdf(ds, "ttft_ms"))
    check_layout(plot.plot_attainment(ds, {"ttft_ms": 300}))


def test_a_level_is_drawn_where_it_is_and_what_breaks_it_is_shaded():
    ds = routing_study()
    figure = plot.plot_pareto(ds, pareto_front(ds), {"ttft_p99_ms": 120, "throughput_rps": 250})
    axes = figure.axes[0]
    assert {"level 120", "level 250", "beyond the level"} <= set(check_layout(figure))
    right, low = axes.patches
    assert right.get_x() == 120
    assert right.get_x() + right.get_width() == pytest.approx(axes.get_xlim()[1])
    assert low.get_y() + low.get_height() == 250
    with pytest.raises(InputError, match=r"'ttft_p9_ms' is not drawn.*did you mean"):
        plot.plot_pareto(ds, pareto_front(ds), {"ttft_p9_ms": 120})


def test_a_panel_that_is_left_over_says_what_the_marks_mean():
    ds = at_rates(h8(3), RATES)
    figure = plot.plot_cliff(ds, find_cliff(ds))
    assert "threshold 0.05" in check_layout(figure)
    room = figure.axes[3]
    assert [text.get_text() for text in room.get_legend().get_texts()] == [
        "threshold 0.05",
        "mean over 3 seeds, each of them faint",
        "95% interval of the mean; at the foot, of the cliff",
    ]
    assert not figure.legends
    figure = KINDS["four panels"]()
    assert "threshold 0.05" in check_layout(figure)
    assert figure.legends
    figure = KINDS["three heatmaps"]()
    assert [len(axes.images) for axes in figure.axes[:4]] == [1, 1, 1, 0]
    assert figure.axes[3].child_axes  # the colours


IN_PANELS = {
    "cliff": lambda ax: (ds := h8(3), plot.plot_cliff(ds, find_cliff(ds), ax=ax))[1],
    "trend": lambda ax: (
        ds := at_rates(h8(3), RATES),
        plot.plot_cliff_trend(ds, find_cliff(ds), "rate", ax=ax),
    )[1],
    "curve": lambda ax: plot.plot_curve(h8(3), "ttft_p99_ms", "gpu_blocks", ax=ax),
    "heatmap": lambda ax: plot.plot_heatmap(
        at_rates(h8(2), RATES).isel(policy=0), "preemption_rate", "gpu_blocks", "rate", ax=ax
    ),
    "bars": lambda ax: plot.plot_bars(
        h8(3).isel(gpu_blocks=[0, 20]), "ttft_p99_ms", "gpu_blocks", ax=ax
    ),
    "tradeoff": lambda ax: plot.plot_tradeoff(
        loaded(), "throughput_rps", "ttft_p99_ms", "rate", ax=ax
    ),
    "cdf": lambda ax: plot.plot_cdf(with_requests(), "ttft_ms", ax=ax),
    "attainment": lambda ax: plot.plot_attainment(with_requests(), {"ttft_ms": 300}, ax=ax),
    "pareto": lambda ax: (ds := routing_study(), plot.plot_pareto(ds, pareto_front(ds), ax=ax))[1],
    "comparison": lambda ax: plot.plot_comparison(difference(), ax=ax),
}


@pytest.mark.parametrize("kind", IN_PANELS)
def test_a_figure_is_drawn_in_a_panel_of_the_caller(kind):
    mine = Figure(figsize=(9, 4), layout="constrained")
    before, here, after = mine.subplots(1, 3)
    before.plot([1, 2], [3, 4])
    assert IN_PANELS[kind](here) is mine
    assert here.lines or here.images or here.patches
    assert here.get_xlabel()
    assert not mine.texts
    assert not mine.legends
    assert not after.lines
    assert len(before.lines) == 1
    check_layout(mine)


def test_a_panel_takes_one_panel():
    ax = Figure().subplots()
    with pytest.raises(InputError, match="ax: is one panel, 2 are needed"):
        plot.plot_curve(h8(2), ["ttft_p99_ms", "throughput_rps"], "gpu_blocks", ax=ax)
    ds = at_rates(h8(2), RATES)
    with pytest.raises(InputError, match="ax: is one panel, 3 are needed"):
        plot.plot_cliff(ds, find_cliff(ds), ax=ax)
    with pytest.raises(InputError, match="ax: is one panel, 2 are needed"):
        plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "rate", ax=ax)
    assert not ax.lines


def test_a_size_and_a_title_are_those_asked_for():
    with plot.look(size=(6.0, 4.0), title="Mine"):
        figure = KINDS["curve"]()
    assert figure.get_size_inches().tolist() == [6.0, 4.0]
    texts = check_layout(figure)
    assert "Mine" in texts
    assert not {"H8: KV cache pressure", h8(2).attrs["question"]} & set(texts)
    with plot.look("slide", size=(5.0, 3.0), title=""):
        figure = KINDS["cliff"]()
    assert figure.get_size_inches().tolist() == [5.0, 3.0]
    assert not figure.texts
    for size, told in (((0.5, 3.0), "0.5 x 3 inches"), ((3.0, 1000.0), "3 x 1000 inches")):
        with pytest.raises(InputError, match=f"size: {told} are not 1 to 100 inches"):
            plot.look(size=size).__enter__()


@pytest.mark.parametrize("kind", ["cliff", "curve", "heatmap", "effects"])
def test_a_size_without_room_for_a_panel_is_refused(tmp_path, kind):
    with plot.look(size=(1.0, 1.0)):
        figure = KINDS[kind]()
    with pytest.raises(InputError, match="size: 1 x 1 inches have no room for a panel"):
        plot.save(figure, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_cliff_far_above_its_threshold_is_logarithmic_where_no_close_up_stands_beside_it():
    ds = at_rates(h8(3), RATES)
    ds["preemption_rate"] = ds["preemption_rate"] * 10  # up to 200 times the threshold
    assert {axes.get_yscale() for axes in plot.plot_cliff(ds, find_cliff(ds)).axes[:3]} == {
        "symlog"
    }


TEX = r"$\frac$ 10% of $HOME, C:\route^2_x"


def in_tex(ds):
    """Give a dataset a title and policies that TeX would read otherwise, or not at all."""
    names = [f"{TEX} {i}" for i in range(ds.sizes["policy"])]
    return ds.assign_coords(policy=names).assign_attrs(title=TEX)


def test_titles_and_names_are_plain_text(tmp_path):
    """A title of `$\\frac$` ended in a traceback of the parser, one with two prices in italics."""
    ds = in_tex(h8(3))
    bars = plot.plot_bars(ds.sel(gpu_blocks=[1500]), "preemption_rate", "policy")
    for figure in (plot.plot_cliff(ds, find_cliff(ds)), bars):
        plot.save(figure, tmp_path / "a.png")
        assert any(text.get_text().startswith(TEX) for text in figure.findobj(Text))
    with plot.look(title=r"$\frac$"):
        plot.save(plot.plot_curve(ds, "preemption_rate", "gpu_blocks"), tmp_path / "a.svg")


def test_what_comes_after_a_figure_is_matplotlibs_own(tmp_path):
    """Powers of ten, and labels that are set later, are TeX there."""
    figure = plot.plot_curve(in_tex(h8(2)), "preemption_rate", "gpu_blocks")
    (axes,) = figure.axes
    axes.set_xscale("log")
    axes.set_xlabel(r"$\lambda$")
    plot.save(figure, tmp_path / "a.png")
    powers = [label for label in axes.get_xticklabels() if "mathdefault" in label.get_text()]
    assert powers
    assert all(label.get_parse_math() for label in (*powers, axes.xaxis.label))
    with style.style():
        panel = style.new_figure(2.0).subplots()
        panel.set_yscale("log")
        assert all(label.get_parse_math() for label in panel.get_yticklabels())


def test_names_are_plain_in_a_panel_of_the_caller_whose_own_words_stay():
    mine = Figure(figsize=(9, 4), layout="constrained")
    ax = mine.subplots()
    ax.set_title(r"$\alpha$")
    ax.set_xlabel("replaced")
    ds = in_tex(h8(2).sel(gpu_blocks=[1500]))
    plot.plot_bars(ds.rename(preemption_rate="a$b$"), "a$b$", "policy", ax=ax)
    FigureCanvasAgg(mine).draw()
    assert ax.title.get_parse_math()
    assert ax.xaxis.label.get_parse_math()  # it has no dollar
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def without_values(metric):
    """Return results at two rates in which no cell has a value of `metric`."""
    ds = at_rates(h8(2), RATES[:2])
    ds[metric] = ds[metric] * np.nan
    return ds


EMPTY = {
    "curve": lambda ds: plot.plot_curve(ds, "throughput_rps", "gpu_blocks"),
    "bars": lambda ds: plot.plot_bars(ds, "throughput_rps", "rate"),
    "heatmap": lambda ds: plot.plot_heatmap(ds, "throughput_rps", "gpu_blocks", "rate"),
    "tradeoff": lambda ds: plot.plot_tradeoff(ds, "throughput_rps", "ttft_p99_ms", "rate"),
    "pareto": lambda ds: plot.plot_pareto(ds, pareto_front(ds)),
    "effects": lambda ds: plot.plot_effects(ds, factorial_effects(ds, "throughput_rps")),
    "cliff": lambda ds: plot.plot_cliff(ds, find_cliff(ds, "throughput_rps", threshold=3.0)),
    "trend": lambda ds: plot.plot_cliff_trend(
        ds, find_cliff(ds, "throughput_rps", threshold=3.0), "rate"
    ),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_what_no_cell_has_is_not_drawn(kind):
    """Figures were empty, or ended in `Axis limits cannot be NaN or Inf`."""
    ds = without_values("throughput_rps").isel(gpu_blocks=[0, 9])
    with pytest.raises(InputError, match=r"^no cell has a value of .*throughput_rps$"):
        EMPTY[kind](ds)


def test_effects_and_differences_that_no_cell_has_are_not_drawn():
    ds = h8(2).isel(gpu_blocks=[0, 9])
    (group,) = factorial_effects(ds, "throughput_rps").groups
    none = [replace(e, difference=replace(e.difference, effect=np.nan)) for e in group.effects]
    effects = replace(
        factorial_effects(ds, "throughput_rps"), groups=(replace(group, effects=none),)
    )
    with pytest.raises(InputError, match="no effect on throughput_rps has a value"):
        plot.plot_effects(ds, effects)
    cells = [replace(item, difference=np.nan) for item in difference().differences]
    with pytest.raises(InputError, match="no cell has a value of preemption_rate in both stores"):
        plot.plot_comparison(replace(difference(), differences=tuple(cells)))


@pytest.mark.parametrize("rates", [0.0, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 1.0, 1e300, 1e-300])
def test_a_measure_that_is_the_same_everywhere_is_drawn(tmp_path, rates, threshold):
    """Limits were equal where it is the threshold; one of 1e300 was written in all digits."""
    ds = dataset(np.full((2, 4, 3), rates), policies=["a", "b"], blocks=range(4), seeds=range(3))
    figure = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", threshold))
    plot.save(figure, tmp_path / "a.png")
    assert f"threshold {number(threshold)}" in [text.get_text() for text in figure.findobj(Text)]
    assert len(number(threshold)) < 7


@pytest.mark.parametrize("threshold", [1e308, -1.7e308, 5e-324])
def test_a_threshold_that_no_axis_shows_is_refused(threshold):
    ds = h8(2).rename(preemption_rate="own")  # of others find_cliff refuses what is below 0
    with pytest.raises(InputError, match=r"threshold: .* cannot be drawn"):
        plot.plot_cliff(ds, find_cliff(ds, "own", "gpu_blocks", threshold))
    with pytest.raises(InputError, match=r"threshold: .* cannot be drawn"):
        plot.plot_curve(ds, "own", "gpu_blocks", threshold=threshold)
    with pytest.raises(InputError, match=r"threshold: .* cannot be drawn"):
        plot.plot_bars(ds.isel(gpu_blocks=[0]), "own", "policy", threshold=threshold)


LONG = [f"least-loaded-with-a-cache-that-is-{word}-for-this" for word in ("small", "large")]


def with_long_names(ds):
    """Give the policies names that differ in the middle, of 46 letters."""
    names = [f"{LONG[i % 2]}-{i}"[:-2] if i < 2 else f"{i}{LONG[0]}" for i in range(len(ds.policy))]
    return ds.assign_coords(policy=names)


def with_long_measure(ds):
    name = "mean maximum memory seen from common moments"
    return ds.assign(preemption_rate=ds["preemption_rate"].assign_attrs(long_name=name, units="ms"))


LONG_NAMES = {
    "cliff": lambda: (ds := with_long_names(h8(3)), plot.plot_cliff(ds, find_cliff(ds)))[1],
    "panels": lambda: (
        ds := with_long_names(at_rates(h8(3), RATES)),
        plot.plot_cliff(ds, find_cliff(ds)),
    )[1],
    "curve": lambda: plot.plot_curve(with_long_names(h8(3)), "preemption_rate", "gpu_blocks"),
    "heatmap": lambda: plot.plot_heatmap(
        with_long_names(h8(2)), "preemption_rate", "gpu_blocks", "policy"
    ),
    "columns": lambda: plot.plot_heatmap(
        with_long_names(h8(2)), "preemption_rate", "policy", "gpu_blocks"
    ),
    "bars": lambda: plot.plot_bars(
        with_long_names(h8(3).sel(gpu_blocks=1500)), "ttft_p99_ms", "policy"
    ),
    "long measure": lambda: plot.plot_bars(
        with_long_measure(with_long_names(h8(3).isel(gpu_blocks=[0, 9]))),
        *("preemption_rate", "policy"),
    ),
    "groups": lambda: plot.plot_bars(
        with_long_names(h8(3).isel(gpu_blocks=[0, 9])), "ttft_p99_ms", "gpu_blocks"
    ),
    "pareto": lambda: (
        ds := with_long_names(routing_study()),
        plot.plot_pareto(ds, pareto_front(ds)),
    )[1],
    "effects": lambda: (
        ds := with_long_names(h8(3).isel(gpu_blocks=[0, 9])),
        plot.plot_effects(ds, factorial_effects(ds, "preemption_rate")),
    )[1],
}


@pytest.mark.parametrize("look", ["column", "slide"])
@pytest.mark.parametrize("kind", LONG_NAMES)
def test_long_names_stay_within_the_figure_and_apart(kind, look):
    with plot.look(look):
        check_layout(LONG_NAMES[kind]())


def test_what_tells_names_apart_is_not_left_out():
    assert elided(["short", "a-name-of-18-lettr"], 11) == ["short", "a-nam\u2026lettr"]
    ends = [f"aaaaaaa-{word}-bbbbbbb" for word in ("one", "two")]
    assert elided(ends, 11) == ["a\u2026e-bbbbbbb", "a\u2026o-bbbbbbb"]
    assert elided(["a" * 20, "a" * 21], 5) == ["aaa\u20261", "aaa\u20262"]
    middles = [f"{'a' * 30}{word}{'b' * 30}" for word in ("one", "two")]
    assert elided([*middles, "c"]) == [f"{'a' * 22}\u20261", f"{'a' * 22}\u20262", "c"]


def test_names_without_room_are_not_taken_for_a_size_that_was_asked_for(tmp_path):
    figure = KINDS["cliff"]()
    figure.axes[0].set_ylabel("y" * 300, rotation=0)
    with pytest.raises(InputError, match=r"figure: names and labels.*: select some \(--at AXIS"):
        plot.save(figure, tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["curve", "bars", "tradeoff"])
def test_names_that_differ_in_the_middle_leave_room_for_the_panel(kind):
    ds = h8(2).isel(gpu_blocks=[0, 9])
    ds = ds.assign_coords(policy=[f"{'a' * 60}{word}{'b' * 60}" for word in ("one", "two")])
    made = {
        "curve": lambda: plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        "bars": lambda: plot.plot_bars(ds, "preemption_rate", "policy"),
        "tradeoff": lambda: plot.plot_tradeoff(ds, "throughput_rps", "ttft_p99_ms", "gpu_blocks"),
    }
    check_layout(made[kind]())


def test_letters_that_the_font_lacks_are_told_once(tmp_path):
    ds = h8(2).assign_attrs(title="\u65e5\u672c \u65e5")
    figure = plot.plot_curve(ds, ["preemption_rate", "ttft_p99_ms"], "gpu_blocks")
    with pytest.warns(PlainWarning) as found:
        plot.save(figure, tmp_path / "a.png")
    assert [str(warning.message) for warning in found] == [
        "figure: DejaVu Sans has no '\u65e5\u672c': boxes stand for what it lacks, until a font "
        "such as Noto Sans CJK is installed"
    ]


POWERS = [256 * 2**n for n in range(7)]


def shown_below(axes):
    """Return what is written below a panel, the first line of each label."""
    axes.figure.draw_without_rendering()
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [text.get_text().split("\n")[0] for place, text in ticks if low <= place <= high]


@pytest.mark.parametrize("kind", ["curve", "cliff", "trend", "comparison"])
def test_an_axis_of_powers_of_two_is_logarithmic_with_its_values_below(kind):
    ds = h8(4, blocks=POWERS)
    by_rate = at_rates(h8(2), [8.0, 16.0, 32.0, 64.0, 128.0])
    made = {
        "curve": lambda: plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        "cliff": lambda: plot.plot_cliff(ds, find_cliff(ds)),
        "trend": lambda: plot.plot_cliff_trend(by_rate, find_cliff(by_rate), "rate"),
        "comparison": lambda: plot.plot_comparison(
            kvsweep.compare(ds.isel(policy=0), ds.isel(policy=1), "preemption_rate")
        ),
    }
    figure = made[kind]()
    check_layout(figure)
    panel = figure.axes[0]
    assert panel.get_xscale() == "log"
    values = [8, 16, 32, 64, 128] if kind == "trend" else POWERS
    seen = [value for value in values if value <= panel.get_xlim()[1]]  # until it is flat
    assert len(seen) >= 5
    assert shown_below(panel) == [number(value) for value in seen]


def test_even_steps_are_linear_and_of_many_values_round_ones_are_named():
    linear = h8(2, blocks=list(range(1000, 9000, 500)))
    (panel,) = plot.plot_curve(linear, "preemption_rate", "gpu_blocks").axes
    assert panel.get_xscale() == "linear"
    many = h8(2, blocks=np.geomspace(110, 99_000, 60).round().astype(int).tolist())
    (panel,) = plot.plot_curve(many, "preemption_rate", "gpu_blocks").axes
    assert shown_below(panel) == ["1,000", "10,000", "100,000"]
    some = h8(2, blocks=np.geomspace(110, 1900, 60).round().astype(int).tolist())
    (panel,) = plot.plot_curve(some, "preemption_rate", "gpu_blocks").axes
    assert shown_below(panel) == ["200", "500", "1,000"]


def test_on_a_logarithmic_axis_a_curve_passes_its_threshold_at_the_cliff():
    ds = h8(4, blocks=POWERS)
    cliff = find_cliff(ds)
    whole, close, _ = plot.plot_cliff(ds, cliff).axes
    assert (whole.get_xscale(), close.get_xscale()) == ("log", "linear")
    assert close.get_xlim() == pytest.approx(near_threshold(cliff)[0])
    for line, group in zip(lines_of(whole), cliff.groups, strict=False):
        at = np.interp(cliff.threshold, *(np.asarray(d)[::-1] for d in line.get_data()[::-1]))
        assert at == pytest.approx(group.mean_curve.value, rel=0.01)


def test_numbers_of_an_axis_have_as_many_decimals():
    whole, close, _ = plot.plot_cliff(ds := h8(4), find_cliff(ds)).axes
    close.figure.draw_without_rendering()
    for panel in (whole, close):
        texts = [text.get_text() for text in panel.get_yticklabels()]
        assert "0.0" in texts
        assert {len(text.partition(".")[2]) for text in texts} == {1}


def test_names_of_tied_members_touch_neither_each_other_nor_titles_in_several_panels():
    seeds = np.linspace(0.9, 1.1, 8)
    latency = np.array([100, 100, 100, 132, 132, 3900])[:, None] * seeds
    throughput = np.array([15.7, 15.7, 15.7, 15.5, 15.5, 9.5])[:, None] * seeds[::-1]
    names = [f"round-robin-{letter}-come-first-served" for letter in "abcdef"]
    one = xr.Dataset(
        {
            "ttft_p99_ms": (("policy", "seed"), latency),
            "throughput_rps": (("policy", "seed"), throughput),
        },
        coords={"policy": names},
    )
    ds = xr.concat([one, one], xr.Variable("rate", [40.0, 200.0]))
    check_layout(plot.plot_pareto(ds, pareto_front(ds, ["ttft_p99_ms:min", "throughput_rps:max"])))


def test_a_long_heading_makes_a_figure_higher_and_leaves_its_panels_as_they_are():
    ds = h8(2)
    heights = []
    for title in ("short", "a title of many words " * 12):
        figure = plot.plot_curve(ds.assign_attrs(title=title), "preemption_rate", "gpu_blocks")
        figure.draw_without_rendering()
        heights.append(figure.axes[0].bbox.height / figure.dpi)
    assert heights[1] == pytest.approx(heights[0], abs=0.35)


def test_names_of_six_members_have_room_beside_their_curves():
    blocks = list(range(200, 3000, 200))
    early = np.interp(blocks, [200, 1000, 1400], [0.5, 0.4, 0.0])
    late = np.interp(blocks, [200, 2000, 2600], [0.5, 0.48, 0.0])
    values = np.array([early, early, early, early, late, early])
    ds = dataset(values, policies=[f"a-policy-name-{n}" for n in range(6)], blocks=blocks)
    found = find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05)
    panel = plot.plot_cliff(ds, found).axes[0]
    panel.figure.draw_without_rendering()
    names = panel.get_legend().get_window_extent()
    for line in lines_of(panel)[:6]:
        x = np.linspace(*panel.get_xlim(), 500)
        points = panel.transData.transform(np.column_stack([x, np.interp(x, *line.get_data())]))
        assert not any(names.contains(x, y) for x, y in points)


@pytest.mark.parametrize("blocks", [list(range(1, 13)), POWERS])
def test_curves_that_rise_begin_at_the_edge_of_their_panel(blocks):
    ds = dataset(np.linspace(0.0, 1.0, len(blocks)) ** 2, blocks=blocks)
    whole = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05)).axes[0]
    place = whole.transData.transform
    assert place((blocks[0], 0.0))[0] - whole.bbox.x0 < 0.05 * whole.bbox.width


def test_curves_take_the_height_that_names_leave_and_a_threshold_is_named_where_no_curve_is():
    blocks = list(range(200, 3000, 200))
    early = np.interp(blocks, [200, 1000, 1400], [0.5, 0.4, 0.0])
    late = np.interp(blocks, [200, 2000, 2600], [0.5, 0.35, 0.0])
    ds = dataset(np.array([early, late]), policies=["early", "late"], blocks=blocks)
    figure = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05))
    whole, close, _ = figure.axes
    assert whole.get_ylim()[1] < 1.25 * early.max()
    (name,) = [text for text in close.texts if text.get_text() == "threshold 0.05"]
    assert name.get_horizontalalignment() == "center"
    check_layout(figure)


def test_what_has_too_many_lines_says_how_to_select_some():
    told = r"lines do not fit, at most 7; select some: --at AXIS=VALUE, or .sel\(\) in Python"
    ds = at_rates(h8(2).isel(gpu_blocks=[0, 30, 60]), [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InputError, match=f"8 {told}"):
        plot.plot_cliff_trend(
            ds.expand_dims(limit=[1, 2]), find_cliff(ds.expand_dims(limit=[1, 2])), "limit"
        )
    items = [
        replace(item, labels=item.labels | {"policy": f"p{n}"})
        for n in range(8)
        for item in difference().differences
    ]
    with pytest.raises(InputError, match=f"8 {told}"):
        plot.plot_comparison(replace(difference(), differences=tuple(items)))


def test_letters_that_an_installed_font_has_are_drawn_and_others_as_ever(tmp_path, monkeypatch):
    """A font of one letter of Japanese stands for one that has them all."""
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", "day"])
    builder.setupCharacterMap({0x65E5: "day"})
    pen = TTGlyphPen(None)
    for step, corner in enumerate([(0, 0), (0, 700), (700, 700)]):
        (pen.lineTo if step else pen.moveTo)(corner)
    pen.closePath()
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "day": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (800, 0), "day": (800, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Noto Sans CJK JP", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "font.ttf")

    def drawn(title):
        figure = plot.plot_curve(h8(2).assign_attrs(title=title), "preemption_rate", "gpu_blocks")
        plot.save(figure, tmp_path / "a.svg")
        return (tmp_path / "a.svg").read_bytes()

    before = drawn("of a day")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist])
    font_manager.fontManager.addfont(tmp_path / "font.ttf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawn("of a \u65e5") != before
        assert drawn("of a day") == before
    with pytest.warns(PlainWarning, match="has no '\u672c'"):
        drawn("\u672c")


def many_cliffs(policies):
    rates = [np.clip(0.9 - 0.01 * n - np.arange(7) / 7, 0.0, None) for n in range(policies)]
    rates[1], rates[2] = np.zeros(7), np.linspace(0.9, 0.8, 7)
    values = np.stack([rates, rates, rates], axis=-1)
    names = [f"policy {n}" for n in range(policies)]
    return dataset(values, policies=names, blocks=range(100, 800, 100), seeds=[0, 1, 2])


def test_cliffs_of_many_combinations_have_a_row_each_in_which_their_place_is_drawn():
    ds = many_cliffs(20)
    cliff = find_cliff(ds)
    (axes,) = plot_many_cliffs(ds, cliff).axes
    points = {line.get_ydata()[0]: line for line in axes.lines if line.get_marker() == "o"}
    for place, group in enumerate(cliff.groups):
        assert points[place].get_xdata()[0] == pytest.approx(group.mean_curve.value, nan_ok=True)
    marks = {line.get_marker(): line.get_ydata()[0] for line in axes.lines}
    assert (marks["<"], marks[">"]) == (1, 2)
    assert [text.get_text() for text in axes.get_yticklabels()] == list(ds["policy"].values)
    with pytest.raises(InputError, match="61 cliffs do not fit, at most 60; select some"):
        plot_many_cliffs(many_cliffs(61), find_cliff(many_cliffs(61)))


def test_no_figure_of_a_measure_that_is_zero_has_room_for_less():
    ds = h8(3).isel(gpu_blocks=[0, 9])
    none = ds.assign(preemption_rate=(ds["preemption_rate"] * 0).assign_attrs(units="1"))
    at, goals = none.isel(gpu_blocks=0), ["throughput_rps:max", "preemption_rate:min"]
    bars = plot.plot_bars(none, "preemption_rate", "policy").axes[0]
    tradeoffs = [
        plot.plot_tradeoff(none, *pair, "gpu_blocks").axes[0]
        for pair in itertools.permutations(["throughput_rps", "preemption_rate"])
    ]
    front = plot.plot_pareto(at, pareto_front(at, goals)).axes[0]
    heatmap = plot.plot_heatmap(none, "preemption_rate", "gpu_blocks", "policy").axes[0]
    limits = [bars.get_xlim(), tradeoffs[0].get_ylim(), tradeoffs[1].get_xlim(), front.get_ylim()]
    for low, high in limits:
        assert -0.2 < low <= 0.0
        assert 1.0 <= high < 1.2
    assert heatmap.images[0].norm.vmin == 0.0


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_a_panel_without_straight_axes_is_refused(projection):
    """It had a KeyError of Matplotlib's, and half of a figure in it."""
    panel = Figure().add_subplot(projection=projection)
    with pytest.raises(InputError, match=r"^ax: expected a rectilinear panel of Matplotlib's, got"):
        plot.plot_curve(h8(3), "ttft_p99_ms", "gpu_blocks", ax=panel)
    assert not panel.lines


def of_two_factors(cells, names=("scheduler", "gpu_blocks")):
    """Return a measure of two factors of two levels; `cells` is (2, 2, seeds)."""
    attrs = {"units": "ms", "long_name": "mean time to first token"}
    return xr.Dataset(
        {"ttft_mean_ms": ((*names, "seed"), cells, attrs)},
        coords={names[0]: ["fcfs", "priority"], names[1]: [2000, 1000]},
        attrs={"title": "Two factors"},
    )


@pytest.mark.parametrize("style", ["column", "slide"])
@pytest.mark.parametrize("spread", [0.02, 0.3, 0.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_verdict_beside_a_wide_interval_stays_in_its_panel(style, spread, sign):
    noise = np.random.default_rng(3).lognormal(0.0, spread, 12)
    cells = 500.0 + sign * np.multiply.outer([[1.0, 2.0], [2.0, 300.0]], noise)
    names = ("scheduler", "gpu_blocks_of_each_instance")
    with plot.look(style):
        ds = of_two_factors(cells, names)
        figure = plot.plot_effects(ds, factorial_effects(ds, "ttft_mean_ms"))
    told = {"super-additive", "super-multiplicative"} if spread < 0.5 else {"super-additive"}
    assert told <= set(check_layout(figure))
    for axes in figure.axes:
        for text in axes.texts:
            box = text.get_window_extent()
            assert axes.bbox.x0 - 1 <= box.x0, text
            assert box.x1 <= axes.bbox.x1 + 1, text


def test_parameters_whose_keys_end_alike_have_names_of_their_own():
    """Both were `mean`, and nobody could tell which of them mattered."""
    span = {"from": 1.0, "to": 9.0, "log": False}
    ranges = {f"workload.{name}.mean": span for name in ("prompt", "output")}
    design = Design("saltelli", 8, 0, ranges | {"workload.rate": span})
    points = np.array(design.points)
    ds = xr.Dataset({"own": ("sample", points @ [1.0, 10.0, 0.1])})
    ds = ds.assign_coords(sample=np.arange(len(points)))
    ds.attrs["sweep"] = json.dumps({"design": design.to_dict(), "grid": {"sample": []}})
    axes = plot.plot_sensitivity(ds, kvsweep.sensitivity_indices(ds, "own")).axes[0]
    texts = [text.get_text() for text in axes.get_yticklabels()]
    assert texts == ["output_mean", "prompt_mean", "rate"]


def test_the_name_of_a_level_is_below_the_title_of_its_panel():
    one = routing_study()
    ds = xr.concat([one, one], xr.Variable("rate", [40.0, 200.0]))
    front = pareto_front(ds, ["ttft_p99_ms:min", "throughput_rps:max"])
    figure = plot.plot_pareto(ds, front, {"ttft_p99_ms": 60.0})
    assert {"level 60", "rate 40", "rate 200"} <= set(check_layout(figure))


def test_nobody_hides_a_member_of_the_front():
    values = {"ttft_p99_ms": ("policy", [80.0, 79.9, 99.0]), "rps": ("policy", [9.0, 9.0, 1.0])}
    ds = xr.Dataset(values, {"policy": ["one", "two", "three"]})
    axes = plot.plot_pareto(ds, pareto_front(ds, ["ttft_p99_ms:min", "rps:max"])).axes[0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert points[-1].get_xdata().tolist() == [79.9]
    assert points[-1].get_markerfacecolor() == style.colour(1)


def test_a_front_of_more_objectives_than_are_drawn_says_so():
    """Members that others seemed to dominate were on the front, and nothing said why."""
    ds = routing_study()
    ds["evictions"] = -ds["ttft_p99_ms"]
    front = pareto_front(ds, ["ttft_p99_ms:min", "throughput_rps:max", "evictions:min"])
    assert "on the front, by evictions too" in check_layout(plot.plot_pareto(ds, front))


def test_figures_say_what_their_lines_and_intervals_are():
    ds = with_requests()
    levels = {"ttft_ms": 300, "tpot_ms": 16}
    drawn = [
        lambda ds: plot.plot_cdf(ds, "ttft_ms"),
        lambda ds: plot.plot_attainment(ds, levels),
    ]
    rates = loaded()
    of_rates = [
        lambda ds: plot.plot_curve(ds, ["ttft_p99_ms", "throughput_rps"], "rate"),
        lambda ds: plot.plot_bars(ds, "ttft_p99_ms", "policy"),
        lambda ds: plot.plot_tradeoff(ds, "throughput_rps", "ttft_p99_ms", "rate"),
    ]
    for given, kinds in ((ds, drawn), (rates.isel(rate=[0, 1]), of_rates)):
        for draw in kinds:
            count = given.sizes["seed"]
            told = f"\nmean over {count} seeds{': few' if count < 5 else ''}, 95% interval"
            assert draw(given).axes[-1].get_xlabel().endswith(told)
            assert "mean" not in draw(given.isel(seed=0)).axes[-1].get_xlabel()


def test_seeds_that_have_values_are_told_below_a_curve():
    ds = loaded()
    some = ds.where((ds["seed"] != ds["seed"][0]) | (ds["policy"] != ds["policy"][0]))
    count = ds.sizes["seed"]
    label = plot.plot_curve(some, "ttft_p99_ms", "rate").axes[0].get_xlabel()
    assert f"mean over {count - 1} to {count} of {count} seeds" in " ".join(label.split())


def test_the_last_number_below_a_forest_of_indices_is_not_cut_off(tmp_path):
    """Ticks that the layout made room for were others than those drawn, and 1.6 was half there."""
    span = {"from": 1.0, "to": 9.0, "log": False}
    design = Design("saltelli", 8, 0, {"engine.max_num_seqs": span})
    points = np.array(design.points)
    ds = xr.Dataset({"own": ("sample", points[:, 0])}, {"sample": np.arange(len(points))})
    ds.attrs["sweep"] = json.dumps({"design": design.to_dict(), "grid": {"sample": []}})
    found = kvsweep.sensitivity_indices(ds, "own")
    for high in (1.52, 1.54):
        index = replace(
            found.groups[0].indices[0],
            first_interval=Interval(-0.095, 1.0, 0.95),
            total_interval=Interval(0.0, high, 0.95),
        )
        shown = replace(found, groups=(replace(found.groups[0], indices=(index,)),))
        figure = plot.plot_sensitivity(ds, shown)
        plot.save(figure, tmp_path / "a.png")
        figure.set_layout_engine(None)
        with style.style():  # as it was saved
            check_layout(figure)


def of_seeds(values, **attrs):
    """Results of one measure `own`, (seeds, blocks)."""
    values = np.asarray(values, float)
    coords = {"seed": np.arange(len(values)), "gpu_blocks": 100.0 * np.arange(1, 4)}
    own = xr.DataArray(values, coords, ("seed", "gpu_blocks"), attrs=attrs)
    return xr.Dataset({"own": own, "across": 2.0 * own + 1.0})


def ends_of(values):
    """Return mean and interval of each point as the analysis has them."""
    return statistics.mean_band(values, statistics.resample_counts(len(values), 2000), 0.95)


def test_bands_and_bars_are_the_intervals_of_their_means():
    """Each end is that of the analysis, in curves, bars and tradeoffs."""
    ds = of_seeds(np.random.default_rng(3).random((6, 3)) + np.array([5.0, 3.0, 1.0]))
    mean, low, high = ends_of(ds["own"].values)
    (band,) = plot.plot_curve(ds, "own", "gpu_blocks").axes[0].collections
    corners = band.get_paths()[0].vertices
    for x, *ends in zip(ds["gpu_blocks"].values, low, high, strict=True):
        found = corners[corners[:, 0] == x, 1]
        assert (found.min(), found.max()) == pytest.approx(ends)
    bars = plot.plot_bars(ds, "own", "gpu_blocks").axes[0]
    segments = np.array(bars.collections[0].get_segments())
    assert segments[:, :, 0] == pytest.approx(np.stack([low, high], axis=1))
    assert [text.xy[0] for text in bars.texts] == pytest.approx(high.tolist())  # beyond the bar
    across, up = plot.plot_tradeoff(ds, "across", "own", "gpu_blocks").axes[0].collections
    _, left, right = ends_of(ds["across"].values)
    assert np.array(across.get_segments())[:, :, 0] == pytest.approx(np.stack([left, right], 1))
    assert np.array(across.get_segments())[:, 0, 1] == pytest.approx(mean)
    assert np.array(up.get_segments())[:, :, 1] == pytest.approx(np.stack([low, high], axis=1))


def test_a_line_of_a_heatmap_passes_neither_a_value_at_the_threshold_nor_one_that_lacks():
    values = np.array([[1.0, 3.0, 0.5], [2.0, np.nan, 1.0]])
    ds = of_seeds(values).rename(seed="rate").assign_coords(rate=[1.0, 2.0])
    figure = plot.plot_heatmap(ds, "own", "gpu_blocks", "rate", threshold=1.0)
    segments = np.array(figure.axes[0].collections[0].get_segments()).tolist()
    upright = [[[0.5, -0.5], [0.5, 0.5]], [[1.5, -0.5], [1.5, 0.5]]]
    assert segments == [*upright, [[-0.5, 0.5], [0.5, 0.5]]]


def test_bars_of_a_trend_are_the_intervals_of_its_cliffs():
    ds = at_rates(h8(5), RATES)
    cliff = find_cliff(ds)
    axes = plot.plot_cliff_trend(ds, cliff, "rate").axes[0]
    drawn = [line.get_ydata() for line in axes.lines if line.get_alpha() == 0.8]
    known = [group.interval for group in cliff.groups if group.interval is not None]
    ends = np.clip([[each.low, each.high] for each in known], cliff.axis[0], cliff.axis[-1])
    assert len(drawn) == len(known) > 2
    assert sorted(map(list, drawn)) == sorted(ends.tolist())


def spans(axes, place):
    """Return the ends of the bar of a row, which has the colour of its point."""
    return [
        pytest.approx(tuple(line.get_xdata()))
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == pytest.approx(place)
    ]


def test_bars_of_effects_and_of_indices_are_their_intervals():
    ds = of_two_factors(np.random.default_rng(5).random((2, 2, 6)) + 1.0)
    found = factorial_effects(ds, "ttft_mean_ms", order=1)
    for axes, scale in zip(plot.plot_effects(ds, found).axes, ("difference", "ratio"), strict=True):
        for place, effect in enumerate(found.groups[0].effects, start=1):  # below the heading
            interval = getattr(effect, scale).interval
            assert spans(axes, place) == [(interval.low, interval.high)]
    span = {"from": 1.0, "to": 9.0, "log": False}
    design = Design("saltelli", 16, 0, {"workload.rate": span, "engine.max_num_seqs": span})
    points = np.array(design.points)
    ds = xr.Dataset({"own": ("sample", points @ [1.0, 2.0])}, {"sample": np.arange(len(points))})
    ds.attrs["sweep"] = json.dumps({"design": design.to_dict(), "grid": {"sample": []}})
    found = kvsweep.sensitivity_indices(ds, "own")
    (axes,) = plot.plot_sensitivity(ds, found).axes
    first = max(found.groups[0].indices, key=lambda index: index.total)
    for interval, place in ((first.total_interval, -0.16), (first.first_interval, 0.16)):
        assert spans(axes, place) == [(interval.low, interval.high)]


def test_a_threshold_without_a_logarithm_leaves_its_panel_linear(tmp_path):
    """Names were said to leave no room, as the height of 0 was no number."""
    ds = of_seeds([[1e4, 1e2, 1.0], [2e4, 1e2, 1.5]])
    assert plot.plot_curve(ds, "own", "gpu_blocks", threshold=5.0).axes[0].get_yscale() == "log"
    figures = [
        plot.plot_curve(ds, ["own", "across"], "gpu_blocks", threshold=0.0),
        plot.plot_tradeoff(ds, "across", "own", "gpu_blocks", threshold=-5.0),
    ]
    for figure in figures:
        assert figure.axes[0].get_yscale() == "linear"
        plot.save(figure, tmp_path / "a.png")
    assert figures[0].axes[1].get_yscale() == "log"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_levels_and_lines_that_are_no_numbers_are_refused(value):
    ds = routing_study()
    front = pareto_front(ds, ["ttft_p99_ms:min", "throughput_rps:max"])
    with pytest.raises(InputError, match=f"levels: ttft_p99_ms: {value:g} cannot be drawn"):
        plot.plot_pareto(ds, front, {"ttft_p99_ms": value})
    with pytest.raises(InputError, match=f"threshold: {value:g} cannot be drawn"):
        plot.plot_heatmap(h8(2), "preemption_rate", "gpu_blocks", "policy", threshold=value)


@pytest.mark.parametrize(("threshold", "side"), [(1.0, "left"), (9.0, "right")])
def test_an_upright_line_is_named_on_the_side_that_has_more_room(threshold, side):
    ds = of_seeds([[10.0, 9.0, 8.0]])
    axes = plot.plot_bars(ds, "own", "gpu_blocks", threshold=threshold).axes[0]
    (name,) = (text for text in axes.texts if text.get_text().startswith("threshold"))
    assert name.get_horizontalalignment() == side


def test_a_figure_counts_the_seeds_of_each_point():
    """A mean of the seeds that have a value there was told as one of all that have any."""
    values = np.arange(20.0).reshape(5, 4)
    values[:2, 0] = values[:, 3] = np.nan
    ds = dataset(values.T[None], policies=["a"], blocks=[1, 2, 3, 4], seeds=range(5))
    for figure in (
        plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        plot.plot_bars(ds, "preemption_rate", "gpu_blocks"),
    ):
        told = " ".join(figure.axes[0].get_xlabel().split())
        assert "mean over 3 to 5 of 5 seeds: few, 95% interval" in told


def test_a_difference_says_what_its_bands_are():
    values = np.arange(36.0).reshape(2, 3, 6) ** 2
    values[0, 0, :3] = np.nan
    ds = dataset(values, policies=["a", "b"], blocks=[1, 2, 3], seeds=range(6))
    for count, told in ((6, "mean over 3 to 6 of 6 paired seeds: few, 95% interval"), (1, "")):
        parts = (ds.sel(policy=name).isel(seed=range(6 - count, 6)) for name in "ab")
        figure = plot.plot_comparison(kvsweep.compare(*parts, "preemption_rate"))
        label = " ".join(figure.axes[0].get_xlabel().split())
        assert label == f"KV blocks per instance {told}".strip()
        check_layout(figure)


def test_a_point_of_a_tradeoff_is_of_the_seeds_that_have_both_measures():
    """Of seeds that serve nothing the throughput, 0, stood beside the latency of the others."""
    ds = loaded().isel(policy=[0])
    seeds = ds.sizes["seed"]
    lost = ds["ttft_ms"].where((ds["seed"] != ds["seed"][0]) | (ds["rate"] != ds["rate"][0]))
    axes = plot.plot_tradeoff(
        ds.assign(ttft_ms=lost), "throughput_rps", "ttft_p99_ms", "rate"
    ).axes[0]
    means = ds["throughput_rps"].squeeze("policy")
    expected = [means.isel(rate=0, seed=slice(1, None)).mean(), means.isel(rate=1).mean()]
    assert lines_of(axes)[0].get_xdata()[:2] == pytest.approx([float(mean) for mean in expected])
    assert f"mean over {seeds - 1} to {seeds} of {seeds} seeds" in axes.get_xlabel().replace(
        "\n", " "
    )


def test_a_tradeoff_of_measures_that_no_cell_has_both_is_refused():
    ds = loaded().isel(policy=[0])
    first = ds["seed"] == ds["seed"][0]
    apart = ds.assign(
        throughput_rps=ds["throughput_rps"].where(first), ttft_ms=ds["ttft_ms"].where(~first)
    )
    with pytest.raises(InputError, match="no cell has both throughput_rps and ttft_p99_ms"):
        plot.plot_tradeoff(apart, "throughput_rps", "ttft_p99_ms", "rate")


def test_a_heatmap_says_how_many_seeds_its_means_are_of():
    ds = loaded().isel(policy=[0])
    lost = ds["throughput_rps"].where((ds["seed"] != ds["seed"][0]) | (ds["rate"] != ds["rate"][0]))
    seeds = ds.sizes["seed"]
    for told, array in (
        (f"{seeds}", ds["throughput_rps"]),
        (f"{seeds - 1} to {seeds} of {seeds}", lost),
    ):
        two = xr.concat([array, array], "gpu_blocks").assign_coords(gpu_blocks=[1, 2])
        figure = plot.plot_heatmap(
            ds.drop_vars("throughput_rps").assign(throughput_rps=two),
            "throughput_rps",
            "gpu_blocks",
            "rate",
        )
        assert f"mean over {told} seeds" in "\n".join(check_layout(figure))
    figure = plot.plot_heatmap(
        ds.isel(seed=[0]).assign(throughput_rps=two.isel(seed=[0])),
        "throughput_rps",
        "gpu_blocks",
        "rate",
    )
    assert "seed" not in "\n".join(check_layout(figure))


def test_a_front_says_how_many_seeds_it_rests_on_and_who_is_not_drawn():
    ds = routing_study().isel(seed=slice(3)).assign_coords(seed=range(3))
    goals = ["ttft_p99_ms:min", "throughput_rps:max"]
    told = check_layout(plot.plot_pareto(ds, pareto_front(ds, goals)))
    assert "95% interval, 3 seeds: few" in told
    assert not any("no value" in text or "not paired" in text for text in told)
    second, third = ds["policy"].values[1:3]
    never = ds.assign(ttft_p99_ms=ds["ttft_p99_ms"].where(ds["policy"] != second))
    told = check_layout(plot.plot_pareto(never, pareto_front(never, goals)))
    assert f"no value: {second}" in told
    apart = never["ttft_p99_ms"].where((ds["policy"] != third) | (ds["seed"] == 0))
    mixed = ds.assign(ttft_p99_ms=apart)
    told = check_layout(plot.plot_pareto(mixed, pareto_front(mixed, goals)))
    assert {"95% interval, 1 to 3 of 3 seeds: few", "not paired: means of other seeds"} <= set(told)
    one = ds.isel(seed=[0])
    told = check_layout(plot.plot_pareto(one, pareto_front(one, goals)))
    assert not any("seeds" in text for text in told)


@pytest.mark.parametrize("draw", [
    lambda ds: plot.plot_attainment(ds, {"ttft_ms": 300}),
    lambda ds: plot.plot_cdf(ds, "ttft_ms"),
])  # fmt: skip
def test_requests_of_which_nothing_is_left_and_of_stacked_seeds_are_refused(draw):
    """They ended in tracebacks of NumPy's and xarray's."""
    ds = with_requests()
    with pytest.raises(InputError, match=r"^axis: no value of 'seed' is left"):
        draw(ds.isel(seed=[]))
    (other, *_) = [dim for dim in ds["status"].dims if dim != "seed"]
    with pytest.raises(InputError, match=r"^axis: 'x' has seeds in it"):
        draw(ds.stack(x=(other, "seed")))


def test_the_open_point_of_a_tradeoff_is_the_first_that_is_drawn():
    """Of a smallest value that no cell serves the label told, and no point was open."""
    ds = loaded()
    rates = ds["rate"].values.tolist()
    first = ds["policy"] == ds["policy"][0]
    lost = ds["ttft_ms"].where((ds["rate"] > rates[0]) & (first | (ds["rate"] > rates[1])))
    figure = plot.plot_tradeoff(ds.assign(ttft_ms=lost), "throughput_rps", "ttft_p99_ms", "rate")
    (axes,) = figure.axes
    told = " ".join(axes.get_xlabel().split())
    assert f"{number(rates[1])} (open) to {number(rates[-1])}" in told
    paper = current().theme.paper
    begun = [line for line in axes.lines if line.get_markerfacecolor() == paper]
    wanted = ds["throughput_rps"].isel(policy=0, rate=1).mean("seed")
    points = [x for line in begun for x in line.get_xdata() if not np.isnan(x)]
    assert points == pytest.approx([float(wanted)])


def test_axis_values_that_four_digits_do_not_tell_apart_are_other_lines():
    """A trend joined two rates that were both written 1,000 into one zigzag."""
    ds = at_rates(h8(3).isel(gpu_blocks=slice(0, None, 9)), [1000.2, 1000.4, 2000.0])
    twice = xr.concat([ds, ds], xr.Variable("limit", [1, 2]))
    both = twice.transpose("policy", "limit", "rate", ...).isel(policy=[0])
    (axes,) = plot.plot_cliff_trend(both, find_cliff(both), "limit").axes
    lines = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata()) == 2]
    assert len(lines) == 3
    told = check_layout(plot.plot_cliff(ds, find_cliff(ds)))
    assert {"rate 1,000.2", "rate 1,000.4", "rate 2,000"} <= set(told)
    found = kvsweep.compare(both.isel(policy=0), both.isel(policy=0), "preemption_rate")
    found = replace(found, differences=[d for d in found.differences if d.labels["rate"] < 2000])
    (axes,) = plot.plot_comparison(found).axes
    assert len(lines_of(axes)) == 2 * 2
    heat = plot.plot_heatmap(ds.isel(policy=0), "preemption_rate", "gpu_blocks", "rate")
    assert {"1,000.2", "1,000.4"} <= set(check_layout(heat))
    assert "rate 3 1,000.2 2,000 request/s" in " ".join(kvsweep.text_of(ds).split())


def test_measures_with_other_lines_have_no_key_in_common():
    """The key below named the lines of the first measure, and colours of the second were others."""
    ds = at_rates(h8(3).isel(gpu_blocks=slice(0, None, 9)), [1.0, 2.0])
    turned = ds.assign(throughput_rps=ds["throughput_rps"].transpose("rate", "seed", ...))
    figures = [
        plot.plot_curve(each, ["preemption_rate", "throughput_rps"], "gpu_blocks")
        for each in (ds, turned)
    ]
    drawn = [[line.get_ydata() for line in lines_of(figure.axes[1])] for figure in figures]
    assert np.array_equal(*drawn)
    plot.plot_tradeoff(turned, "throughput_rps", "ttft_p99_ms", "gpu_blocks")
    blocks = ds["preemption_rate"].expand_dims(i=[0, 1]).assign_attrs(units="1")
    more = ds.isel(rate=0).assign(blocks=blocks.isel(rate=0))
    plot.plot_curve(more, ["preemption_rate", "blocks"], "gpu_blocks")  # named at their ends
    long = more.assign_coords(policy=["a-policy-with-a-long-name", "another-with-a-long-name"])
    with pytest.raises(InputError, match="'blocks' has other lines than 'preemption_rate'"):
        plot.plot_curve(long, ["preemption_rate", "blocks"], "gpu_blocks")


def test_requests_that_were_masked_are_none_also_without_the_cells_own_status():
    """They counted as never served, and without the sweep's attributes the warm-up counted."""
    ds = with_requests(warmup=10)
    chat = ds.where(ds["request_slo_class"] == "chat")
    shares = []
    for part in (chat, chat.drop_vars("status", errors="ignore")):
        (axes,) = plot.plot_cdf(part, "ttft_ms").axes
        shares.append(lines_of(axes)[0].get_ydata()[-1])
    assert shares == pytest.approx([10 / 12] * 2)  # numbers 11 to 29 of 11 to 33
    with pytest.raises(InputError, match="has lost the attributes of its sweep"):
        plot.plot_cdf(ds.drop_attrs(), "ttft_ms")


def test_names_of_members_cover_neither_points_nor_intervals():
    """A name stood on another member's point, and its outline cut an interval in two."""
    means = {"base": (3480, 8.55), "balanced": (3560, 8.38), "sorted": (4310, 8.05),
             "both": (4130, 8.43)}  # fmt: skip
    spread = np.linspace(-1.0, 1.0, 5)
    x, y = (
        [[mean[i] + much * each for each in spread] for mean in means.values()]
        for i, much in enumerate((500.0, 0.5))
    )
    dims = ("policy", "seed")
    values = {"ttft_p99_ms": (dims, x), "throughput_rps": (dims, y)}
    ds = xr.Dataset(values, {"policy": list(means), "seed": range(5)})
    figure = plot.plot_pareto(ds, pareto_front(ds))
    check_layout(figure)
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == len(means)
    for line in axes.lines:
        if line.get_drawstyle() == "default":
            ends = axes.transData.transform(line.get_xydata())
            along = ends[0] + np.linspace(0.0, 1.0, 200)[:, None] * (ends[-1] - ends[0])
            assert not any(box.contains(*place) for box in boxes for place in along)


def test_a_tradeoff_of_one_value_tells_that_value():
    """It told of points from 500 to 500."""
    ds = at_rates(h8(3).isel(gpu_blocks=[9, 18]), [500.5]).isel(policy=[0])
    (axes,) = plot.plot_tradeoff(ds, "throughput_rps", "preemption_rate", "rate").axes
    assert "\npoint: arrival rate (request/s) 500.5\n" in axes.get_xlabel()


def test_few_whole_numbers_have_no_others_between():
    """A single request was counted from -0.6 to 0.6, and one of two instances 1.95."""
    request = {"id": 0, "arrival_us": 0, "prompt": [[1, 40]], "output": [2, 3]}
    trace = {"format": "kvsweep-trace/1", "scenario": {"latency": {"beta": [7000, 17.7, 2.8]}}}
    upper = plot.plot_timeline(trace | {"requests": [request]}).axes[0]
    ds = h8(2).isel(gpu_blocks=[9]).rename(gpu_blocks="instances").assign_coords(instances=[2])
    (panel,) = plot.plot_curve(ds.isel(policy=0), "preemption_rate", "instances").axes
    for axis, told in ((upper.yaxis, "0"), (panel.xaxis, "2")):
        FigureCanvasAgg(axis.axes.figure).draw()
        low, high = sorted(axis.get_view_interval())
        ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        assert [text.get_text() for place, text in ticks if low <= place <= high] == [told]


@pytest.mark.parametrize("level", [np.inf, 1e12, 1e-9])
def test_levels_that_no_sweep_may_have_are_refused_in_one_line(level):
    """They were an error of pydantic's, of several lines."""
    told = "^levels: ttft_ms must be from 0.001 to 1e[+]11 ms, got "
    with pytest.raises(InputError, match=told):
        plot.plot_attainment(with_requests(), {"ttft_ms": level})


def test_the_cost_of_a_prefix_is_drawn_of_the_measurement_it_was_found_in():
    """Of others it was a KeyError: of an attribute, or of a size."""
    ds = prefix_trials()
    cost = prefix_cost(ds)
    with pytest.raises(InputError, match=r"^ds: needs results of `kvsweep measure prefix`$"):
        plot.plot_prefix(with_requests(), cost)
    with pytest.raises(InputError, match=r"^cost: was found in another dataset: no size '"):
        plot.plot_prefix(ds.isel(size=[0]), cost)


@pytest.mark.parametrize("kind", [str, object])
def test_names_of_any_data_type_leave_numbers_below_a_heatmap_the_same_room(kind):
    """Beside long names of objects, as netCDF reads them, numbers were written over each other."""
    ds = h8(2).isel(gpu_blocks=slice(0, 12))
    names = [f"a policy with a long name, {n}" for n in range(ds.sizes["policy"])]
    ds = ds.assign_coords(policy=np.array(names, kind))
    (panel, _) = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy").axes
    assert len(panel.get_xticks()) == 3


def test_a_heatmap_says_that_one_axis_may_be_left_over():
    """It told that at most six panels fit where two axes of two values were left over."""
    ds = h8(2).isel(gpu_blocks=[0, 9]).expand_dims(a=[1, 2], b=[1, 2])
    with pytest.raises(InputError, match="a, b are left over, where one may be, of at most 6 val"):
        plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy")


def test_what_is_above_a_panel_is_broken_at_a_comma():
    assert panel_title("rate 2, blocks 500", 20) == "rate 2, blocks 500"
    assert panel_title("prefill_blocks 5,000, decode_blocks 12,000", 30) == (
        "prefill_blocks 5,000,\ndecode_blocks 12,000"
    )
    assert panel_title("a" * 30, 9) == "aaaa\u2026aaaa"
    assert panel_title(f"{'a' * 30}, b", 9) == "aaaaa\u2026aaa,\nb"


def test_calculated_settings_that_four_digits_write_alike_have_names_of_their_own():
    """Rates between 1,000 and 1,001 had a line each, and all of them one name."""
    rates = np.linspace(1000.0, 1000.4, 4)
    ds = at_rates(h8(3).isel(gpu_blocks=slice(0, None, 9), policy=[0]), rates)
    assert len(set(map(level, rates.tolist()))) < 4
    told = check_layout(plot.plot_cliff(ds, find_cliff(ds)))
    assert sum(name.startswith("rate 1,000") for name in set(told)) == 4
    names = labels_of([group.labels for group in find_cliff(ds).groups])
    assert all(name in cliff_text(find_cliff(ds)) for name in names)
    lines = split_lines(ds["preemption_rate"].isel(policy=0, drop=True), "gpu_blocks")
    assert [float(name.split()[-1].replace(",", "")) for name, _ in lines] == rates.tolist()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("trend", "'round-robin' touches 'least-loaded'"),
        ("prefix", "'hit' touches 'miss'"),
        ("bars", None),
    ],
)
def test_a_size_in_which_texts_touch_is_told(tmp_path, recwarn, kind, told):
    with plot.look(size=(3.0, 2.0)):
        figure = KINDS[kind]()
    plot.save(figure, tmp_path / "a.png")
    found = [str(warning.message) for warning in recwarn]
    assert found == [f"size: 3 x 2 inches are too small: {told}"] * bool(told)


def test_names_that_are_wider_than_their_panel_are_told(tmp_path):
    ds = at_rates(h8(20), [20.0, 40.0])
    with plot.look(size=(4.0, 6.0)):
        figure = plot.plot_cliff(ds, find_cliff(ds))
    with pytest.warns(PlainWarning, match=r"4 x 6 inches are too small: '.*' is wider than its"):
        plot.save(figure, tmp_path / "a.png")


def test_a_size_that_cuts_a_text_off_is_told(tmp_path):
    with plot.look(size=(4.0, 3.0)):
        figure = KINDS["curve"]()
        figure.text(0.95, 0.5, "beyond the edge")
    with pytest.warns(PlainWarning, match="'beyond the edge' is cut off"):
        plot.save(figure, tmp_path / "a.png")


@pytest.mark.parametrize(("count", "named", "measured"), [(2, 2, 1), (3, 2, 2), (4, 2, 2)])
def test_an_axis_that_panels_of_a_heatmap_share_is_told_at_the_outside(count, named, measured):
    ds = h8(2).isel(gpu_blocks=[0, 9])
    ds = xr.concat([ds] * count, "rate").assign_coords(rate=np.arange(count) + 1.0)
    figure = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy")
    told = check_layout(figure)
    assert told.count("policy") == told.count("least-loaded") == named
    assert sum("KV blocks" in text for text in told) == measured
