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


def _used(name: str) -> str:
    return rf"\$[{{(]?{name}(?!\w)(?:\[[@*]\])?[)}}]?"


# The beginning of a value: outside of quotes it ends with its command.
_VALUE = r"(?:\"[^\"\n]{0,200}|'[^'\n]{0,200}|\([^)\n]{0,200}|[^\n;&|]{0,200})"
# What puts more to a variable: S+=, s.append, S="$S ...", and $S --more.
_GROWS = re.compile(
    r"(?<![\w$])(?<!\$[{(])(?P<name>[A-Za-z_]\w*)(?=[ \t]*\+|\.(?:append|extend)\b"
    rf"|[ \t]*[:?]?=[ \t]*{_VALUE}(?:{_used('(?P=name)')}|\{{(?P=name)\}}))"
    r"|" + _used(r"(?P<used>[A-Za-z_]\w*)") + rf"(?=[\"']?[ \t]*[\"']?(?:{_OPTION.pattern}|[$\\]))"
)
# What is printed runs nothing, unless it goes to a shell or a file.
_PRINTED = re.compile(r"(?:^|[;&|])[ \t]*(?:echo|printf)\b[^\n;&|<>]*(?=\n|;|&&|\Z)", re.MULTILINE)


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
    kept = {found["name"] for found in _KEPT.finditer(text)}
    for found in _GROWS.finditer(_PRINTED.sub("", text)) if kept else ():
        if (name := found["name"] or found["used"]) in kept:
            raise InputError(f"{where}: {clip(name)}: has a part of the command only; {AT_ONCE}")


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
