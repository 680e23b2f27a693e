"""The cells of which there is more to say, as a table of their own: the group ``details``.

It has a row for each that did not end well, or whose engine left a remark: its labels, its status,
and the text. In the grid the texts would be 200 bytes of every cell. A store in which there is
nothing to tell has no such group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.config.axes import about
from kvsweep.policies import Status
from kvsweep.store.arrays import Array
from kvsweep.store.layout import STATUS, STATUS_DETAIL, chunk_name, flag_attributes
from kvsweep.store.metadata import ROOT, Document, Root, encoded, sums_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan
    from kvsweep.store.parts import Details
    from kvsweep.store.places import Storage

GROUP = "details"
CELL = "cell"

Plain = tuple[dict[str, Document], dict[str, str | None]]


def added(folder: Storage, root: Root, plan: Plan, found: Iterable[Details]) -> Root:
    """Write the group of a store whose tasks left these details, and return the root with it.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    columns = dict(_columns(plan, *rows(found)))
    if not len(columns[CELL][1]):
        return root
    documents = {f"{GROUP}/{name}": array.document() for name, (array, _) in columns.items()}
    inner = {name.removeprefix(f"{GROUP}/"): document for name, document in documents.items()}
    group = Root({}, inner, {}).group()
    files = {f"{GROUP}/{ROOT}": encoded(group)}
    for name, (array, values) in columns.items():
        files[f"{GROUP}/{name}/{ROOT}"] = encoded(array.document())
        data = array.encode(values)
        if data is not None:
            files[f"{GROUP}/{chunk_name(name, (0,), 1)}"] = data
    for name, data in files.items():
        folder.put(name, data)
    return Root(
        root.attributes,
        root.arrays | {GROUP: group | {"consolidated_metadata": None}} | documents,
        root.files | sums_of(files),
    )


def without(root: Root) -> Plain:
    """Return what a root has of arrays and files, those of the group left out."""
    outside = (GROUP, f"{GROUP}/")
    arrays = {n: d for n, d in root.arrays.items() if n != GROUP and not n.startswith(outside[1])}
    return arrays, {n: s for n, s in root.files.items() if not n.startswith(outside[1])}


def remove(folder: Storage) -> None:
    """Remove the files of the group, if there is one."""
    for name in folder.names(GROUP):
        folder.delete(f"{GROUP}/{chunk_name(name, (0,), 1)}")
        folder.delete(f"{GROUP}/{name}/{ROOT}")
        folder.delete_folder(f"{GROUP}/{name}/c")
        folder.delete_folder(f"{GROUP}/{name}")
    folder.delete(f"{GROUP}/{ROOT}")
    folder.delete_folder(GROUP)


def rows(found: Iterable[Details]) -> tuple[NDArray[np.int64], NDArray[np.int8], list[str]]:
    """Return cells, in order, with their status and their text."""
    entries = sorted(
        (cell, code, text) for part in found for text, code, cells in part for cell in cells
    )
    cells = np.array([cell for cell, _, _ in entries], np.int64)
    codes = np.array([code for _, code, _ in entries], np.int8)
    return cells, codes, [text for _, _, text in entries]


def _columns(
    plan: Plan, cells: NDArray[np.int64], codes: NDArray[np.int8], texts: list[str]
) -> Iterable[tuple[str, tuple[Array, NDArray[Any]]]]:
    """Yield name, array and values of each column."""
    yield _column(CELL, cells, {"units": "1", "long_name": "place of the cell in the grid"})
    places = np.unravel_index(cells, plan.shape) if plan.shape else ()
    for axis, at in zip(plan.axes, places, strict=True):
        key = about(axis.key)
        values = np.array(axis.values)[at]
        yield _column(axis.name, values, {"units": key.unit, "long_name": key.meaning})
    status = {"units": STATUS.units, "long_name": STATUS.long_name}
    yield _column(STATUS.name, codes, status | flag_attributes(Status.labels()))
    width = max(map(len, texts), default=1) or 1
    said = {"units": STATUS_DETAIL.units, "long_name": STATUS_DETAIL.long_name}
    yield _column(STATUS_DETAIL.name, np.array(texts, f"S{width}"), said)


def _column(
    name: str, values: NDArray[Any], about: dict[str, Any]
) -> tuple[str, tuple[Array, NDArray[Any]]]:
    dtype = values.dtype.newbyteorder("<")
    empty = b"" if dtype.kind == "S" else values.dtype.type().item()
    return name, (Array(name, values.shape, values.shape, dtype, empty, (CELL,), about), values)
