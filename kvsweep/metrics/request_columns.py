"""Per-request variables of what the kernel and the replica leave, as their registry reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.metrics.per_request import REQUEST_VARIABLES, Known, RequestVariable

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.records import Outputs
    from kvsweep.replica import Replication
    from kvsweep.replica.result import RequestRecord
    from kvsweep.workload.requests import Requests


def kernel_columns(outputs: Outputs, lists: Sequence[Requests]) -> dict[str, NDArray[Any]]:
    """Return the per-request variables of a batch.

    Parameters
    ----------
    outputs : Outputs
        After a run that kept its requests.
    lists : sequence of Requests
        The request list of each lane.

    Returns
    -------
    dict of str to array (slots,)
        By name, the requests of all lanes one after the other.
    """
    return {
        variable.name: _typed(variable, variable.kernel(outputs))
        if variable.kernel
        else _listed(variable, lists)
        for variable in REQUEST_VARIABLES
    }


def replica_columns(
    scenario: Scenario, requests: Requests, replication: Replication
) -> dict[str, NDArray[Any]]:
    """Return the per-request variables of a run of the replica, (n,) each, by name."""
    overhead = int(scenario.latency.alpha[2])
    known = [
        Known(arrival, overhead, scenario.cache.block_size, tokens)
        for arrival, tokens in zip(
            requests.arrival_us.tolist(), requests.output_tokens.tolist(), strict=True
        )
    ]
    pairs = list(zip(replication.requests, known, strict=True))
    columns = {}
    for variable in REQUEST_VARIABLES:
        if variable.listed:
            columns[variable.name] = _listed(variable, [requests])
            continue
        read = variable.replica or _nothing
        values = [read(*pair) for pair in pairs]
        filled = [variable.missing if value is None else value for value in values]
        columns[variable.name] = _typed(variable, filled)
    return columns


def _nothing(record: RequestRecord, known: Known) -> None:
    """Read what the replica's records do not have."""


def _listed(variable: RequestVariable, lists: Sequence[Requests]) -> NDArray[Any]:
    assert variable.listed is not None, variable.name
    return _typed(variable, np.concatenate([variable.listed(requests) for requests in lists]))


def _typed(variable: RequestVariable, values: Any) -> NDArray[Any]:
    return np.ascontiguousarray(values, object if variable.dtype == "str" else variable.dtype)
