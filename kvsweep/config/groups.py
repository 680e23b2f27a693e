"""Groups of layers that share block tables: the hybrid caches of models with sliding windows."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import Key, KeyProblem, Section
from kvsweep.limits import MAX_TOKENS

# A token and one before it.
Window = Annotated[int, Field(strict=True, ge=2, le=MAX_TOKENS)]


class CacheGroup(Section):
    """Layers of one kind of attention; each group takes its blocks from the common pool.

    Attributes
    ----------
    kind : str
        ``full``: all blocks of a request stay. ``sliding``: those that the window has left go.
    window : int or None
        Tokens that the layers of a sliding group look back on, the newest included: it and at
        least one before it.
    """

    kind: Annotated[Literal["full", "sliding"], Key("1", "kind of attention")]
    window: Annotated[Window | None, Key("token", "sliding window")] = None

    @model_validator(mode="after")
    def _has_its_window(self) -> Self:
        if self.kind == "full" and self.window is not None:
            raise KeyProblem(("window",), "kind 'full' has none; did you mean kind = 'sliding'?")
        if self.kind == "sliding" and self.window is None:
            raise KeyProblem(("window",), "missing; kind 'sliding' needs it, in tokens")
        return self


def is_hybrid(groups: tuple[CacheGroup, ...]) -> bool:
    """Return whether groups are more than the one table of a model with full attention."""
    return len(groups) > 1 or any(group.kind == "sliding" for group in groups)
