"""Figures: what is in them, nothing clipped or on top of each other, the same bytes each time."""

import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from analysis.synthetic import dataset, h8, prefix_trials, status
from analysis.test_sensitivity import ishigami
from longer import long_but
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from kvsweep import plot
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.compare_records import ComparedAxis, Comparison, Difference
from kvsweep.analysis.effect_records import Verdict
from kvsweep.analysis.effects import factorial_effects
from kvsweep.analysis.pareto import pareto_front
from kvsweep.analysis.prefix_cost import prefix_cost
from kvsweep.analysis.sensitivity import sensitivity_indices
from kvsweep.analysis.statistics import Interval
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.labels import spread
from kvsweep.plot.medium import DARK, LIGHT
from kvsweep.plot.trace_figure import _draw_rate, _draw_shares, plot_hits, plot_trace
from kvsweep.report.cliff import cliff_sentences
from kvsweep.traces.hits import find_hits
from kvsweep.workload.native import read_native


def in_use(axes):
    """Whether a tick label belongs to a tick inside the limits (others are made, not drawn)."""
    ticks = [
        *((label, tick.get_loc(), axes.get_xlim()) for tick in axes.xaxis.get_major_ticks()
          for label in (tick.label1, tick.label2)),
        *((label, tick.get_loc(), axes.get_ylim()) for tick in axes.yaxis.get_major_ticks()
          for label in (tick.label1, tick.label2)),
    ]  # fmt: skip
    return {id(label): axes.axison and min(lim) <= loc <= max(lim) for label, loc, lim in ticks}


def check_layout(figure):
    """Fail if a text is cut off or touches another; return all texts."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    drawn = {k: v for axes in figure.findobj(Axes) for k, v in in_use(axes).items()}
    boxes = [
        (text.get_text(), text.get_window_extent(renderer).shrunk(0.96, 0.8))
        for text in figure.findobj(Text)
        if text.get_text().strip()
        and text.get_visible()
        and drawn.get(id(text), True)
        and (text.axes is None or text.axes.get_visible())
    ]
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width, text
        assert box.y1 <= figure.bbox.height, text
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"{one!r} touches {other!r}"
    return [text for text, _ in boxes]


def at_rates(ds, rates):
    """Repeat `ds` along a new axis ``rate``, the cliff moving with it."""
    shifted = [
        ds.assign(preemption_rate=(ds["preemption_rate"] * rate / rates[-1]).assign_attrs(
            ds["preemption_rate"].attrs
        ))
        for rate in rates
    ]  # fmt: skip
    axis = xr.Variable("rate", rates, {"units": "request/s", "long_name": "arrival rate"})
    joined = xr.concat(shifted, dim=axis, data_vars="all", combine_attrs="override")
    return joined.transpose("policy", "rate", "gpu_blocks", "seed", ...)


def test_the_cliff_figure_says_what_a_reader_needs():
    ds = h8(20)
    cliff = find_cliff(ds)
    texts = check_layout(plot.plot_cliff(ds, cliff))
    assert ds.attrs["title"] in texts
    assert ds.attrs["question"] in texts
    assert "KV blocks per instance" in texts
    assert "preemptions per completed request" in texts
    assert "threshold 0.05" in texts
    assert "flat up to 5,000 \N{RIGHTWARDS ARROW}" in texts
    assert "cliff [95% interval, 20 seeds]; ticks: single seeds" in texts
    value = cliff.groups[0].mean_curve.value
    assert any(text.startswith(f"round-robin: {value:,.0f} [") for text in texts)


def test_a_question_of_wide_letters_is_not_cut_off():
    question = "Which max_num_batched_tokens serves the highest rate with 99 % of requests within?"
    ds = h8(20).assign_attrs(question=question)
    check_layout(plot.plot_cliff(ds, find_cliff(ds)))


def test_the_close_up_holds_the_cliffs_and_their_intervals():
    ds = h8(20)
    cliff = find_cliff(ds)
    whole, close, rows = plot.plot_cliff(ds, cliff).axes
    for group in cliff.groups:
        low, high = close.get_xlim()
        assert low < group.interval.low < group.interval.high < high
    assert close.get_xlim() == rows.get_xlim()
    assert whole.get_xlim()[0] < close.get_xlim()[0]


def reasoning():
    """Preemption rates over five decades, three seeds, one workload."""
    rates = [
        [2343, 100, 3000], [88, 90, 70], [0.9, 160, 5], [0.11, 0.26, 0.13], [0, 0, 0], [0, 0, 0],
    ]  # fmt: skip
    return dataset(rates, blocks=[100, 400, 1500, 2000, 3000, 5000], seeds=[42, 123, 456])


def test_rates_over_many_decades_are_drawn_on_a_logarithmic_scale():
    ds = reasoning()
    figure = plot.plot_cliff(ds, find_cliff(ds))
    assert figure.axes[0].get_yscale() == "symlog"
    assert figure.axes[1].get_yscale() == "linear"
    check_layout(figure)


@pytest.mark.parametrize(
    ("metric", "threshold"), [("throughput_rps", 115.0), ("ttft_p99_ms", 100.0)]
)
def test_other_measures_and_directions_are_laid_out_too(metric, threshold):
    ds = h8(10)
    check_layout(plot.plot_cliff(ds, find_cliff(ds, metric, threshold=threshold)))


def test_a_load_axis_is_cut_at_its_low_end():
    load = np.arange(1, 13) * 10
    rates = np.clip(load - 70, 0, None)[:, None] / 50 * np.array([0.8, 1.0, 1.3])
    ds = dataset(rates, blocks=load, seeds=range(3)).rename(gpu_blocks="rate")
    figure = plot.plot_cliff(ds, find_cliff(ds, along="rate"))
    assert "\N{LEFTWARDS ARROW} flat down to 10" in check_layout(figure)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (slice(0, 0), "no values up to 5,000 \N{RIGHTWARDS ARROW}"),
        (slice(0, 1), "flat up to 5,000, but for cells without a value \N{RIGHTWARDS ARROW}"),
        (slice(0, None), "flat up to 5,000 \N{RIGHTWARDS ARROW}"),
    ],
)
def test_where_cells_have_no_value_curves_are_not_said_to_be_flat(known, told):
    ds = h8(4)
    rate = ds["preemption_rate"]
    rate[:, ds["gpu_blocks"].values > 2300] = np.nan
    rate[known, ds["gpu_blocks"].values > 2300] = 0.0
    figure = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05))
    assert told in check_layout(figure)


@pytest.mark.parametrize(
    ("rates", "told"),
    [
        ([0.0, 0.0, 0.0], "a cliff, if any, lies below 1,000"),
        ([0.4, 0.3, 0.2], "the cliff lies above 3,000"),
        ([0.3, np.nan, 0.0], "no cliff can be given"),
    ],
)
def test_without_a_cliff_or_seeds_the_figure_says_what_the_command_does(rates, told):
    ds = dataset(rates, blocks=[1000, 2000, 3000])
    cliff = find_cliff(ds)
    assert told in check_layout(plot.plot_cliff(ds, cliff))
    assert cliff_sentences(cliff)[0].endswith(f": {told}")


ALONE = [[np.nan, 0.4, np.nan, 0.3, 0.2, np.nan], [0.4, np.nan, 0.3, np.nan, 0.1, np.nan]]


def dots(panel):
    """Return the places of points that are drawn alone."""
    lines = [line for line in panel.lines if line.get_marker() == "o"]
    return [line.get_xdata().tolist() for line in lines]


def test_a_value_without_neighbours_is_drawn_as_a_point_with_its_interval():
    rates = np.array(ALONE)[..., None] * [1.0, 1.1, 1.2]
    ds = dataset(rates, policies=["a", "b"], blocks=np.arange(1, 7) * 100, seeds=range(3))
    alone = [[200], [100, 300, 500]]
    (panel,) = plot.plot_curve(ds, "preemption_rate", "gpu_blocks").axes
    assert dots(panel) == alone
    whole, close, _ = plot.plot_cliff(ds, find_cliff(ds, threshold=0.05)).axes
    assert dots(whole) == dots(close) == alone
    for drawn in (panel, whole):
        bars = [c for c in drawn.collections if isinstance(c, LineCollection)]
        ends = [
            path.vertices for bar in bars for path in bar.get_paths() if len(path.vertices) == 2
        ]
        assert {float(x) for line in ends for x in line[:, 0]} >= {200, 100, 300, 500}


@pytest.mark.parametrize("blocks", [[500], [500, 600, 700]])
def test_a_curve_of_one_size_is_in_view(blocks):
    rates = np.full((len(blocks), 2), np.nan)
    rates[0] = 0.2, 0.3
    ds = dataset(rates, blocks=blocks, seeds=range(2))
    (panel,) = plot.plot_curve(ds, "preemption_rate", "gpu_blocks").axes
    assert dots(panel) == [[500]]
    low, high = panel.get_xlim()
    assert low < 500 < high


def test_the_close_up_is_a_part_of_the_whole_and_its_curves_fill_it():
    """Of curves that stay within four thresholds, which all lie in the frame."""
    rates = np.array([0.08, 0.085, 0.055, 0.07, 0.073, 0.07, 0.062, 0.0, 0.0, 0.0])
    ds = dataset(rates[:, None] * [0.98, 1.02], blocks=np.arange(4, 14) * 100, seeds=range(2))
    whole, close, _ = plot.plot_cliff(ds, find_cliff(ds, threshold=0.05)).axes
    (x0, x1), (a, b) = close.get_xlim(), whole.get_xlim()
    assert a <= x0
    assert x1 <= b
    assert x1 - x0 < 0.6 * (b - a)
    assert close.get_ylim()[1] < 0.1


def test_further_axes_get_a_panel_each_with_its_numbers():
    ds = at_rates(h8(6), [500.0, 1000.0, 2000.0])
    cliff = find_cliff(ds)
    figure = plot.plot_cliff(ds, cliff)
    texts = check_layout(figure)
    assert {"rate 500", "rate 1,000", "rate 2,000"} <= set(texts)
    assert sum(text.startswith("round-robin: ") for text in texts) == 3


def test_too_much_for_one_figure_is_refused():
    ds = at_rates(h8(2), list(range(1, 8)))
    with pytest.raises(InputError, match=r"2 curves in 7 panels do not fit.*some: --at AXIS=VALUE"):
        plot.plot_cliff(ds, find_cliff(ds))


OTHERS = {
    "'policy' here": lambda ds: ds.sel(policy="round-robin"),
    "'seed' here": lambda ds: ds.mean("seed"),
    "the axis 'rate' here": lambda ds: at_rates(ds, RATES),
    "'gpu_blocks' has other values here": lambda ds: ds.isel(gpu_blocks=slice(3, None)),
    "'policy' has other values here": lambda ds: ds.isel(policy=[0]),
    "2 seeds here, 4 there": lambda ds: ds.isel(seed=slice(2)),
    "no variable 'preemption_rate'": lambda ds: ds.drop_vars("preemption_rate"),
}


@pytest.mark.parametrize("told", OTHERS)
def test_a_cliff_of_another_dataset_is_refused(told):
    ds = h8(4)
    other, cliff = OTHERS[told](ds.drop_vars("status")), find_cliff(ds)
    with pytest.raises(InputError, match=f"cliff: was found in another dataset: .*{told}"):
        plot.plot_cliff(other, cliff)
    with pytest.raises(InputError, match=f"cliff: was found in another dataset: .*{told}"):
        plot.plot_cliff_trend(other, cliff, "policy")


def test_the_trend_marks_cliffs_beyond_the_swept_range():
    ds = at_rates(h8(6), [10.0, 1000.0, 2000.0])
    cliff = find_cliff(ds)
    figure = plot.plot_cliff_trend(ds, cliff, "rate")
    markers = [line.get_marker() for line in figure.axes[0].lines]
    assert markers.count("v") == 2
    assert "beyond the swept range" in check_layout(figure)
    assert {"round-robin", "least-loaded", "arrival rate (request/s)"} <= set(check_layout(figure))


@pytest.mark.parametrize(
    "blocks", [[100_000, 150_000, 200_000], [1000 * 2**i for i in range(7)], [1500, 2500, 3500]]
)
def test_numbers_below_a_trend_do_not_touch(blocks):
    """Its panel is narrow where names of members stand beside it."""
    names = ["a-name-of-18-lette", "another-of-them"]
    grid = {"cache.gpu_blocks": blocks, "policy": names, "workload.rate": RATES}
    sweep = {
        "grid": grid,
        "policies": {},
        "scenario": {"cache": {"kv_bytes_per_token": 131_072.0, "block_size": 16}},
    }
    places = np.linspace(0, 60, len(blocks)).astype(int)
    ds = at_rates(h8(3), RATES).isel(gpu_blocks=places).assign_attrs(sweep=json.dumps(sweep))
    ds = ds.assign_coords(policy=["a-name-of-18-letters", "another-of-them"])
    ds["policy"] = ds["policy"].str.slice(0, 18)
    attributes = ds["gpu_blocks"].attrs
    ds["gpu_blocks"] = ("gpu_blocks", blocks, attributes)
    cliff = find_cliff(ds, "preemption_rate", "rate", 0.2)
    figure = plot.plot_cliff_trend(ds, cliff, "gpu_blocks")
    with style.style():
        texts = check_layout(figure)
    assert sum("\n" in text and text[0].isdigit() for text in texts) >= 2


@pytest.mark.parametrize("rates", [[0.001, 0.0015, 100.0], [10.0, 1000.0, 1010.0]])
def test_lines_of_a_trend_are_set_apart_by_much_less_than_their_values(rates):
    ds = at_rates(h8(3), rates)
    (panel,) = plot.plot_cliff_trend(ds, find_cliff(ds), "rate").axes
    place = panel.xaxis.get_transform().transform
    gap = np.diff(place(rates)).min()
    drawn = [line.get_xdata() for line in panel.lines if line.get_marker() == "o"]
    assert len(drawn) == 2
    for x in drawn:
        assert np.abs(place(np.asarray(x)) - place(rates)).max() <= 0.1 * gap
        assert min(x) > 0


def test_the_trend_needs_an_axis_of_the_groups():
    ds = h8(3)
    with pytest.raises(InputError, match="holds names"):
        plot.plot_cliff_trend(ds, find_cliff(ds), "policy")
    with pytest.raises(InputError, match="not an axis besides"):
        plot.plot_cliff_trend(ds, find_cliff(ds), "quantile")


def test_an_axis_of_whole_numbers_has_no_ticks_between_them():
    ds = h8(2).isel(gpu_blocks=slice(0, 3)).assign_coords(gpu_blocks=[4, 5, 6])
    figure = plot.plot_curve(ds, "preemption_rate", "gpu_blocks")
    ticks = figure.axes[0].get_xticks()
    assert all(float(tick).is_integer() for tick in ticks)


def test_curves_are_labelled_at_their_ends():
    ds = h8(6)
    figure = plot.plot_curve(ds, ["preemption_rate", "ttft_p99_ms"], "gpu_blocks")
    texts = check_layout(figure)
    assert texts.count("round-robin") == 2
    assert "99th percentile of time to first token seen by\nthe client (ms)" in texts


def test_a_curve_has_a_line_at_a_threshold():
    figure = plot.plot_curve(h8(3), "preemption_rate", "gpu_blocks", threshold=0.05)
    assert "threshold 0.05" in check_layout(figure)
    assert [0.05, 0.05] in [list(line.get_ydata()) for line in figure.axes[0].lines]


def test_a_curve_needs_its_axis_and_room():
    ds = h8(3).assign(flat=xr.DataArray(1.0))
    with pytest.raises(InputError, match="does not vary along"):
        plot.plot_curve(ds, "flat", "gpu_blocks")
    many = at_rates(ds, list(range(1, 8)))
    with pytest.raises(InputError, match=r"14 curves.*some: --at AXIS=VALUE, or .sel"):
        plot.plot_curve(many, "preemption_rate", "gpu_blocks")


def test_a_variable_that_was_assigned_is_drawn_instead_of_the_quantile_of_its_name():
    ds = h8(2)
    ds["ttft_p99_ms"] = 2.0 * ds["ttft_ms"].sel(quantile=0.99, drop=True)
    (panel,) = plot.plot_curve(ds, "ttft_p99_ms", "gpu_blocks").axes
    mean = ds["ttft_p99_ms"].isel(policy=0).mean("seed").values
    assert panel.lines[0].get_ydata() == pytest.approx(mean)


def test_a_curve_needs_a_measure():
    with pytest.raises(InputError, match="metrics: the list is empty"):
        plot.plot_curve(h8(2), [], "gpu_blocks")


def test_a_heatmap_shows_means_over_seeds_in_panels():
    ds = at_rates(h8(4), [500.0, 2000.0])
    figure = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "rate")
    texts = check_layout(figure)
    assert {"round-robin", "least-loaded"} <= set(texts)
    assert "preemptions per completed request\nmean over 4 seeds; less is better" in texts
    (image,) = figure.axes[0].images
    expected = ds["preemption_rate"].isel(policy=0).mean("seed").transpose("rate", "gpu_blocks")
    np.testing.assert_allclose(image.get_array(), expected)


@pytest.mark.parametrize(
    ("count", "x", "y"),
    [
        (7, "gpu_blocks", "policy"),
        (20, "gpu_blocks", "policy"),
        (7, "policy", "gpu_blocks"),
        (16, "policy", "gpu_blocks"),
    ],
)
def test_a_heatmap_names_every_row_and_column_that_has_a_name(count, x, y):
    """Every second of seven policies had no name, where there was room."""
    names = [f"policy-{i:02d}" for i in range(count)]
    ds = dataset(np.ones((count, 4)), policies=names, blocks=[1, 2, 3, 4])
    texts = check_layout(plot.plot_heatmap(ds, "preemption_rate", x, y))
    assert set(names) <= set(texts)


def test_more_than_two_heatmaps_stand_two_by_two():
    ds = at_rates(h8(2), [500.0, 1000.0, 2000.0])
    ds["preemption_rate"] = ds["preemption_rate"] * 1e5
    figure = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy")
    texts = check_layout(figure)
    assert {"rate 500", "rate 1,000", "rate 2,000"} <= set(texts)
    panels = [axes for axes in figure.axes if axes.images]
    assert len({axes.get_position().x0 for axes in panels}) == 2
    (bar,) = figure.axes[-1].child_axes
    assert any("," in text.get_text() for text in bar.get_xticklabels())


def test_switches_are_named_as_a_sweep_file_has_them():
    ds = at_rates(h8(2), [0.0, 1.0]).rename(rate="caching")
    ds = ds.assign_coords(caching=[True, False])
    figure = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "caching")
    assert {"true", "false"} <= set(check_layout(figure))
    figure = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05))
    assert any("caching true" in text for text in check_layout(figure))


def test_names_of_curves_do_not_cross_them():
    rates = np.arange(5.0, 45.0, 5.0)
    late = 14_000 * np.maximum(0.01, 1 - np.exp((10.0 - rates) / 6.0))
    late = late[:, None] + np.zeros((4, 2, 1, 3))
    late[1:] /= 20.0
    dims = ("seats", "budget", "rate", "seed")
    ds = xr.Dataset(
        {"ttft_ms": (dims, late, {"units": "ms"}), "status": (dims, np.full(late.shape, "ok"))},
        coords={
            "seats": [16, 64, 256, 512],
            "budget": [512, 2048],
            "rate": rates,
            "seed": range(3),
        },
    )
    figure = plot.plot_cliff(ds, find_cliff(ds, "ttft_ms", "rate", 2000.0))
    check_layout(figure)
    for axes in figure.axes[:2]:
        key = axes.get_legend().get_window_extent()
        curves = [line for line in axes.lines if len(line.get_xdata()) == len(rates)]
        assert len(curves) == 4
        for line in curves:
            x = np.linspace(rates[0], rates[-1], 200)
            y = np.interp(x, line.get_xdata(), line.get_ydata())
            points = axes.transData.transform(np.column_stack([x, y]))
            assert not any(key.contains(*point) for point in points)


def boxes(axes, curves):
    """Return the points of the panel, in pixels, that a curve through values at its axis has."""
    x = np.linspace(curves[0][0], curves[0][-1], 400)
    return axes.transData.transform(np.column_stack([x, np.interp(x, *curves)]))


@pytest.mark.parametrize("rates", [[1.0, 0.8, 0.6], [0.5, 0.4, 0.3]])
def test_names_of_curves_are_not_on_bands_or_the_threshold(rates):
    """Where there is no cliff the threshold ran through them, or the band of the mean."""
    values = np.array([rates, rates])[:, :, None] * np.array([0.6, 1.0, 1.6])
    ds = dataset(values, policies=["a-policy", "b-policy"], blocks=[100, 200, 300], seeds=range(3))
    for threshold in (0.05, 1.2):
        cliff = find_cliff(ds, "preemption_rate", "gpu_blocks", threshold)
        figure = plot.plot_cliff(ds, cliff)
        check_layout(figure)
        whole = figure.axes[0]
        key = whole.get_legend().get_window_extent()
        band = boxes(whole, (cliff.axis, cliff.groups[0].curve.high))
        line = boxes(whole, (cliff.axis, np.full(3, threshold)))
        assert not any(key.contains(*point) for point in [*band, *line])


def test_names_of_curves_are_not_on_intervals_of_cliffs():
    """They stand at the foot where less is worse, as the intervals did."""
    ds = at_rates(h8(4), [500.0, 1000.0, 2000.0])
    cliff = find_cliff(ds, "throughput_rps", "gpu_blocks", 118.0)
    figure = plot.plot_cliff(ds, cliff)
    assert any("at the top, of the cliff" in text for text in check_layout(figure))
    for axes in figure.axes[:3]:
        key = axes.get_legend().get_window_extent()
        assert axes.patches
        assert not any(key.overlaps(patch.get_window_extent()) for patch in axes.patches)


def test_the_name_of_a_threshold_is_not_on_a_curve_that_begins_there():
    ds = dataset([0.04, 0.047, 0.3, 0.01, 0.0], blocks=[1, 2, 3, 4, 5])
    cliff = find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05)
    figure = plot.plot_cliff(ds, cliff)
    check_layout(figure)
    close = figure.axes[1]
    (name,) = [text for text in close.texts if text.get_text() == "threshold 0.05"]
    box = name.get_window_extent()
    curve = boxes(close, (cliff.axis, cliff.groups[0].curve.mean))
    assert not any(box.contains(*point) for point in curve)


def test_a_heatmap_leaves_cells_without_a_value_open():
    ds = h8(2)
    ds["status"] = status(ds, livelock={"gpu_blocks": 1000})
    figure = plot.plot_heatmap(ds, "ttft_p99_ms", "gpu_blocks", "policy")
    (image,) = figure.axes[0].images
    assert np.isnan(image.get_array().data[:, 0]).all()
    check_layout(figure)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ("gpu_blocks", "gpu_blocks", "two different axes"),
        ("gpu_block", "policy", "did you mean"),
        ("gpu_blocks", "quantile", "two different axes"),
        ("gpu_blocks", "seed", "holds repetitions"),
    ],
)
def test_a_heatmap_needs_two_axes(x, y, words):
    ds = at_rates(h8(2), [1.0, 2.0])
    with pytest.raises(InputError, match=words):
        plot.plot_heatmap(ds, "preemption_rate", x, y)


def routing_study():
    """Five policies, two of them identical, three of them on the front."""
    rng = np.random.default_rng(0)
    noise = rng.lognormal(0.0, 0.1, 50)
    latency = np.array([53.0, 98.0, 101.0, 195.0, 195.0])[:, None] * noise
    throughput = np.array([255.0, 262.0, 270.0, 245.0, 245.0])[:, None] + rng.normal(0, 4, 50)
    names = ["cache-heavy", "llmd-default", "load-heavy", "load-only", "kv-heavy"]
    return xr.Dataset(
        {
            "ttft_p99_ms": (("policy", "seed"), latency, {"units": "ms", "long_name": "TTFT p99"}),
            "throughput_rps": (("policy", "seed"), throughput, {"units": "request/s"}),
        },
        coords={"policy": names},
        attrs={"title": "Routing weights"},
    )


def test_the_pareto_figure_names_ties_and_fills_the_front():
    ds = routing_study()
    figure = plot.plot_pareto(ds, pareto_front(ds))
    texts = check_layout(figure)
    assert "load-only =\nkv-heavy (0%)" in texts
    assert "TTFT p99 (ms)\nless is better" in texts
    points = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    hollow = [line.get_markerfacecolor() == style.PAPER for line in points]
    assert sorted(hollow) == [False, False, False, True, True]


def test_of_many_tied_members_the_first_are_named_and_the_others_counted():
    names = [f"policy-{n}" for n in range(8)]
    ds = h8(4).isel(policy=[0] * 8, gpu_blocks=3).assign_coords(policy=names)
    front = pareto_front(ds, ["ttft_p99_ms:min", "throughput_rps:max"])
    texts = check_layout(plot.plot_pareto(ds, front))
    (told,) = (text for text in texts if text.startswith("policy-0"))
    assert told.startswith("policy-0 =\npolicy-1 =\n6 more")


@pytest.mark.parametrize("goals", [("min", "max"), ("max", "min"), ("min", "min"), ("max", "max")])
def test_the_front_line_bounds_every_member(goals):
    ds = routing_study()
    objectives = [f"ttft_p99_ms:{goals[0]}", f"throughput_rps:{goals[1]}"]
    front = pareto_front(ds, objectives)
    axes = plot.plot_pareto(ds, front).axes[0]
    (line,) = [line for line in axes.lines if line.get_drawstyle().startswith("steps")]
    on_line = {tuple(point) for point in np.column_stack(line.get_data())}
    on_front = {m.values for m in front.groups[0].members if m.on_front}
    assert on_front <= on_line


def test_the_pareto_figure_needs_two_objectives_and_room():
    ds = routing_study()
    with pytest.raises(InputError, match="two objectives"):
        plot.plot_pareto(ds, pareto_front(ds, ["ttft_p99_ms:min"]))
    with pytest.raises(InputError, match=r"67 groups do not fit.*some: --at AXIS=VALUE, or .sel"):
        plot.plot_pareto(h8(2), pareto_front(h8(2)))


def factorial():
    """Three factors with all kinds of verdicts."""
    noise = np.random.default_rng(7).lognormal(0.0, 0.05, (2, 2, 2, 12))
    helped = np.array([[1.0, 0.8], [0.9, 0.4]])[:, :, None, None]
    cells = 100.0 * helped * np.array([1.0, 2.5])[:, None] * noise
    long_name = "mean time to first token"
    return xr.Dataset(
        {
            "ttft_mean_ms": (
                ("scheduler", "routing", "gpu_blocks", "seed"),
                cells,
                {"units": "ms", "long_name": long_name},
            )
        },
        coords={
            "scheduler": ["fcfs", "priority"],
            "routing": ["round-robin", "least-loaded"],
            "gpu_blocks": [2000, 1000],
        },
        attrs={"title": "Priorities and routing"},
    )


def test_effects_are_a_forest_of_differences_and_ratios():
    ds = factorial()
    found = factorial_effects(ds, "ttft_mean_ms")
    figure = plot.plot_effects(ds, found)
    texts = check_layout(figure)
    assert {"single changes", "interactions", "difference (ms)", "ratio"} <= set(texts)
    assert {"scheduler priority", "scheduler priority x routing least-loaded"} <= set(texts)
    assert {"super-additive", "super-multiplicative", "sub-additive"} <= set(texts)
    assert any(text.startswith("mean time to first token, against scheduler") for text in texts)
    left, right = figure.axes
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    points = [line for line in right.lines if line.get_marker() == "o"]
    shown = [e.ratio.verdict is not Verdict.NOT_SHOWN for e in found.groups[0].effects]
    assert [point.get_markerfacecolor() != style.PAPER for point in points] == shown
    assert set(shown) == {True, False}


def test_effects_without_ratios_or_seeds_are_drawn_too():
    ds = factorial().isel(seed=0, drop=True)
    ds["ttft_mean_ms"][:] -= 1000.0
    figure = plot.plot_effects(ds, factorial_effects(ds, "ttft_mean_ms", ["scheduler"]))
    texts = check_layout(figure)
    assert len(figure.axes) == 1
    assert not any("intervals" in text for text in texts)
    assert any("means over routing, gpu_blocks" in text for text in texts)


def test_groups_of_effects_are_headed_by_their_labels():
    ds = h8(6).isel(gpu_blocks=[30, 3])
    texts = check_layout(plot.plot_effects(ds, factorial_effects(ds, "ttft_ms")))
    assert "single changes, quantile 0.99" in texts


def test_too_many_effects_for_one_figure_are_refused():
    ds = h8(3)
    with pytest.raises(InputError, match="133 effects do not fit, at most 40"):
        plot.plot_effects(ds, factorial_effects(ds, "preemption_rate"))


def test_a_heatmap_names_the_dimensions_that_are_left_over():
    ds = (
        at_rates(h8(2), [1.0, 2.0])
        .assign_coords(size=[1, 2])
        .assign(load=lambda d: d["preemption_rate"] * d["size"])
    )
    with pytest.raises(InputError, match=r"policy, size are left over.*--at AXIS=VALUE"):
        plot.plot_heatmap(ds, "load", "gpu_blocks", "rate")


def test_the_prefix_figure_shows_trials_medians_and_the_fit():
    ds = prefix_trials()
    figure = plot.plot_prefix(ds, prefix_cost(ds))
    texts = check_layout(figure)
    assert {"hit", "miss", "time to first token (ms)", "context B, kept (token)"} <= set(texts)
    assert "miss: 0.1 ms per token of B, R\N{SUPERSCRIPT TWO} = 1.000" in texts
    assert {"256", "384", "512"} <= set(texts)
    upper = figure.axes[0]
    dots = sum(len(line.get_xdata()) for line in upper.lines if line.get_marker() == ".")
    assert dots == 30
    fit = next(
        line for line in upper.lines if line.get_marker() == "None" and line.get_ydata()[0] > 20
    )
    assert fit.get_ydata() == pytest.approx([35.6, 48.4, 61.2])
    assert upper.get_ylim()[0] == 0


def test_the_prefix_figure_of_few_sizes_without_throughput_is_drawn():
    ds = prefix_trials()
    ds["throughput_tok_s"].values[:] = np.nan
    check_layout(plot.plot_prefix(ds, prefix_cost(ds)))
    for sizes in ([1], [0, 1]):
        part = ds.isel(size=sizes)
        assert "R\N{SUPERSCRIPT TWO}" not in "".join(
            check_layout(plot.plot_prefix(part, prefix_cost(part)))
        )


@pytest.mark.parametrize("suffix", long_but([".png", ".svg", ".pdf"], ".png", ".svg"))
def test_a_figure_is_written_the_same_each_time(tmp_path, suffix):
    ds = h8(3)
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        plot.save(plot.plot_cliff(ds, find_cliff(ds)), file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert b"matplotlib.org" not in first
    assert b"dc:date" not in first
    assert b"CreationDate" not in first


@pytest.mark.parametrize("name", ["figure.gif", "nowhere/figure.png"])
def test_a_file_that_cannot_be_written_is_bad_input(tmp_path, name):
    ds = dataset([0.1, 0.0], blocks=[1, 2])
    figure = plot.plot_cliff(ds, find_cliff(ds))
    with pytest.raises(InputError, match="figure"):
        plot.save(figure, tmp_path / name)


def test_the_settings_of_the_caller_neither_leak_in_nor_out(tmp_path):
    ds = h8(3)
    cliff = find_cliff(ds)
    plot.save(plot.plot_cliff(ds, cliff), tmp_path / "a.png")
    with mpl.rc_context({"font.size": 30, "axes.grid": True}):
        before = dict(mpl.rcParams)
        plot.save(plot.plot_cliff(ds, cliff), tmp_path / "b.png")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def draw(path, dark):
    """Draw a figure in one of two looks, which differ in Matplotlib's settings."""
    with plot.look(dark=dark):
        plot.save(plot.plot_curve(h8(3), "ttft_p99_ms", "gpu_blocks"), path)
    return path.read_bytes()


def test_threads_draw_what_one_alone_does(tmp_path):
    alone = [draw(tmp_path / "alone.png", dark) for dark in (False, True)]
    before = dict(mpl.rcParams)
    with ThreadPoolExecutor(4) as threads:
        found = list(
            threads.map(lambda i: draw(tmp_path / f"{i}.png", i % 2 == 1), range(8), timeout=120)
        )
    assert dict(mpl.rcParams) == before
    assert [alone.index(content) for content in found] == [0, 1] * 4


def test_texts_have_the_settings_of_the_caller_whoever_draws_meanwhile():
    """A thread begins to draw as soon as another lets it."""
    inside = threading.Event()

    def begin():
        with style.drawing():
            inside.set()

    figure = Figure()
    with style.drawing():
        style.note_made(figure)
        text = figure.text(0, 0, "one")
        thread = threading.Thread(target=begin)
        thread.start()
        assert not inside.wait(0.2)
        with style.style():  # nested in a thread
            assert not text.get_parse_math()
    thread.join(60)
    assert inside.is_set()
    assert text.get_parse_math()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_fork_has_the_settings_of_the_caller_and_draws():
    before = mpl.rcParams["font.size"]
    inside, ends = threading.Event(), threading.Event()

    def hold():
        with style.drawing():
            inside.set()
            ends.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.2, ends.set).start()
    child = os.fork()
    if child == 0:
        right = mpl.rcParams["font.size"] == before
        with style.drawing():
            right = right and mpl.rcParams["font.size"] == 7.5
        os._exit(0 if right else 1)
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_figures_never_load_pyplot():
    code = "import kvsweep.plot, sys; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ([0.0, 5.0], [0.0, 5.0]),
        ([1.0, 1.0], [2.0, 1.0]),
        ([9.9, 10.0], [9.0, 10.0]),
        ([5.0, 5.5, 5.2], [5.0, 7.0, 6.0]),
    ],
)
def test_labels_are_spread_within_the_limits(positions, expected):
    assert spread(positions, 1.0, 0.0, 10.0) == pytest.approx(expected)


def test_blocks_have_their_memory_below_them_where_it_is_known():
    """A sweep with a `[model]` knows the bytes of a token: 1,024 blocks are 2 GiB here."""
    policies = h8()["policy"].values.tolist()
    sweep = {
        "grid": {"cache.gpu_blocks": [1], "policy": policies, "workload.rate": [1.0, 2.0]},
        "policies": {},
        "scenario": {"cache": {"kv_bytes_per_token": 131_072.0, "block_size": 16}},
    }
    ds = h8().assign_attrs(sweep=json.dumps(sweep))
    cliff = find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05)
    rates = at_rates(ds, [1.0, 2.0])
    rate_cliff = find_cliff(rates, "preemption_rate", "gpu_blocks", 0.05)
    figures = (
        plot.plot_cliff(ds, cliff),
        plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        plot.plot_cliff(rates, rate_cliff),
        plot.plot_cliff_trend(rates, rate_cliff, "rate"),
        plot.plot_heatmap(rates, "preemption_rate", "gpu_blocks", "rate"),
        plot.plot_heatmap(rates, "preemption_rate", "rate", "gpu_blocks"),
    )
    for figure in figures:
        texts = check_layout(figure)
        assert any(re.search("(below|in brackets): GiB on each GPU", text) for text in texts)
        found = [re.fullmatch(r"([\d,]+)(?:\n([\d.]+)| \(([\d.]+)\))", text) for text in texts]
        pairs = [(m[1].replace(",", ""), m[2] or m[3]) for m in found if m]
        assert len(pairs) >= 3
        for blocks, gib in pairs:
            assert float(gib) == round(int(blocks) / 512, 2)
    plain = check_layout(
        plot.plot_cliff(h8(), find_cliff(h8(), "preemption_rate", "gpu_blocks", 0.05))
    )
    assert not any("GiB" in text for text in plain)
    assert "2,000" in plain


KINDS = {
    "cliff": lambda: (ds := h8(4), plot.plot_cliff(ds, find_cliff(ds)))[1],
    "panels": lambda: (ds := at_rates(h8(3), RATES), plot.plot_cliff(ds, find_cliff(ds)))[1],
    "trend": lambda: (
        ds := at_rates(h8(3), RATES),
        plot.plot_cliff_trend(ds, find_cliff(ds), "rate"),
    )[1],
    "curve": lambda: plot.plot_curve(h8(3), ["preemption_rate", "ttft_p99_ms"], "gpu_blocks"),
    "many": lambda: plot.plot_curve(at_rates(h8(3), RATES), "preemption_rate", "gpu_blocks"),
    "heatmap": lambda: plot.plot_heatmap(
        at_rates(h8(2), RATES), "preemption_rate", "gpu_blocks", "rate"
    ),
    "pareto": lambda: (ds := routing_study(), plot.plot_pareto(ds, pareto_front(ds)))[1],
    "effects": lambda: (
        ds := factorial(),
        plot.plot_effects(ds, factorial_effects(ds, "ttft_mean_ms")),
    )[1],
    "compare": lambda: plot.plot_comparison(difference()),
    "bars": lambda: plot.plot_bars(h8(3).isel(gpu_blocks=[0, 20, 40]), "ttft_p99_ms", "gpu_blocks"),
    "bars by name": lambda: plot.plot_bars(
        h8(3).sel(gpu_blocks=1500), "ttft_p99_ms", "policy", threshold=300
    ),
    "tradeoff": lambda: plot.plot_tradeoff(
        loaded(), "throughput_rps", "ttft_p99_ms", "rate", threshold=500
    ),
    "cdf": lambda: plot.plot_cdf(with_requests(), "ttft_ms", threshold=300),
    "attainment": lambda: plot.plot_attainment(with_requests(), {"ttft_ms": 300, "tpot_ms": 20}),
    "levels": lambda: (
        ds := routing_study(),
        plot.plot_pareto(ds, pareto_front(ds), {"ttft_p99_ms": 120, "throughput_rps": 250}),
    )[1],
    "three fronts": lambda: (
        ds := loaded().isel(rate=slice(3)),
        plot.plot_pareto(ds, pareto_front(ds)),
    )[1],
    "four fronts": lambda: (
        ds := loaded().isel(rate=slice(4)),
        plot.plot_pareto(ds, pareto_front(ds)),
    )[1],
    "three heatmaps": lambda: plot.plot_heatmap(
        at_rates(h8(2), RATES), "preemption_rate", "gpu_blocks", "policy"
    ),
    "four panels": lambda: (
        ds := at_rates(h8(3), [*RATES, 4000.0]),
        plot.plot_cliff(ds, find_cliff(ds)),
    )[1],
    "sensitivity": lambda: (
        ds := ishigami(64),
        plot.plot_sensitivity(ds, sensitivity_indices(ds, "steps")),
    )[1],
    "prefix": lambda: (ds := prefix_trials(), plot.plot_prefix(ds, prefix_cost(ds)))[1],
}
RATES = [500.0, 1000.0, 2000.0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_figure_can_be_pickled(kind):
    figure = KINDS[kind]()
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)


@pytest.mark.parametrize("kind", ["heatmap", "effects", "trend"])
def test_a_figure_out_of_a_pickle_is_written_as_it_was(tmp_path, kind):
    with plot.look(dark=True):
        figure = KINDS[kind]()
    plot.save(figure, tmp_path / "a.png")
    plot.save(pickle.loads(pickle.dumps(figure)), tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_figures_of_traces_can_be_pickled():
    columns = {
        "blocks": [10, 100, 1000],
        "lru_hit_rate": [0.1, 0.2, 0.3],
        "best_hit_rate": [0.2, 0.3, 0.3],
        "gib": [0.5, 5.0, 50.0],
    }
    figure = pickle.loads(pickle.dumps(plot_hits("trace", columns, 0.3, 16)))
    FigureCanvasAgg(figure).draw()
    texts = {text.get_text() for text in figure.findobj(Text)}
    assert {"GiB on each GPU", "30%", "100"} <= texts


@pytest.mark.parametrize(
    ("seconds", "unit"), [(500, "s"), (600, "min"), (6 * 3600, "h"), (4 * 86_400, "days")]
)
def test_arrivals_over_a_long_time_are_told_in_larger_units(seconds, unit):
    panel = style.new_figure(2.0).subplots()
    _draw_rate(panel, np.array([0, seconds * 10**6 - 1]))
    assert panel.get_xlabel() == f"time ({unit})"


def test_the_lengths_of_a_single_request_are_lines():
    panel = style.new_figure(2.0).subplots()
    _draw_shares(panel, np.array([500]), np.ones(1), 0)
    (line,) = panel.lines
    assert np.column_stack(line.get_data()).tolist() == [[500, 0], [500, 1]]


def loaded():
    """A small cache at five rates."""
    ds = at_rates(h8(3), [500.0, 1000.0, 1500.0, 2000.0, 2500.0]).sel(gpu_blocks=1500)
    ds["throughput_rps"] = (ds["preemption_rate"] * 100 + ds["rate"] / 50).assign_attrs(
        units="request/s", long_name="throughput of requests"
    )
    ds["ttft_ms"] = (20.0 + 4000 * ds["preemption_rate"] ** 2 * ds["quantile"]).assign_attrs(
        units="ms", long_name="quantile of time to first token seen by the client"
    )
    return ds


LIST = 40  # requests


def with_requests(warmup=0, **scenario):
    """A sweep of two policies that kept its requests, of which the last ones did not arrive."""
    ds = h8(3).sel(gpu_blocks=1500)
    rng = np.random.default_rng(2)
    dims = ("policy", "seed", "request")
    shape = (2, 3, LIST)
    ttft = rng.lognormal(5.5, 0.8, shape) * 1000.0
    status = np.full(shape, "completed", dtype="U16")
    status[..., 30:35], status[..., 35:] = "rejected", "not_arrived"
    ends = status == "completed"
    values = {
        "ttft_us": np.where(ends, ttft, -1),
        "tpot_us": np.where(ends, rng.lognormal(2.7, 0.3, shape) * 1000.0, np.nan),
        "e2e_us": np.where(ends, 3 * ttft, -1),
    }
    for name, array in values.items():
        ds[f"request_{name}"] = dims, array
    ds["request_status"] = dims, status
    ds["request_slo_class"] = "request", np.where(np.arange(LIST) % 2, "chat", "batch")
    sweep = {"scenario": {"workload": {"warmup": warmup}, **scenario}}
    return ds.assign_coords(request=np.arange(LIST)).assign_attrs(sweep=json.dumps(sweep))


LOOKS = [("column", True), ("slide", False), ("slide", True)]


def in_every_look():
    """Return each kind in each look; in all but one look, which take turns, it is ``long``."""
    return [
        pytest.param(*look, kind, marks=() if k % len(LOOKS) == turn else pytest.mark.long)
        for (turn, look), (k, kind) in itertools.product(enumerate(LOOKS), enumerate(KINDS))
    ]


@pytest.mark.parametrize(("style", "dark", "kind"), in_every_look())
def test_every_kind_of_figure_is_laid_out_for_slides_and_dark_ground(kind, style, dark):
    with plot.look(style, dark=dark):
        figure = KINDS[kind]()
    ground = {True: DARK, False: LIGHT}[dark]
    assert to_hex(figure.get_facecolor()) == ground.paper
    if style == "slide":
        assert figure.get_figwidth() / figure.get_figheight() == pytest.approx(16 / 9, rel=0.01)
    check_layout(figure)
    other = {DARK.ink, DARK.faint} if not dark else {LIGHT.ink, LIGHT.faint}
    assert not {to_hex(text.get_color()) for text in figure.findobj(Text)} & other


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize(("theme", "least"), [(LIGHT, 2.2), (DARK, 5.0)])
def test_colours_stand_out_from_their_ground(theme, least):
    def contrast(colour):
        light, dark = sorted((luminance(colour), luminance(theme.paper)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    assert min(map(contrast, theme.colours)) >= least
    assert contrast(theme.ink) > 10
    assert contrast(theme.faint) > 4.5


def test_an_unknown_style_is_refused():
    with pytest.raises(InputError, match=r"style: unknown 'slides'.*did you mean 'slide'"):
        plot.look("slides").__enter__()


def test_long_and_many_names_stand_below_the_panels():
    """They took most of the width, so that the ticks ran together."""
    ds = at_rates(h8(2), [500.0, 1000.0, 1500.0, 2000.0, 2500.0])
    figure = plot.plot_curve(ds, "preemption_rate", "gpu_blocks")
    texts = check_layout(figure)
    assert "least-loaded, rate 2,500" in texts
    (panel,) = figure.axes
    assert panel.get_position().width > 0.8
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in panel.lines}
    assert len(looks) == 10


def test_a_curve_of_many_orders_of_magnitude_is_logarithmic():
    ds = h8(2)
    ds["ttft_ms"] = ds["ttft_ms"] * 0 + 10.0 ** (6 - ds["gpu_blocks"] / 1000)
    ds["ttft_ms"].attrs["units"] = "ms"
    figure = plot.plot_curve(ds, "ttft_p99_ms", "gpu_blocks")
    assert figure.axes[0].get_yscale() == "log"
    check_layout(figure)


def test_a_trend_over_many_decades_is_logarithmic():
    rates = [10.0**n for n in range(-3, 6)]
    figure = plot.plot_cliff_trend(ds := at_rates(h8(2), rates), find_cliff(ds), "rate")
    assert figure.axes[0].get_xscale() == "log"
    check_layout(figure)


def test_a_trend_over_values_that_double_is_logarithmic_with_these_ticks():
    """Points set apart sideways looked like other values, and the first ones like one."""
    ds = at_rates(h8(3), [500.0, 2000.0, 8000.0])
    figure = plot.plot_cliff_trend(ds, find_cliff(ds), "rate")
    assert figure.axes[0].get_xscale() == "log"
    assert {"500", "2,000", "8,000"} <= set(check_layout(figure))


def test_a_cliff_along_whole_numbers_has_no_ticks_between_them():
    ds = h8(2).isel(gpu_blocks=slice(0, 6)).assign_coords(gpu_blocks=range(1, 7))
    for axes in plot.plot_cliff(ds, find_cliff(ds)).axes[::2]:
        assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_a_heatmap_has_a_line_where_a_threshold_is_passed():
    ds = at_rates(h8(2), [500.0, 2000.0]).isel(policy=[0])
    figure = plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "rate", threshold=0.05)
    assert any(text.endswith("less is better; line: 0.05") for text in check_layout(figure))
    values = ds["preemption_rate"].mean("seed").squeeze("policy").transpose("rate", "gpu_blocks")
    past = values.values > 0.05
    crossings = (past[:, 1:] != past[:, :-1]).sum() + (past[1:] != past[:-1]).sum()
    lines, over = figure.axes[0].collections
    assert len(lines.get_segments()) == len(over.get_segments()) == crossings > 2


def difference():
    """Two stores that differ in one of two policies."""

    def around(d):
        return Interval(d - 1.0, d + 1.0, 0.95)

    cells = [
        Difference({"policy": p, "gpu_blocks": b}, 1.0, 1.0 + d, d, around(d), d, None, 5, 0)
        for p, d in (("round-robin", 0.5), ("least-loaded", 0.0))
        for b in (1000, 2000, 3000)
    ]
    about = ("a", "b", "preemption_rate", "1", "preemptions", 0.95, True, True, "", (), ())
    axes = {
        "policy": ComparedAxis("policy", "1", None),
        "gpu_blocks": ComparedAxis("KV blocks per instance", "block", 1 / 512),
    }
    return Comparison(*about, tuple(cells), axes)


def test_the_difference_of_two_stores_is_drawn_along_their_longest_axis():
    figure = plot.plot_comparison(found := difference())
    texts = check_layout(figure)
    assert {"preemption_rate: B minus A", "round-robin"} <= set(texts)
    told = "\nmean over 5 paired seeds, 95% interval"
    assert f"KV blocks per instance\nbelow: GiB on each GPU{told}" in texts
    assert "1,000\n1.95" in texts
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.5, 0.5, 0.5]
    names = [replace(item, labels={"policy": "a"}) for item in found.differences]
    with pytest.raises(InputError, match="share no axis of several numbers"):
        plot.plot_comparison(replace(found, differences=tuple(names)))


@pytest.mark.parametrize(("blocks", "seen"), [([7], True), ([7, 9], False)])
def test_hits_at_a_single_capacity_are_seen(blocks, seen):
    columns = {"blocks": blocks, "lru_hit_rate": blocks, "best_hit_rate": blocks}
    (panel,) = plot_hits("trace", columns, 0.3, 16).axes
    assert [line.get_marker() == "o" for line in panel.lines[:2]] == [seen, seen]


def test_an_interval_that_reaches_zero_does_not_fill_the_panel_beside_it():
    seeds = np.array([[10.0, 1.0, 4000.0], [10.0, 5000.0, 4000.0]])
    ds = xr.Dataset({"ttft_p99_ms": (("seed", "rate"), seeds)}, {"seed": [0, 1], "rate": [1, 2, 3]})
    (panel,) = plot.plot_curve(ds, "ttft_p99_ms", "rate").axes
    assert panel.get_yscale() == "log"
    band = panel.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == panel.get_ylim()[0] / 10.0


def test_a_measure_that_is_zero_is_not_drawn_as_if_it_could_be_less():
    ds = xr.Dataset({"preemption_rate": ("rate", [0.0, 0.0])}, {"rate": [1, 2]})
    (panel,) = plot.plot_curve(ds, "preemption_rate", "rate").axes
    assert panel.get_ylim() == pytest.approx((-0.05, 1.05))


def test_no_name_of_a_member_lies_over_a_level():
    policies = ["one of two", "two of two", "third"]
    values = {"ttft_p99_ms": ("policy", [80.0, 80.0, 900.0]), "rps": ("policy", [9.0, 9.0, 1.0])}
    ds = xr.Dataset(values, {"policy": policies})
    front = pareto_front(ds, ["ttft_p99_ms:min", "rps:max"])
    with plot.look(size=(3.5, 1.8), title=""):
        figure = plot.plot_pareto(ds, front, levels={"ttft_p99_ms": 120.0})
    FigureCanvasAgg(figure).draw()
    level, *names = sorted(figure.axes[0].texts, key=lambda t: t.get_text() != "level 120")
    boxes = [text.get_window_extent() for text in names]
    assert not any(level.get_window_extent().overlaps(box) for box in boxes)


def test_numbers_below_a_heatmap_do_not_touch():
    ds = h8(2)
    figure = plot.plot_heatmap(ds, "ttft_p99_ms", "gpu_blocks", "policy")
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].get_xticklabels()]
    letter = boxes[0].width / len("1,000")
    assert all(a.x1 + letter < b.x0 for a, b in itertools.pairwise(boxes))


def test_what_is_killed_while_a_figure_is_drawn_leaves_no_file(tmp_path, monkeypatch):
    figure, seen, real = plot.plot_curve(h8(2), "preemption_rate", "gpu_blocks"), [], Figure.savefig

    def savefig(self, *args, **options):
        real(self, *args, **options)
        seen.append(list(tmp_path.iterdir()))

    monkeypatch.setattr(Figure, "savefig", savefig)
    plot.save(figure, tmp_path / "a.svg")
    assert seen == [[]]
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_numbers_below_shares_within_times_do_not_touch():
    ds = with_requests()
    ds["request_ttft_us"] = ds["request_ttft_us"].where(ds["request_ttft_us"] > 0) ** 1.6 / 40
    figure = plot.plot_cdf(ds, "ttft_ms")
    FigureCanvasAgg(figure).draw()
    panel = figure.axes[0]
    low, high = panel.get_xlim()
    ticks = zip(panel.get_xticks(), panel.get_xticklabels(), strict=True)
    boxes = [text.get_window_extent() for tick, text in ticks if low <= tick <= high]
    assert len(boxes) >= 3
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_what_a_panel_had_keeps_its_shape_beside_an_interval_that_reaches_zero():
    seeds = np.array([[10.0, 1.0, 4000.0], [10.0, 5000.0, 4000.0]])
    ds = xr.Dataset({"ttft_p99_ms": (("seed", "rate"), seeds)}, {"seed": [0, 1], "rate": [1, 2, 3]})
    panel = plot.plot_curve(ds, "ttft_p99_ms", "rate").axes[0].figure.add_subplot()
    marks = panel.scatter([1.5], [100.0])
    span = panel.fill_between([1, 2], 0, 1, transform=panel.get_xaxis_transform())
    before = [each.get_paths()[0].vertices.copy() for each in (marks, span)]
    plot.plot_curve(ds, "ttft_p99_ms", "rate", ax=panel)
    assert panel.get_yscale() == "log"
    for each, vertices in zip((marks, span), before, strict=True):
        assert np.array_equal(each.get_paths()[0].vertices, vertices)


@pytest.mark.parametrize("threshold", [5.0, 5000.0])
def test_a_threshold_beyond_all_times_is_within_the_panel(threshold):
    panel = plot.plot_cdf(with_requests(), "ttft_ms", threshold=threshold).axes[0]
    assert panel.get_xscale() == "log"
    low, high = panel.get_xlim()
    assert low < threshold < high


def told_at(axis):
    """Return (place, text) of the labels of an axis."""
    axis.axes.figure.draw_without_rendering()
    return list(
        zip(axis.get_ticklocs(), (t.get_text() for t in axis.get_ticklabels()), strict=True)
    )


@pytest.mark.parametrize(
    "values",
    [[10_000.1, 10_000.3, 10_000.6], [1.00001, 1.00002, 1.00005], [-5000.0, -4997.0, -4990.0]],
)
def test_numbers_of_a_narrow_axis_stand_where_they_say(values):
    ds = dataset(values, blocks=[1000, 2000, 3000])
    found = told_at(plot.plot_curve(ds, "preemption_rate", "gpu_blocks").axes[0].yaxis)
    step = found[1][0] - found[0][0]
    for place, text in found:
        said = float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
        assert said == pytest.approx(place, abs=0.02 * step)


def test_ratios_that_differ_by_little_have_numbers_of_their_own():
    rates = np.array([[[0.5, 0.50001, 0.5]], [[0.50002, 0.5, 0.50004]]])
    ds = dataset(rates, policies=["a", "b"], blocks=[1000], seeds=[0, 1, 2])
    effects = factorial_effects(ds, "preemption_rate", ["policy"])
    texts = [text for _, text in told_at(plot.plot_effects(ds, effects).axes[1].xaxis)]
    assert len(set(texts)) == len(texts) > 2


@pytest.mark.parametrize(
    ("rates", "end"),
    [
        ([0.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], 800),  # past it from the generous end on
        ([0.01, 0.02, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0], 100),  # never past it
    ],
)
def test_a_close_up_of_a_cliff_beyond_the_range_shows_the_end_that_it_lies_beyond(rates, end):
    worse = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    members = [rates, worse] if end == 800 else [rates, rates]
    ds = dataset(members, policies=["a", "b"], blocks=range(100, 900, 100))
    figure = plot.plot_cliff(ds, find_cliff(ds))
    close = figure.axes[1]
    low, high = close.get_xlim()
    assert low <= end <= high
    assert high - low < 0.5 * 700
    bottom, top = close.get_ylim()
    assert bottom < 0.05 < top
    assert bottom < rates[-1 if end == 800 else 0] < top


def test_a_close_up_over_decades_is_as_logarithmic_as_the_whole():
    """Though it has few of the values, of which one cannot tell."""
    rates = [0.0, 0.0, 0.0, 0.5, 0.6, 0.7]
    blocks = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    ds = dataset([rates, [each / 9 for each in rates]], policies=["a", "b"], blocks=blocks)
    figure = plot.plot_cliff(ds, find_cliff(ds))
    low, high = figure.axes[1].get_xlim()
    assert sum(low <= each <= high for each in blocks) < 3
    assert {panel.get_xscale() for panel in figure.axes} == {"log"}


def labels_within(figure):
    """Whether the labels of axes of a figure, as it is saved, are within its edges."""
    figure.set_layout_engine(None)
    figure.draw_without_rendering()
    edges = figure.bbox
    texts = [text for axes in figure.axes for text in (axes.xaxis.label, axes.yaxis.label)]
    texts += [axes._left_title for axes in figure.axes]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    return boxes and all(
        box.x0 >= edges.x0 and box.y0 >= edges.y0 and box.x1 <= edges.x1 and box.y1 <= edges.y1
        for box in boxes
    )


@pytest.mark.parametrize("size", [(2.2, 2.2), (2.5, 3.0), (3.5, 2.7)])
def test_labels_of_small_figures_are_within_them(tmp_path, size):
    rng = np.random.default_rng(1)
    rates = rng.random((2, 4, 3)) + 1.0
    ds = dataset(rates, policies=["a", "b"], blocks=[1000, 2000, 3000, 4000], seeds=[0, 1, 2])
    name = "99th percentile of the time to the first token that clients see of all"
    ds["preemption_rate"].attrs.update(long_name=name, units="ms")
    ds["throughput_rps"] = ds["preemption_rate"] + 0.1
    ds["gpu_blocks"].attrs["long_name"] = (
        "KV blocks per instance and a few words more that are long"
    )
    with plot.look(size=size, title=""):
        figures = [
            plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
            plot.plot_tradeoff(ds, "throughput_rps", "preemption_rate", "gpu_blocks"),
        ]
    for figure in figures:
        plot.save(figure, tmp_path / "a.png")
        assert labels_within(figure)
        told = " ".join(text.get_text() for axes in figure.axes for text in axes.findobj(Text))
        assert "of all" in " ".join(told.split())


def test_a_size_whose_panel_shows_nothing_is_refused(tmp_path):
    names = [f"policy {n}" for n in range(4)]
    ds = dataset(np.arange(8.0).reshape(4, 2), policies=names, blocks=[1000, 2000])
    question = "which one, and why is it that one and none of all the others"
    ds = ds.assign_attrs(title="Of these", question=question)
    with plot.look(size=(2.0, 1.2)):  # a panel of 0.15 inches
        figure = plot.plot_curve(ds, "preemption_rate", "gpu_blocks")
    with pytest.raises(InputError, match=r"size: 2 x 1.2 inches have no room for a panel"):
        plot.save(figure, tmp_path / "a.png")


def test_cliffs_decades_apart_have_a_logarithmic_axis_in_a_trend_and_others_none():
    blocks = [1.0, 10.0, 100.0, 1000.0, 10_000.0]
    rates = [[0.9 if size < edge else 0.0 for size in blocks] for edge in (5, 50, 5000)]
    far = dataset(rates, policies=["1", "2", "3"], blocks=blocks).rename(policy="rate")
    far = far.assign_coords(rate=[1, 2, 3])
    panel = plot.plot_cliff_trend(far, find_cliff(far), "rate").axes[0]
    assert panel.get_yscale() == "log"
    near = far.isel(rate=[0, 0, 0]).assign_coords(rate=[1, 2, 3])
    assert plot.plot_cliff_trend(near, find_cliff(near), "rate").axes[0].get_yscale() == "linear"


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_a_measure_that_is_infinite_is_refused(value):
    """Curves had a gap there, cliffs were a traceback of Matplotlib."""
    rates = np.array([[[0.9, value], [0.5, 0.4], [0.0, 0.0]]])
    ds = dataset(rates, policies=["a"], blocks=[1, 2, 3], seeds=[0, 1])
    told = "preemption_rate: has infinite values, which no axis has: let them be NaN"
    for make in (
        lambda: plot.plot_cliff(ds, find_cliff(ds)),
        lambda: plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        lambda: plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy"),
        lambda: plot.plot_bars(ds.isel(gpu_blocks=0), "preemption_rate", "policy"),
    ):
        with np.errstate(invalid="ignore"), pytest.raises(InputError, match=told):
            make()


def test_a_long_measure_beside_several_panels_is_above_what_is_said_below_them(tmp_path):
    ds = at_rates(h8(6), [1000.0, 2000.0])
    figure = plot.plot_cliff(ds, find_cliff(ds, "ttft_p99_ms", threshold=300.0))
    plot.save(figure, tmp_path / "a.png")
    figure.set_layout_engine(None)
    check_layout(figure)
    (below,) = figure.legends
    assert figure._supylabel.get_text().endswith("seen by the client (ms)")
    assert not figure._supylabel.get_window_extent().overlaps(below.get_window_extent())


def test_lines_of_a_trend_that_lie_beyond_the_swept_range_are_named_too():
    ds = at_rates(h8(6), [1000.0, 2000.0])
    rates = ds["preemption_rate"]
    low = xr.where(ds["policy"] == "least-loaded", 0.0, 1.0) * rates
    ds = ds.assign(preemption_rate=low.assign_attrs(rates.attrs).transpose(*rates.dims))
    panel = plot.plot_cliff_trend(ds, find_cliff(ds), "rate").axes[0]
    assert {"round-robin", "least-loaded"} <= {text.get_text() for text in panel.texts}


def test_figures_count_the_seeds_that_have_values():
    ds = h8(20).isel(gpu_blocks=slice(0, None, 12))
    some = ds.assign(preemption_rate=ds["preemption_rate"].where(ds["seed"] < 10))
    cliff, effects = find_cliff(some), factorial_effects(some, "preemption_rate", ["policy"])
    told = check_layout(plot.plot_cliff(some, cliff))
    assert "cliff [95% interval, 10 of 20 seeds]; ticks: single seeds" in told
    assert any(
        "10 of 20 paired seeds" in text for text in check_layout(plot.plot_effects(some, effects))
    )
    several = at_rates(some, [1000.0, 2000.0])
    told = check_layout(plot.plot_cliff(several, find_cliff(several)))
    assert "mean over 10 of 20 seeds, each of them faint" in told


def test_names_of_curves_are_not_on_the_frame_of_the_close_up():
    ds = h8(6).isel(gpu_blocks=slice(0, None, 12))
    none = ds.assign(throughput_rps=(0.0 * ds["throughput_rps"]).assign_attrs(units="1"))
    figure = plot.plot_cliff(none, find_cliff(none, "throughput_rps", threshold=0.1))
    check_layout(figure)
    whole = figure.axes[0]
    (frame,) = [line for line in whole.lines if len(line.get_xdata()) == 5]
    foot = whole.transData.transform((0.0, min(frame.get_ydata())))[1]
    assert whole.get_legend().get_window_extent().y1 <= foot


def two_heatmaps(size=None):
    """Heatmaps of two policies, with long names of axes and memory beside them, as saved."""
    ds = at_rates(h8(2), [500.0, 1000.0, 2000.0, 4000.0]).isel(gpu_blocks=slice(0, None, 9))
    ds["rate"].attrs["long_name"] = "arrival rate of all of the cluster"
    ds["gpu_blocks"].attrs["long_name"] = "usable KV blocks of each of all of the instances"
    with plot.look(size=size):
        return plot.plot_heatmap(ds, "preemption_rate", "rate", "gpu_blocks")


@pytest.mark.parametrize("size", [None, (4.0, 2.2)])
def test_labels_of_heatmaps_are_neither_on_others_nor_below_the_colours(tmp_path, size):
    figure = two_heatmaps(size)
    plot.save(figure, tmp_path / "a.png")
    figure.set_layout_engine(None)
    check_layout(figure)
    upper, _, colours = figure.axes
    assert not upper.xaxis.label.get_window_extent().overlaps(colours.get_window_extent())


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (3.5, 9, [4, 5, 6, 7, 8, 9]),
        (262, 3_998, [500, 1_000, 2_000]),
        (70, 1_400, [100, 1_000]),
        (0.02, 9_000, [0.1, 1, 10, 100, 1_000]),
    ],
)
def test_axes_of_traces_have_numbers_between_powers_of_ten(low, high, told):
    """Ages from 3.5 to 9 s had no number at all, lengths around 1,000 tokens that alone."""
    panel = Figure().subplots()
    _draw_shares(panel, np.array([low, high]), np.ones(2), 0)
    panel.set_xlim(low, high)
    seen = [tick for tick in panel.xaxis.get_majorticklocs() if low <= tick <= high]
    assert np.allclose(seen, told)


@pytest.mark.parametrize("tokens", [176, 320, 640, 1_280, 1_600])
def test_the_texts_of_a_single_capacity_are_apart(tokens):
    """The ceiling and "at best" were on top of each other."""
    rows = [
        {"id": i, "arrival_us": i, "prompt": [[0, tokens - 16], [1 + i, 8]], "output": [10 + i, 9]}
        for i in range(6)
    ]
    requests = read_native({"format": "kvsweep-trace/1", "requests": rows}, "t")
    figure = plot_trace("t.json", requests, find_hits(requests, 16))
    assert {"at best", "LRU"} <= {text.get_text() for text in figure.axes[3].texts}
    check_layout(figure)


def test_a_difference_without_neighbours_is_a_point_and_no_band_bridges_a_gap():
    """Such points were not seen, and bands went on where no cell has a value."""
    found = difference()
    lacking = [
        replace(item, difference=np.nan, interval=None)
        if item.labels == {"policy": "round-robin", "gpu_blocks": 2000}
        else item
        for item in found.differences
    ]
    axes = plot.plot_comparison(replace(found, differences=tuple(lacking))).axes[0]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in points] == [[1000.0, 3000.0]]
    band, intervals = axes.collections[:2]
    assert not any(path.contains_point((2000.0, 0.5)) for path in band.get_paths())
    assert [segment[:, 1].tolist() for segment in intervals.get_segments()] == [[-0.5, 1.5]] * 2


def test_a_close_up_between_values_decades_apart_has_numbers():
    """Of values that were swept one was in sight, and nobody could tell where a cliff is."""
    blocks = [0.0005, 5.0, 1e6]
    ds = dataset([[0.0, 0.5, 0.6], [0.0, 0.6, 0.6]], policies=["a", "b"], blocks=blocks)
    figure = plot.plot_cliff(ds, find_cliff(ds))
    figure.draw_without_rendering()
    rows = figure.axes[2]
    low, high = rows.get_xlim()
    assert sum(low <= each <= high for each in blocks) < 2
    assert sum(low <= tick <= high for tick in rows.get_xticks()) > 2
    check_layout(figure)


def test_a_trace_that_may_not_tell_what_is_alike_is_not_said_to_repeat_nothing():
    columns = {"blocks": [8, 9], "lru_hit_rate": [0.0, 0.0], "best_hit_rate": [0.0, 0.0]}
    (told,) = plot_hits("a.csv", columns, 0.0, 16).axes[0].texts
    assert told.get_text().split("\n")[-1] == "or the file does not tell"


def test_numbers_of_a_heatmap_ascend_however_a_sweep_lists_them():
    """Of more than six some stand below it, so that a cell was taken for what lies between them."""
    ds = at_rates(h8(3), [500.0, 2000.0, 1000.0]).isel(policy=0)
    mixed = ds.isel(gpu_blocks=[30, 2, 20, 8, 40, 12, 4, 16])
    axes = plot.plot_heatmap(mixed, "preemption_rate", "gpu_blocks", "rate").axes[0]
    expected = mixed["preemption_rate"].mean("seed").sortby(["rate", "gpu_blocks"])
    assert np.allclose(axes.images[0].get_array(), expected.transpose("rate", "gpu_blocks"))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["500", "1,000", "2,000"]


def test_a_heatmap_says_which_is_better_only_of_what_is_known():
    ds = at_rates(h8(2), [1.0, 2.0]).isel(policy=0)
    ds["own"] = ds["preemption_rate"].assign_attrs(long_name="a gain")
    axes = plot.plot_heatmap(ds, "own", "gpu_blocks", "rate", threshold=0.5).axes
    assert axes[1].get_ylabel() == "a gain\nmean over 2 seeds; line: 0.5"
    assert (
        plot.plot_heatmap(ds, "own", "gpu_blocks", "rate").axes[1].get_ylabel()
        == "a gain\nmean over 2 seeds"
    )


def test_a_trend_says_of_what_its_cliffs_are_and_what_its_bars():
    """It said "cliff": of which measure and threshold, nothing in it told."""
    ds = at_rates(h8(6), [1000.0, 2000.0])
    figure = plot.plot_cliff_trend(ds, find_cliff(ds, threshold=0.2, confidence=0.9), "rate")
    told = "cliff: where preemption_rate passes 0.2 [90% interval, 6 seeds]"
    assert told in [" ".join(text.split()) for text in check_layout(figure)]
    single = ds.isel(seed=0, drop=True)
    axes = plot.plot_cliff_trend(single, find_cliff(single, threshold=0.2), "rate").axes[0]
    assert axes.get_title("left") == "cliff: where preemption_rate passes 0.2"


def test_titles_and_labels_of_panels_side_by_side_are_apart(tmp_path):
    """On a slide titles went on into those of the next panels, and so did labels of axes."""
    ds = at_rates(h8(2), [1.0, 2.0]).isel(gpu_blocks=slice(0, None, 12))
    words = "transfers from a CPU tier as vLLM has it, warm-up included"
    ds["preemption_rate"].attrs["long_name"] = words
    ds["rate"].attrs["long_name"] = "speculative decoding: draft tokens of a decode"
    curves = ["preemption_rate", "ttft_p99_ms", "throughput_rps"]
    with plot.look("slide"):
        figures = [
            plot.plot_curve(ds.isel(rate=0), curves, "gpu_blocks"),
            plot.plot_heatmap(ds.isel(gpu_blocks=[0, 2, 4]), "preemption_rate", "rate", "policy"),
        ]
    for figure in figures:
        plot.save(figure, tmp_path / "a.png")
        figure.set_layout_engine(None)
        told = " ".join(" ".join(check_layout(figure)).split())
        assert words in told


def test_lines_of_throughput_join_its_medians():
    ds = prefix_trials()
    cost = prefix_cost(ds)
    lower = plot.plot_prefix(ds, cost).axes[1]
    lines = [line.get_ydata().tolist() for line in lower.lines if line.get_marker() == "None"]
    for condition, line in zip(("hit", "miss"), lines, strict=True):
        medians = [size.throughput_tok_s[condition].median for size in cost.sizes]
        assert line == pytest.approx(medians)


def test_names_that_would_turn_the_text_round_are_escaped_in_figures():
    """U+202E in a policy's name drew "below 300" as "003 woleb"."""
    ds = h8(3).isel(gpu_blocks=slice(0, None, 12))
    ds = ds.assign_coords(policy=["a", "b\u202eevil"])
    part = ds.isel(gpu_blocks=[0, 2])
    figures = [
        plot.plot_cliff(ds, find_cliff(ds)),
        plot.plot_curve(ds, "preemption_rate", "gpu_blocks"),
        plot.plot_heatmap(ds, "preemption_rate", "gpu_blocks", "policy"),
        plot.plot_bars(part, "preemption_rate", "policy"),
        plot.plot_effects(part, factorial_effects(part, "preemption_rate")),
    ]
    for figure in figures:
        told = " ".join(text.get_text() for text in figure.findobj(Text))
        assert "b\\u202eevil" in told
        assert "\u202e" not in told


def test_gib_below_the_axes_of_a_cliff_take_nothing_of_its_panels():
    """The rows were so flat that a name stood on the marks of the row above."""
    sweep = {
        "grid": {"cache.gpu_blocks": [1], "policy": h8(4)["policy"].values.tolist()},
        "policies": {},
        "scenario": {"cache": {"kv_bytes_per_token": 131_072.0, "block_size": 16}},
    }

    def heights(ds):
        figure = plot.plot_cliff(ds, find_cliff(ds, "preemption_rate", "gpu_blocks", 0.05))
        check_layout(figure)
        return np.array([axes.get_window_extent().height for axes in figure.axes]) / figure.dpi

    plain, known = heights(h8(4)), heights(h8(4).assign_attrs(sweep=json.dumps(sweep)))
    assert (known >= 0.98 * plain).all()


def test_a_heatmap_says_what_is_hatched():
    """Cells without a value were, and nothing in the figure said what that is."""
    ds = h8(2)
    for hatched in (False, True):
        if hatched:
            ds["status"] = status(ds, livelock={"gpu_blocks": 1000})
        figure = plot.plot_heatmap(ds, "ttft_p99_ms", "gpu_blocks", "policy", threshold=1e3)
        told = " ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text))
        assert ("hatched: no value" in told) == hatched
        check_layout(figure)


def test_what_all_lines_of_a_trend_share_is_told_once():
    """Each of its names had it, which made them too long to stand at the lines' ends."""
    ds = at_rates(h8(3).isel(policy=[0]), [40.0, 200.0])
    several = xr.concat([ds, ds], xr.Variable("limit", [1, 2]))
    policy = ds["policy"].item()
    (axes,) = plot.plot_cliff_trend(several, find_cliff(several), "rate").axes
    assert {"limit 1", "limit 2"} <= {text.get_text() for text in axes.texts}
    assert axes.get_title(loc="left").startswith(f"cliff of {policy}: where preemption_rate")
    (axes,) = plot.plot_cliff_trend(ds, find_cliff(ds), "rate").axes
    assert [text.get_text() for text in axes.texts] == [policy]
    assert axes.get_title(loc="left").startswith("cliff: where")


def test_the_rate_of_a_trace_is_drawn_of_whole_bins():
    """The last bar was that of the rest of a bin, so that every load seemed to end at nothing."""
    panel, late = (style.new_figure(2.0).subplots() for _ in range(2))
    seconds = np.arange(0, 601)
    _draw_rate(panel, seconds * 10**6)
    assert panel.patches[0].get_data().values.tolist() == [1.0] * 40
    _draw_rate(late, (seconds + 22) * 10**6)
    assert late.patches[0].get_data().values.tolist() == [1.0] * 39


def test_a_thread_that_waits_to_write_a_figure_leaves_the_filters_of_warnings_alone(tmp_path):
    """It had set its own before it waited, and went with another's in place."""
    figure = Figure()
    before = list(warnings.filters)
    with style.style():
        thread = threading.Thread(target=plot.save, args=(figure, tmp_path / "a.png"))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert list(warnings.filters) == before
    thread.join(60)
    assert (tmp_path / "a.png").exists()
    assert list(warnings.filters) == before
