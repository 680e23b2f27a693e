"""What a store was made from, and what must agree before it is continued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep._version import __version__
from kvsweep.config.canonical import leaves
from kvsweep.errors import InputError
from kvsweep.store.inputs import FILES, TRACES, sums_of_cells
from kvsweep.store.refusals import FORMAT
from kvsweep.store.unlike_sweeps import GRID, NAMES, cells_only, difference_of_sweeps, orders

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.config import Scenario, Sweep

# What decides the numbers: a store goes on with the same only, or its cells would be of two kinds.
DECIDING = ("source_hash", "numba", "numpy")
# Recorded too, of the run that made the store. They may differ: they move numbers about unchanged.
RECORDED = ("kvsweep", "xarray", "zarr")
WAYS_OUT = "--overwrite starts again, --out names another store"
_OF_THE_GRID = "made from another sweep: grid."
# Attributes set by options of a run, and the options.
OPTIONS = {"per_request": "--requests", "pruned": "pruning (--no-prune runs every cell)"}


def describe(
    sweep: Sweep,
    source_hash: str,
    *,
    keep_requests: bool = False,
    prune: bool = True,
    inputs: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """Return the attributes of a store of `sweep`: what it is and what made it.

    No time, host or number of workers is among them: equal sweeps give equal stores.

    Parameters
    ----------
    sweep : Sweep
    source_hash : str
        Of the sources of the simulator, of which a store knows nothing else.
    keep_requests, prune : bool
        As for `kvsweep.run`.
    inputs : mapping, optional
        SHA-256 of each file that it reads, from `inputs.input_sums`.
    """
    return {
        "format": FORMAT,
        "title": sweep.title,
        "question": sweep.question,
        "toml": sweep.text,
        "sweep": json.dumps(sweep.to_dict(), allow_nan=False),
        "base": json.dumps(sweep.base),
        "rules": sweep.rules,
        "seed_entropy": sweep.entropy,
        # Numbers: netCDF, to which people export results, has no other attributes but text.
        "per_request": int(keep_requests),
        "pruned": int(prune),
        **_makers(source_hash),
        **{name: json.dumps(sums) for name, sums in (inputs or {}).items()},
    }


def identity(attributes: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return what parts of the same cells have in common, in 16 hexadecimal digits.

    Parameters
    ----------
    attributes : mapping
        Of the store, from `describe`.
    arrays : mapping
        Metadata of its arrays.
    """
    decides = {key: attributes[key] for key in (*OPTIONS, *DECIDING)}
    decides |= {key: attributes[key] for key in (TRACES, FILES) if key in attributes}
    cells = cells_only(attributes)
    # Axes are in the arrays; of others `sort_keys` loses the order.
    ordered = {table: keys for table, keys in orders(cells).items() if table != GRID and keys[1:]}
    decides |= {"orders": ordered} if ordered else {}
    said = json.dumps([cells, decides, arrays], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def recorded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a store says of its makers that may differ, to be kept when it goes on."""
    return {key: attributes[key] for key in RECORDED if key in attributes}


def check_same(
    path: Where, there: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path
) -> None:
    """Refuse a store whose cells an uninterrupted run of this sweep, here and now, would not give.

    Parameters
    ----------
    path : Path
        The store, for messages.
    there, wanted : mapping
        Its attributes, and those of the store that would be made.
    folder : Path
        Folder that names of files are relative to.

    Raises
    ------
    InputError
        If the store was made from another sweep (the message names the first key that differs),
        by other sources, or another numba or numpy.
    """
    if made := difference(there, wanted, folder=folder):
        grows = made.startswith(_OF_THE_GRID) and _has_values_of(there, wanted)
        extends = "--extend keeps its cells, " if grows else ""
        raise InputError(f"{path}: {made}; {extends}{WAYS_OUT}")


def _has_values_of(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the axes of a store are in the sweep, each with all of its values."""
    before, now = (
        {
            key: set(map(json.dumps, values))
            for key, values in cells_only(attributes)["grid"].items()
        }
        for attributes in (there, wanted)
    )
    return all(values <= now.get(key, set()) for key, values in before.items())


def difference(
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    names: tuple[str, str] = NAMES,
    folder: Path | None = None,
) -> str:
    """Say what was another when a store was made: its sweep, or what else decides its cells.

    Where another kvsweep made it that knows other keys, that is said: nobody has set those.

    Parameters
    ----------
    there, wanted, names, folder
        As for `difference_of_sweeps`.
    """
    runs = difference_of_runs(there, wanted)
    keys = [set(dict(leaves(cells_only(of).get("scenario") or {}))) for of in (there, wanted)]
    if runs and keys[0] != keys[1] and there.get("source_hash") != wanted["source_hash"]:
        return runs
    return difference_of_sweeps(there, wanted, names, folder) or runs


def difference_of_runs(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say what else was another when a store was made: options, sources, libraries."""
    for key, option in OPTIONS.items():
        if there.get(key) != wanted[key]:
            how = "with" if there.get(key) else "without"
            return f"made {how} {option}"
    for key in DECIDING:
        if there.get(key) != wanted[key]:
            return f"made by {_maker(key)} {there.get(key)}, not {wanted[key]}"
    return _difference_of_inputs(there, wanted)


def _difference_of_inputs(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which file was another when a store was made; a larger sweep may have more of them.

    Stores of before presets and the like were noted are believed to have these.
    """
    for attribute, kind in ((TRACES, "trace"), (FILES, "file")):
        now = json.loads(wanted.get(attribute, "{}"))
        before = json.loads(there.get(attribute, "{}"))
        changed = next((name for name, told in before.items() if now.get(name, told) != told), None)
        if changed is not None:
            return f"made from another {changed}: that {kind} was changed or replaced since"
        if attribute == TRACES and now and not before:
            return "made by a kvsweep that did not note its traces"
    return ""


def difference_of_cells(
    attributes: Mapping[str, Any],
    variants: Sequence[Scenario],
    policies: Sequence[str | None],
    seeds: Sequence[int],
    folder: Path,
) -> str:
    """Say which file that cells of a store read was another when it was made; empty if none was.

    Raises
    ------
    InputError
        If one cannot be read.
    """
    here = sums_of_cells(variants, policies, seeds, folder)
    return _difference_of_inputs(attributes, {name: json.dumps(here[name]) for name in here})


def difference_of_makers(attributes: Mapping[str, Any], source_hash: str) -> str:
    """Say what that decides numbers was another when a store was made; empty if nothing was.

    Parameters
    ----------
    attributes : mapping
        Of the store.
    source_hash : str
        Of the sources of the simulator that is here.
    """
    here = _makers(source_hash)
    for key in DECIDING:
        if attributes.get(key) != here[key]:
            return f"it was made by {_maker(key)} {attributes.get(key)}, not {here[key]}"
    return ""


def _makers(source_hash: str) -> dict[str, str]:
    """Return what makes a store here and now."""
    libraries = ("numba", "numpy", "xarray", "zarr")
    made = {"kvsweep": __version__, "source_hash": source_hash}
    return made | {name: version(name) for name in libraries}


def _maker(key: str) -> str:
    return "other sources of the simulator," if key == "source_hash" else key
