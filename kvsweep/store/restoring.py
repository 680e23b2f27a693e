"""The sweep that a store was made from, out of its attributes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY
from kvsweep.config.canonical import SCENARIOS, canonical
from kvsweep.errors import InputError
from kvsweep.store.metadata import reason_of

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.config import Sweep

FOLDERS = (Path(), Path("sweeps"))
"""Where the files of a sweep are looked for if nobody says."""


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

    Raises
    ------
    InputError
        If it cannot be, as of a dataset whose attributes somebody has changed.
    """
    try:
        return _restored(attributes, store, folder)
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{store}: its attributes are not those of a sweep: {reason_of(error)}"
        ) from error


def _restored(attributes: Mapping[str, Any], store: Where, folder: Path) -> Sweep:
    from kvsweep.config import Sweep
    from kvsweep.config.axes import Axis, dimension_names
    from kvsweep.config.design import Design
    from kvsweep.config.document import AskedCliff, AskedSize, Pareto
    from kvsweep.config.source import Source
    from kvsweep.config.until import Until

    told, base = (json.loads(attributes[name]) for name in ("sweep", "base"))
    if not isinstance(base, dict) or not all(isinstance(each, dict) for each in base.values()):
        raise TypeError("its base is no table of sections")
    names = dimension_names(list(told["grid"]))
    return Sweep(
        path=folder / store.name,
        title=told["title"],
        question=told["question"],
        text=attributes["toml"],
        base=base,
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


def scenarios_of(
    attributes: Mapping[str, Any], folders: Sequence[Path]
) -> dict[str, dict[str, Any]] | None:
    """Return what policies of a store have instead of the first one's scenario.

    Stores of before this was noted have it from their base.

    Parameters
    ----------
    attributes : mapping
        Of the store.
    folders : sequence of Path
        Folders that names of files may be relative to, in the order in which they are tried.

    Returns
    -------
    dict or None
        As `kvsweep.config.canonical.SCENARIOS`; None if a file of the sweep is in none of them.
    """
    told = json.loads(attributes["sweep"])
    if SCENARIOS in told:
        return dict(told[SCENARIOS])
    if len(told.get("grid", {}).get(POLICY, ())) < 2:
        return {}
    for folder in folders:
        with suppress(InputError):
            sweep = restored_sweep(attributes, Path("store"), folder)
            return dict(canonical(sweep).get(SCENARIOS, {}))
    return None
