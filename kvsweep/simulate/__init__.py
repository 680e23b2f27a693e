"""The seam between scenarios and engines: scenarios and seeds in, named numbers per cell out.

Which engine runs a scenario is decided by its rules: the compiled kernel (``vllm``) or the replica
of the reference simulator (``blis``). Cells are independent: how they are batched changes nothing.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import source_hash
from ..config import Scenario
from ..config.service_levels import levels_given
from ..metrics import VARIABLES, Variable, coordinates, mask_failed
from ..policies import RULES, Status
from .kernel_cells import is_compiled, kernel_entries, run_kernel_cells, warm_up
from .pruning import smaller_of
from .request_lists import RequestLists
from .shared_runs import shared_runs

__all__ = [
    "is_compiled",
    "kernel_entries",
    "simulate_batch",
    "smaller_of",
    "source_hash",
    "warm_up",
]


def simulate_batch(
    variants: Sequence[Scenario],
    seeds: Sequence[int],
    *,
    entropy: int,
    policies: Sequence[str | None],
    base_dir: Path | None,
    keep_requests: bool = False,
    slo_classes: Sequence[str] | None = None,
    prune: bool = True,
    first_requests: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Simulate every variant with every seed.

    Parameters
    ----------
    variants : sequence of Scenario
        Scenarios that may differ in anything.
    seeds : sequence of int
        Seeds of the request lists: equal seeds give equal requests to variants of one workload.
    entropy : int
        Entropy of all random streams.
    policies : sequence of str or None
        Policy name of each variant, for ``{policy}`` in the path of a trace.
    base_dir : Path or None
        Folder that paths of traces are relative to.
    keep_requests : bool
        Return the per-request variables too.
    slo_classes : sequence of str, optional
        Classes along the dimension ``slo_class``; those of the requests if not given.
    prune : bool
        Copy cells that are proved equal to one with fewer blocks, and mark them as ``pruned``.
    first_requests : int, optional
        Simulate so many requests of each list only, to see how long it takes.

    Returns
    -------
    dict of str to array (len(variants), len(seeds), ...)
        Every variable of `kvsweep.metrics`, further dimensions as its ``dims`` say, and
        ``status`` (int8 codes of `policies.Status`) and ``status_detail`` (str).

    Raises
    ------
    InputError
        If a trace cannot be read.
    """
    lists = RequestLists(entropy, base_dir, first_requests)
    lists.load(variants, seeds, policies)
    if slo_classes is not None:
        lists.slo_classes = tuple(slo_classes)
    shape = (len(variants), len(seeds))
    along = coordinates(
        instances=max(item.cluster.instances for item in variants),
        rounds=lists.rounds,
        slo_classes=lists.slo_classes,
        requests=max(lists.sizes()) if keep_requests else 0,
    )
    sizes = {dim: len(values) for dim, values in along.items()}
    levels = levels_given(variants)
    # The columns of requests are those of any batch.
    possible = [v for v in VARIABLES.values() if v.has_levels(levels) or "request" in v.dims]
    wanted = [item for item in possible if all(sizes[dim] for dim in item.dims)]
    results = {item.name: _blank(item, shape, sizes) for item in wanted}
    results["status"] = np.full(shape, Status.PENDING, np.int8)
    results["status_detail"] = np.full(shape, "", object)
    results["pruned"][...] = 0
    for rules in RULES:
        chosen = [v for v, item in enumerate(variants) if item.engine.rules == rules]
        if chosen:
            shared = shared_runs(tuple(variants[v] for v in chosen))
            runs = [chosen[i] for i in shared.first]
            found = _engine(rules, prune)(
                [variants[v] for v in runs],
                runs,
                len(seeds),
                lists,
                keep_requests,
                shared.levels(lists.slo_classes),
            )
            for name, values in shared.spread(found).items():
                # A batch may have fewer instances, or requests, than another of this call.
                place: tuple[Any, ...] = (chosen, slice(None), *map(slice, values.shape[2:]))
                results[name][place] = values
    measures = {name: results[name] for name in results if name in VARIABLES}
    mask_failed(measures, results["status"])
    return results


def _engine(rules: str, prune: bool) -> Callable[..., dict[str, NDArray[Any]]]:
    """Return what runs the cells of a rule book; the replica is loaded only where it is used."""
    if rules == "blis":
        from .replica_cells import run_replica_cells

        return run_replica_cells
    return partial(run_kernel_cells, prune=prune)


def _blank(variable: Variable, shape: tuple[int, int], sizes: dict[str, int]) -> NDArray[Any]:
    """Return an array of a variable's missing value."""
    full = shape + tuple(sizes[dim] for dim in variable.dims)
    return np.full(full, variable.missing, object if variable.dtype == "str" else variable.dtype)
