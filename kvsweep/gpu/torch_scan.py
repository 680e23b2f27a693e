"""The recurrence of Mamba-2 and its convolution, by vLLM's kernels or by PyTorch alone.

- ``vllm``: what vLLM serves with, if it is installed beside PyTorch, in the calls of its
  ``MambaMixer2``: prompts in chunks, decoding requests by an update of their states.
- ``chunks``: the same in PyTorch (`kvsweep.gpu.torch_chunks`), which nothing serves with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kvsweep.errors import InputError
from kvsweep.gpu.state_layers import Mamba
from kvsweep.gpu.torch_attention import REFUSALS
from kvsweep.gpu.torch_chunks import in_chunks
from kvsweep.gpu.torch_state_layout import (
    Coefficients,
    StateLayout,
    States,
    coefficients,
    fresh_states,
    lay_out_states,
    split_parts,
)

Scan = Callable[[Mamba, Any, Any, Coefficients, States, StateLayout], Any]
"""From a layer, inputs of its convolution (tokens, channels), ``dt`` (tokens, heads), coefficients,
states and the layout to the output (tokens, channels). Inputs may be written over."""


def of_vllm(
    mamba: Mamba, x: Any, dt: Any, weights: Coefficients, states: States, layout: StateLayout
) -> Any:
    """Compute as ``MambaMixer2`` of an installed vLLM does."""
    out = torch.empty(len(x), mamba.inner, dtype=x.dtype, device=x.device)
    chunk = layout.chunk_tokens
    if layout.prompts:
        _vllm_prompts(mamba, x[:chunk], dt[:chunk], weights, states, layout, out[:chunk])
    if layout.requests:
        _vllm_requests(mamba, x[chunk:], dt[chunk:], weights, states, layout, out[chunk:])
    return out


def _vllm_prompts(
    mamba: Mamba,
    x: Any,
    dt: Any,
    weights: Coefficients,
    states: States,
    layout: StateLayout,
    out: Any,
) -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_fn
    from vllm.model_executor.layers.mamba.ops.ssd_combined import mamba_chunk_scan_combined_varlen

    made = causal_conv1d_fn(
        x.transpose(0, 1),
        weights.taps,
        weights.bias,
        activation="silu",
        conv_states=states.inputs,
        has_initial_state=layout.begun,
        cache_indices=layout.prompt_states,
        metadata=layout.programs,
        query_start_loc=layout.starts,
    ).transpose(0, 1)
    inner, b, c = split_parts(mamba, made)
    first = None
    if any(before for _, before in layout.prompts):
        kept = states.cells[layout.prompt_states]
        first = torch.where(layout.begun[:, None, None, None], kept, 0)
    states.cells[layout.prompt_states] = mamba_chunk_scan_combined_varlen(
        inner,
        dt,
        weights.decay,
        b,
        c,
        chunk_size=mamba.chunk,
        D=weights.skip,
        z=None,
        dt_bias=weights.step,
        seq_idx=layout.chunk_prompts,
        cu_seqlens=layout.starts,
        cu_chunk_seqlens=layout.chunk_starts,
        last_chunk_indices=layout.last_chunks,
        initial_states=first,
        dt_softplus=True,
        out=out.view(len(x), mamba.heads, mamba.head_dim),
        state_dtype=states.cells.dtype,
    )


def _vllm_requests(
    mamba: Mamba,
    x: Any,
    dt: Any,
    weights: Coefficients,
    states: States,
    layout: StateLayout,
    out: Any,
) -> None:
    from vllm.model_executor.layers.mamba.ops.causal_conv1d import causal_conv1d_update
    from vllm.model_executor.layers.mamba.ops.mamba_ssm import selective_state_update

    made = causal_conv1d_update(
        x,
        states.inputs,
        weights.taps,
        weights.bias,
        "silu",
        conv_state_indices=layout.request_states,
    )
    inner, b, c = split_parts(mamba, made)
    heads, channels, size = mamba.heads, mamba.head_dim, mamba.size
    selective_state_update(
        states.cells,
        inner,
        dt[:, :, None].expand(-1, -1, channels),
        weights.decay[:, None, None].expand(-1, channels, size),
        b,
        c,
        weights.skip[:, None].expand(-1, channels),
        weights.step[:, None].expand(-1, channels),
        dt_softplus=True,
        state_batch_indices=layout.request_states,
        dst_state_batch_indices=layout.request_states,
        out=out.view(len(x), heads, channels),
    )


SCANS: dict[str, Scan] = {"vllm": of_vllm, "chunks": in_chunks}


def find_scan(
    mamba: Mamba, device: Any, scans: Mapping[str, Scan] | None = None
) -> tuple[str, str]:
    """Return the first of `scans` that works for a layer, and why none before it does.

    Parameters
    ----------
    mamba : Mamba
        The layer.
    device : torch.device
        Where it is to run.
    scans : mapping of str to Scan or None
        In the order in which they are tried; None: vLLM's on a GPU, PyTorch's on a processor.

    Raises
    ------
    InputError
        If none works.
    torch.OutOfMemoryError
        If there is no memory to try one.
    """
    if scans is None:
        scans = {"vllm": of_vllm} if device.type == "cuda" else {"chunks": in_chunks}
    refused = []
    for name, scan in scans.items():
        try:
            _try(scan, mamba, device)
        except torch.OutOfMemoryError:  # a RuntimeError too, which says nothing of the kernel
            raise
        except (*REFUSALS, LookupError) as error:
            refused.append(f"{name}: {' '.join(str(error).split())[:100]}")
            continue
        return name, "; ".join(refused)
    raise InputError(
        f"{device}: layers that keep a state are measured with vLLM's kernels, which do not work "
        f"there: {'; '.join(refused)}; pip install kvsweep into an environment of vLLM"
    )


def _try(scan: Scan, mamba: Mamba, device: Any) -> None:
    """Let a kernel compute two prompts and three requests, and compare with `in_chunks`."""
    layout = lay_out_states([(mamba.chunk + 9, 0), (40, 21)], 3, mamba.chunk, device)
    weights, tokens = coefficients(mamba, device), layout.chunk_tokens + 3
    wide = mamba.channels + mamba.heads
    made = torch.empty(tokens, wide, dtype=torch.bfloat16, device=device).normal_()
    found = []
    states = fresh_states(mamba, 5, device)
    for each in (scan, in_chunks):
        x, dt = made.clone().split([mamba.channels, mamba.heads], dim=1)
        own = States(*(part.clone() for part in states))
        out = each(mamba, x, dt, weights, own, layout)
        found.append((out[: layout.chunk_tokens], out[layout.chunk_tokens :], *own))
    for mine, expected in zip(*found, strict=True):
        apart = (mine - expected).float().norm() / expected.float().norm()
        # bfloat16 is off by less than 0.01; what is left out or mixed up, by more than 0.1.
        if not float(apart) < 0.03:
            raise ValueError("other values than those of PyTorch")
