"""The command that starts a server, in a line or a script of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from kvsweep.errors import InputError, clip

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_IMAGE = re.compile(r"(?:[\w.:-]+/)*vllm-openai(?:-\w+)*(?::[\w.-]+)?(?:@\S+)?")
_SERVERS = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
NO_COMMAND = (
    "no command that starts vLLM: expected `vllm serve MODEL ...`, `python -m "
    "vllm.entrypoints.openai.api_server ...` or `docker run ... vllm/vllm-openai ...`"
)


def server_of(words: Sequence[str], where: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that are set, and the words after what starts the server.

    Parameters
    ----------
    words : sequence of str
        Of a command, or one text with one.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it starts none, or several.
    """
    lines = list(_lines(words[0], where)) if len(words) == 1 else [list(words)]
    variables: dict[str, str] = {}
    found = []
    for line in lines:
        at = _start(line)
        before = line if at is None else line[:at]
        given = (_ASSIGNMENT.fullmatch(word) for word in before)
        variables |= {each[1]: each[2] for each in given if each}
        if at is not None:
            found.append(_to_the_end(line[at:]))
    if len(found) != 1:
        several = f"starts {len(found)} servers; give the command of one"
        raise InputError(f"{where}: {several if found else NO_COMMAND}")
    unknown = next((word for word in found[0] if re.search(r"\$[\w{(]|`", word)), None)
    if unknown is not None:
        raise InputError(f"{where}: {clip(unknown)}: a variable of the shell: put in its value")
    return variables, found[0]


def _lines(text: str, where: str) -> Iterator[list[str]]:
    """Yield the words of each line of a shell's text; a line goes on after a backslash."""
    line = ""
    for part in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = f"{line}\n{part}" if line else part
        try:
            yield shlex.split(line, comments=True)
        except ValueError as error:  # a quotation goes on
            problem = str(error).lower()
            continue
        line = ""
    if line:
        raise InputError(f"{where}: {clip(' '.join(line.split()))}: {problem}")


def _start(words: Sequence[str]) -> int | None:
    """Return where the options of a server begin; None if these words start none."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] == "vllm" and list(words[at + 1 : at + 2]) == ["serve"]:
            return at + 2
        if word in _SERVERS or _IMAGE.fullmatch(word):
            return at + 1
    return None


def _to_the_end(words: list[str]) -> list[str]:
    """Return the words up to where the shell's command ends."""
    ends = [at for at, word in enumerate(words) if word in ("&", "&&", "|", "||", ";", ">", "2>")]
    return words[: ends[0]] if ends else words
