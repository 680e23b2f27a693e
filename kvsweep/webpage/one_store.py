"""The report of one store: answer, figures, tables, effects, and where it all comes from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis import variables
from kvsweep.analysis.effects import factorial_effects, refuse_none
from kvsweep.analysis.pareto import Front, pareto_front
from kvsweep.analysis.questions import cliff_of
from kvsweep.analysis.sensitivity import Sensitivity, sensitivity_indices
from kvsweep.analysis.settings import sweep_of
from kvsweep.analysis.warnings import warnings_in, warnings_of, warnings_of_cliff
from kvsweep.analysis.wording import label, level
from kvsweep.config.axes import SAMPLE, SEED
from kvsweep.errors import InputError
from kvsweep.plot.cliff_figure import plot_cliff
from kvsweep.plot.cliff_rows import plot_many_cliffs
from kvsweep.plot.curve import MAX_LINES, plot_curve
from kvsweep.plot.effects_figure import MAX_ROWS, plot_effects
from kvsweep.plot.pareto_figure import plot_pareto
from kvsweep.plot.sensitivity_figure import plot_sensitivity
from kvsweep.report.cliff import cliff_parts, cliff_sentences
from kvsweep.report.effects import effects_parts
from kvsweep.report.gib import cliff_memory
from kvsweep.report.pareto import front_sentence, pareto_parts
from kvsweep.report.sensitivity import sensitivity_parts, sensitivity_sentences
from kvsweep.report.summary import summary_parts
from kvsweep.report.table import table
from kvsweep.webpage.elements import (
    MOST_LINES,
    drawn,
    folded,
    heading,
    listing,
    paragraphs,
    shortened,
    text,
)

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.analysis.cliff_records import Cliff
    from kvsweep.analysis.effect_records import Effects

CURVES = ("ttft_p99_ms", "throughput_rps", "prefix_hit_rate")

BANDS = ": means over seeds, with 95% intervals"
"""What curves are, to who does not see the figures."""

MEASURE = "ttft_p99_ms"  # of effects, where a sweep does not say what it is about

MAX_LEVELS = 8  # of the axes whose effects are told, all in all

# Attributes of a store that tell how it was made, and what they are.
_MADE_BY = {
    "rules": "rules",
    "kvsweep": "kvsweep",
    "source_hash": "source of the simulator, hash",
    "seed_entropy": "entropy of the seeds",
    "numba": "Numba",
    "numpy": "NumPy",
    "xarray": "xarray",
    "zarr": "Zarr",
    "format": "format of the store",
}


class StoreReport:
    """The parts of a report on a store.

    Parameters
    ----------
    path : Path or Address
        The store.
    ds : xr.Dataset
        Its results.
    name : str
        Begins the names of its figures.
    """

    def __init__(self, path: Where, ds: xr.Dataset, name: str) -> None:
        self.path, self.ds, self.name = path, ds, name
        self.sweep = sweep_of(ds)
        self.cliff: Cliff | None = None
        self._without: list[str] = []  # why something that the sweep asks for cannot be told
        if self.sweep.get("cliff"):
            self.cliff = self._tried("cliff", partial(cliff_of, ds, {}))
        self._front = None
        if self.sweep.get("pareto"):
            objectives = self.sweep["pareto"]["objectives"]
            self._front = self._tried("front", partial(pareto_front, ds, objectives))

    def _tried(self, what: str, find: Callable[[], Any]) -> Any:
        """Return what is found, None if a part of a store, as it may be selected, has none."""
        try:
            return find()
        except InputError as problem:
            self._without.append(f"No {what}: {problem}")
            return None

    @property
    def title(self) -> str:
        """What the sweep is called."""
        return str(self.ds.attrs.get("title") or self.path.stem)

    def sections(self) -> Iterator[str]:
        """Yield the report, below the title."""
        question = self.ds.attrs.get("question")
        yield f'<p class="lead">{text(question)}</p>' if question else ""
        yield self.answer()
        yield self._warnings()
        yield self.figures()
        yield heading("What was simulated") + paragraphs(summary_parts(self.ds))
        yield self._details()
        yield self._effects_section()
        yield self.provenance()

    def answer(self) -> str:
        """Return where the cliff is, a sentence for each group; or who is on the front."""
        of_effects = self._effect_lines()  # or why there are none, which is told in any case
        if self.cliff is not None:
            memory = cliff_memory(self.ds, self.cliff)
            lines = [*cliff_sentences(self.cliff), *memory.splitlines()]
        elif self._front is not None:
            lines = [front_sentence(self._front, group) for group in self._front.groups]
        else:
            lines = of_effects
        told = shortened(line for line in lines if line) + paragraphs(self._without)
        return f'<div class="answer">{told}</div>' if told else ""

    def _warnings(self) -> str:
        chosen = any(not coordinate.dims for coordinate in self.ds["status"].coords.values())
        if not chosen:
            found = warnings_of(self.ds)
        elif self.cliff is None:
            found = warnings_in(self.ds)
        else:
            found = warnings_of_cliff(self.ds, self.cliff.along, self.path)
        items = "".join(f"<li>{text(' '.join(str(item).split()))}</li>" for item in found)
        return f"{heading('Warnings')}<ul>{items}</ul>" if items else ""

    def figures(self) -> str:
        """Return the figures that fit the sweep."""
        made = []
        if self.cliff is not None:
            caption = f"{self.cliff.metric} and its cliff"
            made.append(self._drawn("cliff", caption, self._draw_cliff))
        bands = BANDS if self.ds.sizes.get(SEED, 1) > 1 else ""
        made += [
            self._drawn(f"curve-{metric}", f"{metric} along {along}{bands}", plot)
            for metric, along, plot in self._curves()
        ]
        if self._front is not None:
            draw = partial(plot_pareto, self.ds, self._front)
            made.append(self._drawn("pareto", "Policies and their front", draw))
        return heading("Figures") + f'<div class="figures">{"".join(made)}</div>' if made else ""

    def _drawn(self, kind: str, caption: str, make: Any) -> str:
        return drawn(make, caption, f"{self.name}-{kind}")

    def _draw_cliff(self) -> Any:
        assert self.cliff is not None
        try:
            return plot_cliff(self.ds, self.cliff)
        except InputError:  # of too many curves
            return plot_many_cliffs(self.ds, self.cliff)

    def _curves(self) -> Iterator[tuple[str, str, Any]]:
        """Yield measure, what it is drawn along, and what draws it, for the headlines."""
        if SAMPLE in self.ds.dims:  # whose points have no order, and each would have a curve
            return
        along = self.cliff.along if self.cliff is not None else None
        if along is None:
            sizes = {d: self.ds.sizes[d] for d in variables.swept(self.ds) if d != "seed"}
            numeric = [d for d in sizes if self.ds[d].dtype.kind in "iuf" and sizes[d] > 2]
            along = max(numeric, key=lambda d: sizes[d], default=None)
        if along is None:
            return
        known = set(variables.names(self.ds))
        asked = None if self.cliff is None else self.cliff.metric
        few, at = _few_curves(self.ds, along)
        for metric in CURVES:
            if metric in known and metric != asked and _varies(variables.get(self.ds, metric)):
                yield metric, along + at, partial(plot_curve, few, metric, along)

    def _details(self) -> str:
        parts = []
        if self.cliff is not None:
            parts.append(heading("The cliff in numbers") + paragraphs(cliff_parts(self.cliff)))
        if self._front is not None:
            parts.append(heading("Pareto front") + _fronts(self._front))
        return "".join(parts)

    @cached_property
    def _effects(self) -> Effects | Sensitivity | None:
        """Effects of the axes that are factors: of few levels, and not the cliff's own.

        Of a design, what its parameters explain of the measure.
        """
        metric = MEASURE if self.cliff is None else self.cliff.metric
        along = None if self.cliff is None else self.cliff.along
        if metric not in variables.names(self.ds):
            return None
        if SAMPLE in self.ds.dims:
            indices: Sensitivity | None
            indices = self._tried("effects", partial(sensitivity_indices, self.ds, metric))
            return indices
        axes = [d for d in variables.swept(self.ds) if d not in ("seed", along)]
        factors = [d for d in axes if 1 < self.ds.sizes[d] <= MAX_LEVELS]
        if not factors or sum(self.ds.sizes[d] for d in factors) > 2 * MAX_LEVELS:
            return None
        found: Effects | None
        effects = factorial_effects(self.ds, metric, factors)
        found = self._tried("effects", partial(refuse_none, self.ds, effects))
        return found

    def _effect_lines(self) -> list[str]:
        """Return what the effects say, in sentences."""
        if self._effects is None:
            return []
        if isinstance(self._effects, Sensitivity):
            return sensitivity_sentences(self._effects)
        return [*takewhile(bool, effects_parts(self._effects))]

    def _effects_section(self) -> str:
        if self._effects is None:
            return ""
        if isinstance(self._effects, Sensitivity):
            draw = partial(plot_sensitivity, self.ds, self._effects)
            figure = self._drawn("effects", "Effects", draw)
            return heading("Effects") + figure + paragraphs(sensitivity_parts(self._effects))
        shown, caption = self._effects, "Effects"
        if sum(len(group.effects) for group in shown.groups) > MAX_ROWS:
            shown = factorial_effects(self.ds, shown.metric, list(shown.factors), order=1)
            caption = "Effects of single changes; those of several are below"
        figure = self._drawn("effects", caption, partial(plot_effects, self.ds, shown))
        return heading("Effects") + figure + paragraphs(effects_parts(self._effects))

    def provenance(self) -> str:
        """Return what the results follow from: versions, and the sweep's file."""
        attributes = self.ds.attrs
        rows = [("store", str(self.path))]
        known = [(key, name) for key, name in _MADE_BY.items() if key in attributes]
        rows += [(name, level(attributes[key])) for key, name in known]
        parts = [heading("Provenance"), paragraphs([table(("", ""), rows)])]
        if attributes.get("toml"):
            parts.append(folded("The sweep's file", listing(str(attributes["toml"]))))
        settings = json.dumps(self.sweep, indent=2)
        parts.append(folded("All settings that the results follow from", listing(settings)))
        return "".join(parts)


def _fronts(front: Front) -> str:
    """Return what there is of the first fronts, and of many the others when asked for."""
    first = replace(front, groups=front.groups[:MOST_LINES])
    others = replace(front, groups=front.groups[MOST_LINES:], seeds_note="", missing={})
    shown = paragraphs(pareto_parts(first))
    if not others.groups:
        return shown
    return shown + folded(f"{len(others.groups):,} more", paragraphs(pareto_parts(others)))


def _few_curves(ds: xr.Dataset, along: str) -> tuple[xr.Dataset, str]:
    """Return the results of which a figure has room for the curves, and at what, if not all.

    Numeric axes are looked at in the middle of their values, the longest first.
    """
    others = [d for d in variables.swept(ds) if d not in (SEED, along)]
    at: dict[str, Any] = {}
    numeric = [axis for axis in others if ds[axis].dtype.kind in "iuf"]
    for axis in sorted(numeric, key=lambda d: -ds.sizes[d]):
        if prod(ds.sizes[d] for d in others if d not in at) <= MAX_LINES:
            break
        at[axis] = ds[axis].values[ds.sizes[axis] // 2]
    return ds.sel(at), f", at {label(at)}" if at else ""


def _varies(array: xr.DataArray) -> bool:
    values = array.values[np.isfinite(array.values)]
    return bool(values.size and (values != values.flat[0]).any())
