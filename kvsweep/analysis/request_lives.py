"""What requests of a replay do one after the other, by the events of its log."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.fleet import fleet, is_explicit
from kvsweep.records import Event

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.trace_replay import Replay


class Phase(IntEnum):
    """What a request does at a time."""

    WAITING = 0
    LOADING = 1
    PREFILL = 2
    DECODE = 3
    PREEMPTED = 4
    AGAIN = 5
    MOVING = 6

    @property
    def meaning(self) -> str:
        """A few words."""
        return MEANINGS[self]


MEANINGS = {
    Phase.WAITING: "waiting",
    Phase.LOADING: "loading from the CPU",
    Phase.PREFILL: "prefill",
    Phase.DECODE: "decode",
    Phase.PREEMPTED: "preempted, waiting",
    Phase.AGAIN: "prefill again",
    Phase.MOVING: "moving to a decode instance",
}

_NEVER = np.iinfo(np.int64).max

_CHANGES = (Event.ADMIT, Event.LOAD, Event.SAMPLE, Event.PREEMPT)
# The explicit engine logs what each request gets of each step, not who samples.
_EXPLICIT = (*_CHANGES, Event.CHUNK, Event.VERIFY, Event.FINISH)

ACCEPTED = 1000
"""A verification's value is so many times its drafts, and those that were accepted."""


def segments_of(found: Replay, last: int) -> list[tuple[int, int, int, int]]:
    """Return request, phase, begin and end of all segments.

    Parameters
    ----------
    found : Replay
        With its log.
    last : int
        When all is done.
    """
    lives = _ExplicitLives if is_explicit(found.scenario) else _Lives
    return lives(found, last).segments()


class _Lives:
    """Goes through the events of a replay once.

    A request waits until the step that admits it, prefills to the end of the step that samples
    (one event for each admission), and decodes from there on. A step that nothing was scheduled
    in is not logged: what it decided counts from the next one on.
    """

    logged: tuple[Event, ...] = _CHANGES

    def __init__(self, found: Replay, last: int) -> None:
        columns = found.requests
        self._found, self._last = found, last
        self._since = columns["arrival_us"].tolist()
        self._phase = [Phase.WAITING] * len(self._since)
        self._ran = [False] * len(self._since)
        self._done: list[tuple[int, int, int, int]] = []

    def segments(self) -> list[tuple[int, int, int, int]]:
        """Return request, phase, begin and end of all segments."""
        kept = np.isin(self._found.events["kind"], self.logged)
        events = {name: column[kept] for name, column in self._found.events.items()}
        starts, ends = self._times(events["instance"], events["step"])
        columns = (events[name].tolist() for name in ("kind", "request", "instance", "value"))
        for kind, r, i, value, start, end in zip(*columns, starts, ends, strict=True):
            self._follow(kind, r, i, value, start, end)
        self._finish()
        return self._done

    def _follow(self, kind: int, r: int, instance: int, value: int, start: int, end: int) -> None:
        """Follow an event of a step from `start` to `end`."""
        if kind == Event.ADMIT:
            self._change(r, Phase.AGAIN if self._ran[r] else Phase.PREFILL, start)
        elif kind == Event.LOAD:
            self._change(r, Phase.LOADING, start)
        elif kind == Event.SAMPLE:
            self._change(r, Phase.DECODE, end)
        elif kind == Event.PREEMPT:
            self._ran[r] = True
            self._change(r, Phase.PREEMPTED, start)

    def _change(self, r: int, phase: Phase, time: int) -> None:
        if time > self._since[r]:
            self._done.append((r, self._phase[r], self._since[r], time))
        self._since[r] = max(time, self._since[r])
        self._phase[r] = phase

    def _finish(self) -> None:
        """End all lives: at the last token, when patience ends, or with the simulation."""
        columns = self._found.requests
        patience = self._found.trace.requests.patience_us
        for r, finish in enumerate(columns["finish_us"].tolist()):
            status = columns["status"][r]
            if finish >= 0:
                end = finish
            elif status in ("queued", "running"):
                end = self._last
            elif status == "timed_out" and patience[r] >= 0:
                end = self._since[r] + int(patience[r])
            else:  # it was never let in
                continue
            if columns["arrival_us"][r] >= 0:
                self._change(r, self._phase[r], end)

    def _times(
        self, instance: NDArray[np.int32], step: NDArray[np.int64]
    ) -> tuple[list[int], list[int]]:
        """Return begin and end of the steps of events."""
        steps = self._found.steps
        begin, end = (np.empty(len(step), np.int64) for _ in range(2))
        for i in np.unique(instance):
            own, of = steps["instance"] == i, instance == i
            number = np.append(steps["step"][own], _NEVER)
            start = np.append(steps["start_us"][own], self._last)
            duration = np.append(steps["duration_us"][own], 0)
            place = np.searchsorted(number, step[of])
            begin[of], end[of] = start[place], start[place] + duration[place]
        return begin.tolist(), end.tolist()


class _ExplicitLives(_Lives):
    """Counts tokens to tell who samples: whoever has computed all that it knows.

    Where prefill and decode are apart, what a prefill instance samples is thrown away (rule R14.1):
    its prefill ends when it is finished there, and until a decode instance admits it a request is
    on its way. If all but a token was pulled the request only decodes there.
    """

    logged = _EXPLICIT

    def __init__(self, found: Replay, last: int) -> None:
        super().__init__(found, last)
        self._known = found.trace.requests.prompt_tokens.tolist()
        self._computed = [0] * len(self._known)
        self._prefills = _prefilling(found.scenario)

    def _follow(self, kind: int, r: int, instance: int, value: int, start: int, end: int) -> None:
        if kind == Event.CHUNK:
            self._compute(r, instance, value, end)
        elif kind == Event.VERIFY:
            self._add(r, value % ACCEPTED)
        elif kind == Event.FINISH:
            if instance in self._prefills:
                self._change(r, Phase.MOVING, end)
        else:
            pulled = kind == Event.ADMIT and self._phase[r] == Phase.MOVING
            super()._follow(kind, r, instance, value, start, end)
            if kind == Event.ADMIT:
                self._computed[r] = value
                if pulled and value == self._known[r] - 1:
                    self._change(r, Phase.DECODE, start)

    def _compute(self, r: int, instance: int, tokens: int, end: int) -> None:
        """Let a step compute tokens of a request; with the last that it knows it samples one."""
        self._computed[r] += tokens
        if instance in self._prefills or self._computed[r] < self._known[r]:
            return
        self._computed[r] = self._known[r]  # drafts are rejected until they are verified
        self._known[r] += 1
        if self._phase[r] != Phase.DECODE:
            self._change(r, Phase.DECODE, end)

    def _add(self, r: int, accepted: int) -> None:
        """Let a request know the drafts that were accepted."""
        self._computed[r] += accepted
        self._known[r] += accepted


def _prefilling(scenario: Scenario) -> range:
    """Return the instances that only prefill: those of the first pool, if of any."""
    first = fleet(scenario)[0]
    return range(first.instances if first.role == "prefill" else 0)
