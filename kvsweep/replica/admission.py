"""Admission control at the cluster's door."""

from typing import Protocol

from kvsweep.replica.request import Request


class Admission(Protocol):
    """Decides once per request, before routing."""

    def admit(self, request: Request, now: int) -> bool:
        """Return whether the request is let in at ``now`` (microseconds)."""
        ...


class AlwaysAdmit:
    """Let everything in."""

    def admit(self, request: Request, now: int) -> bool:
        """Return True."""
        return True


class RejectAll:
    """Let nothing in."""

    def admit(self, request: Request, now: int) -> bool:
        """Return False."""
        return False


class TokenBucket:
    """A bucket of prompt tokens, full at first, refilled continuously."""

    def __init__(self, capacity: float, refill_per_s: float) -> None:
        self.capacity = capacity
        self.refill_per_s = refill_per_s
        self.level = capacity
        self.refilled_us = 0

    def admit(self, request: Request, now: int) -> bool:
        """Take the prompt's tokens out of the bucket, or reject if there are too few."""
        refill = (now - self.refilled_us) * self.refill_per_s / 1e6
        self.level = min(self.capacity, self.level + refill)
        self.refilled_us = now
        if self.level < request.prompt_tokens:
            return False
        self.level -= request.prompt_tokens
        return True
