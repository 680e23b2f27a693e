"""Commands that a script puts together of pieces, of which one alone is not the server's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvsweep.errors import InputError, clip, escaped
from kvsweep.vllm_command.options import find_option

AT_ONCE = "give the command in one piece"
_SERVER = r"(?:vllm[ \t]+serve\b|vllm\.entrypoints\.)"
# NAME="vllm serve ...", NAME=(vllm serve ...), NAME := vllm serve ... What may stand before is
# bounded, as it is looked through for each name.
_KEPT = re.compile(
    r"(?<![\w$])(?P<name>[A-Za-z_]\w*)"
    r"(?:[ \t]*=[ \t]*(?:(?P<quote>[\"'])(?:(?!(?P=quote)).){0,999}?|\([^()]{0,999}?)"
    rf"|[ \t]+[:?]?=[ \t]+[^\n]{{0,999}}?){_SERVER}",
    re.DOTALL,
)
_OPTION = re.compile(r"--?[A-Za-z]")


def refuse_pieces(text: str, where: str) -> None:
    r"""Refuse a command that a variable holds, and that goes on elsewhere.

    Parameters
    ----------
    text : str
        A script without its comments.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If more is put to the variable, or behind it.

    Examples
    --------
    >>> refuse_pieces('S="vllm serve m"\n$S > log', "a.sh")
    """
    for name in {found["name"] for found in _KEPT.finditer(text)}:
        if _grows(name).search(text):
            raise InputError(f"{where}: {clip(name)}: has a part of the command only; {AT_ONCE}")


def _grows(name: str) -> re.Pattern[str]:
    """Return what puts more to a variable: ``S+=``, ``S="$S ..."``, ``$S --more``, ``s.append``."""
    used = rf"\$[{{(]?{name}(?:\[[@*]\])?[)}}]?"
    more = rf"{used}[\"']?[ \t]*[\"']?(?:{_OPTION.pattern}|[$\\])"
    itself = rf"[ \t]*[:?]?=[^\n]{{0,200}}(?:{used}|\{{{name}\}})"
    return re.compile(
        rf"(?<![\w$])(?<!\$[{{(]){name}(?:[ \t]*\+|\.(?:append|extend)\b|{itself})|{more}"
    )


def refuse_more(following: Sequence[str], where: str) -> None:
    """Refuse options of vLLM behind a text that is the command, as of `sh -c`.

    Raises
    ------
    InputError
        Naming the first.
    """
    for word in following:
        if _OPTION.match(word) and _is_of_vllm(re.split(r"[\s=.]", word, maxsplit=1)[0]):
            told = "is not in the text that has the command"
            raise InputError(f"{where}: {clip(escaped(word.strip()))}: {told}; {AT_ONCE}")


def _is_of_vllm(name: str) -> bool:
    try:
        find_option(name, "")
    except InputError:
        return False
    return True
