"""Blocks that a server's own log tells, exactly where it does."""

from __future__ import annotations

from kvsweep.errors import InputError
from kvsweep.sizing.architectures import KNOWN, MIXED
from kvsweep.sizing.capacity import Layout
from kvsweep.sizing.layers import cdiv
from kvsweep.sizing.server_log import ServerLog

ROUNDED = 0.005
"""GiB by which a logged amount of memory may differ from the true one."""


def blocks_of(found: ServerLog, block_size: int, layout: Layout | None) -> tuple[int, str]:
    """Return the blocks of a server and where they come from.

    Parameters
    ----------
    found : ServerLog
        What the log says.
    block_size : int
        Tokens of a block.
    layout : Layout or None
        The model's, if it is known.

    Raises
    ------
    InputError
        If the log tells only tokens that a hybrid model has in many ways, or contradicts the
        model.
    """
    if found.blocks is not None:
        name = "num_gpu_blocks_override" if found.overridden else "num_gpu_blocks"
        return found.blocks, f"{name}, exactly"
    if found.tokens is None:
        return _from_memory(found, layout)
    return _from_tokens(found, block_size, layout)


def _from_memory(found: ServerLog, layout: Layout | None) -> tuple[int, str]:
    if layout is None:
        raise InputError(f"{found.path}: tells only GiB; give the --model for its blocks")
    memory, stages = found.memory or 0, len(layout.block_bytes)
    blocks = layout.blocks([memory] * stages)
    told = "" if stages == 1 else " of the stages that the log tells (others may have less)"
    return blocks, f"available KV cache memory{told}, rounded to 0.01 GiB"


def _from_tokens(found: ServerLog, block_size: int, layout: Layout | None) -> tuple[int, str]:
    assert found.tokens is not None
    if layout is None:
        _refuse_hybrid(found)
    if layout is not None and not layout.plain:
        return _shared(found, layout, found.tokens)
    longest = found.max_model_len
    needed = cdiv(longest, block_size) if longest else 1
    per_need = longest or block_size
    near = round(found.tokens * needed / per_need)
    for blocks in (near, near - 1, near + 1):
        # Before vLLM 0.20 whole blocks, since then a share of the longest request.
        logged = {blocks * block_size, int(blocks / needed * per_need)}
        if blocks > 0 and found.tokens in logged:
            return blocks, "the logged tokens, exactly"
    raise InputError(
        f"{found.path}: {found.tokens:,} tokens are no whole number of blocks of {block_size} "
        "tokens; give the server's --block-size, and --model if its layers are not alike"
    )


def _refuse_hybrid(found: ServerLog) -> None:
    """Refuse tokens that are no blocks times their size, as the layers are not alike."""
    about = KNOWN.get(found.architecture or "")
    mixed = about is None or about.sliding in MIXED or about.states
    if found.architecture is not None and about is None:
        raise InputError(
            f"{found.path}: the tokens of {found.architecture}, which is not known here, may "
            "depend on its layers; give a scrape of the server's /metrics, with num_gpu_blocks"
        )
    if found.architecture is not None and mixed:
        raise InputError(
            f"{found.path}: the tokens of {found.architecture} depend on its layers; give its "
            "--model"
        )
    if about is None:
        found.notes.append("all layers of the model are taken to be alike; --model tells if not")


def _shared(found: ServerLog, layout: Layout, tokens: int) -> tuple[int, str]:
    """Return the blocks of a model whose tokens depend on the requests."""
    possible = [*_as_now(found, layout, tokens), *_as_before_020(found, layout, tokens)]
    if not possible:
        raise InputError(
            f"{found.path}: {tokens:,} tokens do not fit {layout.limits.max_model_len:,} tokens a "
            f"request and {layout.limits.in_flight:,} under way; give the server's "
            "--max-model-len and --max-num-batched-tokens, and --no-async-scheduling if it has it"
        )
    if found.memory is None:
        return possible[0]
    told = layout.blocks([found.memory] * len(layout.block_bytes))
    return min(possible, key=lambda one: abs(one[0] - told))


def _as_now(found: ServerLog, layout: Layout, tokens: int) -> list[tuple[int, str]]:
    """Return the blocks whose concurrency times the longest request is `tokens`."""
    if found.older_than_020:
        return []
    near = round(tokens * layout.request_blocks / layout.limits.max_model_len)
    fits = [blocks for blocks in range(near - 1, near + 2) if blocks > 0]
    return [
        (blocks, "the logged tokens, exactly")
        for blocks in fits
        if layout.logged_tokens(blocks) == tokens
    ]


def _as_before_020(found: ServerLog, layout: Layout, tokens: int) -> list[tuple[int, str]]:
    """Return the blocks that vLLM before 0.20 divided by the groups, so that some were lost."""
    groups = len(layout.groups)
    each, rest = divmod(tokens, layout.block_size)
    if rest or not (found.older_than_020 or found.version is None):
        return []
    text = f"the logged tokens of vLLM before 0.20, to {groups} blocks"
    return [(each * groups + lost, text) for lost in range(groups)]


def difference(found: ServerLog, layout: Layout, blocks: int) -> str | None:
    """Say where the log and the formula differ: by more than the rounding of the log's GiB.

    Of a pipeline vLLM logs the memory of a node's first GPU only, while the stage with the fewest
    blocks decides: there may be fewer than these GiB hold, and no more.
    """
    memory = found.memory
    if memory is None:
        return None
    stages = len(layout.block_bytes)
    slack = int(ROUNDED * 2**30)
    low, high = (layout.blocks([memory + off] * stages) for off in (-slack, slack))
    if stages > 1:
        low, high = 0, (max(found.available) + slack) // min(layout.block_bytes)
    if low <= blocks <= high:
        return None
    formula = layout.blocks([memory] * stages)
    return (
        f"the log's {memory / 2**30:.2f} GiB are {formula:,} blocks of this model by the formula, "
        f"not {blocks:,}: another model, dtype, --tp or --block-size than the server's, a draft "
        "model's layers, or num_gpu_blocks_override"
    )
