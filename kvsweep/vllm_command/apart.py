"""What is made of the commands of both sides of a cluster, prefill and decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvsweep.config.compose import parse_override
from kvsweep.errors import InputError
from kvsweep.vllm_command.checks import said_of_the_command
from kvsweep.vllm_command.connectors import by_itself
from kvsweep.vllm_command.drafts import may_draft
from kvsweep.vllm_command.endpoint_picker import remember, route
from kvsweep.vllm_command.one_server import Made, Question, checked, heard, made_of
from kvsweep.vllm_command.picker_config import PickerConfig
from kvsweep.vllm_command.sides import Side, joined
from kvsweep.vllm_command.sides_text import link_asked, notes_of_sides
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command

LINK = "cluster.kv_transfer_bandwidth"
"""The key that no command tells."""

_OF_A_SERVER = {
    "gpu_blocks": "cache.gpu_blocks",
    "max_num_seqs": "engine.max_num_seqs",
    "max_num_batched_tokens": "engine.max_num_batched_tokens",
    "latency": "latency",
}
"""Keys of a side, and what they are of a server by itself."""


def made_of_sides(
    question: Question, commands: Sequence[Command], picker: PickerConfig | None = None
) -> Made:
    """Return what is made of the commands of servers of which some prefill and others decode.

    Parameters
    ----------
    question : Question
        What else is given.
    commands : sequence of Command
        Two or more, of servers that are `apart <kvsweep.vllm_command.nixl.is_apart>`.
    picker : PickerConfig or None
        What their router does.

    Raises
    ------
    InputError
        If one of them cannot be read, they do not belong together, or the link is not given.
    """
    where, overrides = commands[0].where.partition(": ")[0], question.overrides
    if question.log is not None:
        blocks = "cluster.prefill.gpu_blocks=N and cluster.decode.gpu_blocks=N"
        told = f"is of one server, and prefill and decode are apart: give --set {blocks}"
        raise InputError(f"--log: {told}, of both servers' logs, instead")
    keys = [parse_override(text)[0] for text in overrides]
    drafting = [command for command in commands if may_draft(Values(command))]
    servers = [_by_itself(_asked_of(question, each, drafting), each) for each in commands]
    sides, settings = joined(servers, keys)
    if LINK not in keys:
        raise InputError(f"{where}: {link_asked(sides)}")
    for role, side in sides.items():
        if any(_of_side(overrides, role)):
            asked = _asked_of(question, side.command, drafting)
            sides[role] = _by_itself(asked, side.command, role)
    choices = {} if picker is None else route(settings, picker, overrides)
    with said_of_the_command(where, question.model or commands[0].model or ""):
        scenario, tables = checked(settings, overrides, where)
        if remember(settings, choices, scenario):
            scenario, tables = checked(settings, overrides, where)
    text = [f"{role}: {side.command.text}" for role, side in sides.items()]
    both = notes_of_sides(sides, decided=picker is not None)
    notes = [*heard(both, picker), *settings.notes]
    return Made(settings, scenario, tables, notes, "\n# ".join(text))


def _asked_of(question: Question, command: Command, drafting: Sequence[Command]) -> Question:
    """Return what is given of a server: shares of drafts only of one that drafts, if any does."""
    if command in drafting or not drafting:
        return question
    return replace(question, acceptance=())


def _by_itself(question: Question, command: Command, role: str = "") -> Side:
    """Return a server as if it were by itself, with what ``--set`` says of all, and of a role."""
    keys = {text: parse_override(text)[0] for text in question.overrides}
    of_all = [text for text, key in keys.items() if not key.startswith("cluster.")]
    own = [*of_all, *_of_side(question.overrides, role)]
    made = made_of(question, by_itself(command), own)
    return Side(command, made.settings, made.scenario, made.notes)


def _of_side(overrides: Sequence[str], role: str) -> Iterator[str]:
    """Yield what ``--set`` says of one side, as of a server by itself."""
    for text in overrides:
        key, _, value = text.strip().partition("=")
        name, _, rest = key.strip().removeprefix(f"cluster.{role}.").partition(".")
        if key.startswith(f"cluster.{role}.") and name in _OF_A_SERVER:
            yield f"{_OF_A_SERVER[name]}{'.' if rest else ''}{rest}={value}"
