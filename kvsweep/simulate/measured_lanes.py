"""Per-request columns of a batch as rows: lanes with equally many requests together."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records import Inputs, Outputs
from .reduce_groups import Columns


@dataclass(frozen=True)
class Measured:
    """Lanes with equally many requests, and the per-request columns of those that count.

    Attributes
    ----------
    lanes : intp (cells,)
        Positions of the lanes.
    requests, warmup : int
        Requests of each lane, and how many of the first are left out.
    """

    inputs: Inputs
    outputs: Outputs
    lanes: NDArray[np.intp]
    requests: int
    warmup: int

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """Positions in the request lists of the measured requests, (cells, requests)."""
        slots: NDArray[np.int64] = self._first("request_lo") + self._offsets
        return slots

    def rows(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return a per-request column as (cells, requests), without a copy if it can."""
        if len(self.lanes) == len(self.inputs.lanes):
            return column.reshape(len(self.lanes), self.requests)[:, self.warmup :]
        chosen: NDArray[Any] = column[self._first("out_lo") + self._offsets]
        return chosen

    @cached_property
    def group_columns(self) -> Columns:
        """Return what measures by group are made of."""
        outputs = self.outputs
        return Columns(
            ttft=self.rows(outputs.ttft),
            e2e=self.rows(outputs.e2e),
            delay=self.rows(outputs.delay),
            tpot=self.rows(outputs.tpot),
            preemptions=self.rows(outputs.preemptions),
            status=self.rows(outputs.request_status),
            prompt=self.inputs.requests["prompt"][self.slots],
            cached=self.rows(outputs.progress["cached_tokens"]),
            output=self.inputs.requests["output"][self.slots],
        )

    @property
    def _offsets(self) -> NDArray[np.int64]:
        return np.arange(self.warmup, self.requests)

    def _first(self, field: str) -> NDArray[np.int64]:
        first: NDArray[np.int64] = self.inputs.lanes[field][self.lanes][:, None]
        return first


def alike(inputs: Inputs, outputs: Outputs) -> Iterator[Measured]:
    """Yield the lanes with equally many requests and warm-ups together."""
    shapes = np.stack([inputs.lanes["requests"], inputs.lanes["warmup"]], axis=1)
    if (shapes == shapes[0]).all():
        yield Measured(inputs, outputs, np.arange(len(shapes)), *shapes[0].tolist())
        return
    distinct, group = np.unique(shapes, axis=0, return_inverse=True)
    for number, shape in enumerate(distinct.tolist()):
        yield Measured(inputs, outputs, np.flatnonzero(group.ravel() == number), *shape)
