"""From a command, a script or a log of vLLM to the text of a sweep."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvsweep.config import Scenario
from kvsweep.errors import InputError
from kvsweep.limits import MAX_INPUT_BYTES, MAX_SETTINGS_BYTES
from kvsweep.reading import read_text
from kvsweep.sizing import asking
from kvsweep.sizing.question import Question as OfBlocks
from kvsweep.sizing.server_log import read_server
from kvsweep.vllm_command.decided import Line, settings_of
from kvsweep.vllm_command.known import Known
from kvsweep.vllm_command.logged import read_log
from kvsweep.vllm_command.options import RELEASE
from kvsweep.vllm_command.text import as_toml, blocks_note, check, with_set
from kvsweep.vllm_command.words import Command, read_command


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
    """

    command: tuple[str, ...]
    gpu: str | None = None
    model: str | None = None
    log: Path | None = None
    acceptance: tuple[float, ...] = ()
    trace: str | None = None
    overrides: tuple[str, ...] = ()
    folder: Path = Path()


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
    """

    text: str
    scenario: Scenario
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints."""
        told = self.scenario.model_dump(mode="json", exclude_unset=True)
        return {"scenario": told, "notes": list(self.notes)}


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
    if question.trace is not None and not os.path.exists(question.trace):
        raise InputError(f"--trace: {question.trace}: no such file")
    command = _command(question)
    told, notes = _logged(question, command)
    known = Known(question.gpu, question.model, question.acceptance, **told)
    settings = settings_of(command, known)
    scenario = check(settings, question.overrides, command.where)
    notes += [*filter(None, [blocks_note(scenario)]), *settings.notes]
    lines = [_from(question.folder, line) for line in with_set(settings, question.overrides)]
    trace = None if question.trace is None else _relative(question.trace, question.folder)
    return Sweep(as_toml(command.text, lines, notes, trace), scenario, tuple(notes))


def _logged(question: Question, command: Command) -> tuple[dict[str, int | None], list[str]]:
    """Return what a log tells for `Known`, and what there is to say of it."""
    if question.log is None:
        return {}, []
    model = question.model or command.model
    told = asking.answer(OfBlocks(model=model, log=question.log))
    log = read_server(question.log)
    tokens = log.settings.get("max_num_batched_tokens")
    found = {"blocks": told.blocks, "block_size": log.block_size, "tokens": tokens}
    notes = list(told.warnings)
    if log.version is not None and not log.version.startswith(RELEASE.rpartition(".")[0]):
        notes.insert(
            0, f"the log is of vLLM {log.version}: docs/vllm-releases.md has what it does otherwise"
        )
    return found, notes


def _from(folder: Path, line: Line) -> Line:
    """Return a line whose name of a file, if it has one, begins in a folder."""
    is_file = line.key == "model.config" or str(line.value).endswith(".toml")
    return line._replace(value=_relative(line.value, folder)) if is_file else line


def _relative(path: str, folder: Path) -> str:
    return path if os.path.isabs(path) else Path(os.path.relpath(path, folder)).as_posix()


def _command(question: Question) -> Command:
    """Return the command that is given, or that of the log."""
    words = question.command
    if not words:
        if question.log is None:
            raise InputError("COMMAND: missing; as in `kvsweep from-vllm --gpu h100 vllm serve M`")
        return read_log(read_text(question.log, MAX_INPUT_BYTES, packed=True), str(question.log))
    if len(words) == 1 and os.path.exists(words[0]):
        return read_command([read_text(Path(words[0]), MAX_SETTINGS_BYTES)], words[0])
    return read_command(words)
