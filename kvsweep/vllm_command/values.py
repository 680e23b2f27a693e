"""Values of options, in the types that vLLM takes them in."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from kvsweep.errors import InputError, clip, escaped, shown
from kvsweep.vllm_command.options import options
from kvsweep.vllm_command.shell import VARIABLE, unmarked
from kvsweep.vllm_command.suffixes import with_suffix
from kvsweep.vllm_command.words import OF_THE_SHELL, Command, as_table

_WHOLE = re.compile(r"\+?\d{1,18}(?:_\d{1,18}){0,5}")
_READABLE = (
    *("max-model-len", "max-num-batched-tokens", "max-num-scheduled-tokens"),
    "kv-cache-memory-bytes",
)
"""Options that take 8k and 8K too."""


class Values:
    """What a command says of options, each by its name, as ``max-num-seqs``.

    Parameters
    ----------
    command : Command
        The command.
    """

    def __init__(self, command: Command) -> None:
        self._where = command.where
        self._values = {option.name: value for option, value in command.values.items()}

    def given(self, name: str) -> bool:
        """Return whether an option is given."""
        return self._at(name) is not None

    def switch(self, name: str) -> bool | None:
        """Return whether a switch is on; None: not given."""
        value: bool | None = self._at(name)
        return value

    def text(self, name: str) -> str | None:
        """Return a word; None: not given."""
        value = self._at(name)
        return None if value is None else str(value)

    def whole(self, name: str) -> int | None:
        """Return a whole number, 8192, or 8k (8,000) and 8K (8,192) of some; None: not given.

        Raises
        ------
        InputError
            If it is none.
        """
        value = self._at(name)
        if value is None:
            return None
        text = str(value).strip()
        if _WHOLE.fullmatch(text):
            return int(text)
        if name in _READABLE and (found := with_suffix(text)) is not None:
            return found
        raise self.problem(name, f"expected a whole number, got {clip(str(value))!r}")

    def count(self, name: str) -> int | None:
        """Return a whole number from 1 on; None: not given.

        Raises
        ------
        InputError
            If it is none.
        """
        found = self.whole(name)
        if found == 0:
            raise self.problem(name, "0; expected 1 or more")
        return found

    def choice(self, name: str, *allowed: str) -> str | None:
        """Return a word that vLLM's parser takes; None: not given.

        Raises
        ------
        InputError
            If it is none of them.
        """
        found = self.text(name)
        if found is not None and found not in allowed:
            told = f"{clip(found)!r}; vLLM takes {', '.join(allowed)}"
            raise self.problem(name, told)
        return found

    def number(self, name: str) -> float | None:
        """Return a number; None: not given.

        Raises
        ------
        InputError
            If it is none.
        """
        value = self._at(name)
        try:
            found = None if value is None else float(value)
        except (TypeError, ValueError):
            found = math.nan
        if found is not None and not math.isfinite(found):
            raise self.problem(name, f"expected a number, got {clip(str(value))!r}")
        return found

    def table(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object; None: not given.

        Raises
        ------
        InputError
            If it is none.
        """
        value = self._at(name)
        return None if value is None else dict(as_table(value, f"{self._where}: --{name}"))

    def problem(self, name: str, message: str) -> InputError:
        """Return an error about an option."""
        return InputError(f"{self._where}: --{name}: {message}")

    def _at(self, name: str) -> Any:
        assert f"--{name}" in options(), name
        value = self._values.get(f"--{name}")
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except RecursionError:
            raise self.problem(name, "nested too deeply") from None
        if VARIABLE in text:
            raise self.problem(name, f"{unmarked(text)}: {OF_THE_SHELL}")
        return value


ONE_GROUP = "disable-hybrid-kv-cache-manager"
"""What some models only change by, which `kvsweep.vllm_command.checks` sees to."""


def refuse_what_is_not_simulated(command: Command) -> None:
    """Refuse options that decide what no simulation does.

    Raises
    ------
    InputError
        Naming the first, and why.
    """
    for option, value in command.values.items():
        if option.role != "refused" or any(_same(value, fine) for fine in option.fine):
            continue
        if option.name == f"--{ONE_GROUP}":
            continue
        told = option.name if value is True else f"{option.name} {_on_one_line(value)}"
        raise InputError(f"{command.where}: {told}: {option.why}; leave it out to go on without it")


def _same(value: Any, fine: Any) -> bool:
    if isinstance(fine, bool) or isinstance(value, bool):
        return value is fine
    return str(value).strip() == str(fine)


def _on_one_line(value: Any) -> str:
    text = " ".join(value) if isinstance(value, list) else shown(value).strip("'")
    return clip(text.replace(escaped(VARIABLE), "$"))
