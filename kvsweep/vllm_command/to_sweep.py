"""From a command, a script or a log of vLLM to the text of a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvsweep.config import Scenario
from kvsweep.config.compose import parse_override
from kvsweep.errors import InputError, clip, escaped
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.reading import read_text
from kvsweep.sizing.server_log import read_log_text
from kvsweep.vllm_command.apart import made_of_sides
from kvsweep.vllm_command.decided import Line
from kvsweep.vllm_command.endpoint_picker import ROUTING, no_server
from kvsweep.vllm_command.helm_values import UNKNOWN
from kvsweep.vllm_command.kinds import commands_of
from kvsweep.vllm_command.logged import read_log
from kvsweep.vllm_command.manifests import is_manifest
from kvsweep.vllm_command.nixl import is_apart
from kvsweep.vllm_command.one_server import Question, made_of
from kvsweep.vllm_command.picker_config import PickerConfig
from kvsweep.vllm_command.picker_homes import is_router_alone, picker_of
from kvsweep.vllm_command.shell import NO_COMMAND, server_of, starts_server
from kvsweep.vllm_command.text import as_toml, with_set
from kvsweep.vllm_command.words import Command, read_command


@dataclass(frozen=True)
class Sweep:
    """A sweep from a command.

    Attributes
    ----------
    text : str
        As a file.
    scenario : Scenario
        What it simulates.
    notes : tuple of str
        What is not in the numbers.
    trace : str or None
        What is asked of the server, as the file names it.
    """

    text: str
    scenario: Scenario
    notes: tuple[str, ...]
    trace: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        told = self.scenario.model_dump(mode="json", exclude_unset=True)
        asked = {} if self.trace is None else {"trace": self.trace}
        return {"scenario": told, **asked, "notes": list(self.notes)}


def answer(question: Question) -> Sweep:
    """Return the sweep of a server.

    Raises
    ------
    InputError
        If it cannot be read, decides what is not simulated, or tells too little.

    Examples
    --------
    >>> found = answer(Question(("vllm", "serve", "Qwen/Qwen3-8B"), gpu="h100"))
    >>> found.scenario.engine.max_num_seqs, found.scenario.cache.gpu_blocks > 20_000
    (1024, True)
    """
    if question.trace is not None and not os.path.isfile(question.trace):
        raise InputError(f"--trace: {clip(escaped(question.trace))}: no such file")
    commands, picker = _commands(question)
    if len(commands) == 1:
        found = made_of(question, commands[0], question.overrides, picker)
    else:
        found = made_of_sides(question, commands, picker)
    lines = with_set(found.settings, question.overrides, found.tables)
    lines = [_from(question.folder, line) for line in lines]
    trace = None if question.trace is None else _relative(question.trace, question.folder)
    text = as_toml(found.text, lines, found.notes, trace)
    return Sweep(text, found.scenario, tuple(found.notes), trace)


def _from(folder: Path, line: Line) -> Line:
    """Return a line whose name of a file, if it has one, begins in a folder."""
    if line.key == "model.config":
        return line._replace(value=_relative(line.value, folder))
    return line._replace(value=_moved(line.value, folder))


def _moved(value: Any, folder: Path) -> Any:
    """Return a value with the presets that it names, also in tables, from a folder."""
    if isinstance(value, Mapping):
        return {key: _moved(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_moved(inner, folder) for inner in value]
    is_file = isinstance(value, str) and value.endswith(".toml")
    return _relative(value, folder) if is_file else value


def _relative(path: str, folder: Path) -> str:
    return path if os.path.isabs(path) else Path(os.path.relpath(path, folder)).as_posix()


def _refuse_own_options(words: tuple[str, ...]) -> None:
    """Refuse options of ``kvsweep from-vllm`` behind the command, where vLLM would take them."""
    own = ("--gpu", "--log", "--trace", "--set", "--acceptance", "--container", "--out", "-o")
    behind: Sequence[str] = words[1:]
    is_text = " " in words[0].strip()  # `"vllm serve M" --gpu h100`
    if behind and not is_text and starts_server(words, "the command"):
        behind = server_of(words, "the command").words  # not those of `srun -o FILE vllm serve`
    if stray := next((word for word in behind if word.partition("=")[0] in own), None):
        raise InputError(
            f"the command: {clip(escaped(stray))}: an option of `kvsweep from-vllm`, not of vLLM: "
            "give it before the command"
        )


def _commands(question: Question) -> tuple[list[Command], PickerConfig | None]:
    """Return the command that is given, of both sides if they are apart, or that of the log.

    With it comes the configuration of the router, if a file has one.
    """
    words = question.command
    if not words:
        if question.log is None:
            raise InputError("COMMAND: missing; as in `kvsweep from-vllm --gpu h100 vllm serve M`")
        return [read_log(read_log_text(question.log), str(question.log))], None
    _refuse_own_options(words)
    several = len(words) > 1 and os.path.isfile(words[0])
    if several and not any(word[0:1] == "-" or word == "vllm" for word in words):
        return _of_files(words, question)
    where, text, picker = "the command", words[0], None
    if len(words) == 1 and os.path.isdir(text):
        told = "a folder: give the file that says what is started, as values.yaml of a chart"
        raise InputError(f"{clip(escaped(text))}: {told}")
    if len(words) == 1 and os.path.exists(text):
        where, text = text, read_text(Path(text), MAX_SETTINGS_BYTES)
        picker = picker_of([(where, text)], routed=_is_routed(question))
        if picker is not None and is_router_alone(text, where):
            raise _no_server([(where, text)])
    elif len(words) == 1 and " " not in text.strip():
        name = clip(escaped(text))
        raise InputError(f"the command: no command that starts vLLM, and no file is there: {name}")
    if len(words) == 1:
        return commands_of(text, where, question.container), picker
    if question.container is not None:
        raise InputError(f"--container: has no effect: {where} is no manifest")
    return [read_command(words, where)], None


def _of_files(
    files: Sequence[str], question: Question
) -> tuple[list[Command], PickerConfig | None]:
    """Return the commands of files, of both sides named by their files, and their router."""
    chosen = question.container
    texts = [(file, read_text(Path(file), MAX_SETTINGS_BYTES)) for file in files]
    picker = picker_of(texts, routed=_is_routed(question))
    starting = [(file, text) for file, text in texts if not is_router_alone(text, file)]
    if not starting:
        raise _no_server(texts)
    if picker is None and len(starting) < len(texts) and not _is_routed(question):
        empty = next(file for file, text in texts if (file, text) not in starting)
        told = "has a key of llm-d's router, and no configuration: give EndpointPickerConfig"
        raise InputError(f"{escaped(empty)}: {told}, or leave the file out")
    if len(starting) == 1:
        file, text = starting[0]
        return commands_of(text, file, chosen), picker
    return _of_sides(starting, chosen), picker


def _is_routed(question: Question) -> bool:
    """Return whether ``--set`` gives the routing."""
    return any(parse_override(text)[0] == ROUTING for text in question.overrides)


def _no_server(files: Sequence[tuple[str, str]]) -> InputError:
    """Return the error of files that have a router alone, or what is to be said of their kind."""
    for file, text in files:
        try:
            if is_manifest(text):
                commands_of(text, file)
        except InputError as error:
            if not str(error).endswith((NO_COMMAND, UNKNOWN)):
                return error
    return no_server(escaped(files[0][0]))


def _of_sides(files: Sequence[tuple[str, str]], chosen: str | None) -> list[Command]:
    """Return the commands of files that start the servers of both sides, named by their files."""
    if chosen is not None:
        raise InputError("--container: is of one file: give that alone")
    each = [(file, commands_of(text, file)) for file, text in files]
    found = []
    for file, commands in each:
        for command in commands:
            if not is_apart(command):
                told = "is no server of prefill and decode apart, with NixlConnector, of which"
                router = ", and llm-d's router if you like"
                raise InputError(
                    f"{escaped(file)}: {told} several files are taken: give one{router}"
                )
            command.name = f"{Path(file).stem}/{command.name}".rstrip("/")
            found.append(command)
    return found
