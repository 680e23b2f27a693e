"""Whether two stores are of one sweep, as far as it decides the numbers in the cells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kvsweep.config.canonical import SCENARIOS, leaves
from kvsweep.store.restoring import FOLDERS, scenarios_of

# Parts of a sweep that decide what is made of the results, not the results.
PRESENTATION = ("title", "question", "cliff", "pareto", "until", "size")
NAMES = ("the store", "the sweep")

GRID, DESIGN = "grid", "design.ranges"
# Tables whose order decides something: what their keys are, and what another order makes.
_ORDERED = {GRID: ("axis", ""), DESIGN: ("parameter", ", which makes other points")}


def difference_of_sweeps(
    there: Mapping[str, Any],
    wanted: Mapping[str, Any],
    names: tuple[str, str] = NAMES,
    folder: Path | None = None,
) -> str:
    """Say what was another in the sweep of a store; empty if nothing was.

    Parameters
    ----------
    there, wanted : mapping
        Attributes of the store, and those that are wanted.
    names : (str, str)
        What messages call what these are of.
    folder : Path, optional
        Folder that names of files are relative to, if it is known.
    """
    before, now = _comparable(there, wanted, folder)
    moved = dict(_moved_keys(cells_only(there), cells_only(wanted), names))
    axes = moved.pop(GRID, "")  # which change nothing but the layout
    difference = (
        _moved_points(before, now, names)
        or next(iter(moved.values()), "")
        or _beside_axes(before, now, [_parsed(of, "base") or {} for of in (there, wanted)], names)
        or _lost_values(before.get(GRID) or {}, now.get(GRID) or {}, names)
        or _difference(before, now, names)
        or axes
    )
    return difference and f"made from another sweep: {difference}"


def _comparable(
    there: Mapping[str, Any], wanted: Mapping[str, Any], folder: Path | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of two sweeps that decide the numbers, of both in the same terms.

    What the first policy hides of the base was not always noted. Where only one notes it, or none,
    the bases tell: they are the same, or what follows from them is compared.
    """
    both = cells_only(there), cells_only(wanted)
    bases = [_parsed(attributes, "base") for attributes in (there, wanted)]
    if None in bases:
        return both
    plain = tuple({k: v for k, v in cells.items() if k != SCENARIOS} for cells in both)
    noted = [cells.get(SCENARIOS) for cells in both]
    if plain[0] != plain[1] or (None in noted and bases[0] == bases[1]):
        return plain[0], plain[1]
    folders = [folder] if folder is not None else FOLDERS
    told = [scenarios_of(attributes, folders) for attributes in (there, wanted)]
    if None in told:
        return {"base": bases[0]}, {"base": bases[1]}
    scenario = dict(leaves(plain[0]["scenario"]))
    first, second = ({SCENARIOS: one or {}} for one in told)
    return _with_all(first, second, scenario), _with_all(second, first, scenario)


def _with_all(
    one: Mapping[str, Any], other: Mapping[str, Any], scenario: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `SCENARIOS` with the keys that another has too: what is as in the first scenario."""
    own, others = one[SCENARIOS], other[SCENARIOS]
    return {
        SCENARIOS: {
            name: {key: scenario.get(key) for key in others.get(name, {})} | own.get(name, {})
            for name in dict.fromkeys([*own, *others])
        }
    }


def _moved_points(
    there: Mapping[str, Any], here: Mapping[str, Any], called: tuple[str, str]
) -> str:
    """Say what was another in a design of which no point stays; empty if that is not so."""
    designs = there.get("design"), here.get("design")
    if not all(design and design["method"] == "latin-hypercube" for design in designs):
        return ""
    difference = _difference(*designs, called, "design")
    return difference and f"{difference}: no point of a latin-hypercube stays as it was"


def orders(cells: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the keys of each table of `cells_only` whose order decides something."""
    tables = {"scenario": cells.get("scenario") or {}}
    for some in ("policies", SCENARIOS):
        tables |= {f"{some}.{name}": of for name, of in (cells.get(some) or {}).items()}
    scorers = {
        name: [k for k, share in leaves(table) if ".scorers." in k and share is not None]
        for name, table in tables.items()
    }
    ranges = list((cells.get("design") or {}).get("ranges", ()))
    return {DESIGN: ranges, **scorers, GRID: list(cells.get(GRID, ()))}


def _moved_keys(
    there: Mapping[str, Any], here: Mapping[str, Any], called: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield tables of the same keys in another order, and which key is the first to be elsewhere.

    Dicts do not tell.
    """
    before, now = orders(there), orders(here)
    for table in filter(now.__contains__, before):
        first, second = before[table], now[table]
        if first == second or sorted(first) != sorted(second):
            continue
        moved = next(key for key, other in zip(first, second, strict=True) if key != other)
        places = [keys.index(moved) + 1 for keys in (first, second)]
        what, makes = _ORDERED.get(table, ("scorer", ", by which scores are rounded otherwise"))
        place = f"{what} {places[0]} in {called[0]}, {places[1]} in {called[1]}"
        yield table, f"{table}.{moved} is {place}{makes}"


def _beside_axes(
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    bases: list[dict[str, Any]],
    called: tuple[str, str],
) -> str:
    """Say what was another where axes differ too; empty if nothing surely was.

    Axes that have more values are the first to be told, and the last to be why a store is refused.
    """
    both = there, here
    if there.get("grid") == here.get("grid"):
        return ""
    policies = [cells.get("policies") or {} for cells in both]
    hidden = {key for cells in both for key in cells.get("grid", ())}
    hidden |= {key for some in policies for policy in some.values() for key in policy}
    told = [
        {key: value for key, value in leaves(base) if key not in hidden}
        | dict(leaves({"policies": some}))
        for base, some in zip(bases, policies, strict=True)
    ]
    # What one of them leaves out has its default there, or follows from others.
    whole = [dict(leaves(cells.get("scenario") or {})) for cells in both]
    keys = list(dict.fromkeys([*told[0], *told[1]]))
    common = [key for key in keys if key in told[0] and key in told[1]]
    alone = [key for key in keys if key not in common and key in whole[0] and key in whole[1]]
    first, second = (
        {key: one[key] for key in common} | {key: every[key] for key in alone}
        for one, every in zip(told, whole, strict=True)
    )
    return _difference(first, second, called)


def _lost_values(there: Mapping[str, Any], here: Mapping[str, Any], called: tuple[str, str]) -> str:
    """Say which axis lacks values that it had; empty if all have them and perhaps more."""
    for key, values in there.items():
        now = here.get(key)
        if now is None and len(values) == 1:
            continue  # a key of the scenario, of which it may be the value
        lost = [value for value in values if value not in (now or ())]
        if lost and len(now or ()) < len(values):
            return _difference(values, now, called, f"{GRID}.{key}")
        if lost:
            return f"{GRID}.{key} has {lost[0]!r} in {called[0]}, and not in {called[1]}"
    return ""


def cells_only(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the sweep that decides the numbers in the cells."""
    sweep = _parsed(attributes, "sweep") or {}
    return {key: value for key, value in sweep.items() if key not in PRESENTATION}


def _parsed(attributes: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return an attribute that holds a table as JSON; None if it does not."""
    try:
        found = json.loads(attributes[name])
    except (KeyError, TypeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


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
