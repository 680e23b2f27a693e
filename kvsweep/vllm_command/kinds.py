"""The command of a text, of whatever kind: a script, a manifest, a Dockerfile."""

from __future__ import annotations

from kvsweep.errors import InputError
from kvsweep.vllm_command.connectors import LINKS
from kvsweep.vllm_command.dockerfile import is_dockerfile, read_dockerfile
from kvsweep.vllm_command.manifests import is_manifest, read_apart, read_manifest
from kvsweep.vllm_command.nixl import is_apart
from kvsweep.vllm_command.script_defaults import defaults_note, with_defaults
from kvsweep.vllm_command.shell import NO_COMMAND, ONLY_AN_IMAGE, starts_server
from kvsweep.vllm_command.unread import why_never_read, why_not_found
from kvsweep.vllm_command.words import Command, read_command, read_servers


def commands_of(text: str, where: str, chosen: str | None = None) -> list[Command]:
    """Return the command of a text, or those of both sides if prefill and decode are apart there.

    Parameters
    ----------
    text, where, chosen
        As `command_of` takes them; who chooses a server gets that one.

    Raises
    ------
    InputError
        As `command_of` does.
    """
    if chosen is None and any(name in text for name in LINKS):
        found = read_apart(text, where) if is_manifest(text) else _read_apart(text, where)
        if found:
            return found
    return [command_of(text, where, chosen)]


def command_of(text: str, where: str, chosen: str | None = None) -> Command:
    """Return the command of a text.

    Parameters
    ----------
    text : str
        What is given, or what a file has.
    where : str
        The file, or what it is called in messages.
    chosen : str or None
        As `read_manifest` takes it.

    Raises
    ------
    InputError
        If it is of a kind that is not read, or its reader says so.
    """
    manifest = is_manifest(text)
    if chosen is not None and not manifest:
        raise InputError(f"--container: has no effect: {where} is no manifest")
    try:
        if manifest:
            return read_manifest(text, where, chosen)
        if told := why_never_read(text, where):
            raise InputError(f"{where}: {told}")
        return read_dockerfile(text, where) if is_dockerfile(text) else _read_script(text, where)
    except InputError as error:
        unknown = str(error).endswith((NO_COMMAND, ONLY_AN_IMAGE))
        if unknown and (told := why_not_found(text, where)):
            raise InputError(f"{where}: {told}") from None
        raise


def _read_script(text: str, where: str) -> Command:
    """Return the command of a script, with what it gives for variables that it does not set."""
    text, names = with_defaults(text)
    found = read_command([text], where)
    if names:
        found.notes += (defaults_note(names),)
    return found


def _read_apart(script: str, where: str) -> list[Command]:
    """Return the commands of a script if it starts both sides, none if it does not."""
    text, names = with_defaults(script)
    if is_dockerfile(script) or not starts_server([text], where):
        return []
    found = read_servers([text], where)
    if len(found) < 2 or not all(map(is_apart, found)):
        return []
    for each in found if names else ():
        each.notes += (defaults_note(names),)
    return found
