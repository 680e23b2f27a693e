"""What all parts of a layer share: the device, the data type, and small functions made fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from kvsweep.gpu.torch_linear import to_fp8

EPSILON = 1e-5


@dataclass(frozen=True)
class Kit:
    """How a layer is built.

    Attributes
    ----------
    device : torch.device
        Where it is.
    fp8 : bool
        Whether its products are of 8 bits.
    gate, square, rotate, turn, add_norm, gate_norm, quantize : callable
        `silu_gate`, `relu_squared`, `rotated`, `turned`, `added_norm`, `gated_norm` and `to_fp8`,
        or the same compiled to one kernel each, as serving engines have them.
    compiled : bool
        Whether they are.
    fast_accum : bool
        Whether sums of 8 bits are kept in the tensor cores' own precision, which Hopper alone has,
        and vLLM's kernels for it take (`FP8FastAccum` in its `cutlass_scaled_mm`).
    """

    device: Any
    fp8: bool
    gate: Callable[..., Any]
    square: Callable[..., Any]
    rotate: Callable[..., Any]
    turn: Callable[..., Any]
    add_norm: Callable[..., Any]
    gate_norm: Callable[..., Any]
    quantize: Callable[..., Any]
    compiled: bool
    fast_accum: bool = False

    @property
    def products(self) -> dict[str, Any]:
        """Arguments of `kvsweep.gpu.torch_linear.Linear`."""
        names = ("fp8", "device", "quantize", "fast_accum")
        return {name: getattr(self, name) for name in names}


def build_kit(device: Any, fp8: bool) -> Kit:
    """Return the kit for a device: functions are compiled on CUDA, if that works there."""
    functions: dict[str, Callable[..., Any]] = {
        "gate": silu_gate,
        "square": relu_squared,
        "rotate": rotated,
        "turn": turned,
        "add_norm": added_norm,
        "gate_norm": gated_norm,
        "quantize": to_fp8,
    }
    fast = False
    if device.type == "cuda":
        fast = torch.version.hip is None and torch.cuda.get_device_capability(device)[0] == 9
        try:
            made = {name: torch.compile(each, dynamic=True) for name, each in functions.items()}
            kit = Kit(device, fp8, **made, compiled=True, fast_accum=fast)
            _try(kit)
            return kit
        except torch.OutOfMemoryError:
            raise
        except Exception:  # without a compiler of Triton's it can be anything, and all works
            torch.cuda.synchronize()
    return Kit(device, fp8, **functions, compiled=False, fast_accum=fast)


def _try(kit: Kit) -> None:
    rows = torch.zeros(4, 2, 64, dtype=torch.bfloat16, device=kit.device)
    turning = angles(torch.arange(4, device=kit.device), 64)
    kit.gate(rows), kit.rotate(rows, *turning), kit.turn(rows, *turning, 1, False)
    kit.add_norm(rows, rows), kit.quantize(rows)
    kit.square(rows), kit.gate_norm(rows, rows)


def silu_gate(x: Any) -> Any:
    """Return the second half of the channels, gated by the first."""
    gate, up = x.chunk(2, dim=-1)
    return functional.silu(gate) * up


def relu_squared(x: Any) -> Any:
    """Return squares of what is positive, as a feed-forward part without a gate has them."""
    return functional.relu(x).square()


def gated_norm(x: Any, gate: Any) -> Any:
    """Return norms of gated channels, as vLLM's ``Mixer2RMSNormGated``.

    Both have the shape (tokens, groups, channels): divided in here into groups whose number is
    compiled for any, it takes 2.5 times as long on an H200.
    """
    made = x * functional.silu(gate.float())
    return functional.rms_norm(made, made.shape[-1:], eps=EPSILON).to(x.dtype)


def added_norm(residual: Any, x: Any) -> tuple[Any, Any]:
    """Return the residual stream with what a part of a layer gave, and its norm."""
    residual = residual + x
    return residual, functional.rms_norm(residual, residual.shape[-1:], eps=EPSILON)


def rotated(x: Any, cosine: Any, sine: Any) -> Any:
    """Return queries or keys, of shape (tokens, heads, channels), with rotary embeddings."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def turned(made: Any, cosine: Any, sine: Any, heads: int, norms: bool) -> Any:
    """Return queries, keys and values with rotary embeddings on the first two.

    Parameters
    ----------
    made : tensor of shape (tokens, heads of all three, channels)
        Queries, keys, values.
    cosine, sine : tensor
        Of `angles`.
    heads : int
        Of queries and keys.
    norms : bool
        Whether both are normed before, as Qwen3's.
    """
    turning, values = made[:, :heads], made[:, heads:]
    if norms:
        turning = functional.rms_norm(turning, turning.shape[-1:], eps=EPSILON)
    return torch.cat((rotated(turning, cosine, sine), values), dim=1)


def angles(positions: Any, channels: int) -> tuple[Any, Any]:
    """Return cosine and sine of the rotary embeddings of `positions`, for `rotated`."""
    powers = torch.arange(0, channels, 2, device=positions.device) / channels
    angle = positions[:, None, None] * 10000.0**-powers
    return angle.cos().to(torch.bfloat16), angle.sin().to(torch.bfloat16)
