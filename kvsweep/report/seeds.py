"""What the seeds of ``seed = { until = ... }`` reached, as text."""

from __future__ import annotations

from math import ceil
from typing import Any

from kvsweep.analysis.wording import counted, decimals, label, number
from kvsweep.config.until import Until
from kvsweep.report.table import mean_and_sd, table

NAMED = 10
"""Cells that are named, at most."""


def seeds_text(reached: dict[str, Any]) -> str:
    """Write what came out: in how many cells the measure is known well enough, and in which not.

    Parameters
    ----------
    reached : dict
        As of `kvsweep.seeding.Reached.to_dict`.
    """
    asked, cells, left = reached["asked"], reached["cells"], reached["open"]
    known = "all" if not left else f"{reached['narrow']:,} of"
    where = "in the one cell" if cells == 1 and not left else f"in {known} {counted(cells, 'cell')}"
    seeds = f"{reached['seeds']:,} seeds{_limit(reached['seeds'], asked['most']) if left else ''}"
    lines = [f"{seeds}: {Until.model_validate(asked)} {where}"]
    if reached["equal"]:
        share = 3.0 / reached["seeds"]  # what all of n are without is not as frequent as 3 / n
        lines.append(
            f"  in {reached['equal']:,} of these all seeds have one value; what less than "
            f"{share:.2g} of all seeds show may be unseen"
        )
    if left:
        header = ["  not in", asked["metric"], "of the mean", "seeds without"]
        rows = [_row(cell) for cell in left[:NAMED]]
        lines.append(table(header, rows))
    if len(left) > NAMED:
        lines.append(f"  and {len(left) - NAMED:,} more")
    return "\n".join(lines)


def _limit(seeds: int, most: int) -> str:
    """Say why there are no more seeds; a store may have had more than the sweep now allows."""
    if seeds < most:
        return ""
    return ", the most" if seeds == most else f", where most = {most:,} allows no more"


def _row(cell: dict[str, Any]) -> list[str]:
    mean, half = cell["mean"], cell["half"]
    if mean is None:
        known, share = "no value", ""
    elif half is None:
        known, share = number(mean), ""
    else:
        known = mean_and_sd(mean, half)
        share = f"± {_rounded_up(100 * half / abs(mean))} %" if mean else ""
    missing = f"{cell['missing']:,}" if cell["missing"] else ""
    return [f"  {label(cell['cell']) or 'the one cell'}", known, share, missing]


def _rounded_up(share: float) -> str:
    """Write a share that is too wide to two digits, never as what was asked for."""
    digits = decimals(share)
    up = ceil(round(share * 10**digits, 6)) / 10**digits
    return f"{up:,.{digits}f}"
