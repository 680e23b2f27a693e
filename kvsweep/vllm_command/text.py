"""A scenario from a command of vLLM, as the begin of a sweep file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from kvsweep.config import NO_LATENCY
from kvsweep.config.cache_section import CAPACITIES
from kvsweep.config.compose import build, parse_override, set_at
from kvsweep.config.effects_of_keys import unread
from kvsweep.config.load import said_in_one_line
from kvsweep.config.overrides import with_overrides
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath
from kvsweep.config.served_model import sized
from kvsweep.config.source import Source
from kvsweep.config.toml_text import literal
from kvsweep.errors import InputError, escaped
from kvsweep.vllm_command.decided import ORDER, Line, Settings
from kvsweep.vllm_command.options import RELEASE

ASKED = """\
# What is asked of the server is missing: a trace (docs/traces.md), or as in
# [workload]
# requests = 1000
# rate = 2.0 # requests/s
# prompt = { dist = "gaussian", mean = 512, std = 50, min = 256, max = 768 }
# output = { dist = "gaussian", mean = 256, std = 50, min = 128, max = 512 }
#
# [grid]
# seed = { count = 20 } # and what is to vary, as "workload.rate" = [2.0, 4.0, 8.0]
"""
"""The end of a file without a trace."""


def with_set(settings: Settings, overrides: Sequence[str], tables: Mapping[str, Any]) -> list[Line]:
    """Return the lines with ``--set KEY=VALUE`` in place of theirs, or in addition.

    Parameters
    ----------
    settings : Settings
        The lines.
    overrides : sequence of str
        ``KEY=VALUE`` each.
    tables : mapping
        The sections with both.
    """
    lines = {line.key: line for line in settings.lines}
    for text in overrides:
        key = parse_override(text)[0]
        # A part of a value that has a line, as of engine.speculative, changes that.
        whole = next((other for other in lines if key.startswith(f"{other}.")), key)
        below = [other for other in lines if other.startswith(f"{key}.")]
        lines = {other: line for other, line in lines.items() if other not in below}
        value: Any = tables
        for part in whole.split("."):
            value = value[part]
        lines[whole] = Line(whole, value, "--set")
    return sorted(lines.values(), key=lambda line: ORDER.index(line.key.partition(".")[0]))


def check(
    settings: Settings, overrides: Sequence[str], where: str
) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the scenario, built as that of a sweep's file, and its sections.

    Raises
    ------
    InputError
        If it is none, or an override has no place in it.
    """
    tables: dict[str, Any] = {}
    labels: dict[KeyPath, str] = {}
    for line in settings.lines:
        path: KeyPath = tuple(line.key.split("."))
        set_at(tables, path, line.value)
        labels[path] = f"{line.key} ({line.why})" if line.why else line.key
    if any(text.partition("=")[0].strip() == "model.gpu" for text in overrides):
        raise InputError("--set model.gpu: defaults of vLLM follow from the GPU; give --gpu")
    given = Source(where, "", tables, {}, labels)
    source = with_overrides(given, overrides, None, ORDER)
    with said_in_one_line(where):
        scenario = build(source, source.values, (), Path())
    if not scenario.latency.model_fields_set:
        raise source.error(("latency",), f"{NO_LATENCY}: --gpu, or --set latency.model=...")
    if not scenario.latency.tells_steps:
        raise source.error(("latency",), scenario.latency.without_steps())
    return scenario, source.values


def unread_lines(settings: Settings, scenario: Scenario) -> list[Line]:
    """Return the lines of options, and of a cluster, that decide nothing beside the others.

    With ``--set`` a cluster may have one server, or pools with routings of their own.

    Parameters
    ----------
    settings : Settings
        The lines.
    scenario : Scenario
        What they make.
    """
    return [
        line
        for line in settings.lines
        if (line.why.startswith("--") or line.key.startswith("cluster."))
        and unread(scenario, tuple(line.key.split("."))) is not None
    ]


def as_toml(command: str, lines: Sequence[Line], notes: Sequence[str], trace: str | None) -> str:
    """Return the text of a file.

    Parameters
    ----------
    command : str
        The command, on one line.
    lines : sequence of Line
        Keys, by section.
    notes : sequence of str
        What is not in the numbers.
    trace : str or None
        What is asked of the server, a file.
    """
    return "\n".join([*_head(command, notes), *_tables(lines), "", *_asked(trace)])


def _head(command: str, notes: Sequence[str]) -> Iterator[str]:
    yield f"# {command}"
    yield f"# as `kvsweep from-vllm` takes it; defaults are those of vLLM {RELEASE}."
    yield from (f"# - {escaped(note)}" for note in notes)


def _tables(lines: Sequence[Line]) -> Iterator[str]:
    for section, of_section in groupby(lines, lambda line: line.key.partition(".")[0]):
        yield ""
        yield f"[{section}]"
        for line in of_section:
            text = f"{line.key.partition('.')[2]} = {literal(line.value)}"
            yield f"{text} # {escaped(line.why)}" if line.why else text


def _asked(trace: str | None) -> Iterator[str]:
    if trace is None:
        yield ASKED
        return
    yield "[workload]"
    yield f"trace = {literal(trace)}"
    yield ""
    yield "[grid]"
    yield "seed = [0] # a trace draws nothing"
    yield ""


def blocks_note(scenario: Scenario) -> str | None:
    """Say how many blocks follow from the GPU; None where they are given."""
    if scenario.model is None or not scenario.model.decides:
        return None
    if not scenario.cache.model_fields_set.isdisjoint(CAPACITIES):
        return None
    told = sized(scenario, Path())
    margin = ""
    if told.margin is not None and told.margin[0] != told.margin[1]:
        least, most = told.margin
        margin = f", estimated, {least:,} to {most:,}; --log takes those of the server's own log"
    return f"{scenario.cache.gpu_blocks:,} usable blocks{margin}"
