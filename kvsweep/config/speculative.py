"""Speculative decoding: how many tokens are drafted, by what, and how many are accepted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from kvsweep.config.base import Coefficient, Key, KeyProblem, Section, Share, Whole
from kvsweep.config.explain import shown
from kvsweep.limits import MAX_DRAFTS


class Speculative(Section):
    """Draft tokens that each decode verifies.

    Attributes
    ----------
    tokens : int
        Draft tokens of a decode, vLLM's ``num_speculative_tokens``; 0: none.
    method : str
        ``draft``: a draft model, which takes one more input slot of the step for each request.
        ``eagle``: EAGLE or MTP, whose block keys look one token ahead.
    acceptance : float, tuple of float or None
        One number: the probability that a draft is accepted if those before it are. A list: by
        position, the share of all verifications that accept the draft there (vLLM's log:
        ``Per-position acceptance rate``), not increasing, 0 beyond the list. None: the requests of
        a trace have their own ``accepted``.
    draft_us : float
        What each draft token makes a step longer: the drafts' own forward passes.
    """

    tokens: Annotated[Whole, Field(le=MAX_DRAFTS), Key("token", "draft tokens of a decode")]
    method: Annotated[Literal["draft", "eagle"], Key("1", "what drafts tokens")]
    acceptance: Annotated[
        Share | tuple[Share, ...] | None, Key("1", "share of drafts accepted")
    ] = None
    draft_us: Annotated[Coefficient, Key("us", "time of drafting a token")] = 0.0

    @field_validator("acceptance", mode="before")
    @classmethod
    def _check_shares(cls, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return _falling(given)
        return given if given is None else _share(given, ())

    def reached(self) -> tuple[float, ...]:
        """Return per position the share of verifications that accept the draft there."""
        if isinstance(self.acceptance, tuple):
            return (self.acceptance + (0.0,) * self.tokens)[: self.tokens]
        share = 0.0 if self.acceptance is None else self.acceptance
        return tuple(share**position for position in range(1, self.tokens + 1))


def _falling(given: Any) -> tuple[float, ...]:
    """Return shares by position, none of which is more than the one before it."""
    if not 1 <= len(given) <= MAX_DRAFTS:
        raise ValueError(f"expected 1 to {MAX_DRAFTS} shares, by position, got {len(given)}")
    shares = tuple(_share(value, (i,)) for i, value in enumerate(given))
    for i in range(1, len(shares)):
        if shares[i] > shares[i - 1]:
            message = f"{shares[i]:g} is more than {shares[i - 1]:g} before it: a draft is accepted"
            raise KeyProblem((i,), f"{message} only if those before it are")
    return shares


def _share(value: Any, path: tuple[int, ...]) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise KeyProblem(path, f"expected a number from 0 to 1, got {shown(value)}")
    return float(value)
