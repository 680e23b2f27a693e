"""The options of a release's ``vllm serve``, beside those that ``kvsweep from-vllm`` knows."""

from __future__ import annotations

import importlib
from argparse import Action, ArgumentParser
from collections.abc import Iterator
from typing import Any

from kvsweep.errors import InputError
from kvsweep.vllm_command.options import find_option, options

# Where releases have the arguments of their server.
_MAKERS = ("vllm.entrypoints.common.cli_args", "vllm.entrypoints.openai.cli_args")
_NO_VALUE = 0


def server_parser() -> ArgumentParser:
    """Return the parser of ``vllm serve``, on a machine without a GPU.

    Raises
    ------
    InputError
        If this release has it elsewhere.
    """
    platforms: Any = importlib.import_module("vllm.platforms")
    cpu: Any = importlib.import_module("vllm.platforms.cpu")
    device: Any = importlib.import_module("vllm.config.device")
    # Defaults of its configuration ask for the device, of which a build for CUDA finds none here.
    device.current_platform = platforms._current_platform = cpu.CpuPlatform()
    parsing: Any = importlib.import_module("vllm.utils.argparse_utils")
    for name in _MAKERS:
        try:
            made: ArgumentParser = importlib.import_module(name).make_arg_parser(
                parsing.FlexibleArgumentParser()
            )
        except ImportError:
            continue
        return made
    raise InputError(f"vLLM: no parser of the server in {' or '.join(_MAKERS)}")


def differences(actions: list[Action]) -> Iterator[str]:
    """Yield what a parser has and kvsweep has not, or otherwise, and the other way round.

    Parameters
    ----------
    actions : list of argparse.Action
        Of the parser of ``vllm serve``.
    """
    seen = set()
    for action in actions:
        names = [name for name in action.option_strings if name not in ("-h", "--help")]
        if not names:
            continue
        form = _form(action)
        try:
            option, _ = find_option(names[0], "")
        except InputError:
            yield f"{names[0]} ({form}): not known"
            continue
        seen.add(option.name)
        if option.form != form:
            yield f"{names[0]}: {form}, known as {option.form}"
        yield from (f"{name}: not known for {option.name}" for name in names if _is_new(name))
    yield from (f"{name}: known, and not there" for name in options() if name not in seen)


def _is_new(name: str) -> bool:
    try:
        find_option(name, "")
    except InputError:
        return True
    return False


def _form(action: Action) -> str:
    if action.nargs == _NO_VALUE:
        return "switch"
    if action.nargs in ("+", "*"):
        return "list"
    return "optional" if action.nargs == "?" else "value"
