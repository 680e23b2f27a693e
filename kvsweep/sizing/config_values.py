"""Values of a ``config.json``, read with what is wrong told by file and key."""

from __future__ import annotations

from typing import Any

from kvsweep.errors import InputError, dotted, shown
from kvsweep.limits import MAX_TOKENS

_NEEDED = object()

_OTHER_NAMES = {
    "head_dim": ("head_size", "d_head"),
    "layer_types": (),
    "max_position_embeddings": (),
    "num_key_value_heads": ("num_kv_heads", "n_kv_heads", "kv_heads"),
    "sliding_window": (),
}
"""Keys that something else stands for where they are missing, and what others call them."""
_ALIKE = 0.92  # of difflib's ratio: `head_dims` is, `v_head_dim` is a key of its own


class Values:
    """A table of a ``config.json``.

    Parameters
    ----------
    table : dict
        The values by key.
    where : str
        File, and table if it is not the whole file, for messages.
    """

    def __init__(self, table: dict[str, Any], where: str) -> None:
        self.table = table
        self.where = where

    def check_spelling(self) -> None:
        """Refuse a key that looks like one that is missing, as blocks would be those without it.

        Raises
        ------
        InputError
            At the first.
        """
        from difflib import get_close_matches

        for key, others in _OTHER_NAMES.items():
            if key in self.table:
                continue
            alike = get_close_matches(key, list(self.table), n=1, cutoff=_ALIKE)
            for found in [*alike, *(name for name in others if name in self.table)]:
                told = f"{self.where}: {dotted((found,))}: unknown key; did you mean {key!r}?"
                raise InputError(told)

    def count(self, key: str, default: Any = _NEEDED, most: int = MAX_TOKENS) -> int:
        """Return a whole number of at least 1; `default` if the key is missing or null.

        Raises
        ------
        InputError
            If it is none, more than `most`, or missing without a default.
        """
        value = self.table.get(key)
        if value is None:
            if default is _NEEDED:
                raise InputError(f"{self.where}: {key}: missing; it is needed to size the KV cache")
            return int(default)
        return self._whole(key, value, 1, most)

    def number(self, key: str, default: int = 0) -> int:
        """Return a whole number of at least 0."""
        value = self.table.get(key)
        return default if value is None else self._whole(key, value, 0, MAX_TOKENS)

    def switch(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self.table.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {key}: {shown(value)}; allowed: true, false")
        return value

    def word(self, key: str, default: str | None = None) -> str | None:
        """Return a text."""
        value = self.table.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {key}: {shown(value)}; it must be a text")
        return value

    def words(self, key: str) -> list[str] | None:
        """Return a list of texts, None if there is none."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(f"{self.where}: {key}: {shown(value)}; it must be a list of texts")
        return value

    def section(self, key: str) -> Values | None:
        """Return a table inside, None if there is none."""
        value = self.table.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise InputError(f"{self.where}: {key}: {shown(value)}; it must be an object")
        return Values(value, f"{self.where}: {key}")

    def _whole(self, key: str, value: Any, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            allowed = f"allowed: a whole number from {least} to {most:,}"
            raise InputError(f"{self.where}: {key}: {shown(value)}; {allowed}")
        return value
