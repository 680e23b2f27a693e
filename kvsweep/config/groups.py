"""Groups of layers that share block tables: the caches of models with several kinds of layers."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from kvsweep.config.base import Key, KeyProblem, Section
from kvsweep.limits import MAX_TOKENS

# A token and one before it.
Window = Annotated[int, Field(strict=True, ge=2, le=MAX_TOKENS)]


class CacheGroup(Section):
    """Layers of one kind; each group takes its blocks from the common pool.

    Attributes
    ----------
    kind : str
        ``full``: all blocks of a request stay. ``sliding``: those that the window has left go.
        ``state``: a block holds a recurrent state, of Mamba or linear attention.
    window : int or None
        Tokens that the layers of a sliding group look back on, the newest included: it and at
        least one before it.
    checkpoint : bool or None
        Whether layers can keep the state at the last block's end within a chunk, so that the chunk
        need not end there; of states only, false unless given.
    """

    kind: Annotated[Literal["full", "sliding", "state"], Key("1", "kind of layers")]
    window: Annotated[Window | None, Key("token", "sliding window")] = None
    checkpoint: Annotated[
        StrictBool | None, Key("1", "whether a chunk can keep a state from within")
    ] = None

    @model_validator(mode="after")
    def _has_its_window(self) -> Self:
        if self.kind != "sliding" and self.window is not None:
            message = f"kind {self.kind!r} has none; did you mean kind = 'sliding'?"
            raise KeyProblem(("window",), message)
        if self.kind != "state" and self.checkpoint is not None:
            message = f"kind {self.kind!r} has none; only kind 'state' has"
            raise KeyProblem(("checkpoint",), message)
        if self.kind == "sliding" and self.window is None:
            raise KeyProblem(("window",), "missing; kind 'sliding' needs it, in tokens")
        return self


def is_hybrid(groups: tuple[CacheGroup, ...]) -> bool:
    """Return whether groups are more than the one table of a model with full attention."""
    return len(groups) > 1 or any(group.kind != "full" for group in groups)


def keeps_some(groups: tuple[CacheGroup, ...]) -> bool:
    """Return whether a group needs but some of a request's blocks for a hit: windows, states."""
    return any(group.kind != "full" for group in groups)


def attention_groups(groups: tuple[CacheGroup, ...]) -> tuple[CacheGroup, ...]:
    """Return the groups of layers that attend, full or sliding."""
    return tuple(group for group in groups if group.kind != "state")


def state_groups(groups: tuple[CacheGroup, ...]) -> tuple[CacheGroup, ...]:
    """Return the groups of layers that keep states."""
    return tuple(group for group in groups if group.kind == "state")
