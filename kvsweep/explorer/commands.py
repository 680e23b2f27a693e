"""What is shown, as a command or a sweep file that gives the same numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.toml_text import document, literal, option
from kvsweep.errors import escaped

if TYPE_CHECKING:
    from kvsweep.config import Sweep
    from kvsweep.explorer.subject import Seen

FILES = ("trace", "lengths_from", "config")
"""Keys that name files, besides any value that ends as a preset's file does."""

POLICIES = "policies"


def given_overrides(sweep: Sweep) -> dict[str, str]:
    """Return what options had set already when a sweep was loaded, ``KEY=VALUE`` by key."""
    found: dict[str, str] = {}
    for path, label in sweep.source.labels.items():
        if label.startswith("--set "):
            key, value = label.removeprefix("--set "), _at(sweep.source.values, path)
            found[key] = f"{key}={option(value)}"
    return found


def grid_command(sweep: Sweep, overrides: Sequence[str], along: str, seen: Seen) -> str:
    """Return the command that makes a store of what is shown, and the one that tells its cliff."""
    store = f"results/{sweep.name}-explored.zarr"
    settings = given_overrides(sweep) | {text.partition("=")[0]: text for text in overrides}
    words = ["kvsweep", "grid", str(sweep.path)]
    for text in settings.values():
        words += ["--set", text]
    seeds = list(seen.seeds)
    if seeds == list(range(len(seeds))):
        words += ["--seeds", str(len(seeds))]
    else:
        words += ["--set", f"seed={literal(seeds)}"]
    words += ["--out", store]
    lines = [shlex.join(words)]
    if seen.threshold is not None:
        lines.append(store_command(store, (), along, seen))
    return "\n".join(lines)


def store_command(store: str, at: Sequence[str], along: str, seen: Seen) -> str:
    """Return the command for a store, at some values of its other axes.

    It tells the cliff or, where none is looked for, draws the curve.
    """
    words = ["kvsweep", "plot", store, "curve"]
    if seen.threshold is not None:
        words = ["kvsweep", "cliff", store]
    for text in at:
        words += ["--at", text]
    words += ["--metric", seen.measure, "--along", along]
    if seen.threshold is not None:
        words += ["--threshold", f"{seen.threshold:.12g}"]
    return shlex.join(words)


def sweep_toml(sweep: Sweep, origin: str, overrides: Sequence[str]) -> str:
    """Return a sweep as a file of its own, with the overrides that it was made by.

    Parameters
    ----------
    sweep : Sweep
        With the overrides.
    origin : str
        The file that they were made in.
    overrides : sequence of str
        ``KEY=VALUE`` each, for the first lines. Policies that they leave idle are left out, as a
        file in which they stand is refused.
    """
    head = [f"# {escaped(origin)}, as `kvsweep explore` had it:"]
    head += [f"# --set {escaped(text)}" for text in overrides]
    values = _with_whole_paths(_run_alone(sweep), sweep.base_dir.resolve(), "")
    return "\n".join([*head, "", document(values)])


def _run_alone(sweep: Sweep) -> dict[str, Any]:
    """Return what a sweep's file has without the policies that are not run."""
    run = sweep.policies_run
    policies = {k: v for k, v in sweep.source.values.get(POLICIES, {}).items() if k in run}
    rest = {key: value for key, value in sweep.source.values.items() if key != POLICIES}
    return rest | ({POLICIES: policies} if policies else {})


def _with_whole_paths(value: Any, folder: Path, key: str) -> Any:
    """Return nested values with names of files made absolute: the new file lies elsewhere."""
    if isinstance(value, Mapping):
        return {name: _with_whole_paths(inner, folder, str(name)) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_paths(inner, folder, key) for inner in value]
    names_file = key.rpartition(".")[2] in FILES or str(value).endswith(".toml")
    return str(folder / value) if isinstance(value, str) and names_file else value


def _at(values: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        values = values[part]
    return values
