"""How a trace is bent: faster, a part of it, shorter requests, again and again."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    Count,
    Fraction,
    Key,
    KeyProblem,
    Name,
    Positive,
    Seconds,
    Section,
    Tokens,
)
from kvsweep.limits import MAX_REQUESTS, MAX_SECONDS

Copies = Annotated[Count, Field(le=MAX_REQUESTS)]


class Slice(Section):
    """A window of a trace, in seconds of its own clock; the list's time begins with the window.

    A request that waits for the answer to another is in it if the first of its chain is.

    Attributes
    ----------
    from_s : float
        Begin, which belongs to it.
    to_s : float or None
        End, which does not.
    length_s : float or None
        The same by its distance from the begin. Neither: up to the end of the trace.
    """

    from_s: Annotated[Seconds, Key("s", "begin of the part of the trace")] = 0.0
    to_s: Annotated[Seconds | None, Key("s", "end of the part of the trace")] = None
    length_s: Annotated[
        Annotated[Positive, Field(le=MAX_SECONDS)] | None,
        Key("s", "length of the part of the trace"),
    ] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.to_s is not None and self.length_s is not None:
            raise KeyProblem(("length_s",), "to_s gives the end already: leave out one of them")
        if self.to_s is not None and self.to_s <= self.from_s:
            raise KeyProblem(("to_s",), f"{self.to_s:.15g} is not after from_s, {self.from_s:.15g}")
        return self

    @property
    def end_s(self) -> float | None:
        """The end, seconds of the trace; None: that of the trace."""
        return self.to_s if self.length_s is None else self.from_s + self.length_s


class Clip(Section):
    """The longest prompt and output; of longer ones the first tokens are kept.

    Attributes
    ----------
    prompt, output : int or None
        Tokens; None: as long as they are.
    """

    prompt: Annotated[Tokens | None, Key("token", "longest prompt of the trace")] = None
    output: Annotated[Tokens | None, Key("token", "longest output of the trace")] = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.prompt is None and self.output is None:
            raise KeyProblem(("prompt",), "missing; without it output is needed")
        return self


class Bends(Section):
    """What becomes of the requests of a trace, in this order whatever the order in the file.

    Attributes
    ----------
    slice : Slice or None
        A window in time; None: all of the trace.
    clip : Clip or None
        Longest prompt and output.
    repeat : int
        How many clients send each session, or each request that belongs to none: 2 doubles the
        load and leaves the times within sessions alone.
    repeat_spread_s : float
        Each copy begins later than the original by a time drawn by the seed: uniformly from 0 to
        this many seconds of the trace.
    loop : int
        How many times the list is played, one pass after the other: a pass begins one mean gap
        after the last arrival of the pass before, so that the rate stays. Requests that wait for
        answers do not count; where all others arrive at once, each, and each of its copies, begins
        again when its chain has ended.
    copies : str
        What the copies made by `repeat` and `loop` consist of: ``new`` content, which has in common
        with itself what the original has, or the ``same`` content as the original.
    scale : float
        Factor of the rate: arrivals are divided by it. What clients themselves take (think times,
        patience) stays, and so the order but of requests that wait for answers.
    limit : int or None
        Requests at most, the first ones of what the other keys have made.
    lengths_from : str or None
        A trace, relative to the sweep file, that requests which are drawn have their lengths from:
        (prompt, output) of one of its requests, each as likely. Of the other keys `slice` and
        `clip` go with it.
    """

    slice: Slice | None = None
    clip: Clip | None = None
    repeat: Annotated[Copies, Key("1", "clients that send each session of the trace")] = 1
    repeat_spread_s: Annotated[
        Seconds, Key("s", "longest delay of a repeated session behind the original")
    ] = 60.0
    loop: Annotated[Copies, Key("1", "times that the trace is played")] = 1
    copies: Annotated[Literal["new", "same"], Key("1", "content of what repeat and loop copy")] = (
        "new"
    )
    scale: Annotated[Fraction, Key("1", "factor of the trace's arrival rate")] = 1.0
    limit: Annotated[
        Annotated[Count, Field(le=MAX_REQUESTS)] | None,
        Key("request", "requests of the trace at most"),
    ] = None
    lengths_from: Annotated[Name | None, Key("1", "trace that lengths are drawn from")] = None


OF_TRACE = frozenset(Bends.model_fields) - {"lengths_from"}
"""Keys that bend the requests of a trace."""

OF_LENGTHS = frozenset({"slice", "clip", "lengths_from"})
"""Keys that say where lengths are from."""
