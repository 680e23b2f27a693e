"""Matrix products of a layer with random weights: bfloat16, or 8 bits with a scale for each row."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

FP8 = torch.float8_e4m3fn
_LARGEST = torch.finfo(FP8).max


def matrix(*shape: int, device: Any) -> Any:
    """Return random weights whose products keep the size of what they multiply; last: inputs."""
    values = torch.empty(*shape, dtype=torch.bfloat16, device=device)
    return values.normal_(0.0, shape[-1] ** -0.5)


def to_fp8(values: Any) -> tuple[Any, Any]:
    """Return values in 8 bits and the scale of each row."""
    scale = values.abs().amax(dim=-1, keepdim=True).float().clamp(min=1e-12) / _LARGEST
    return (values.float() / scale).clamp(-_LARGEST, _LARGEST).to(FP8), scale


class Linear:
    """A product with a matrix.

    Parameters
    ----------
    inputs, outputs : int
        Its channels.
    fp8 : bool
        Whether it multiplies in 8 bits: weights are stored so, inputs are converted each time.
    device : torch.device
        Where it is.
    quantize : callable
        `to_fp8`, or the same compiled.
    fast_accum : bool
        As of `kvsweep.gpu.torch_kit.Kit`.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        fp8: bool,
        device: Any,
        quantize: Any,
        fast_accum: bool = False,
    ) -> None:
        weights = matrix(outputs, inputs, device=device)
        self._quantize, self._fast = quantize if fp8 else None, fast_accum
        if fp8:
            self._weights, scale = to_fp8(weights)
            self._scale = scale.t().contiguous()
        else:
            self._weights = weights

    def __call__(self, x: Any) -> Any:
        """Return the product, bfloat16."""
        if self._quantize is None:
            return functional.linear(x, self._weights)
        values, scale = self._quantize(x)
        rows = functional.ScalingType.RowWise
        # Both have their input channels side by side in memory, as 8 bits demand.
        return functional.scaled_mm(
            values,
            self._weights.t(),
            scale,
            rows,
            self._scale,
            rows,
            use_fast_accum=self._fast,
        )


class GroupedLinear:
    """A product with one matrix of several for each run of tokens: the experts of a layer.

    Parameters
    ----------
    experts, inputs, outputs : int
        Matrices, and channels of each.
    fp8, device, quantize, fast_accum
        As of `Linear`.
    """

    def __init__(
        self,
        experts: int,
        inputs: int,
        outputs: int,
        *,
        fp8: bool,
        device: Any,
        quantize: Any,
        fast_accum: bool = False,
    ) -> None:
        weights = matrix(experts, outputs, inputs, device=device)
        self._quantize, self._fast = quantize if fp8 else None, fast_accum
        if fp8:
            self._weights, scale = to_fp8(weights)
            self._scale = scale[..., 0].contiguous()
        else:
            self._weights = weights

    def __call__(self, x: Any, ends: Any) -> Any:
        """Return the products.

        Parameters
        ----------
        x : tensor of shape (tokens, inputs)
            By expert.
        ends : tensor of shape (experts,), int32
            Where the tokens of each expert end.
        """
        weights = self._weights.transpose(-2, -1)
        if self._quantize is None:
            return functional.grouped_mm(x, weights, offs=ends)
        values, scale = self._quantize(x)
        rows = functional.ScalingType.RowWise
        return functional.scaled_grouped_mm(
            values,
            weights,
            scale[:, 0],
            rows,
            self._scale,
            rows,
            offs=ends,
            output_dtype=torch.bfloat16,
            use_fast_accum=self._fast,
        )
