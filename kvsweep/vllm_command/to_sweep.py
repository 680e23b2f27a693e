"""From a command, a script or a log of vLLM to the text of a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvsweep.config import Scenario
from kvsweep.config.compose import parse_override
from kvsweep.config.served_model import sized
from kvsweep.config.served_text import exchange_text, measured_text, stages_text, states_text
from kvsweep.errors import InputError, clip, escaped
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.reading import read_text
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.gpus import find_gpu
from kvsweep.sizing.server_log import read_log_text
from kvsweep.sizing.settings import Served, unsupported_block
from kvsweep.vllm_command.beside_log import told_by_log
from kvsweep.vllm_command.checks import said_of_the_command
from kvsweep.vllm_command.decided import Line, settings_of
from kvsweep.vllm_command.kinds import command_of
from kvsweep.vllm_command.known import Known
from kvsweep.vllm_command.logged import read_log
from kvsweep.vllm_command.shell import server_of, starts_server
from kvsweep.vllm_command.step_limits import fits_memory
from kvsweep.vllm_command.text import as_toml, blocks_note, check, unread_lines, with_set
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command, read_command

STEPS = ("latency", *(f"latency.{key}" for key in ("model", "beta", "memory", "experts", "window")))
"""Keys that say how long steps take."""

LONGEST = "engine.max_model_len"
"""The key of the longest request."""


@dataclass(frozen=True)
class Question:
    """What the user gives: arguments of ``kvsweep from-vllm``.

    Attributes
    ----------
    command : tuple of str
        The words of a command, or one text or file with all of them; empty: that of the log.
    gpu, model : str or None
        As of ``kvsweep blocks``.
    log : Path or None
        The server's own log.
    acceptance : tuple of float
        Shares of drafts that are accepted: one, or by position.
    trace : str or None
        What is asked of the server.
    overrides : tuple of str
        ``KEY=VALUE`` each.
    folder : Path
        Where the file will be: names of other files are relative to it.
    container : str or None
        The container of a manifest that has several.
    """

    command: tuple[str, ...]
    gpu: str | None = None
    model: str | None = None
    log: Path | None = None
    acceptance: tuple[float, ...] = ()
    trace: str | None = None
    overrides: tuple[str, ...] = ()
    folder: Path = Path()
    container: str | None = None


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
    command = _command(question)
    told, notes = told_by_log(question.log, question.model, command)
    keys = [parse_override(text)[0] for text in question.overrides]
    told["blocks_set"] = any(key in ("cache.gpu_blocks", "cache.gpu_tokens") for key in keys)
    told["times_set"] = any(key in STEPS for key in keys)
    gpu, says = _gpu(question, command, notes)
    known = Known(gpu, question.model, question.acceptance, **told, gpu_by=says)
    settings = settings_of(command, known)
    with said_of_the_command(command.where, question.model or command.model or ""):
        scenario, tables = check(settings, question.overrides, command.where)
        if idle := unread_lines(settings, scenario):  # vLLM takes them, a sweep's file does not
            settings.lines = [line for line in settings.lines if line not in idle]
            settings.notes.append(f"without effect here: {', '.join(line.why for line in idle)}")
            scenario, tables = check(settings, question.overrides, command.where)
        fitted = _fitting(settings.served, scenario) if fits_memory(Values(command)) else None
        if fitted is not None and LONGEST not in keys:
            settings.lines.append(fitted)
            scenario, tables = check(settings, question.overrides, command.where)
    device = None if gpu is None else find_gpu(gpu)
    told_too = (
        blocks_note(scenario),
        measured_text(scenario),
        states_text(scenario, Path()),
        stages_text(scenario, Path()),
        exchange_text(scenario, Path()),
        None if question.log else unsupported_block(settings.served, device),
        None if fitted else _start_note(settings.served, scenario),
        _room_note(scenario),
    )
    notes += [*filter(None, told_too), *settings.notes, *command.notes]
    lines = with_set(settings, question.overrides, tables)
    lines = [_from(question.folder, line) for line in lines]
    trace = None if question.trace is None else _relative(question.trace, question.folder)
    return Sweep(as_toml(command.text, lines, notes, trace), scenario, tuple(notes), trace)


def _gpu(question: Question, command: Command, notes: list[str]) -> tuple[str | None, str]:
    """Return the GPU and who says so; where the file says another one that is noted."""
    if command.gpu is None or question.gpu is not None:
        if command.gpu is not None and command.gpu[0] != find_gpu(str(question.gpu)).name:
            notes.append(f"the file has {command.gpu[1]}, --gpu another GPU, which is taken")
        return question.gpu, "--gpu"
    return command.gpu


def _fitting(served: Served, scenario: Scenario) -> Line | None:
    """Return the longest request that a server takes which fits it to its memory; None: none."""
    longest = layout(served).longest(scenario.cache.gpu_blocks + 1)
    whole = longest == served.limits.max_model_len
    told = "the model's" if whole else "what the blocks hold"
    return Line(LONGEST, longest, f"--max-model-len auto: {told}") if longest else None


def _start_note(served: Served, scenario: Scenario) -> str | None:
    """Say that vLLM does not start with the blocks of a scenario; None if it does."""
    shape, blocks = layout(served), scenario.cache.gpu_blocks + 1
    if shape.starts(blocks):
        return None
    longest = shape.longest(blocks)
    remedy = f"; it does with --max-model-len {longest}" if longest else ""
    needed = f"{shape.limits.max_model_len:,} tokens needs {shape.request_blocks:,} blocks"
    return f"vLLM does not start: a request of {needed} and the null block{remedy}"


def _room_note(scenario: Scenario) -> str | None:
    """Say that a GPU has no room for blocks that are given; None if it may have."""
    served, given = scenario.model, "gpu_blocks" in scenario.cache.model_fields_set
    if served is None or served.gpu is None or not given:
        return None
    told, blocks = sized(scenario, Path()), scenario.cache.gpu_blocks + 1
    if told.plan is None or told.layout is None:
        return None
    most = told.layout.blocks(told.plan.most(1.0))
    if blocks <= most:
        return None
    return f"{blocks:,} blocks do not fit: {told.plan.gpu.name} has room for {most:,} at most"


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
    if behind and starts_server(words, "the command"):
        behind = server_of(words, "the command").words  # not those of `srun -o FILE vllm serve`
    if stray := next((word for word in behind if word.partition("=")[0] in own), None):
        raise InputError(
            f"the command: {clip(escaped(stray))}: an option of `kvsweep from-vllm`, not of vLLM: "
            "give it before the command"
        )


def _command(question: Question) -> Command:
    """Return the command that is given, or that of the log."""
    words = question.command
    if not words:
        if question.log is None:
            raise InputError("COMMAND: missing; as in `kvsweep from-vllm --gpu h100 vllm serve M`")
        return read_log(read_log_text(question.log), str(question.log))
    _refuse_own_options(words)
    where, text = "the command", words[0]
    if len(words) == 1 and os.path.isdir(text):
        told = "a folder: give the file that says what is started, as values.yaml of a chart"
        raise InputError(f"{clip(escaped(text))}: {told}")
    if len(words) == 1 and os.path.exists(text):
        where, text = text, read_text(Path(text), MAX_SETTINGS_BYTES)
    elif len(words) == 1 and " " not in text.strip():
        name = clip(escaped(text))
        raise InputError(f"the command: no command that starts vLLM, and no file is there: {name}")
    if len(words) == 1:
        return command_of(text, where, question.container)
    if question.container is not None:
        raise InputError(f"--container: has no effect: {where} is no manifest")
    return read_command(words, where)
