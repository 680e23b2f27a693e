"""The feed-forward part of a layer: an MLP with a gate or without, or a mixture of experts."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.shard import Experts
from kvsweep.gpu.torch_kit import Kit
from kvsweep.gpu.torch_linear import GroupedLinear, Linear, matrix


class GatedMlp:
    """Two products, a gate, and one back: ``down(silu(gate(x)) * up(x))``."""

    def __init__(self, hidden: int, inner: int, kit: Kit) -> None:
        self._into = Linear(hidden, 2 * inner, **kit.products)
        self._back = Linear(inner, hidden, **kit.products)
        self._gate = kit.gate

    def __call__(self, x: Any) -> Any:
        """Return what is added to the residual stream."""
        return self._back(self._gate(self._into(x)))


class SquaredMlp:
    """Two products and no gate: ``down(relu(up(x)) ** 2)``, as Nemotron-H's."""

    def __init__(self, hidden: int, inner: int, kit: Kit) -> None:
        self._into = Linear(hidden, inner, **kit.products)
        self._back = Linear(inner, hidden, **kit.products)
        self._square = kit.square

    def __call__(self, x: Any) -> Any:
        """Return what is added to the residual stream."""
        return self._back(self._square(self._into(x)))


class ExpertMlp:
    """A mixture of experts, as one grouped product for all of them.

    Tokens go to the experts that random weights choose, which is about evenly; real routing is
    less even. Shapes do not depend on where they go, so that a CUDA graph can have it.
    """

    def __init__(self, hidden: int, experts: Experts, kit: Kit) -> None:
        self._router = matrix(experts.count, hidden, device=kit.device)
        self._into = GroupedLinear(experts.count, hidden, 2 * experts.inner, **kit.products)
        self._back = GroupedLinear(experts.count, experts.inner, hidden, **kit.products)
        self._shared = GatedMlp(hidden, experts.shared, kit) if experts.shared else None
        self._gate = kit.gate
        self._chosen = experts.chosen
        self._numbers = torch.arange(experts.count, device=kit.device)

    def __call__(self, x: Any) -> Any:
        """Return what is added to the residual stream."""
        scores, experts = functional.linear(x, self._router).topk(self._chosen, dim=-1)
        weights = scores.softmax(dim=-1).reshape(-1, 1)
        of_each, order = experts.reshape(-1).sort()
        ends = torch.searchsorted(of_each, self._numbers, right=True).to(torch.int32)
        tokens = order // self._chosen
        made = self._back(self._gate(self._into(x[tokens], ends)), ends) * weights[order]
        result = torch.zeros_like(x).index_add_(0, tokens, made)
        return result if self._shared is None else result + self._shared(x)
