"""Answers to how many blocks there are: from a GPU, an amount of memory, or a server's log."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

from kvsweep.errors import InputError, shown
from kvsweep.sizing.answer import Answer
from kvsweep.sizing.capacity import Layout, layout
from kvsweep.sizing.defaults import BLOCK_SIZE
from kvsweep.sizing.estimate import Budget, budget, refuse_without_memory
from kvsweep.sizing.gpus import Gpu, find_gpu
from kvsweep.sizing.measured import blocks_of, difference
from kvsweep.sizing.question import Question, check
from kvsweep.sizing.server_log import ServerLog, read_server
from kvsweep.sizing.settings import Served, serve, unsupported_block
from kvsweep.sizing.shapes import load_model
from kvsweep.sizing.sizes import parse_size
from kvsweep.sizing.unserved import unserved

LEAST_WEIGHTS = 2**12
"""Bytes that no model's weights are below; "405B" are parameters, and were 405 bytes."""


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
    check(question)
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


def _from_gpu(question: Question, served: Served, shape: Layout, gpu: Gpu) -> Answer:
    plan = _plan(question, served, gpu)
    refuse_without_memory(served, plan, known=question.known)
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
    if sizes[0] is not None and sizes[0] < LEAST_WEIGHTS:
        raise InputError(
            f"--weights: {shown(question.weights)} is {sizes[0]:,} bytes, and no number of "
            "parameters; give the memory that they take, as 15GiB"
        )
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
    found.utilization = ceil(share * 10_000) / 10_000  # no less: who follows it has them all
    if share > 1:
        found.warnings.insert(
            0, f"{question.blocks:,} blocks do not fit: {share:.2f} of the memory of {gpu.name}"
        )
    return found


def _from_log(question: Question, found: ServerLog) -> Answer:
    asked = question.asked(found)
    served = shape = None
    if question.model is not None:
        model = load_model(question.model)
        # A server may have been told to take longer requests than its model was made for.
        longest = max(model.max_model_len, found.max_model_len or 0)
        served = serve(replace(model, max_model_len=longest), asked, None)
        shape = layout(served)
    asked.check()
    size = served.block_size if served else asked.block_size or BLOCK_SIZE
    blocks, text = blocks_of(found, size, shape)
    text = f"{found.path}: {text}"
    if served is not None and shape is not None:
        result = _answer(served, shape, blocks, "log", text)
        if not found.overridden and (told := difference(found, shape, blocks)):
            result.warnings.append(told)
    else:
        result = Answer(
            f"vLLM's log {found.path}", "log", text, blocks, None, None, size, blocks * size, None
        )
        result.concurrency = found.concurrency
    if found.memory is not None and not found.overridden:
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
    if served.raised_from is not None and served.raised_from == served.asked.block_size:
        found.warnings.append(
            f"--block-size: {served.raised_from}; vLLM raises it to {served.block_size}, for a "
            "block of attention to be as large as a state"
        )
    if source != "log":
        told = unsupported_block(served, found.gpu), unserved(served, found.gpu)
        found.warnings += filter(None, told)
    if not shape.starts(blocks):
        longest = shape.longest(blocks)
        remedy = f"; it does with --max-model-len {longest}" if longest else ""
        found.warnings.append(
            f"vLLM does not start: a request of {shape.limits.max_model_len:,} tokens needs "
            f"{shape.request_blocks:,} blocks and the null block{remedy}"
        )
    return found
