"""What the experiment needs of a runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class Runtime(Protocol):
    """A loaded model with a KV cache of one sequence, which reuses the longest cached prefix.

    Attributes
    ----------
    attributes : mapping of str to str or int
        What a measurement says of it: name and version, model, threads, hardware.
    """

    attributes: Mapping[str, str | int]

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of `text`, none added."""

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`."""

    def is_end(self, token: int) -> bool:
        """Tell whether `token` ends a generation."""

    def clear(self) -> None:
        """Forget everything: no later prompt finds a prefix."""

    def cached_tokens(self) -> int:
        """Return how many tokens the KV cache holds."""

    def generate(self, prompt: Sequence[int]) -> Iterator[int]:
        """Compute what of `prompt` is not cached and yield the likeliest tokens, without end."""

    def computed_tokens(self) -> int:
        """Return how many tokens were computed since the last `generate` began."""
