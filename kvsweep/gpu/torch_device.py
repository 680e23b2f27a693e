"""PyTorch as a device of steps (`kvsweep.gpu.step_device.StepDevice`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from kvsweep.errors import InputError
from kvsweep.gpu.batches import Batch
from kvsweep.gpu.step_device import Part, Timing
from kvsweep.gpu.torch_clock import Clock
from kvsweep.gpu.torch_layer import HeadStack, LayerStack

MOST_CALLS = 200
"""Calls of a timing at most."""


class TorchDevice:
    """Layers and a head in the memory of a device.

    Parameters
    ----------
    attributes : mapping
        What a measurement says of it.
    parts : mapping of Part to LayerStack or HeadStack
        What is timed.
    clock : Clock
        What times.
    """

    def __init__(
        self,
        attributes: Mapping[str, str | int | float],
        parts: Mapping[Part, LayerStack | HeadStack],
        clock: Clock,
    ) -> None:
        self.attributes = attributes
        self.parts = tuple(parts)
        self._stacks = list(parts.values())
        self._clock = clock

    def time(self, part: int, batch: Batch) -> Timing:
        """Run a part on a batch, warmed up, often enough for the clock, and time it.

        Raises
        ------
        InputError
            If the device has no memory left, or fails.
        """
        stack = self._stacks[part]
        try:
            with torch.inference_mode():
                run, graphed = self._clock.ready(stack.prepare(batch))
                once = max(self._clock.seconds(run, 1), 1e-7)
                calls = min(max(math.ceil(self._clock.least_s / once), 1), MOST_CALLS)
                seconds = self._clock.seconds(run, calls) / calls
        except torch.OutOfMemoryError:
            raise InputError(
                f"out of the device's memory at {batch.tokens:,} tokens and {batch.held:,} in the "
                "KV cache; --max-num-batched-tokens and --pool-tokens make it less"
            ) from None
        except RuntimeError as error:
            told = " ".join(str(error).split())  # of CUDA it has several lines
            raise InputError(f"PyTorch failed at {batch}: {told}") from error
        return Timing(seconds / stack.copies, calls, graphed, self._clock.mhz())
