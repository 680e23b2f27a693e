"""Prompts of exactly so many tokens, of plain English words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from kvsweep.errors import InputError
from kvsweep.llama.design import HIT, MISS, Design, Size
from kvsweep.llama.runtime import Runtime
from kvsweep.llama.words import stream

WARMUP = "warmup"
PROMPTS = (WARMUP, HIT, MISS)

# Words passed over before one that does not fit is taken.
_MISFITS = 200


@dataclass(frozen=True)
class Prompt:
    """A prompt as sent.

    Attributes
    ----------
    tokens : tuple of int
    text : str
        What the tokens say.
    text_tokens : int
        Tokens that the model's tokenizer makes of `text`: as many as were sent if no word of it
        is joined with the next.
    """

    tokens: tuple[int, ...]
    text: str
    text_tokens: int


def build_prompts(runtime: Runtime, design: Design, size: Size) -> dict[str, Prompt]:
    """Return the prompts of a size: ``warmup`` [A, B], ``hit`` [A, B, Q], ``miss`` [B, Q].

    A and B differ in their first token, so that [B, Q] finds no prefix of [A, B].
    """
    a = segment(runtime, size.a, f"{design.seed} A")
    b = segment(runtime, size.b, f"{design.seed} B", unlike=a[0])
    q = segment(runtime, design.query, f"{design.seed} Q")
    parts = {WARMUP: a + b, HIT: a + b + q, MISS: b + q}
    return {name: _prompt(runtime, tokens) for name, tokens in parts.items()}


def segment(runtime: Runtime, length: int, seed: str, unlike: int | None = None) -> tuple[int, ...]:
    """Return `length` tokens of words, the first not `unlike`.

    Words that do not fit are passed over. With a tokenizer that has no short words, or begins all
    with one token, in the end one is taken as it comes, and cut.

    Raises
    ------
    InputError
        If the tokenizer makes no tokens of words.
    """
    tokens: list[int] = []
    misfits = 0
    for word in islice(stream(seed), length + 2 * _MISFITS):
        piece = runtime.tokenize(f" {word}")
        room = length - len(tokens)
        if misfits == _MISFITS or (len(piece) <= room and (tokens or piece[:1] != [unlike])):
            tokens += piece[:room]
        else:
            misfits += 1
        if len(tokens) == length:
            return tuple(tokens)
    raise InputError("the model's tokenizer makes no tokens of words")


def _prompt(runtime: Runtime, tokens: tuple[int, ...]) -> Prompt:
    text = runtime.detokenize(tokens)
    return Prompt(tokens, text, len(runtime.tokenize(text)))
