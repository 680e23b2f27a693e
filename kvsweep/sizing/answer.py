"""Answers to how many blocks there are: from a GPU, an amount of memory, or a server's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from kvsweep.sizing.capacity import Layout, check_blocks, layout
from kvsweep.sizing.estimate import Budget, Part, budget, refuse_without_memory
from kvsweep.sizing.gpus import Gpu, find_gpu
from kvsweep.sizing.measured import blocks_of, difference
from kvsweep.sizing.server_log import ServerLog, read_server
from kvsweep.sizing.settings import BLOCK_SIZE, Asked, Served, serve
from kvsweep.sizing.shapes import load_model, model_names
from kvsweep.sizing.sizes import gib, parse_size

MANY = 3
"""Decimals of GiB and of concurrency in JSON."""


@dataclass(frozen=True)
class Question:
    """What the user gives: options of ``kvsweep blocks``; None where one is not given."""

    model: str | None = None
    gpu: str | None = None
    kv_memory: str | None = None
    log: Path | None = None
    blocks: int | None = None
    tp: int | None = None
    pp: int | None = None
    dtype: str | None = None
    block_size: int | None = None
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    async_scheduling: bool = True
    weights: str | None = None
    activation: str | None = None

    def asked(self, found: ServerLog | None = None) -> Asked:
        """Return the settings: those given, else those of a log, else vLLM's defaults."""
        said: dict[str, Any] = dict(found.settings) if found else {}
        if found is not None:
            said |= {"block_size": found.block_size, "max_model_len": found.max_model_len}
            said["utilization"] = found.utilization
        keys = (
            *("tp", "pp", "dtype", "block_size", "utilization", "max_model_len"),
            *("max_num_batched_tokens", "max_num_seqs"),
        )
        own = {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        rest = {key: value for key, value in said.items() if value is not None}
        return Asked(**(rest | own), async_scheduling=self.async_scheduling)


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


def answer(question: Question) -> Answer:
    """Answer a question.

    Raises
    ------
    InputError
        If it does not say enough, or too much, or vLLM refuses what it says.

    Examples
    --------
    >>> found = answer(Question(model="qwen2.5-7b", kv_memory="16GiB"))
    >>> found.blocks, found.tokens
    (18724, 299584)
    """
    _check(question)
    if question.log is not None:
        return _from_log(question, read_server(question.log))
    assert question.model is not None
    gpu = find_gpu(question.gpu) if question.gpu is not None else None
    served = serve(load_model(question.model), question.asked(), gpu)
    shape = layout(served)
    if question.blocks is not None:
        return _inverse(question, served, shape, gpu)
    if question.kv_memory is not None:
        size = parse_size(question.kv_memory, "--kv-memory")
        blocks = shape.blocks([size] * len(shape.block_bytes))
        return _answer(served, shape, blocks, "kv-memory", "exact for this memory", gpu=gpu)
    assert gpu is not None
    return _from_gpu(question, served, shape, gpu)


def _check(question: Question) -> None:
    """Refuse questions that say too little or too much."""
    if question.model is None and question.log is None:
        known = ", ".join(model_names())
        raise InputError(f"--model: missing; a config.json, or one of {known}")
    ways = {"--gpu": question.gpu, "--kv-memory": question.kv_memory, "--log": question.log}
    given = [option for option, value in ways.items() if value is not None]
    if question.blocks is not None:
        check_blocks(question.blocks, "--blocks")
        if extra := [option for option in given if option != "--gpu"]:
            raise InputError(
                f"{extra[0]}: --blocks asks for the memory of blocks; give one of them"
            )
    elif len(given) != 1:
        wrong = f"{' and '.join(given)} together" if given else "missing"
        raise InputError(f"--gpu, --kv-memory, --log: {wrong}; give one of them, or --blocks")
    if question.gpu is None:
        for option in ("weights", "activation", *(() if question.log else ("utilization",))):
            if getattr(question, option) is not None:
                raise InputError(f"--{option}: has no effect without --gpu")


def _from_gpu(question: Question, served: Served, shape: Layout, gpu: Gpu) -> Answer:
    plan = _plan(question, served, gpu)
    refuse_without_memory(served, plan)
    blocks, used = shape.blocks(plan.available()), served.asked.utilization
    margin = shape.blocks(plan.least(used)), shape.blocks(plan.most(used))
    kind = "exact" if plan.least(used) == plan.most(used) else "an estimate"
    text = f"{kind}, from the memory of {gpu.name}"
    return _answer(served, shape, blocks, "estimate", text, gpu=gpu, plan=plan, margin=margin)


def _plan(question: Question, served: Served, gpu: Gpu) -> Budget:
    sizes = [
        None if text is None else parse_size(text, option)
        for option, text in (
            ("--weights", question.weights),
            ("--activation", question.activation),
        )
    ]
    return budget(served, gpu, *sizes)


def _inverse(question: Question, served: Served, shape: Layout, gpu: Gpu | None) -> Answer:
    assert question.blocks is not None
    text = "the memory of so many blocks"
    if gpu is None:
        return _answer(served, shape, question.blocks, "blocks", text)
    plan = _plan(question, served, gpu)
    sizes = [question.blocks * each for each in shape.block_bytes]
    share = max(plan.utilization(size, stage) for stage, size in enumerate(sizes))
    found = _answer(served, shape, question.blocks, "blocks", text, gpu=gpu, plan=plan)
    found.utilization = round(share, 4)
    if share > 1:
        found.warnings.insert(
            0, f"{question.blocks:,} blocks do not fit: {share:.2f} of the memory of {gpu.name}"
        )
    return found


def _from_log(question: Question, found: ServerLog) -> Answer:
    asked = question.asked(found)
    served = shape = None
    if question.model is not None:
        served = serve(load_model(question.model), asked, None)
        shape = layout(served)
    asked.check()
    size = served.block_size if served else asked.block_size or BLOCK_SIZE
    blocks, text = blocks_of(found, size, shape)
    text = f"{found.path}: {text}"
    if served is not None and shape is not None:
        result = _answer(served, shape, blocks, "log", text)
        if told := difference(found, shape, blocks):
            result.warnings.append(told)
    else:
        result = Answer(
            f"vLLM's log {found.path}", "log", text, blocks, None, None, size, blocks * size, None
        )
        result.concurrency = found.concurrency
    if found.memory is not None:
        result.kv_bytes = found.memory
    if found.block_size is None and question.block_size is None:
        result.warnings.append(f"the log does not tell the block size: {size} is taken")
    result.warnings += found.notes
    return result


def _answer(
    served: Served, shape: Layout, blocks: int, source: str, text: str, **more: Any
) -> Answer:
    model = served.model
    found = Answer(
        model.name, source, text, blocks, served, shape, served.block_size,
        shape.tokens(blocks), blocks * max(shape.block_bytes), **more
    )  # fmt: skip
    found.concurrency = shape.concurrency(blocks)
    if not shape.starts(blocks):
        longest = shape.longest(blocks)
        remedy = f"; it does with --max-model-len {longest}" if longest else ""
        found.warnings.append(
            f"vLLM does not start: a request of {shape.limits.max_model_len:,} tokens needs "
            f"{shape.request_blocks:,} blocks and the null block{remedy}"
        )
    return found
