"""Write the figure of docs/findings/ratios.md and print its numbers, from stores.

To renew both, after the commands of the page::

    python docs/figures/ratios.py
"""

from pathlib import Path

import numpy as np

import kvsweep
from kvsweep import report
from kvsweep.analysis import statistics
from kvsweep.plot import saving, style

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "docs" / "findings" / "ratios.png"
KEPT = 0.9  # share of the requests that are to keep the levels
DRAWN = ("together", "7-to-1", "6-to-2", "5-to-3", "4-to-4", "3-to-5")


def results(name):
    """Open a store."""
    return kvsweep.open_results(ROOT / "results" / f"{name}.zarr")


def attainment(ds):
    """Return mean and half width of the share of requests that keep the levels, (policy, scale)."""
    found = ds.slo_attainment.mean("from_s").transpose("policy", "scale", "seed").values
    mean, half = statistics.mean_and_t(found.reshape(-1, found.shape[-1]), 0.95)
    shape = found.shape[:-1]
    return mean.reshape(shape), half.reshape(shape)


def tell(name, ds):
    """Print what each ratio serves, over both stretches and in each alone."""
    print(f"\n{name}: {dict(ds.sizes)}; not ok: {int((ds.status != 'ok').sum())}")
    mean, half = attainment(ds)
    print("share of requests that keep the levels, by scale", ds.scale.values)
    for policy, means, halves in zip(ds.policy.values, mean, half, strict=True):
        print(f"  {policy:9}", *(f"{m:.3f}±{h:.3f}" for m, h in zip(means, halves, strict=True)))
    for of in (ds.mean("from_s", keep_attrs=True), *(ds.sel(from_s=s) for s in ds.from_s.values)):
        cliffs = kvsweep.find_cliff(
            of[["slo_attainment"]], metric="slo_attainment", along="scale", threshold=KEPT
        )
        print(report.cliff_text(cliffs).partition("\n\n")[0])
    for measure in ("ttft_p99_ms", "tpot_p99_ms", "prefix_hit_rate", "preemption_rate"):
        means = ds[measure].mean(["seed", "from_s"]).transpose("policy", "scale").values
        print(measure)
        for policy, row in zip(ds.policy.values, means, strict=True):
            print(f"  {policy:9}", *np.round(row, 3))
    for measure in ("kept_mean_ms", "pull_wait_mean_ms"):
        means = ds[measure].mean(["seed", "from_s"]).transpose("policy", "scale").values
        print(measure)
        for policy, row in zip(ds.policy.values, means, strict=True):
            print(f"  {policy:9}", *np.round(row))


def draw(traces, smaller):
    """Return the figure: a panel for each trace, a line for each ratio and smaller steps."""
    with style.style():
        figure = style.new_figure(2.9, width=2 * style.COLUMN_WIDTH)
        panels = figure.subplots(1, 3, sharey=True)
        for panel, (name, ds) in zip(panels, traces.items(), strict=True):
            mean, half = attainment(ds)
            policies = list(ds.policy.values)
            for i, policy in enumerate(DRAWN):
                at = policies.index(policy)
                look = {"color": style.colour(i), "ls": style.dash(i)}
                panel.errorbar(
                    ds.scale, mean[at], half[at], lw=1, label=policy.replace("-", " "), **look
                )
            steps = smaller[name].mean("from_s").sel(max_num_batched_tokens=512)
            means, halves = statistics.mean_and_t(
                steps.slo_attainment.transpose("scale", "seed").values, 0.95
            )
            panel.errorbar(
                steps.scale, means, halves, lw=1, color=style.INK, label="together, steps of 512"
            )
            panel.axhline(KEPT, color=style.GRID, lw=0.8, zorder=0)
            panel.set_title(name, fontsize=7.5)
            panel.set_xlabel("factor of the rate")
        panels[0].set_ylabel("requests that keep both levels")
        panels[0].set_ylim(0, 1.06)  # intervals of a mean that is nearly 1 go beyond it
        lines, labels = panels[0].get_legend_handles_labels()
        where = "outside lower center"
        figure.legend(lines, labels, frameon=False, fontsize=7, ncols=len(labels), loc=where)
    return figure


if __name__ == "__main__":
    azure = results("ratio-azure")
    conv, code = (azure.sel(trace=name) for name in azure.trace.values)
    traces = {
        "Mooncake, conversation": results("ratio-mooncake"),
        "Azure, conversation": conv,
        "Azure, code": code,
    }
    stores = ("ratio-together", "ratio-together-conv", "ratio-together-code")
    smaller = dict(zip(traces, map(results, stores), strict=True))
    for name, ds in traces.items():
        tell(name, ds)
        steps = smaller[name].mean("from_s", keep_attrs=True)[["slo_attainment"]]
        found = kvsweep.find_cliff(steps, "slo_attainment", "scale", KEPT)
        print(report.cliff_text(found).partition("\n\n")[0])
    saving.save(draw(traces, smaller), FIGURE)
