"""The one exception that users see: bad input, said in one line; and text that is safe to show."""

import re

# Characters that a terminal obeys or that change the order of others: C0 but for tabs and ends of
# lines, DEL, C1, marks and overrides of direction, separators of lines; and halves of characters,
# which cannot be printed at all.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class InputError(ValueError):
    """Bad input: the message is one line naming file, key or line, what is wrong, what is allowed.

    The command line prints the message and exits with code 2; the Python API raises it.
    """


def did_you_mean(word: str, known: list[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def printable(text: object) -> str:
    """Return text with escapes in place of characters that a terminal would obey.

    Titles, names and messages come from files that others wrote.
    """
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], str(text))
