"""Write the figure of docs/findings/dual-pools.md and print its numbers, from stores.

To renew both, after the commands of the page::

    python docs/figures/pools.py
"""

from pathlib import Path

import numpy as np

import kvsweep
from kvsweep.analysis import statistics
from kvsweep.plot import saving, style

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "docs" / "findings" / "dual-pools.png"
LEVELS = (1000.0, 2000.0)  # TTFT p99, ms
NAMES = {
    "one-16": "one pool, 16 seats",
    "one-128": "one pool, 128 seats",
    "two-128-16": "two pools, 128 and 16 seats",
    "two-128-128": "two pools, 128 seats each",
}


def results(name):
    """Open a store."""
    return kvsweep.open_results(ROOT / "results" / f"{name}.zarr")


def fewest(ds, level, sizes, dims):
    """Return the fewest instances that keep a TTFT p99, (slices, seeds); NaN: none did."""
    kept = ds.ttft_p99_ms <= level
    return sizes.where(kept).min(dims).transpose("from_s", "seed").values


def interval(values, of=lambda mean: mean):
    """Return a function of the mean over seeds, (seeds, ...), with its 95 % interval."""
    counts = statistics.resample_counts(len(values), 2000)
    samples = of(*statistics.student_means(values, counts).T)
    low, high = np.quantile(samples, [0.025, 0.975])
    return of(*values.mean(0)), low, high


def told(found, digits=1):
    """Write a number and its interval."""
    mean, low, high = found
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def tell_fleets(title, one, two=None):
    """Print the fewest instances of one pool and of two, by level and slice."""
    print(title)
    for level in LEVELS:
        few, many = (
            fewest(at, level, at.instances, "instances")
            for at in (one.sel(max_num_seqs=16), one.sel(max_num_seqs=128))
        )
        kinds = {"one-16": few, "one-128": many}
        if two is not None:
            sizes = two["0_instances"] + two["1_instances"]
            kinds["two-128-16"] = fewest(two, level, sizes, ["0_instances", "1_instances"])
        for name, counts in kinds.items():
            seeds = min(c.shape[1] for c in kinds.values())
            total = counts[:, :seeds].sum(0)
            line = [f"{level:.0f} ms", name, *np.round(counts.mean(1), 2)]
            for base in ("one-16", "one-128"):
                other = kinds[base][:, :seeds].sum(0)
                saved = interval(
                    np.stack([total, other], -1).astype(float), lambda a, b: 100 * (1 - a / b)
                )
                line.append(f"fewer than {base}: {told(saved)} %")
            print(" ", *line)


def tell_preemptions(ds):
    """Print preemptions and latencies by blocks."""
    for name in ("preemption_rate", "ttft_p99_ms", "e2e_mean_ms"):
        digits = 4 if name == "preemption_rate" else 0
        for policy in ds.policy.values:
            cells = ds[name].sel(policy=policy).transpose("gpu_blocks", "seed").values
            print(name, policy, *(told(interval(c[:, None]), digits) for c in cells), sep=" | ")
    for blocks in ds.gpu_blocks.values:
        at = ds.preemption_rate.sel(gpu_blocks=blocks)
        for one, two in (("one-128", "two-128-128"), ("one-128", "two-128-16")):
            pair = np.stack([at.sel(policy=one), at.sel(policy=two)], -1)
            if pair.mean(0).min() > 0:
                found = interval(pair, lambda a, b: a / b)
                print(blocks, one, "over", two, told(found, 2))


def tell_split(ds):
    """Print preemptions and latencies of one pool and of two of another split."""
    for name, digits in (("preemption_rate", 4), ("ttft_p99_ms", 0)):
        for policy in ds.policy.values:
            cells = ds[name].sel(policy=policy).values[:, None]
            print(name, policy, told(interval(cells), digits))
    one = ds.preemption_rate.sel(policy="one-128").values
    for two in ("two-128-128", "two-128-16"):
        pair = np.stack([one, ds.preemption_rate.sel(policy=two).values], -1)
        print("one-128 over", two, told(interval(pair, lambda a, b: a / b), 2))


def draw_fleets(panel, one, two):
    """Draw the fewest instances of each kind of fleet, by trace and stretch."""
    level = LEVELS[-1]
    sizes = two["0_instances"] + two["1_instances"]
    ticks = []
    for group, trace in enumerate(("conv", "code")):
        ds = one.sel(policy=trace)
        kinds = [
            fewest(ds.sel(max_num_seqs=seats), level, ds.instances, "instances")
            for seats in (16, 128)
        ]
        if trace == "conv":
            kinds.insert(1, fewest(two, level, sizes, ["0_instances", "1_instances"]))
        for i, start in enumerate(ds.from_s.values):
            place = 3.4 * group + i
            ticks.append((place, f"{start:,.0f} s"))
            for k, counts in enumerate(kinds):
                look = (0, 2, 1)[k] if len(kinds) == 3 else k
                name = list(NAMES)[look]
                shift = (k - (len(kinds) - 1) / 2) * 0.27
                panel.bar(
                    place + shift,
                    counts[i].mean(),
                    0.25,
                    color=style.colour(look),
                    label=NAMES[name] if group == i == 0 else None,
                )
    panel.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
    panel.set_xlabel("conversation, from              code, from")
    panel.set_ylabel("fewest instances (TTFT p99 of 2 s)")
    panel.set_ylim(0, 37)
    panel.legend(frameon=False, fontsize=7, loc="upper left")


def draw(one, two, preemptions):
    """Return the figure: the fewest instances, and preemptions over blocks."""
    with style.style():
        figure = style.new_figure(2.8, width=2 * style.COLUMN_WIDTH)
        left, right = figure.subplots(1, 2)
        draw_fleets(left, one, two)
        for i, policy in enumerate(NAMES):
            cells = preemptions.preemption_rate.sel(policy=policy)
            mean, half = statistics.mean_and_t(cells.transpose("gpu_blocks", "seed").values, 0.95)
            look = {"color": style.colour(i), "ls": style.dash(i), "lw": 1.2}
            if policy == "two-128-16":  # the next one lies on it
                look |= {"lw": 4.0, "ls": "-", "alpha": 0.4, "elinewidth": 1.2}
            right.errorbar(cells.gpu_blocks, mean, half, label=NAMES[policy], **look)
        right.set_xscale("log")
        right.set_xticks([1000, 2000, 4000, 10000], ["1,000", "2,000", "4,000", "10,000"])
        right.minorticks_off()
        right.set_xlabel("GPU blocks of each of 16 instances")
        right.set_ylabel("preemptions per request")
        right.set_ylim(top=0.235)  # room for the legend
        right.legend(frameon=False, fontsize=7)
    return figure


def tell_fixed(one, two):
    """Print the fewest instances that keep the level in every stretch, by seed."""
    fleets = {seats: (one.sel(max_num_seqs=seats), "instances") for seats in (16, 128)}
    fleets["two"] = (two, ["0_instances", "1_instances"])
    for name, (ds, dims) in fleets.items():
        sizes = ds.instances if dims == "instances" else ds["0_instances"] + ds["1_instances"]
        kept = (ds.ttft_p99_ms <= LEVELS[-1]).all("from_s")
        print("in every stretch", name, sizes.where(kept).min(dims).values)


if __name__ == "__main__":
    one, two = results("one-pool"), results("dual-pools")
    preemptions = results("dual-pools-preemptions")
    tell_fleets("conversation", one.sel(policy="conv"), two)
    tell_fixed(one.sel(policy="conv"), two)
    tell_fleets("code", one.sel(policy="code"))
    authors = results("one-pool-authors")
    for policy in authors.policy.values:
        tell_fleets(f"{policy}, the authors' step times", authors.sel(policy=policy))
    tell_preemptions(preemptions)
    tell_split(results("dual-pools-split"))
    saving.save(draw(one, two, preemptions), FIGURE)
