"""What the image of a Dockerfile starts."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from kvsweep.errors import InputError, clip, escaped
from kvsweep.limits import MAX_SCRIPT_CHARACTERS
from kvsweep.vllm_command.containers import ENTRY_POINT, Container
from kvsweep.vllm_command.release import release_of
from kvsweep.vllm_command.shell import is_image
from kvsweep.vllm_command.words import Command

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
_FIRST = re.compile(r"(?:[ \t]*(?:#[^\n]*|ARG[ \t][^\n]*)?\n)*[ \t]*FROM[ \t]+\S", re.IGNORECASE)
_VARIABLE = re.compile(r"\\.|\$(?:\{(\w+)(?::-([^{}]*))?\}|(\w+))")
_FLAGS = re.compile(r"^(?:--[\w-]+=\S*\s+)+")  # FROM --platform=linux/amd64 IMAGE
_SCRIPT = re.compile(r"\S*\.(?:sh|bash|py)|\S*entrypoint\S*", re.IGNORECASE)
_HEREDOC = re.compile(r"<<-?[\"']?(\w+)[\"']?")


@dataclass(frozen=True)
class _Stage:
    """What is known of an image while it is built.

    Attributes
    ----------
    entry, command : list of str
        Its entry point and its command.
    variables : dict of str to str
        Its environment.
    shell_entry : bool
        Whether its entry point is a text for a shell, which takes no command.
    image : str
        The image that it begins with, or what installs vLLM in it.
    own_command : bool
        Whether this stage has the command, not the image that it begins with, whose command an
        entry point takes away.
    """

    entry: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    shell_entry: bool = False
    image: str = ""
    own_command: bool = False


def is_dockerfile(text: str) -> bool:
    r"""Return whether a text is a Dockerfile.

    Examples
    --------
    >>> is_dockerfile("# mine\nARG TAG=v1\nFROM vllm/vllm-openai:$TAG\n"), is_dockerfile("FROM")
    (True, False)
    """
    return _FIRST.match(text) is not None


def read_dockerfile(text: str, where: str) -> Command:
    r"""Return the command that an image starts, of the last stage.

    Parameters
    ----------
    text : str
        The Dockerfile.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it starts no server, or a script, which is another file.

    Examples
    --------
    >>> read_dockerfile('FROM vllm/vllm-openai\nCMD ["Qwen/Qwen3-8B", "-tp", "2"]', "f").text
    'vllm serve Qwen/Qwen3-8B -tp 2'
    """
    if len(text) > MAX_SCRIPT_CHARACTERS:
        most = f"a Dockerfile has at most {MAX_SCRIPT_CHARACTERS:,}"
        raise InputError(f"{where}: {len(text):,} characters; {most}")
    last = _built(text, where)
    words = [*last.entry, *([] if last.shell_entry else last.command)]
    found = Container(where, "CMD", words, last.variables, image=last.image)
    if not words:
        raise InputError(f"{where}: no CMD or ENTRYPOINT: give the command it is run with")
    if found.starts_server():
        return found.command()
    script = next((word for word in words if _SCRIPT.fullmatch(word)), None)
    started = clip(escaped(script or " ".join(words)))
    remedy = "give that script" if script else "give the command of vLLM"
    raise InputError(
        f"{where}: starts {started}, which is not vLLM: {remedy}, or --log of its start"
    )


def _built(text: str, where: str) -> _Stage:
    """Return what the last stage is after all instructions."""
    stages: dict[str, _Stage] = {}
    arguments: dict[str, str] = {}
    now, name = _Stage(), "0"
    for keyword, rest in _instructions(text):
        known = {**arguments, **now.variables}
        if keyword == "FROM":
            told = _filled(_FLAGS.sub("", rest), known)
            image, _, alias = told.partition(" ")
            stages[name] = now
            vllms = list(ENTRY_POINT) if is_image(image) else []
            base = _Stage(entry=vllms, image=image)
            now = replace(stages.get(image.lower(), base), own_command=False)
            name = alias.strip().rpartition(" ")[2].lower() or str(len(stages))
        elif keyword == "ARG":
            arguments |= _pairs(rest, known)
        elif keyword == "ENV":
            now = replace(now, variables={**now.variables, **_environment(rest, known)})
        elif keyword == "RUN" and (installed := release_of(_filled(rest, known))):
            now = replace(now, image=installed.said)
        elif keyword == "ENTRYPOINT":
            words, by_shell = _argv(rest, f"{where}: ENTRYPOINT")
            kept = now.command if now.own_command else []
            now = replace(now, entry=words, shell_entry=by_shell, command=kept)
        elif keyword == "CMD":
            now = replace(now, command=_argv(rest, f"{where}: CMD")[0], own_command=True)
    return now


def _instructions(text: str) -> list[tuple[str, str]]:
    """Return keywords and what follows, lines joined, comments and here-documents left out."""
    found: list[tuple[str, str]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.lstrip().startswith("#"):
            continue
        joined = [line.rstrip()]
        while joined[-1].endswith("\\") and (more := next(lines, None)) is not None:
            joined[-1] = joined[-1][:-1]
            joined.append("\\" if more.lstrip().startswith("#") else more.rstrip())
        whole = " ".join(joined)
        if not (parts := _INSTRUCTION.fullmatch(whole)):
            continue
        for end in _HEREDOC.findall(parts[2]) if parts[1].upper() in ("RUN", "COPY") else ():
            while (more := next(lines, None)) is not None and more.strip() != end:
                pass
        found.append((parts[1].upper(), parts[2].strip()))
    return found


def _argv(text: str, where: str) -> tuple[list[str], bool]:
    """Return the words of an instruction, and whether a shell takes them."""
    if not text.startswith("["):
        return ["/bin/sh", "-c", text], True
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise InputError(f"{where}: {clip(escaped(text))}: expected a list of texts, as JSON")
    return given, False


def _environment(text: str, known: dict[str, str]) -> dict[str, str]:
    """Return the variables of ``ENV A=1 B="2"``, or of the older ``ENV A 1``."""
    name, _, value = text.partition(" ")
    if "=" not in name:
        return {name: _filled(value.strip(), known)}
    return _pairs(text, known)


def _pairs(text: str, known: dict[str, str]) -> dict[str, str]:
    """Return the variables of ``A=1 B="2" C``, of which the last has no value."""
    try:
        words = shlex.split(text)
    except ValueError:
        return {}
    pairs = (word.partition("=") for word in words if "=" in word)
    return {key: _filled(value, known) for key, _, value in pairs}


def _filled(text: str, known: dict[str, str]) -> str:
    """Put in variables that are known, and defaults of others."""

    def put(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        value = known.get(name) if name else None
        return found[2] or found[0] if value is None else value

    return _VARIABLE.sub(put, text)[:MAX_SCRIPT_CHARACTERS]
