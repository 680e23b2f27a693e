"""An answer: blocks, what they come from, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvsweep.sizing.capacity import Layout
from kvsweep.sizing.estimate import Budget, Part
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.settings import Served
from kvsweep.sizing.sizes import gib

MANY = 3
"""Decimals of GiB and of concurrency in JSON."""


@dataclass
class Answer:
    """Blocks, and what they come from.

    Attributes
    ----------
    title : str
        What was asked.
    source : str
        ``estimate``, ``kv-memory``, ``log`` or ``blocks``.
    source_text : str
        The same in words.
    blocks : int
        vLLM's ``num_gpu_blocks``: one of them is its null block.
    served : Served or None
        The model and its settings; None if only a log is known.
    layout : Layout or None
        How memory is divided; None likewise.
    block_size : int
        Tokens of a block.
    tokens : int
        Tokens that the blocks hold.
    kv_bytes : int or None
        Memory of the KV cache on a GPU, of the stage with most.
    gpu : Gpu or None
        The GPU.
    plan : Budget or None
        Where its memory goes.
    margin : tuple of int or None
        Blocks at least and at most, of an estimate.
    utilization : float or None
        Of the inverse: the ``gpu_memory_utilization`` that it takes.
    concurrency : float or None
        Requests of ``max_model_len`` tokens that fit at a time.
    warnings : list of str
        What the user should know.
    """

    title: str
    source: str
    source_text: str
    blocks: int
    served: Served | None
    layout: Layout | None
    block_size: int
    tokens: int
    kv_bytes: int | None
    gpu: Gpu | None = None
    plan: Budget | None = None
    margin: tuple[int, int] | None = None
    utilization: float | None = None
    concurrency: float | None = None
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as JSON has it."""
        shape, served = self.layout, self.served
        return {
            "model": served.model.name if served else None,
            "source": self.source,
            "source_text": self.source_text,
            "blocks": self.blocks,
            "usable_blocks": max(0, self.blocks - 1),
            "tokens": self.tokens,
            "bytes_per_token": shape.token_bytes if shape else None,
            "bytes_per_token_full_attention": shape.full_token_bytes if shape else None,
            "block_bytes": max(shape.block_bytes) if shape else None,
            "kv_gib": None if self.kv_bytes is None else round(gib(self.kv_bytes), MANY),
            "max_concurrency": None if self.concurrency is None else round(self.concurrency, MANY),
            "block_size": self.block_size,
            "block_size_raised_from": served.raised_from if served else None,
            "state_bytes": served.state.size if served and served.state else None,
            "blocks_per_request": shape.request_blocks if shape else None,
            "starts": shape.starts(self.blocks) if shape else None,
            **_settings(served),
            "groups": [_group(shape, group) for group in shape.groups] if shape else None,
            "utilization": self.utilization,
            "blocks_low": self.margin[0] if self.margin else None,
            "blocks_high": self.margin[1] if self.margin else None,
            "gpu": _gpu(self.gpu),
            "memory": [_part(part) for part in _parts(self.plan)] if self.plan else None,
            "warnings": self.warnings,
        }


def _settings(served: Served | None) -> dict[str, Any]:
    keys = ("tp", "pp", "kv_cache_dtype", "max_model_len", "max_num_batched_tokens", "max_num_seqs")
    if served is None:
        return dict.fromkeys(keys)
    asked, usual = served.asked, served.defaults
    values = (
        *(asked.tp, asked.pp, served.dtype, served.limits.max_model_len),
        *(usual.max_num_batched_tokens, usual.max_num_seqs),
    )
    return dict(zip(keys, values, strict=True))


def _group(shape: Layout, group: Any) -> dict[str, Any]:
    page = group.pages[0]
    return {
        "layers": len(group.members),
        "kind": page.layer.kind,
        "window": page.layer.window,
        "block_size": page.block_size,
        "page_bytes": page.page_bytes,
        "blocks_per_request": group.blocks_per_request(shape.limits),
        "checkpoint": None if page.layer.state is None else page.layer.state.checkpoint,
    }


def _gpu(gpu: Gpu | None) -> dict[str, Any] | None:
    if gpu is None:
        return None
    usual = gpu.defaults()
    return {
        "name": gpu.name,
        "gib": round(gib(gpu.memory), MANY),
        "source": gpu.source,
        "max_num_seqs": usual.max_num_seqs,
        "max_num_batched_tokens": usual.max_num_batched_tokens,
    }


def _parts(plan: Budget) -> list[Part]:
    return [max(plan.weights, key=lambda part: part.size), plan.activation, plan.other]


def _part(part: Part) -> dict[str, Any]:
    amounts = {"gib": part.size, "low_gib": part.low, "high_gib": part.high}
    rounded = {key: round(gib(size), MANY) for key, size in amounts.items()}
    return {"name": part.name, **rounded, "kind": part.kind, "source": part.source}
