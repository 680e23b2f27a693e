"""Parts: what a task leaves, in one file, until the tasks of its shard are packed.

A part is a line with a SHA-256 of all that follows, a line of JSON (its head: which sweep and task
it is of, the size of the chunk of each array, how cells ended), and the chunks as they go into the
store. It is the same whoever writes it, so whoever has one may put it where it belongs: a worker
that sees the store, the process that runs the sweep, or a person with those of another machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.policies import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan, Task
    from kvsweep.store.arrays import Array
    from kvsweep.store.places import Storage

FORMAT = "kvsweep-part/1"
FOLDER = "status/parts"
TOKEN = f"{FOLDER}/token"
"""A file with a random text: a worker that finds it sees the store, and that of this run."""
OWN = re.compile(r"\d+((\.[0-9a-f]{8})?\.partial)?|(token|share-\d+-of-\d+)(\.partial)?")
"""Names of files in the folder: parts, which several may be writing at once, and tokens."""
DETAIL_BYTES = 200
"""Kept of a detail: most are a short line, but a worker's error may be a page."""

Details = list[tuple[str, int, list[int]]]
"""What is to be said of cells: each text once, with a status and the places in the grid of both."""


@dataclass(frozen=True)
class Head:
    """What a part says of itself.

    Attributes
    ----------
    sum : str
        SHA-256 of the part, this left out, in hexadecimal digits.
    line : bytes
        The line of JSON that the rest was read from.
    task : int
        Index of the task.
    sizes : tuple of int
        Bytes of the chunk of each array, in the order of `layout.names`; -1 where there is none.
    status : tuple of int
        Cells by the code of their status.
    details : Details
        What is to be said of cells that did not end well, and of others.
    """

    sum: str
    line: bytes
    task: int
    sizes: tuple[int, ...]
    status: tuple[int, ...]
    details: Details

    @property
    def again(self) -> bool:
        """Whether some of its cells are to be simulated again, as their worker failed."""
        return self.status[Status.FAILED] > 0 or self.status[Status.PENDING] > 0

    def lines(self) -> bytes:
        """Return the first two lines of the part."""
        return b"%s\n%s\n" % (self.sum.encode(), self.line)

    def fits(self, body: bytes) -> bool:
        """Whether these are the chunks of the part."""
        return self.sum == _sum(self.line, body)

    def chunks(self, names: Sequence[str], body: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield name and chunk of each array that has one."""
        start = 0
        for name, size in zip(names, self.sizes, strict=True):
            if size >= 0:
                yield name, body[start : start + size]
                start += size


def name_of(task: int) -> str:
    """Return the file of the part of a task, in the store."""
    return f"{FOLDER}/{task}"


def clear(folder: Storage) -> None:
    """Remove the parts of a store whose shards are all packed, and their folder.

    Raises
    ------
    OSError
        If one cannot be deleted.
    """
    before: list[str] = []
    while names := [name for name in folder.names(FOLDER) if OWN.fullmatch(name)]:
        files = [f"{FOLDER}/{name}" for name in names]
        if names != before:
            folder.delete_all(files)
        else:  # of many, s3fs does not tell which S3 kept, and why; of one it does
            for file in files:
                folder.delete(file)
        before = names
    folder.delete_folder(FOLDER)


def part(
    sweep: str,
    plan: Plan,
    task: Task,
    arrays: Sequence[Array],
    results: Mapping[str, NDArray[Any]],
) -> bytes:
    """Return the part of a task.

    Parameters
    ----------
    sweep : str
        Identity of the sweep.
    plan : Plan
        Its cells.
    task : Task
        The block of cells.
    arrays : sequence of Array
        What tasks write, in the order of `layout.names`.
    results : mapping of str to array (variants, seeds, ...)
        What `kvsweep.simulate.simulate_batch` returned; a batch may have fewer instances or
        requests than the sweep, or no measures by round.
    """
    blocks = {
        array.name: plan.arrange(task, results[array.name])
        for array in arrays
        if array.name in results
    }
    chunks = [array.encode(blocks[array.name]) if array.name in blocks else None
              for array in arrays]  # fmt: skip
    head = {
        "format": FORMAT,
        "sweep": sweep,
        "task": task.index,
        "sizes": [-1 if chunk is None else len(chunk) for chunk in chunks],
        "status": np.bincount(blocks["status"].ravel(), minlength=len(Status)).tolist(),
        "details": _details(plan, task, blocks["status"], results.get("status_detail")),
    }
    line = json.dumps(head, separators=(",", ":")).encode()
    body = b"".join(chunk for chunk in chunks if chunk is not None)
    return b"%s\n%s\n%s" % (_sum(line, body).encode(), line, body)


def read(data: bytes, sweep: str, task: int) -> tuple[Head, bytes] | None:
    """Return head and chunks of a part; None if it is damaged, or of another task or sweep."""
    told, _, rest = data.partition(b"\n")
    line, _, body = rest.partition(b"\n")
    head = head_of(told, line, sweep)
    if head is None or head.task != task or not head.fits(body):
        return None
    return head, body


def head_of(told: bytes, line: bytes, sweep: str) -> Head | None:
    """Return the head of a part, given in its two lines; None if it is of another sweep."""
    try:
        found = json.loads(line)
        if found["format"] != FORMAT or found["sweep"] != sweep:
            return None
        sizes, status = tuple(found["sizes"]), tuple(found["status"])
        return Head(told.decode(), line, found["task"], sizes, status, found["details"])
    except (ValueError, TypeError, KeyError):
        return None


def _sum(line: bytes, body: bytes) -> str:
    found = hashlib.sha256(line)
    found.update(b"\n")
    found.update(body)
    return found.hexdigest()


def _details(plan: Plan, task: Task, status: NDArray[Any], details: NDArray[Any] | None) -> Details:
    """Return what is to be said of a task's cells, with their places in the whole grid."""
    told = status != Status.OK
    if details is not None:
        details = plan.arrange(task, details)
        told = told | (details != "")
    if not told.any():
        return []
    starts = np.array([cut.start for cut in task.region], np.int64)
    found: dict[tuple[str, int], list[int]] = {}
    for at in map(tuple, np.argwhere(told)):
        place = tuple(starts + at)
        cell = int(np.ravel_multi_index(place, plan.shape)) if place else 0
        text = "" if details is None else _shortened(str(details[at]))
        found.setdefault((text, int(status[at])), []).append(cell)
    return [(text, code, cells) for (text, code), cells in found.items()]


def _shortened(text: str) -> str:
    """Return a text as ASCII, as which xarray writes it to netCDF 3 too; dots end a long one."""
    text = text.encode("ascii", errors="backslashreplace").decode()
    return text if len(text) <= DETAIL_BYTES else text[: DETAIL_BYTES - 3] + "..."
