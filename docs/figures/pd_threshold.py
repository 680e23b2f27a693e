"""Write the figure of docs/findings/pd-threshold.md and print its tables, from stores.

To renew both, after the commands of the page::

    python docs/figures/pd_threshold.py
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

import kvsweep
from kvsweep.analysis import statistics
from kvsweep.plot import saving, style

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "docs" / "findings" / "pd-threshold.png"
KINDS = {"code": "code generation", "chat": "interactive chat"}
THRESHOLD = "pd_uncached_token_threshold"
LOCAL = 1_000_000  # longer than any prompt: none goes away


def results(kind):
    """Open a store; its measures are (threshold, rate, seed)."""
    found = kvsweep.open_results(ROOT / "results" / f"pd-threshold-{kind}.zarr")
    assert (found.status == "ok").all()
    return found.transpose(THRESHOLD, "rate", "seed", ...)


def called(threshold):
    """Return what a threshold is called."""
    return "none goes away" if threshold == LOCAL else f"more than {threshold:,}"


def table(name, found, scale=1.0, digits=2):
    """Print means with 95 % intervals, a row for each threshold."""
    thresholds, rates = found[THRESHOLD].values, found.rate.values
    print(f"\n{name}\n| uncached tokens that go away |", *(f"{rate:g} |" for rate in rates))
    print("|---|" + "--:|" * len(rates))
    for threshold in thresholds:
        mean, half = statistics.mean_and_t(scale * found.sel({THRESHOLD: threshold}).values, 0.95)
        cells = (f"{m:.{digits}f} ± {h:.{digits}f} |" for m, h in zip(mean, half, strict=True))
        print(f"| {called(threshold)} |", *cells)


def ratio(found, one, other):
    """Return ratios of means over the seeds by rate, with bootstrap intervals; (rates, 3)."""
    rows = []
    for rate in found.rate.values:
        at = found.sel(rate=rate)
        pair = np.stack([at.sel({THRESHOLD: each}).values for each in (one, other)], -1)
        counts = statistics.resample_counts(len(pair), 2000)
        samples = np.divide(*statistics.student_means(pair, counts).T)
        low, high = np.quantile(samples, [0.025, 0.975])
        first, second = pair.mean(0)
        rows.append((first / second, low, high))
    return np.array(rows)


def tell(kind, ds):
    """Print the tables of a workload."""
    print(f"\n# {kind}: {dict(ds.sizes)}")
    table("share that goes away, %", ds.pulls / ds.completed, 100, 1)
    table("TTFT, mean, s", ds.ttft_mean_ms, 1e-3, 3)
    table("TPOT, mean, ms", ds.tpot_mean_ms, 1, 1)
    table("end to end, mean, s", ds.e2e_mean_ms, 1e-3, 1)
    table("prefix hit rate", ds.prefix_hit_rate)
    for threshold in ds[THRESHOLD].values[1:]:
        rows = ratio(ds.ttft_mean_ms, 16, threshold)
        print(
            "TTFT, 16 over", called(threshold), *(f"{m:.2f} [{a:.2f}, {b:.2f}]" for m, a, b in rows)
        )


def looks(stores):
    """Return a look for each threshold, the same in all panels: larger ones are lighter."""
    known = sorted({int(t) for ds in stores.values() for t in ds[THRESHOLD].values} - {LOCAL})
    ramp = mpl.colormaps["plasma"](np.linspace(0.1, 0.85, len(known)))
    found = {t: {"color": ramp[i], "ls": style.dash(i), "lw": 1.2} for i, t in enumerate(known)}
    return {**found, LOCAL: {"color": style.INK, "ls": "-", "lw": 2.0}}


def draw(stores):
    """Return the figure: the first token over the load, by threshold."""
    with style.style():
        figure = style.new_figure(3.1, width=2 * style.COLUMN_WIDTH)
        shown, lines = looks(stores), {}
        for panel, (kind, ds) in zip(figure.subplots(1, 2), stores.items(), strict=True):
            for threshold in ds[THRESHOLD].values:
                cells = ds.ttft_mean_ms.sel({THRESHOLD: threshold}).values / 1000
                mean, half = statistics.mean_and_t(cells, 0.95)
                lines[threshold] = panel.errorbar(ds.rate, mean, half, **shown[threshold])
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(style.number_ticks())
            panel.set_xlabel("sessions per second")
            panel.set_title(KINDS[kind], fontsize=8)
        figure.axes[0].set_ylabel("TTFT, mean (s)")
        names = {called(threshold): lines[threshold] for threshold in shown}
        title = "uncached tokens that go away"
        look = {"frameon": False, "fontsize": 7, "title": title, "title_fontsize": 7}
        figure.legend(names.values(), names, ncols=4, loc="outside lower center", **look)
    return figure


def main():
    """Print the tables, and write the figure."""
    stores = {kind: results(kind) for kind in KINDS}
    for kind, ds in stores.items():
        tell(kind, ds)
    saving.save(draw(stores), FIGURE)


if __name__ == "__main__":
    main()
