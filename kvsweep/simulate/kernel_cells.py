"""Cells under vLLM's rules: lay out lanes, run the kernel, reduce what it leaves to numbers."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import NDArray

from .. import _cache
from ..config import Scenario
from ..errors import InputError
from ..kernel.engine import run_batch
from ..kernel.tally import MAX_ITL_ENTRIES
from ..metrics import VARIABLES
from ..metrics.request_columns import kernel_columns
from ..records import Inputs, LaneStatus, Outputs
from .batch import build_inputs
from .pruning import smallest_first
from .reduce_groups import groupings
from .reduce_lanes import reduce_lanes
from .request_lists import RequestLists
from .workspace import allocate_outputs, allocate_workspace

ITL_ENTRIES = 1 << 12
"""Least room for steps with prefill, of which a request has about one; a lane that has more than
fit is run again with more."""


COMPILING = f"compiling the kernel (first run only, about {_cache.seconds} s)"

WAY_OUT = "KVSWEEP_PLAIN_NUMBA=1 in the environment lets it do so by its public means alone"


def warm_up(notify: Callable[[str], None] | None = None) -> None:
    """Compile the kernel, or load it from the cache: an empty batch runs through it.

    Parameters
    ----------
    notify : callable (str), optional
        Called with a line for the user if the cache has no kernel, so that this takes long.

    Raises
    ------
    InputError
        If this numba cannot compile it.
    """
    from .workspace import EMPTY

    if notify and not is_compiled():
        notify(COMPILING)
    outputs = allocate_outputs(EMPTY)
    with _uncollected():
        try:
            _aside(partial(run_batch, EMPTY, allocate_workspace(EMPTY, 1), outputs, 0, 0))
        except NumbaError as error:
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(f"numba cannot compile the kernel ({reason}); {WAY_OUT}") from error


def is_compiled() -> bool:
    """Whether the cache has the kernel."""
    cached = run_batch.stats.cache_path  # None where nothing can be cached
    return bool(cached) and any(Path(cached).glob("engine.run_batch-*.nbc"))


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
    entries = max(ITL_ENTRIES, 2 * int(inputs.lanes["requests"].max()), _entries_of_decodes(inputs))
    run_batch(inputs, allocate_workspace(inputs, entries), outputs, 0, len(inputs.lanes))
    entries *= 8
    while entries <= MAX_ITL_ENTRIES:
        again = np.flatnonzero(outputs.tallies["status"] == LaneStatus.WORKSPACE_FULL)
        if not again.size:
            break
        workspace = allocate_workspace(inputs, entries)
        for lane in again:
            outputs.tallies[lane] = 0
            run_batch(inputs, workspace, outputs, lane, lane + 1)
        entries *= 8


def _entries_of_decodes(inputs: Inputs) -> int:
    """Return the most steps of one lane that decode and have a time of their own.

    Each samples a token; where only the batch size tells times apart, no such step needs an entry.
    """
    lanes = inputs.lanes[inputs.lanes["context"] != 0]
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
    prune : bool
        Copy cells that are proved equal to one with fewer blocks.

    Returns
    -------
    dict of str to array (len(variants), n_seeds, ...)
        As `simulate_batch`.
    """
    order = smallest_first(variants)
    ordered = [variants[v] for v in order]
    found = _run_in_order(
        ordered, [positions[v] for v in order], n_seeds, lists, keep_requests, prune
    )
    back = np.argsort(order)
    return {name: values[back] for name, values in found.items()}


def _run_in_order(
    variants: Sequence[Scenario],
    positions: Sequence[int],
    n_seeds: int,
    lists: RequestLists,
    keep_requests: bool,
    prune: bool,
) -> dict[str, NDArray[Any]]:
    """Simulate cells in this order, so that a larger pool may repeat the run of a smaller one."""
    kinds = [
        lists.kind(position, scenario.cache.block_size)
        for position, scenario in zip(positions, variants, strict=True)
    ]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    first = len(numbers) * np.arange(n_seeds)[:, None]
    which = first + np.array([numbers[kind] for kind in kinds])
    prepared = [lists.prepared(kind, seed) for seed in range(n_seeds) for kind in numbers]
    inputs = build_inputs(variants, prepared, which, prune=prune)
    groups = groupings([item.requests for item in prepared], lists.rounds, lists.slo_classes)
    ranked = any(item.ranked for item in prepared)
    outputs = allocate_outputs(inputs, keep_requests=keep_requests or bool(groups) or ranked)
    run_lanes(inputs, outputs)
    flat = reduce_lanes(inputs, outputs, groups, ranked=ranked)
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
