"""The one exception that users see: bad input, said in one line; and text that is safe to show."""

import os
import re

SHOWN = 60
"""Characters of a user's input that a message quotes."""

_MANY_BITS = 256
_LINE_BREAKS = re.compile(r"\s*[\r\n]\s*")


class InputError(ValueError):
    """Bad input: the message is one line naming file, key or line, what is wrong, what is allowed.

    Line breaks in the message become spaces and control characters are escaped, so that no input
    reaches a terminal as a command. The command line prints the message and exits with code 2; the
    Python API raises it, with arguments where a command has options.

    Attributes
    ----------
    for_command : str
        The message with the names of options.

    Examples
    --------
    >>> import kvsweep
    >>> try:
    ...     kvsweep.load_sweep("small.toml", ["cache.block_sise=32"])
    ... except kvsweep.InputError as error:
    ...     print(error)
    small.toml: overrides: cache.block_sise: unknown key; did you mean 'block_size'?
    """

    def __init__(self, message: str) -> None:
        super().__init__(escaped(_LINE_BREAKS.sub(" ", message)))
        self.for_command = str(self)


def escaped(text: str, kept: str = "") -> str:
    r"""Return `text` with what a terminal obeys or cannot print escaped, as ``\x1b``.

    That is what Python calls not printable: control characters, overrides of direction, halves of
    characters. Those in `kept` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


def printable(text: object) -> str:
    """Return text of several lines as `escaped` does: titles and names come from others' files."""
    return escaped(str(text), kept="\t\n")


def clip(text: str) -> str:
    """Return `text`, cut to `SHOWN` characters."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def shown(value: object) -> str:
    """Write a value of the input as messages quote it: short, lists and objects by their kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(clip(value))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _MANY_BITS:  # some are too long for repr()
        return f"an integer of {value.bit_length():,} bits"
    return clip(repr(value))


def dotted(path: tuple[str | int, ...]) -> str:
    """Write a key as messages have it: ``workload.clients[0].rate_fraction``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{clip(part)}"
    return text.removeprefix(".")


class PlainWarning(UserWarning):
    """A warning whose text is all that a reader needs: no file and no line of this package."""


def did_you_mean(word: object, known: list[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, or an empty string.

    What is no text is close to none; some numbers are too long to be written.
    Of a dotted key it is the name of its axis, ``rate`` of ``workload.rate``, if that is known.
    Capitals are no difference: ``LRU`` is as close to ``lru`` as can be.
    """
    from difflib import get_close_matches

    if not isinstance(word, str):
        return ""
    if (last := word.rpartition(".")[2]) in known:
        return f"; did you mean {last!r}?"
    spelled = {name.casefold(): name for name in known}
    close = get_close_matches(clip(word).casefold(), list(spelled), n=1, cutoff=0.6)
    return f"; did you mean {spelled[close[0]]!r}?" if close else ""


FOLDER_GONE = "the current folder was deleted: change to one that is there"


def folder_is_gone(error: OSError) -> bool:
    """Whether a system call asked where it is, in a folder that was deleted: it names none."""
    if not isinstance(error, FileNotFoundError) or error.filename:
        return False
    try:
        os.getcwd()
    except OSError:
        return True
    return False
