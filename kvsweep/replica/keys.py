"""Content to block keys: equal keys exactly where the token sequences are equal.

The reference hashes the decimal text of all tokens from the start of a table to the end of a block.
Here a token is a position in a content segment, so a token sequence has one shortest description
as spans, and that description is numbered. The numbers are equal where the reference's hashes are.
"""

from collections.abc import Iterable
from itertools import accumulate

from kvsweep.replica.request import Request, Span

Piece = tuple[Request, int, int]
"""Tokens ``start`` to ``stop`` (exclusive) of a request: what a block holds is a list of these."""


class Keys:
    """Numbers token sequences, and remembers those of each request's prompt prefixes."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Span, ...], int] = {}
        self._prefixes: dict[tuple[int, int], int] = {}
        self._prompts: dict[tuple[int, int], list[int]] = {}

    def sequence(self, pieces: Iterable[Piece]) -> int:
        """Return the number of the token sequence made of ``pieces`` in order."""
        spans: list[Span] = []
        for request, start, stop in _joined(pieces):
            for span in _cut(request, start, stop):
                _append(spans, span)
        return self._numbers.setdefault(tuple(spans), len(self._numbers))

    def prefix(self, request: Request, stop: int) -> int:
        """Return the number of the first ``stop`` tokens of a request's content."""
        number = self._prefixes.get((request.index, stop))
        if number is None:
            number = self.sequence([(request, 0, stop)])
            self._prefixes[request.index, stop] = number
        return number

    def prompt_blocks(self, request: Request, block_size: int) -> list[int]:
        """Return the numbers of the prompt prefixes that end with a full block, shortest first."""
        numbers = self._prompts.get((request.index, block_size))
        if numbers is None:
            ends = range(block_size, request.prompt_tokens + 1, block_size)
            numbers = [self.prefix(request, end) for end in ends]
            self._prompts[request.index, block_size] = numbers
        return numbers


def _joined(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Yield ``pieces`` with neighbours that continue each other merged (only to save work)."""
    current: Piece | None = None
    for piece in pieces:
        if current and current[0] is piece[0] and current[2] == piece[1]:
            current = (current[0], current[1], piece[2])
        else:
            if current:
                yield current
            current = piece
    if current:
        yield current


def _cut(request: Request, start: int, stop: int) -> Iterable[Span]:
    """Yield the spans of tokens ``start`` to ``stop`` of a request's content."""
    ends = accumulate(last - first for _, first, last in request.content)
    for (segment, first, last), end in zip(request.content, ends, strict=True):
        offset = end - (last - first)
        low, high = max(start, offset), min(stop, end)
        if low < high:
            yield segment, first + low - offset, first + high - offset


def _append(spans: list[Span], span: Span) -> None:
    """Append ``span``, merged with the last one if it continues it: one form per sequence."""
    if spans and spans[-1][0] == span[0] and spans[-1][2] == span[1]:
        spans[-1] = (span[0], spans[-1][1], span[2])
    else:
        spans.append(span)
