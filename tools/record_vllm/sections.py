"""Objects of a trace, read key by key: a key that nobody reads is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvsweep.errors import InputError, did_you_mean, dotted, shown

REQUIRED = object()
"""The default of a key that must be there."""


class Section:
    """One object, its name for messages, and the keys that have been asked for."""

    def __init__(self, name: str, values: Any) -> None:
        if not isinstance(values, dict):
            raise InputError(f"{name}: expected an object, got {shown(values)}")
        self.name = name
        self._values = values
        self._known: list[str] = []

    def get(self, key: str, default: Any) -> Any:
        """Return a value as it is, or the default where the key is missing."""
        self._known.append(key)
        if key not in self._values and default is REQUIRED:
            raise InputError(f"{self.name}.{key}: missing")
        return self._values.get(key, default)

    def integer(self, key: str, default: Any, least: int, most: int) -> int:
        """Return an integer from `least` to `most`."""
        value = self.get(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, f"an integer from {least} to {most}", value)
        return value

    def number(self, key: str, default: Any, least: float, most: float) -> float:
        """Return a number from `least` to `most`."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not least <= value <= most:
            raise self._wrong(key, f"a number from {least:g} to {most:g}", value)
        return float(value)

    def numbers(self, key: str, count: int, most: float) -> tuple[float, ...]:
        """Return `count` numbers from 0 to `most`."""
        value = self.get(key, REQUIRED)
        good = isinstance(value, list) and len(value) == count
        if not good or not all(type(v) in (int, float) and 0 <= v <= most for v in value):
            raise self._wrong(key, f"{count} numbers from 0 to {most:g}", value)
        return tuple(map(float, value))

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.get(key, default)
        if type(value) is not bool:
            raise self._wrong(key, "true or false", value)
        return value

    def choice(self, key: str, default: Any, allowed: Sequence[str]) -> str:
        """Return one of `allowed`."""
        value = self.get(key, default)
        if value not in allowed or not isinstance(value, str):
            hint = did_you_mean(value, list(allowed)) if isinstance(value, str) else ""
            raise self._wrong(key, " or ".join(map(repr, allowed)), value, hint)
        return value

    def close(self) -> None:
        """Refuse keys that have not been asked for: the recorder would ignore them."""
        for key in self._values:
            if key not in self._known:
                hint = did_you_mean(str(key), self._known)
                allowed = hint or f"; known: {', '.join(self._known)}"
                raise InputError(f"{self.name}.{dotted((str(key),))}: unknown key{allowed}")

    def _wrong(self, key: str, expected: str, value: Any, hint: str = "") -> InputError:
        return InputError(f"{self.name}.{key}: expected {expected}, got {shown(value)}{hint}")
