"""The report of two stores: what differs, and what follows from it."""

from __future__ import annotations

from functools import partial

from kvsweep.analysis.compare import compare
from kvsweep.plot.compare_figure import plot_comparison
from kvsweep.report.comparison import difference_parts, differing_parts
from kvsweep.webpage.elements import drawn, heading, paragraphs, text
from kvsweep.webpage.one_store import StoreReport


def comparison(a: StoreReport, b: StoreReport, metrics: list[str]) -> str:
    """Return the report of two stores.

    Raises
    ------
    InputError
        If they have no cell in common.
    """
    parts = [f'<p class="lead">A: {text(a.path)}<br>B: {text(b.path)}</p>']
    for letter, store in (("A", a), ("B", b)):
        if answer := store.answer():
            parts.append(heading(f"{letter}: {store.title}") + answer)
    compared = {metric: compare(a.ds, b.ds, metric) for metric in metrics}
    for found in [*compared.values()][:1]:
        parts.append(heading("Settings") + paragraphs(differing_parts(found)))
    for metric, found in compared.items():
        parts.append(heading(f"Difference of {metric}"))
        known = any(item.interval for item in found.differences)
        bands = f", with {100 * found.confidence:g}% intervals" if known else ""
        caption = f"{metric}, B minus A{bands}"
        parts.append(drawn(partial(plot_comparison, found), caption, f"ab-{metric}"))
        parts.append(paragraphs(difference_parts(found)))
    for letter, store in (("A", a), ("B", b)):
        parts.append(heading(f"{letter}: {store.path}") + store.figures() + store.provenance())
    return "\n".join(parts)
