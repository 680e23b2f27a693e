"""One answer of a worker: what the page shows of a request, at a stage of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvsweep.analysis.gib import unit_gib
from kvsweep.explorer import answers
from kvsweep.explorer.messages import Show, check_measures
from kvsweep.explorer.stages import NARROW, Stage

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.explorer.subject import Part, Subject


@dataclass(frozen=True)
class Shown:
    """What the page shows: for figures and commands of the same.

    Attributes
    ----------
    show : Show
        What was asked for.
    results : tuple of xr.Dataset
        Of each scenario.
    seeds : tuple of int
        The seeds.
    """

    show: Show
    results: tuple[xr.Dataset, ...]
    seeds: tuple[int, ...]

    @property
    def measure(self) -> str:
        """Measure of the cliff."""
        return self.show.measures[0]

    @property
    def threshold(self) -> float | None:
        """Its threshold."""
        return self.show.threshold


def answer_of(
    subject: Subject, show: Show, parts: Sequence[Part], stage: Stage, last: Stage
) -> tuple[Shown, dict[str, Any]]:
    """Return what is shown of a request after a stage, as objects and for the page.

    Parameters
    ----------
    subject, show, parts
        What is explored, what was asked for, and what there is of each scenario.
    stage : Stage
        What was simulated last.
    last : Stage
        The last one that there can be.

    Raises
    ------
    InputError
        If there is no such measure.
    """
    check_measures(show.measures, [measure["name"] for measure in subject.measures])
    results = tuple(part.dataset(stage.points, stage.seeds, show.measures) for part in parts)
    first = results[0]
    known = first["seed"].values.tolist() if "seed" in first.dims else []
    answer: dict[str, Any] = {
        "axis": answers.axis_of(results, show.along),
        "measures": [answers.curves(results, m, show.along) for m in show.measures],
        "cliff": _cliff(show, results),
        "seeds": len(known),
        "first_seed": known[0] if known else 0,
        "runs": sum(int(ds["status"].size) for ds in results),
        "notes": [],
    }
    whole = stage.points == last.points
    answer["done"] = stage == last or (whole and answers.is_narrow(answer, NARROW))
    answer["notes"] = _notes(show, parts, results, stage, len(known), answer["done"])
    return Shown(show, results, tuple(known) or (0,)), answer


def _cliff(show: Show, results: Sequence[xr.Dataset]) -> dict[str, Any] | None:
    axis = results[0][show.along]
    if show.threshold is None or axis.size < 2:
        return None
    found = answers.cliff_of(answers.joined(results), show.measures[0], show.along, show.threshold)
    return answers.cliff_answer(found, [unit_gib(ds, show.along) for ds in results])


def _notes(
    show: Show,
    parts: Sequence[Part],
    results: Sequence[xr.Dataset],
    stage: Stage,
    seeds: int,
    done: bool,
) -> list[str]:
    """Return what is to be known of the results; what misleads once they are final."""
    found: list[str] = []
    for name, part, ds in zip(answers.SCENARIOS, parts, results, strict=False):
        lines = answers.notes_of(ds, show.measures[0], seeds or None)
        lines += part.warnings(stage.points, stage.seeds) if done else []
        found += [f"{name}: {line}" if len(parts) > 1 else line for line in lines]
    return found
