"""What a store was made from, and what must agree before it is continued."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep._version import __version__
from kvsweep.errors import InputError
from kvsweep.store.refusals import FORMAT

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.config import Sweep

# What decides the numbers: a store goes on with the same only, or its cells would be of two kinds.
DECIDING = ("source_hash", "numba", "numpy")
# Recorded too, of the run that made the store. They may differ: they move numbers about unchanged.
RECORDED = ("kvsweep", "xarray", "zarr")
# Parts of a sweep that decide what is made of the results, not the results.
PRESENTATION = ("title", "question", "cliff", "pareto", "until", "size")
# The SHA-256 of each trace, by its name; of a sweep without any there is no such attribute.
TRACES = "traces"
WAYS_OUT = "--overwrite starts again, --out names another store"
_OF_THE_GRID = "made from another sweep: grid."
NAMES = ("the store", "the sweep")
# Attributes set by options of a run, and the options.
OPTIONS = {"per_request": "--requests", "pruned": "pruning (--no-prune runs every cell)"}


def describe(
    sweep: Sweep,
    source_hash: str,
    *,
    keep_requests: bool = False,
    prune: bool = True,
    traces: Mapping[str, str] | None = None,
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
    traces : mapping of str to str, optional
        SHA-256 of each trace that it reads, by name.
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
        **({TRACES: json.dumps(traces)} if traces else {}),
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
    decides |= {key: attributes[key] for key in (TRACES,) if key in attributes}
    said = json.dumps([_cells_only(attributes), decides, arrays], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def recorded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a store says of its makers that may differ, to be kept when it goes on."""
    return {key: attributes[key] for key in RECORDED if key in attributes}


def check_same(path: Where, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a store whose cells an uninterrupted run of this sweep, here and now, would not give.

    Parameters
    ----------
    path : Path
        The store, for messages.
    there, wanted : mapping
        Its attributes, and those of the store that would be made.

    Raises
    ------
    InputError
        If the store was made from another sweep (the message names the first key that differs),
        by other sources, or another numba or numpy.
    """
    made = difference_of_sweeps(there, wanted) or difference_of_runs(there, wanted)
    if made:
        grows = made.startswith(_OF_THE_GRID) and _has_values_of(there, wanted)
        extends = "--extend keeps its cells, " if grows else ""
        raise InputError(f"{path}: {made}; {extends}{WAYS_OUT}")


def difference_of_sweeps(
    there: Mapping[str, Any], wanted: Mapping[str, Any], names: tuple[str, str] = NAMES
) -> str:
    """Say what was another in the sweep of a store; empty if nothing was.

    Parameters
    ----------
    there, wanted : mapping
        Attributes of the store, and those that are wanted.
    names : (str, str)
        What messages call what these are of.
    """
    before, now = _cells_only(there), _cells_only(wanted)
    difference = _moved_points(before, now, names) or _difference(before, now, names)
    return difference and f"made from another sweep: {difference}"


def _moved_points(
    there: Mapping[str, Any], here: Mapping[str, Any], called: tuple[str, str]
) -> str:
    """Say what was another in a design of which no point stays; empty if that is not so."""
    designs = there.get("design"), here.get("design")
    if not all(design and design["method"] == "latin-hypercube" for design in designs):
        return ""
    difference = _difference(*designs, called, "design")
    return difference and f"{difference}: no point of a latin-hypercube stays as it was"


def _has_values_of(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the axes of a store are in the sweep, each with all of its values."""
    before, now = (
        {
            key: set(map(json.dumps, values))
            for key, values in _cells_only(attributes)["grid"].items()
        }
        for attributes in (there, wanted)
    )
    return all(values <= now.get(key, set()) for key, values in before.items())


def difference_of_runs(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say what else was another when a store was made: options, sources, libraries."""
    for key, option in OPTIONS.items():
        if there.get(key) != wanted[key]:
            how = "with" if there.get(key) else "without"
            return f"made {how} {option}"
    for key in DECIDING:
        if there.get(key) != wanted[key]:
            return f"made by {_maker(key)} {there.get(key)}, not {wanted[key]}"
    return _difference_of_traces(there, wanted)


def _difference_of_traces(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say which trace was another when a store was made; a larger sweep may have more of them."""
    now = json.loads(wanted.get(TRACES, "{}"))
    before = json.loads(there.get(TRACES, "{}"))
    changed = next((name for name, told in before.items() if now.get(name, told) != told), None)
    if changed is not None:
        return f"made from another {changed}: that trace was changed or replaced since"
    return "made by a kvsweep that did not note its traces" if now and not before else ""


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


def restored_sweep(attributes: Mapping[str, Any], store: Where, folder: Path) -> Sweep:
    """Return the sweep that a store was made from.

    Parameters
    ----------
    attributes : mapping
        Of the store.
    store : Path
        It, for messages.
    folder : Path
        Folder that names of files are relative to.
    """
    from kvsweep.config import Sweep
    from kvsweep.config.axes import Axis, dimension_names
    from kvsweep.config.design import Design
    from kvsweep.config.document import AskedCliff, AskedSize, Pareto
    from kvsweep.config.source import Source
    from kvsweep.config.until import Until

    told = json.loads(attributes["sweep"])
    names = dimension_names(list(told["grid"]))
    return Sweep(
        path=folder / store.name,
        title=told["title"],
        question=told["question"],
        text=attributes["toml"],
        base=json.loads(attributes["base"]),
        policies=told["policies"],
        axes=tuple(Axis(key, names[key], tuple(v)) for key, v in told["grid"].items()),
        cliff=told["cliff"] and AskedCliff.model_validate(told["cliff"]),
        pareto=told["pareto"] and Pareto.model_validate(told["pareto"]),
        source=Source(str(store), attributes["toml"], {}, {}),
        entropy=told["entropy"],
        design=Design(**told["design"]) if "design" in told else None,
        until=Until.model_validate(told["until"]) if "until" in told else None,
        size=AskedSize.model_validate(told["size"]) if "size" in told else None,
    )


def _maker(key: str) -> str:
    return "other sources of the simulator," if key == "source_hash" else key


def _cells_only(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the sweep that decides the numbers in the cells."""
    try:
        sweep = json.loads(attributes["sweep"])
        return {key: value for key, value in sweep.items() if key not in PRESENTATION}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _difference(there: Any, here: Any, called: tuple[str, str], key: str = "") -> str:
    """Name the first key in which two sweeps differ and its values; empty if they are equal."""
    if isinstance(there, dict) and isinstance(here, dict):
        names = list(dict.fromkeys([*there, *here]))
        pairs = [(f"{key}.{n}" if key else n, there.get(n), here.get(n)) for n in names]
    elif isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            return f"{key} has {len(there)} values in {called[0]}, {len(here)} in {called[1]}"
        both = enumerate(zip(there, here, strict=True))
        pairs = [(f"{key}[{i}]", a, b) for i, (a, b) in both]
    else:
        same = there == here
        return "" if same else f"{key} is {there!r} in {called[0]}, {here!r} in {called[1]}"
    return next(filter(None, (_difference(a, b, called, name) for name, a, b in pairs)), "")
