"""The command of a text, of whatever kind: a script, a manifest, a Dockerfile."""

from __future__ import annotations

from kvsweep.errors import InputError
from kvsweep.vllm_command.dockerfile import is_dockerfile, read_dockerfile
from kvsweep.vllm_command.manifests import is_manifest, read_manifest
from kvsweep.vllm_command.script_defaults import defaults_note, with_defaults
from kvsweep.vllm_command.shell import NO_COMMAND, ONLY_AN_IMAGE
from kvsweep.vllm_command.unread import why_never_read, why_not_found
from kvsweep.vllm_command.words import Command, read_command


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
