"""What losing a prefix costs, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kvsweep.analysis.prefix_cost import Line, PrefixCost, SizeCost, Spread
from kvsweep.analysis.wording import number
from kvsweep.llama.design import CONDITIONS, HIT, MISS
from kvsweep.report.table import table

if TYPE_CHECKING:
    import xarray as xr


def prefix_text(cost: PrefixCost) -> str:
    """Write the three findings, then the table they rest on."""
    header = ("A:B", "hit TTFT ms", "", "miss TTFT ms", "", "degradation", "hit token/s",
              "miss token/s")  # fmt: skip
    rows = [_row(size) for size in cost.sizes]
    findings = (_miss(cost.miss), _hit(cost), _throughput(cost))
    return "\n".join((*findings, "", table(header, rows), "Medians [10 %, 90 % of the trials]."))


def prefix_warnings(ds: xr.Dataset, cost: PrefixCost) -> Iterator[str]:
    """Yield lines on trials that were not run, outputs that ended early, and texts not as sent."""
    planned = ds["position"].size
    if cost.trials < planned:
        left_out = ds.sizes["size"] - len(cost.sizes)
        more = f"; without {left_out} of {ds.sizes['size']} sizes" if left_out else ""
        yield f"{cost.trials} of {planned} trials were run, as it was ended early{more}"
    if cost.early_eos:
        yield (
            f"{cost.early_eos} of {cost.trials} outputs ended before {ds.attrs['output_tokens']} "
            "tokens, at the model's end token: their throughput is of fewer tokens, or none"
        )
    other = int((ds["text_tokens"] != ds["token_count"]).sum())
    if other:
        yield (
            f"{other} of {ds['token_count'].size} prompts, sent as tokens, have a text that the "
            "model's tokenizer makes other tokens of"
        )


def _miss(line: Line | None) -> str:
    if line is None:
        return "A miss: one size of B alone, so no line over B."
    of_medians = "" if np.isnan(line.r2) else f"{line.r2:.3f} of the medians, "
    return (
        f"A miss costs {line.slope:.3g} ms per token of B: "
        f"R2 {of_medians}{line.r2_trials:.3f} of all trials."
    )


def _hit(cost: PrefixCost) -> str:
    medians = [size.ttft_ms[HIT].median for size in cost.sizes]
    text = f"A hit takes {number(min(medians))} to {number(max(medians))} ms"
    if cost.hit_slope_share is None:
        return f"{text}."
    share = round(cost.hit_slope_share, 3) + 0.0  # no minus of a zero
    return f"{text}: its slope over B is {share:.1%} of the miss's."


def _throughput(cost: PrefixCost) -> str:
    ratio = cost.throughput_ratio
    if np.isnan(ratio):
        return "Throughput of the output: none after a hit or after a miss."
    return f"Throughput of the output after a miss: {number(ratio)} times that after a hit."


def _row(size: SizeCost) -> tuple[str, ...]:
    return (
        size.label,
        *_median_and_ends(size.ttft_ms[HIT]),
        *_median_and_ends(size.ttft_ms[MISS]),
        f"{size.degradation:+.0%}",
        *(number(size.throughput_tok_s[name].median) for name in CONDITIONS),
    )


def _median_and_ends(spread: Spread) -> tuple[str, str]:
    return number(spread.median), f"[{number(spread.p10)}, {number(spread.p90)}]"
