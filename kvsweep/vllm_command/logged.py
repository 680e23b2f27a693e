"""The options of a server from its own log: ``non-default args: {...}``."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

from kvsweep.errors import InputError
from kvsweep.vllm_command.given import as_given
from kvsweep.vllm_command.options import RELEASE, Option, find_option
from kvsweep.vllm_command.words import Command, read_command

_SAID = "non-default args: "
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What vLLM notes beside its options.
_NO_OPTIONS = ("subparser", "dispatch_function")
_ENUM = re.compile(r"<[\w.]+: ([^<>]*)>")  # <CUDAGraphMode.FULL: 2>


def read_log(text: str, where: str) -> Command:
    """Return the options that a log tells, those of the last start.

    Parameters
    ----------
    text : str
        The log.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it tells none, or none that can be read.
    """
    at = text.rfind(_SAID)
    if at < 0:
        raise InputError(
            f"{where}: does not tell the server's options ('{_SAID}...'); give its command too"
        )
    line = _COLOUR.sub("", text[at + len(_SAID) :].partition("\n")[0]).strip()
    line = _ENUM.sub(r"\1", line)
    model: list[str] = []
    words: list[str] = []
    for name, value in _pairs(line, where):
        if name in ("model", "model_tag"):
            model = [] if value is None else [str(value)]
        elif value is not None and name not in _NO_OPTIONS:
            words += as_given(*_option(name, where), value)
    return read_command(["vllm", "serve", *model, *words], where)


def _pairs(line: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a dictionary as Python prints it; objects stay as they are."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is garbled
            tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if not isinstance(tree, ast.Dict):
        raise InputError(f"{where}: {_SAID}...: is cut or garbled; give the server's command")
    for key, value in zip(tree.keys, tree.values, strict=True):
        if not isinstance(key, ast.Constant):
            raise InputError(f"{where}: {_SAID}...: has a name that is no text")
        yield str(key.value), _literal(value)


def _literal(tree: ast.expr) -> Any:
    """Return a value; of an object, as ``KVTransferConfig(...)``, what it is made with."""
    if isinstance(tree, ast.Call):
        return {each.arg: _literal(each.value) for each in tree.keywords if each.arg is not None}
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        return ast.unparse(tree)


def _option(name: str, where: str) -> tuple[Option, bool]:
    try:
        return find_option(f"--{name}", where)
    except InputError:
        raise InputError(
            f"{where}: {name}: no option of vLLM {RELEASE}; give the server's command without it"
        ) from None
