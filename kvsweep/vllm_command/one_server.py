"""What is made of the command of one server: lines of a sweep, its scenario, and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kvsweep.config import Scenario
from kvsweep.config.compose import parse_override
from kvsweep.config.served_model import sized
from kvsweep.config.served_text import exchange_text, measured_text, stages_text, states_text
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.gpus import find_gpu
from kvsweep.sizing.settings import Served, unsupported_block
from kvsweep.sizing.unserved import unserved
from kvsweep.vllm_command.beside_log import told_by_log
from kvsweep.vllm_command.checks import said_of_the_command
from kvsweep.vllm_command.decided import Line, Settings, settings_of
from kvsweep.vllm_command.endpoint_picker import remember, route
from kvsweep.vllm_command.known import Known
from kvsweep.vllm_command.modelservice import NOT_READ
from kvsweep.vllm_command.picker_config import PickerConfig
from kvsweep.vllm_command.step_limits import fits_memory
from kvsweep.vllm_command.text import blocks_note, check, unread_lines
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command

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


class Made(NamedTuple):
    """What is made of a command, or of those of both sides.

    Attributes
    ----------
    settings : Settings
        The scenario, line by line.
    scenario : Scenario
        The same, with what ``--set`` says.
    tables : mapping
        Its sections.
    notes : list of str
        What is not in the numbers.
    text : str
        The command.
    """

    settings: Settings
    scenario: Scenario
    tables: Mapping[str, Any]
    notes: list[str]
    text: str


def made_of(
    question: Question,
    command: Command,
    overrides: Sequence[str],
    picker: PickerConfig | None = None,
) -> Made:
    """Return what is made of the command of a server.

    Parameters
    ----------
    question : Question
        What else is given.
    command : Command
        The command.
    overrides : sequence of str
        ``KEY=VALUE`` each, of keys that a server by itself has.
    picker : PickerConfig or None
        What its router does.

    Raises
    ------
    InputError
        If it decides what is not simulated, or tells too little.
    """
    told, notes = told_by_log(question.log, question.model, command)
    keys = [parse_override(text)[0] for text in overrides]
    told["blocks_set"] = any(key in ("cache.gpu_blocks", "cache.gpu_tokens") for key in keys)
    told["times_set"] = any(key in STEPS for key in keys)
    gpu, says = _gpu(question, command, notes)
    known = Known(gpu, question.model, question.acceptance, **told, gpu_by=says)
    settings = settings_of(command, known)
    choices = {} if picker is None else route(settings, picker, overrides)
    with said_of_the_command(command.where, question.model or command.model or ""):
        scenario, tables = checked(settings, overrides, command.where)
        fitted = _fitting(settings.served, scenario) if fits_memory(Values(command)) else None
        if fitted is not None and LONGEST not in keys:
            settings.lines.append(fitted)
            scenario, tables = check(settings, overrides, command.where)
        if remember(settings, choices, scenario):
            scenario, tables = checked(settings, overrides, command.where)
    device = None if gpu is None else find_gpu(gpu)
    told_too = (
        blocks_note(scenario),
        measured_text(scenario),
        states_text(scenario, Path()),
        stages_text(scenario, Path()),
        exchange_text(scenario, Path()),
        None if question.log else unsupported_block(settings.served, device),
        None if question.log else unserved(settings.served, device),
        None if fitted else _start_note(settings.served, scenario),
        _room_note(scenario),
    )
    notes += [*filter(None, told_too), *settings.notes, *heard(command.notes, picker)]
    return Made(settings, scenario, tables, notes, command.text)


def heard(notes: Sequence[str], picker: PickerConfig | None) -> list[str]:
    """Return notes without the one of a router that is not read, where it is.

    Parameters
    ----------
    notes : sequence of str
        Of a command.
    picker : PickerConfig or None
        What its router does.
    """
    return [note for note in notes if picker is None or NOT_READ not in note]


def checked(
    settings: Settings, overrides: Sequence[str], where: str
) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the scenario of lines and its sections, and leave out lines that decide nothing.

    Parameters
    ----------
    settings : Settings
        The lines, which are changed.
    overrides, where
        As `check` takes them.

    Raises
    ------
    InputError
        As `check` does.
    """
    scenario, tables = check(settings, overrides, where)
    if idle := unread_lines(settings, scenario):  # vLLM takes them, a sweep's file does not
        settings.lines = [line for line in settings.lines if line not in idle]
        if options := [line.why for line in idle if line.why.startswith("--")]:
            settings.notes.append(f"without effect here: {', '.join(options)}")
        scenario, tables = check(settings, overrides, where)
    return scenario, tables


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
