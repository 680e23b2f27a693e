"""The router's own guess of what each instance has cached: it never asks the instances."""

from collections import OrderedDict
from collections.abc import Sequence

CAPACITY = 10_000
"""Block keys remembered per instance (the reference's constant)."""


class PrefixIndex:
    """Per instance, the most recently recorded prompt blocks.

    Prompts are recorded on every decision; outputs never are, and nothing is removed when an
    instance evicts a block.
    """

    def __init__(self, instances: int) -> None:
        self._recent: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(instances)]

    def matched(self, instance: int, keys: Sequence[int]) -> int:
        """Return how many of ``keys`` (prompt blocks in order) are known before the first gap."""
        recent = self._recent[instance]
        for count, key in enumerate(keys):
            if key not in recent:
                return count
        return len(keys)

    def record(self, instance: int, keys: Sequence[int]) -> None:
        """Remember ``keys`` as the most recent ones of an instance."""
        recent = self._recent[instance]
        for key in keys:
            if key in recent:
                recent.move_to_end(key)
                continue
            if len(recent) >= CAPACITY:
                recent.popitem(last=False)
            recent[key] = None
