"""A layer's part that keeps a state: Mamba-2, as vLLM's ``MambaMixer2`` has it."""

from __future__ import annotations

from typing import Any

from kvsweep.gpu.state_layers import Mamba
from kvsweep.gpu.torch_kit import Kit
from kvsweep.gpu.torch_linear import Linear
from kvsweep.gpu.torch_scan import SCANS
from kvsweep.gpu.torch_state_layout import StateLayout, coefficients, fresh_states


class StateMixer:
    """A product, a convolution and a recurrence, a norm with a gate, a product back.

    Parameters
    ----------
    hidden : int
        Width of the residual stream.
    mamba : Mamba
        The layer.
    kit : Kit
        How it is built.
    states : int
        Of requests that it keeps.
    scan : str
        A name of `kvsweep.gpu.torch_scan.SCANS`.
    """

    def __init__(self, hidden: int, mamba: Mamba, kit: Kit, states: int, scan: str) -> None:
        self._parts = [mamba.inner, mamba.channels, mamba.heads]
        self._into = Linear(hidden, sum(self._parts), **kit.products)
        self._back = Linear(mamba.inner, hidden, **kit.products)
        self._weights = coefficients(mamba, kit.device)
        self._states = fresh_states(mamba, states, kit.device)
        self._scan, self._mamba, self._norm = SCANS[scan], mamba, kit.gate_norm

    def __call__(self, x: Any, layout: StateLayout, turned: Any) -> Any:
        """Return what is added to the residual stream; states are written over."""
        gate, made, dt = self._into(x).split(self._parts, dim=-1)
        out = self._scan(self._mamba, made, dt, self._weights, self._states, layout)
        grouped = (each.unflatten(-1, (self._mamba.groups, -1)) for each in (out, gate))
        return self._back(self._norm(*grouped).flatten(1))
