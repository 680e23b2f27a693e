"""Cells under vLLM's rules: lay out lanes, run the kernel, reduce what it leaves to numbers."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from numba import errors
from numpy.typing import NDArray

from ..config import Scenario
from ..errors import InputError
from ..kernel.tally import MAX_ITL_ENTRIES
from ..metrics import VARIABLES
from ..metrics.request_columns import kernel_columns
from ..records import Inputs, LaneStatus, Outputs
from . import entries
from .batch import build_inputs
from .entry import Entry
from .goodput import LevelTable
from .pruning import smallest_first
from .reduce_groups import groupings
from .reduce_lanes import reduce_lanes
from .request_lists import RequestLists
from .workspace import allocate_outputs, allocate_workspace

ITL_ENTRIES = 1 << 12
"""Least room for steps with prefill, of which a request has about one; a lane that has more than
fit is run again with more."""


WAY_OUT = "KVSWEEP_PLAIN_NUMBA=1 in the environment lets it do so by its public means alone"


def kernel_entries(scenarios: Iterable[Scenario]) -> tuple[str, ...]:
    """Return the names of the kernel's entries that scenarios need, for `warm_up`; maybe none."""
    return tuple(entry.name for entry in entries.needed(scenarios))


def warm_up(
    notify: Callable[[str], None] | None = None, names: Sequence[str] = (entries.USUAL.name,)
) -> None:
    """Compile entries of the kernel, or load them from the cache: an empty batch runs through them.

    Parameters
    ----------
    notify : callable (str), optional
        Called with a line for the user for each that the cache does not have, as this takes long.
    names : sequence of str
        Their names, as `kernel_entries` gives them; by default the one of usual scenarios.

    Raises
    ------
    InputError
        If this numba cannot compile them.
    """
    for entry in entries.ENTRIES:
        if entry.name in names:
            _warm_up(entry, notify)


def _warm_up(entry: Entry, notify: Callable[[str], None] | None) -> None:
    if notify and not entry.cached:
        notify(entry.message)
    from .workspace import EMPTY

    nobody = np.zeros(0, np.int64)
    workspace, outputs = allocate_workspace(EMPTY, 1), allocate_outputs(EMPTY)
    with _uncollected():
        try:
            _aside(partial(entry, EMPTY, workspace, outputs, nobody))
        except errors.NumbaError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"numba cannot compile the kernel ({reason}); {WAY_OUT}") from error


def is_compiled(names: Sequence[str]) -> bool:
    """Whether the cache has these entries of the kernel (`kernel_entries`)."""
    return all(entry.cached for entry in entries.ENTRIES if entry.name in names)


def _aside(work: Callable[[], object]) -> None:
    """Do work in another thread, so that Ctrl-C does not wait: LLVM takes 6 s in one call."""
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def do() -> None:
        try:
            work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    Thread(target=do, daemon=True).start()
    if error := ended.get():
        raise error


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let Python not look for garbage: compiling has little, and a seventh of it was looking."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_lanes(inputs: Inputs, outputs: Outputs) -> None:
    """Run all lanes; those whose inter-token latencies did not fit run again with more room."""
    room = max(ITL_ENTRIES, 2 * int(inputs.lanes["requests"].max()), _entries_of_decodes(inputs))
    entries.run(inputs, allocate_workspace(inputs, room), outputs, np.arange(len(inputs.lanes)))
    room *= 8
    while room <= MAX_ITL_ENTRIES:
        again = np.flatnonzero(outputs.tallies["status"] == LaneStatus.WORKSPACE_FULL)
        if not again.size:
            break
        outputs.tallies[again] = 0
        entries.run(inputs, allocate_workspace(inputs, room), outputs, again)
        room *= 8


def _entries_of_decodes(inputs: Inputs) -> int:
    """Return the most steps of one lane that decode and have a time of their own.

    Each samples a token; where only the batch size tells times apart, no such step needs an entry.
    Explicit lanes note every step.
    """
    lanes = inputs.lanes[(inputs.lanes["context"] != 0) | (inputs.lanes["explicit"] != 0)]
    tokens = np.concatenate([[0], np.cumsum(inputs.requests["output"], dtype=np.int64)])
    ends = lanes["request_lo"] + lanes["requests"]
    most = int((tokens[ends] - tokens[lanes["request_lo"]]).max(initial=0))
    return min(most, MAX_ITL_ENTRIES)


def run_kernel_cells(
    variants: Sequence[Scenario],
    positions: Sequence[int],
    n_seeds: int,
    lists: RequestLists,
    keep_requests: bool,
    levels: LevelTable | None = None,
    *,
    prune: bool = True,
) -> dict[str, NDArray[Any]]:
    """Simulate every variant with every seed on the kernel.

    Parameters
    ----------
    variants : sequence of Scenario
        Scenarios under vLLM's rules.
    positions : sequence of int
        Their positions in `lists`.
    n_seeds : int
        Number of seeds.
    lists : RequestLists
        Where their requests are.
    keep_requests : bool
        Return the per-request variables too.
    levels : LevelTable, optional
        What the variants are judged by.
    prune : bool
        Copy cells that are proved equal to one with fewer blocks.

    Returns
    -------
    dict of str to array (len(variants), n_seeds, ...)
        As `simulate_batch`; of `levels`, (len(variants), n_seeds, choices, ...).
    """
    order = smallest_first(variants)
    ordered = [variants[v] for v in order]
    places = [positions[v] for v in order]
    sorted_levels = levels and levels.of(order)
    found = _run_in_order(ordered, places, n_seeds, lists, keep_requests, sorted_levels, prune)
    back = np.argsort(order)
    return {name: values[back] for name, values in found.items()}


def _run_in_order(
    variants: Sequence[Scenario],
    positions: Sequence[int],
    n_seeds: int,
    lists: RequestLists,
    keep_requests: bool,
    levels: LevelTable | None,
    prune: bool,
) -> dict[str, NDArray[Any]]:
    """Simulate cells in this order, so that a larger pool may repeat the run of a smaller one."""
    kinds = [
        lists.kind(position, scenario)
        for position, scenario in zip(positions, variants, strict=True)
    ]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    first = len(numbers) * np.arange(n_seeds)[:, None]
    which = first + np.array([numbers[kind] for kind in kinds])
    prepared = lists.prepared(numbers)
    inputs = build_inputs(variants, prepared, which, prune=prune)
    groups = groupings([item.requests for item in prepared], lists.rounds, lists.slo_classes)
    ranked = any(item.ranked for item in prepared)
    needed = keep_requests or bool(groups) or ranked or levels is not None
    outputs = allocate_outputs(inputs, keep_requests=needed)
    run_lanes(inputs, outputs)
    tiled = levels and levels.of(np.tile(np.arange(len(variants)), n_seeds))
    flat = reduce_lanes(inputs, outputs, groups, ranked=ranked, levels=tiled)
    if keep_requests:
        owners = [lists.requests(p, s) for s in range(n_seeds) for p in positions]
        flat |= _padded(inputs, kernel_columns(outputs, owners))
    return {
        name: np.swapaxes(values.reshape(which.shape + values.shape[1:]), 0, 1)
        for name, values in flat.items()
    }


def _padded(inputs: Inputs, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return columns of all lanes' requests as (lanes, requests of the longest list)."""
    lengths = inputs.lanes["requests"]
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    padded = {}
    for name, values in columns.items():
        padded[name] = np.full(inside.shape, VARIABLES[name].missing, values.dtype)
        padded[name][inside] = values
    return padded
