"""A command that starts vLLM, word by word, as vLLM's parser takes it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, clip, escaped, shown
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.parsing import parse_json
from kvsweep.reading import read_text
from kvsweep.vllm_command.dotted import add_part, tables_of
from kvsweep.vllm_command.given import as_text
from kvsweep.vllm_command.options import RELEASE, Option, find_option, is_name
from kvsweep.vllm_command.release import Release
from kvsweep.vllm_command.replicas import (
    replicas_of,
    told_of_keys,
    told_of_many,
    told_of_scaling,
)
from kvsweep.vllm_command.shell import (
    VARIABLE,
    Started,
    is_in_a_loop,
    server_of,
    servers_of,
    unmarked,
)
from kvsweep.vllm_command.yaml_text import parse_yaml

_LEVEL = re.compile(r"-O=?(\S+)")
_SPACES = "\u00a0\u2007\u2009\u200a\u200b\u202f\u2060\ufeff"
_DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212")
OF_THE_SHELL = "a variable of the shell: put in its value"
"""What is wrong with a word of which only the shell knows the value."""

SECRET = ("--api-key", "--hf-token", "--watermark-config")
"""Options whose values are shown nowhere."""


@dataclass
class Command:
    """How a server is started.

    Attributes
    ----------
    where : str
        What it is called in messages.
    text : str
        As a command on one line.
    model : str or None
        What is served.
    values : dict of Option to object
        Values of options: True or False of a switch, text of a word, a list of words, or a dict
        of what has dots.
    variables : dict of str to str
        The environment that is set in front of it.
    model_by_option : bool
        Whether ``--model`` says what is served.
    replicas : int or None
        How many such servers there are; None: not told.
    replicated_by : str
        Who says so.
    router, gpu : tuple of str and str, or None
        What sends requests to them, of ``cluster.routing``, and their GPU, each with who says so.
    notes : tuple of str
        What is known of them, and no option says.
    release : Release or None
        Of vLLM, as the image or what installs it says; None: not told.
    name : str
        What a manifest calls its container; empty: it has no name.
    """

    where: str
    text: str
    model: str | None = None
    values: dict[Option, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    model_by_option: bool = False
    replicas: int | None = None
    replicated_by: str = ""
    router: tuple[str, str] | None = None
    gpu: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    release: Release | None = None
    name: str = ""


def read_command(words: Sequence[str], where: str = "the command") -> Command:
    """Return what a command says; what is given twice has its last value, as for vLLM.

    Parameters
    ----------
    words : sequence of str
        Of the command, or one text with all of them.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it starts no server, or has an option that vLLM has not.

    Examples
    --------
    >>> found = read_command(["vllm serve Qwen/Qwen3-8B -tp 2 --max_num_seqs=64"])
    >>> found.model, {option.name: value for option, value in found.values.items()}
    ('Qwen/Qwen3-8B', {'--tensor-parallel-size': '2', '--max-num-seqs': '64'})
    """
    return _read(server_of(words, where), words, where)


def read_servers(words: Sequence[str], where: str = "the command") -> list[Command]:
    """Return what the commands of all servers say that a text starts.

    Parameters
    ----------
    words, where
        As `read_command` takes them.

    Raises
    ------
    InputError
        If it starts none, or has an option that vLLM has not.

    Examples
    --------
    >>> [each.model for each in read_servers(["vllm serve m --port 1 & vllm serve n --port 2"])]
    ['m', 'n']
    """
    return [_read(each, words, where) for each in servers_of(words, where)]


def _read(started: Started, words: Sequence[str], where: str) -> Command:
    """Return what one of the servers that words start is told."""
    told = _shown(started.words, where)
    found = Command(where, told, variables=started.variables, release=started.release)
    if len(words) == 1 and is_in_a_loop(words[0]):
        found.notes = ("a loop starts it: one server is taken; --set cluster.instances=N has N",)
    keys = told_of_keys(words[0]) if len(words) == 1 else None
    script = words[0] if len(words) == 1 else ""
    if many := told_of_many(started.before, started.words, script) or keys:
        found.notes += (many,)
    if len(words) == 1 and (scaled := told_of_scaling(words[0])):
        found.notes += (scaled,)
    found.replicas = replicas_of(started.before, where)
    found.replicated_by = "" if found.replicas is None else "--replicas"
    parts: dict[str, dict[str, Any]] = {}
    for name, value in _pairs(_with_config(started, where), where):
        if name is not None and "." in name:
            add_part(parts, name, value, where)
        elif name is None:
            _refuse_variable(value, where)
            _refuse_typography(value, where)
            if found.model is not None:
                raise InputError(f"{where}: {unmarked(value)!r}: a second model; vLLM serves one")
            found.model = value
        else:
            _set(found, name, value)
    for option, table in tables_of(parts, where):
        if option.role == "key" and option in found.values:
            raise InputError(
                f"{where}: {option.name}: as a whole and in parts, of which vLLM {RELEASE} takes "
                "the last parts alone: give all of it in one of the ways"
            )
        found.values[option] = table
    return found


def _refuse_variable(word: str, where: str) -> None:
    if VARIABLE in word:
        raise InputError(f"{where}: {unmarked(word)}: {OF_THE_SHELL}")


def _refuse_typography(word: str, where: str) -> None:
    """Refuse dashes and spaces of a word processor, which are no hyphens and no blanks."""
    if found := next((each for each in word if each in _SPACES), None):
        told = f"has a space that is no blank, U+{ord(found):04X}, and parts no words"
        raise InputError(f"{where}: {unmarked(word)}: {told}; write blanks")
    if word[:1] in _DASHES:
        told = f"begins with {word[0]!r}: an option begins with hyphens"
        raise InputError(f"{where}: {unmarked(word)}: {told}, as --tensor-parallel-size or -tp")


def _with_config(started: Started, where: str) -> list[str]:
    """Return the words with those of ``--config`` in front, so that the others win over them."""
    words = started.words
    places = [i for i, word in enumerate(words) if word.partition("=")[0] == "--config"]
    if not places:
        return words
    at = places[0]
    if len(places) > 1 or "=" in words[at]:
        one = "vLLM reads one configuration file, as --config FILE without ="
        raise InputError(f"{where}: {clip(words[places[-1]])}: {one}")
    rest = words[:at] + words[at + 2 :]
    file = _next(words, at, "--config", where)
    _refuse_variable(file, f"{where}: --config")
    told = list(_of_yaml(Path(file), where, started.by_module))
    named = "--model" in told and any(not word.startswith("-") for word in rest[:1])
    if named:  # the model of the command wins
        model = told.index("--model")
        told = told[:model] + told[model + 2 :]
    return [*rest[:1], *told, *rest[1:]] if rest and not rest[0].startswith("-") else told + rest


def _of_yaml(path: Path, where: str, by_module: bool) -> Iterator[str]:
    """Yield the words that vLLM makes of its configuration file."""
    try:
        text = read_text(path, MAX_SETTINGS_BYTES)
    except InputError as error:
        raise InputError(f"{where}: --config: {error}; name a file that is here") from None
    table = parse_yaml(text, str(path))
    if not isinstance(table, dict):
        raise InputError(f"{path}: expected options and their values, got {shown(table)}")
    for key, value in table.items():
        option, _ = find_option(f"--{key}".partition(".")[0], str(path))
        if isinstance(value, bool) and option.form == "switch":
            known = by_module and is_name(f"--no-{key}")
            if word := _switch_of_yaml(str(key), value, option, known, path):
                yield word
        elif isinstance(value, list):
            yield from (f"--{key}", *map(str, value)) if value else ()
        elif value is not None:
            yield f"--{key}"
            yield as_text(value)


def _switch_of_yaml(key: str, on: bool, option: Option, known: bool, path: Path) -> str | None:
    """Return the word for a switch; None: vLLM leaves it out.

    It does so with what is false, unless its parser has ``--no-KEY``, and that of ``vllm serve``
    has none of the options, which those of its commands have.

    Raises
    ------
    InputError
        If it leaves out what decides the simulation.
    """
    if on or known:
        return f"--{key}" if on else f"--no-{key}"
    if option.role != "key":
        return None
    opposite = f", or write no-{option.name.removeprefix('--')}: true"
    remedy = "" if key.startswith(("no-", "no_")) else opposite
    raise InputError(
        f"{path}: {clip(escaped(key))}: false is left out by vLLM {RELEASE}, so that its default "
        f"holds: leave it out{remedy}"
    )


Pair = tuple[str | None, Any]


def _pairs(words: list[str], where: str) -> Iterator[Pair]:
    """Yield each option as it is written, with its value, and what is none with no name."""
    rest = iter(range(len(words)))
    for at in rest:
        word = words[at]
        if level := _LEVEL.fullmatch(word):
            yield "--optimization-level", _level(level[1], where)
        elif word == "-O":
            yield "--optimization-level", _level(_next(words, at, word, where), where)
            next(rest)
        elif not word.startswith("-") or word == "-":
            yield None, word
        elif word == "--":
            continue
        elif "=" in word:
            name, _, value = word.partition("=")
            _refuse_variable(name, where)
            yield name, value
        else:
            _refuse_variable(word, where)
            form = "value" if "." in word else find_option(word, where)[0].form
            taken = _values(words, at, form, where)
            for _ in taken:
                next(rest)
            yield word, taken if form == "list" else taken[0] if taken else None


def _level(value: str, where: str) -> str:
    """Return a level of ``-O``, which older releases took for the compiler's configuration."""
    if value in ("0", "1", "2", "3") or VARIABLE in value:
        return value
    raise InputError(
        f"{where}: {clip(f'-O{value}')}: vLLM {RELEASE} takes a level, 0 to 3; the compiler's "
        "configuration is --compilation-config, or -cc.mode=3"
    )


def _values(words: list[str], at: int, form: str, where: str) -> list[str]:
    """Return the words that an option takes."""
    if form == "switch":
        return []
    following = words[at + 1 :]
    count = next((i for i, word in enumerate(following) if _is_option(word)), len(following))
    if form == "optional":
        return following[: min(count, 1)]
    if form == "list":
        more = following[1:count]
        if unknown := next((word for word in more if word.startswith(VARIABLE)), None):
            raise InputError(f"{where}: {unmarked(unknown)}: {OF_THE_SHELL}")
        return [_next(words, at, words[at], where), *more]
    return [_next(words, at, words[at], where)]


def _is_option(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-\d+(\.\d*)?|-", word)


def _next(words: list[str], at: int, name: str, where: str) -> str:
    if at + 1 >= len(words) or _is_option(words[at + 1]):
        raise InputError(f"{where}: {clip(name)}: its value is missing")
    return words[at + 1]


def _shown(words: list[str], where: str) -> str:
    """Return the command on one line, without what is secret."""
    told = ["vllm", "serve"]
    for name, value in _pairs(words, where):
        given = value if isinstance(value, list) else [] if value is None else [value]
        secret = name is not None and find_option(name.partition(".")[0], where)[0].name in SECRET
        told += ([] if name is None else [name]) + (["***"] if secret else given)
    return escaped(shlex.join(" ".join(word.split()) for word in told).replace(VARIABLE, "$"))


def _set(found: Command, name: str, value: Any) -> None:
    """Note a value."""
    option, on = find_option(name, found.where)
    if option.form == "switch":
        if value is not None:
            raise InputError(f"{found.where}: {clip(name)}: takes no value, got {clip(value)!r}")
        value = on
    if option.name == "--model":
        if found.model is not None and not found.model_by_option:
            told = f"{unmarked(value)}: a second model, beside {unmarked(found.model)}"
            raise InputError(f"{found.where}: --model {told}; vLLM serves one")
        _refuse_variable(value, found.where)
        found.model, found.model_by_option = value, True
    else:
        found.values[option] = value


def as_table(value: Any, where: str) -> dict[str, Any]:
    """Return the value of an option that takes JSON.

    Raises
    ------
    InputError
        If it is no object.
    """
    table = parse_json(value, where) if isinstance(value, str) else value
    if not isinstance(table, dict):
        raise InputError(f"{where}: expected a JSON object, got {shown(table)}")
    return table
