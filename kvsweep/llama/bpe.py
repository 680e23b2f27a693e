"""A byte-level BPE vocabulary in the manner of GPT-2, learned from a list of words.

R. Sennrich, B. Haddow and A. Birch, Neural Machine Translation of Rare Words with Subword Units
(ACL 2016), over GPT-2's printable stand-ins for bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, product

END_OF_TEXT = "<|endoftext|>"

_BYTES = 256
_SPACE = "Ġ"  # GPT-2's stand-in for a space, here in front of every word

Pair = tuple[str, str]


def byte_symbols() -> list[str]:
    """Return GPT-2's stand-in for each of the 256 bytes, printable ones first."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(_BYTES) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(_BYTES + i) for i in range(len(others))]


def vocabulary(words: Sequence[str], size: int) -> tuple[list[str], list[Pair]]:
    """Learn merges from `words` and fill up with made words that no text is split into.

    Parameters
    ----------
    words : sequence of str
        ASCII letters; the first weigh most.
    size : int
        Tokens: the bytes, what the merges make, the filling, and `END_OF_TEXT` last.

    Returns
    -------
    tokens : list of str
        `size` of them, all different.
    merges : list of pairs
        In the order of learning.
    """
    merges = learn_merges(words, size - _BYTES - 1)
    known = dict.fromkeys([*byte_symbols(), *("".join(pair) for pair in merges)])
    filling = (word for word in _made_words() if word not in known)
    return [*known, *islice(filling, size - len(known) - 1), END_OF_TEXT], merges


def learn_merges(words: Sequence[str], most: int) -> list[Pair]:
    """Return at most `most` merges: each time of the pair of symbols that weighs most.

    A word weighs inversely to its position, as words do in text; ties go by the alphabet.
    """
    splits = [(_SPACE, *word) for word in words]
    weights = [len(words) // (i + 1) + 1 for i in range(len(words))]
    merges: list[Pair] = []
    while len(merges) < most:
        counts: Counter[Pair] = Counter()
        for split, weight in zip(splits, weights, strict=True):
            for pair in pairwise(split):
                counts[pair] += weight
        if not counts:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        splits = [_merge(split, best) for split in splits]
        merges.append(best)
    return merges


def _merge(split: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    """Join every occurrence of `pair`, from the left."""
    merged: list[str] = []
    for symbol in split:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


def _made_words() -> Iterator[str]:
    """Yield words of three syllables: half a million, more than any vocabulary."""
    syllables = [c + v for c, v in product("bdfghjklmnprstvz", "aeiou")]
    for word in product(syllables, repeat=3):
        yield _SPACE + "".join(word)
