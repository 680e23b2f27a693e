"""Files of what is shown: a sweep, a command, a figure by the project's own functions."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.toml_text import literal
from kvsweep.explorer import answers
from kvsweep.explorer.answering import Shown
from kvsweep.explorer.messages import Save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kvsweep.explorer.subject import Subject

TYPES = {"svg": "image/svg+xml", "png": "image/png", "toml": "application/toml"}


def saved(subject: Subject, shown: Shown, save: Save) -> dict[str, Any]:
    """Return a file for the page to offer: its name and content.

    Raises
    ------
    InputError
        If there is no such file of this.
    """
    stem = Path(subject.name).stem
    if save.what in ("svg", "png"):
        content = base64.b64encode(_drawn(figure_of(subject, shown), save.what)).decode()
        name = f"{stem}-{shown.measure}.{save.what}"
        return {"what": save.what, "name": name, "type": TYPES[save.what], "base64": content}
    settings = shown.show.scenarios[min(save.scenario, len(shown.show.scenarios) - 1)]
    if save.what == "toml":
        text = subject.toml(settings, shown.show.along)
        name = f"{stem}-explored.toml"
        return {"what": "toml", "name": name, "type": TYPES["toml"], "text": text}
    return {"what": "command", "text": subject.command(settings, shown.show.along, shown)}


def figure_of(subject: Subject, shown: Shown) -> Figure:
    """Return the figure of a cliff, or of curves where none is looked for."""
    from kvsweep.plot import plot_cliff, plot_curve

    ds = answers.joined(shown.results)
    along = shown.show.along
    if len(shown.results) == 2:
        ds = ds.assign_coords({answers.SCENARIO: _names(subject, shown)})
        if answers.gib_of(shown.results, along) is None:
            ds = ds.assign_attrs(sweep="{}")  # that of A alone, whose blocks may have other bytes
    if shown.threshold is None or ds.sizes[along] < 2:
        return plot_curve(ds, list(shown.show.measures), along)
    return plot_cliff(ds, answers.cliff_of(ds, shown.measure, along, shown.threshold))


def _names(subject: Subject, shown: Shown) -> list[str]:
    """Name two scenarios by the setting in which they differ, or by letters if by several."""
    usual = {control.key: control.value for control in subject.controls(shown.show.along)}
    first, second = (usual | settings for settings in shown.show.scenarios)
    keys = [key for key, value in first.items() if value != second[key]]
    if len(keys) != 1:
        return list(answers.SCENARIOS)
    name = ".".join(keys[0].split(".")[1:][-2:]) or keys[0]
    values = (each[keys[0]] for each in (first, second))
    return [
        f"{letter}: {name} {_told(value)}"
        for letter, value in zip(answers.SCENARIOS, values, strict=True)
    ]


def _told(value: Any) -> str:
    """Write the value of a setting as a sweep file has it."""
    if value is None:
        return "not set"
    return value if isinstance(value, str) else literal(value)


def _drawn(figure: Figure, ending: str) -> bytes:
    from kvsweep.plot import save

    with tempfile.TemporaryDirectory(prefix="kvsweep-") as folder:
        path = Path(folder) / f"figure.{ending}"
        save(figure, path)
        return path.read_bytes()
