"""One page for one store or several; of two also what they differ in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import xarray as xr

from kvsweep.analysis import variables
from kvsweep.plot.page import Page, page
from kvsweep.webpage.elements import heading, text
from kvsweep.webpage.one_store import StoreReport
from kvsweep.webpage.two_stores import comparison

if TYPE_CHECKING:
    from kvsweep.addresses import Where

# What two stores are compared by, where they have it, after what their sweeps ask.
COMPARED = ("ttft_p99_ms", "throughput_rps")


def report_page(
    stores: Sequence[tuple[Where, xr.Dataset]], *, compared: bool, metric: str | None = None
) -> Page:
    """Return the report of stores as a page.

    Parameters
    ----------
    stores : sequence of (Path or Address, xr.Dataset)
        Stores with their results.
    compared : bool
        Two of them: tell the difference.
    metric : str or None
        The measure of a comparison; None: that of A's cliff, and `COMPARED`.

    Raises
    ------
    InputError
        If a store has no such measure, or two have no cell in common.
    """
    reports = [StoreReport(path, ds, f"s{i}") for i, (path, ds) in enumerate(stores)]
    if compared:
        a, b = reports
        title = f"{a.title}: two stores" if a.title == b.title else f"{a.title} and {b.title}"
        body = comparison(a, b, [metric] if metric else _metrics(a, b))
        parts = [heading(title, 1), body]
    else:
        title = " and ".join(dict.fromkeys(report.title for report in reports))
        parts = []
        for report in reports:
            parts += [f"<h1>{text(report.title)}</h1>", *report.sections()]
    return page(title, "\n".join(parts), ("report.css",))


def _metrics(a: StoreReport, b: StoreReport) -> list[str]:
    known = set(variables.names(a.ds)) & set(variables.names(b.ds))
    asked = [] if a.cliff is None else [a.cliff.metric]
    return [name for name in dict.fromkeys([*asked, *COMPARED]) if name in known]
