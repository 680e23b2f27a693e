"""The answer of ``kvsweep blocks`` in words, for a terminal."""

from __future__ import annotations

import textwrap

from kvsweep.sizing.answer import Answer
from kvsweep.sizing.capacity import Layout
from kvsweep.sizing.defaults import BLOCK_SIZE
from kvsweep.sizing.estimate import Budget, Part
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.groups import Group
from kvsweep.sizing.layers import State
from kvsweep.sizing.settings import Served, usual_step
from kvsweep.sizing.sizes import gib

WIDTH = 100
"""Columns of a line of text."""

Row = tuple[str, str, str]


def answer_text(found: Answer) -> str:
    """Return the answer, some ten to twenty-five lines."""
    lines = [_title(found), f"  {found.source_text}", "", *_table(_figures(found))]
    shape, served = found.layout, found.served
    if shape is not None and served is not None and shape.hybrid:
        lines += ["", "Groups of layers, which draw their blocks from one pool", *_groups(shape)]
        if any(group.pages[0].layer.window for group in shape.groups):
            lines.append(f"  {_under_way(served, found.gpu)}")
        if served.state is not None:
            lines += [f"  {_states(served.state)}", *_raised(served, shape)]
    if found.plan is not None and served is not None:
        lines += ["", f"Memory of each {found.plan.gpu.name}, GiB"]
        lines += _table(_memory(found.plan, served, found.utilization is None))
        lines += ["", *_sources(found.plan)]
    return "\n".join([*lines, "", *_next(found)])


def _title(found: Answer) -> str:
    served = found.served
    if served is None:
        return found.title
    tp, pp = served.asked.tp, served.asked.pp
    gpu = f" x {found.gpu.name}" if found.gpu else f" GPU{'s' if tp * pp > 1 else ''}"
    parallel = f" (tp {tp}, pp {pp})" if tp * pp > 1 else ""
    return f"{served.model.name} on {tp * pp}{gpu}{parallel}, keys and values in {served.dtype}"


def _figures(found: Answer) -> list[Row]:
    shape, served = found.layout, found.served
    size = f"of {found.block_size} tokens"
    if served is not None and served.block_size_from != "given":
        size += f", {served.block_size_from}"
    rows = [
        ("blocks", f"{found.blocks:,}", size),
        ("usable", f"{max(0, found.blocks - 1):,}", "all but vLLM's null block"),
    ]
    if found.margin is not None and found.margin[0] != found.margin[1]:
        low, high = found.margin
        rows.append(("margin", f"{low:,} to {high:,}", "blocks, as the estimates below may be off"))
    rows.append(("tokens", f"{found.tokens:,}", ""))
    if found.kv_bytes is not None:
        each = f", {max(shape.block_bytes):,} bytes a block" if shape else ""
        rows.append(("KV cache", f"{gib(found.kv_bytes):.2f} GiB", f"on each GPU{each}"))
    if shape is not None:
        rows.append(("bytes per token", f"{shape.token_bytes:,}", _token_text(shape)))
    if found.concurrency is not None:
        of = f"requests of {shape.limits.max_model_len:,} tokens" if shape else "as logged"
        rows.append(("max concurrency", f"{found.concurrency:.2f}", of))
    if found.utilization is not None:
        share = "gpu_memory_utilization, estimated"
        rows.append(("utilization", f"{found.utilization:.4f}", share))
    return rows


def _token_text(shape: Layout) -> str:
    if shape.full_token_bytes == shape.token_bytes:
        return "on each GPU"
    return f"on each GPU, {shape.full_token_bytes:,} of them beyond the window"


def _groups(shape: Layout) -> list[str]:
    counts: dict[tuple[str, str], int] = {}
    for group in shape.groups:
        layer = group.pages[0].layer
        window = f" {layer.window:,}" if layer.window else ""
        text = f"{len(group.members)} layers; a request takes {_most(group, shape)}"
        if layer.state is None:
            sized = f"layers in blocks of {group.block_size} tokens"
            text = f"{len(group.members)} {sized}; a request takes up to {_most(group, shape)}"
        key = (f"{layer.kind}{window}", text)
        counts[key] = counts.get(key, 0) + 1
    return _table([(kind, f"{count} x", text) for (kind, text), count in counts.items()])


def _most(group: Group, shape: Layout) -> str:
    most = group.blocks_per_request(shape.limits)
    return f"{most:,} block{'' if most == 1 else 's'}"


def _states(state: State) -> str:
    """Say how many states a request holds, and why."""
    many = f"{state.copies} states" if state.copies > 1 else "a state"
    text = f"a request holds {many} of {state.size:,} bytes in each layer"
    if state.copies == 1:
        return f"{text}: prefix caching is off"
    return f"{text}, for prefix caching{' and checkpoints' if state.checkpoint else ''}"


def _raised(served: Served, shape: Layout) -> list[str]:
    """Return what vLLM logs of the block size and of pages that are padded."""
    assert served.state is not None
    lines = []
    if served.raised_from is not None:
        lines.append(f"Setting attention block size to {served.block_size} tokens")
    page, size = shape.groups[0].pages[0].page_bytes, served.state.size
    if page > size:
        lines.append(f"Padding mamba page size by {100 * (page - size) / size:.2f}%")
    return ["  vLLM logs: " + "; ".join(lines)] if lines else []


def _under_way(served: Served, gpu: Gpu | None) -> str:
    tokens = served.defaults.max_num_batched_tokens
    if served.asked.max_num_batched_tokens is not None:
        source = "given"
    else:
        source = f"vLLM's on {gpu.name}" if gpu else "vLLM's on GPUs below 70 GiB"
    times = served.limits.in_flight // tokens
    steps = f"{times} steps" if times > 1 else "one step"
    return f"at max_num_batched_tokens {tokens:,} ({source}), {steps} under way at a time"


def _memory(plan: Budget, served: Served, uses: bool) -> list[Row]:
    rows = [("memory", f"{gib(plan.gpu.memory):.2f}", _reported(plan.gpu))]
    if uses:
        share = f"gpu_memory_utilization {served.asked.utilization:g}"
        rows.append(("used by vLLM", f"{gib(plan.requested):.2f}", share))
    most = max(plan.weights, key=lambda part: part.size)
    for part in (most, plan.activation, plan.other):
        rows.append((part.name, f"-{gib(part.size):.2f}", _reach(part)))
    return rows


def _reported(gpu: Gpu) -> str:
    if gpu.source == "given":
        return "given"
    spread = f", {gib(gpu.low):.2f} to {gib(gpu.high):.2f}" if gpu.low < gpu.high else ""
    return f"as CUDA reports it{spread}"


def _reach(part: Part) -> str:
    if part.kind == "estimate":
        return f"estimate, {gib(part.low):.2f} to {gib(part.high):.2f}"
    return part.source


def _sources(plan: Budget) -> list[str]:
    """Write where the figures come from that are neither given nor counted."""
    told = [] if plan.gpu.source == "given" else [f"memory: {plan.gpu.source}"]
    estimates = (part for part in (plan.activation, plan.other) if part.kind == "estimate")
    told += [f"{part.name}: {part.source}" for part in estimates]
    return [line for text in told for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ")]


def _next(found: Answer) -> list[str]:
    """Say what to do with the answer."""
    lines = []
    if found.gpu is not None:
        usual = found.gpu.defaults()
        if found.served is not None:
            usual = usual_step(found.served.model, found.gpu)
        lines.append(
            f"vllm serve on this GPU, unless told: max_num_seqs {usual.max_num_seqs:,}, "
            f"max_num_batched_tokens {usual.max_num_batched_tokens:,}"
        )
    layout = found.layout
    if layout is not None and len(layout.block_sizes) > 1:
        lines.append(
            "in a sweep, whose groups have blocks of one size, as many of the longest requests fit "
            f"with cache.gpu_tokens = {found.tokens}"
        )
    elif found.blocks > 1:
        size = f", cache.block_size = {found.block_size}" * (found.block_size != BLOCK_SIZE)
        lines.append(f"in a sweep: cache.gpu_blocks = {found.blocks - 1}{size}")
        if layout is not None and not layout.plain:
            lines.append(f"            cache.groups = [{', '.join(map(_group, layout.groups))}]")
    if found.source == "estimate":
        lines.append("what the server really has: kvsweep blocks --log FILE, the log of its start")
    return lines


def _group(group: Group) -> str:
    """Write a group as a sweep has it."""
    layer = group.pages[0].layer
    if layer.state is not None:
        more = ", checkpoint = true" if layer.state.checkpoint else ""
        return f'{{ kind = "state"{more} }}'
    kind = "full" if layer.window is None else "sliding"
    size = "" if layer.window is None else f", window = {layer.window}"
    return f'{{ kind = "{kind}"{size} }}'


def _table(rows: list[Row]) -> list[str]:
    names = max(len(name) for name, _, _ in rows)
    values = max(len(value) for _, value, _ in rows)
    return [f"  {a:<{names}}  {b:>{values}}  {c}".rstrip() for a, b, c in rows]
