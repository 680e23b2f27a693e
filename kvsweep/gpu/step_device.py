"""What the measurement needs of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kvsweep.gpu.batches import Batch

HEAD = "head"
"""The part of a step after the last layer: its norm and the output layer."""


class Part(NamedTuple):
    """A part of a step that is timed by itself.

    Attributes
    ----------
    name : str
        Kind of layer (`kvsweep.gpu.shard.LayerKind`), or `HEAD`.
    layers : int
        How often a step has it.
    """

    name: str
    layers: int


class Timing(NamedTuple):
    """What one timing gave.

    Attributes
    ----------
    seconds : float
        Of the part, once.
    calls : int
        How often it ran for that.
    graphed : bool
        Whether it was replayed from a CUDA graph.
    clock_mhz : float
        Clock of the device right after; NaN if it does not tell.
    """

    seconds: float
    calls: int
    graphed: bool
    clock_mhz: float


class StepDevice(Protocol):
    """A device that has the parts of a step in its memory.

    Attributes
    ----------
    attributes : mapping of str to str, int or float
        What a measurement says of it: hardware, versions, kernels, model.
    parts : tuple of Part
        What is timed.
    """

    attributes: Mapping[str, str | int | float]
    parts: tuple[Part, ...]

    def time(self, part: int, batch: Batch) -> Timing:
        """Run the part of that place on a batch, warmed up, and time it."""
