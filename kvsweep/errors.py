"""The one exception that users see: bad input, said in one line."""


class InputError(ValueError):
    """Bad input: the message is one line naming file, key or line, what is wrong, what is allowed.

    The command line prints the message and exits with code 2; the Python API raises it.
    """


def did_you_mean(word: str, known: list[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
