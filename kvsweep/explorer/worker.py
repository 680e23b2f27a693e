"""The thread between a page and what is explored: the last setting wins, no answer is late.

The page numbers its requests. Answers carry these numbers, in ascending order; a request that is
overtaken before its turn is answered by the one that overtook it. One that has begun is shown once,
as long as that takes no longer than `PATIENCE`, so that curves move while a slider does; what
refines it stops within the simulations of `TURN`.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

from kvsweep import simulate
from kvsweep.errors import InputError
from kvsweep.explorer.answering import Shown, answer_of
from kvsweep.explorer.messages import Life, Message, Save, Show
from kvsweep.explorer.saving import saved
from kvsweep.explorer.stages import Stage
from kvsweep.explorer.subject import Part, Subject

TURN = 0.04
"""Seconds of simulations that are done in one call: so long nobody else is heard."""

OVERHEAD = 0.006
"""Seconds that a call takes however few its simulations are."""

PATIENCE = 0.15
"""Seconds after which a first answer is given up if another setting has been asked for."""

SAY_EVERY = 0.4
"""Seconds between two messages on how far a stage is."""

MAX_SAVES = 8
"""Files that are waited for at once."""

Answer = dict[str, Any]


class Overtaken(Exception):
    """Something else has been asked for, or nobody listens any more."""


class Worker:
    """Answers the requests of one page, in a thread of its own.

    Parameters
    ----------
    subject : Subject
        What is explored; other workers may have the same.
    deliver : callable (dict)
        Takes the answers, in this thread; it must not wait.
    """

    def __init__(self, subject: Subject, deliver: Callable[[Answer], None]) -> None:
        self._subject = subject
        self._deliver = deliver
        self._condition = Condition()
        self._latest: Show | None = None
        self._life: Life | None = None
        self._saves: deque[Save] = deque()
        self._closed = False
        self._shown: Shown | None = None
        self._cost: float | None = None
        self._thread = Thread(target=self._run, name="kvsweep explorer", daemon=True)
        self._thread.start()

    def ask(self, message: Message) -> None:
        """Take a request; one to show replaces an earlier one of its kind that has not begun.

        Raises
        ------
        InputError
            If `MAX_SAVES` files are waited for.
        """
        with self._condition:
            if isinstance(message, Save):
                if len(self._saves) >= MAX_SAVES:
                    raise InputError("page: too many files at once; wait for those asked for")
                self._saves.append(message)
            elif isinstance(message, Life):
                self._life = message
            else:
                self._latest = message
            self._condition.notify()

    def close(self) -> None:
        """End the work: within one call, and nothing is delivered any more."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(self._has_work)
                if self._closed:
                    return
                save = self._saves.popleft() if self._saves else None
                show, self._latest = (None, self._latest) if save else (self._latest, None)
            message = save or show
            if message is None:
                self._answer_life()
                continue
            try:
                self._save(save) if save else self._show(message)  # type: ignore[arg-type]
            except Overtaken:
                self._go_on_with(show)
            except InputError as error:
                self._send("refused", message, text=str(error))
            except Exception as error:  # the page is to say so, whatever it is
                traceback.print_exc(file=sys.stderr)
                words = f"internal error: {type(error).__name__}: {error}"
                self._send("refused", message, text=words)

    def _go_on_with(self, show: Show | None) -> None:
        """Come back to what was being refined when a file was asked for, if to nothing else."""
        with self._condition:
            self._latest = self._latest or show

    def _has_work(self) -> bool:
        return bool(self._closed or self._latest or self._saves or self._life)

    def _send(self, kind: str, message: Message, **content: Any) -> None:
        if not self._closed:
            self._deliver({"kind": kind, "generation": message.generation, **content})

    def _show(self, show: Show) -> None:
        began = time.monotonic()
        with self._subject.lock:
            parts = [self._subject.part(each, show.along) for each in show.scenarios]
        self._load(show, parts)
        todo = list(parts[0].stages(self._cost))
        todo = todo[self._known(parts, todo) :]
        for number, stage in enumerate(todo):
            self._simulate(show, parts, stage, began if number == 0 else None)
            with self._subject.lock:
                self._shown, answer = answer_of(self._subject, show, parts, stage, todo[-1])
            self._send("curves", show, milliseconds=1e3 * (time.monotonic() - began), **answer)
            if answer["done"]:
                break
            self._check(None)

    def _load(self, show: Show, parts: Sequence[Part]) -> None:
        """Load the kernel, or compile it, which the page is told of."""
        names = tuple(dict.fromkeys(name for part in parts for name in part.entries))
        simulate.warm_up(lambda line: self._send("working", show, text=line), names)

    @staticmethod
    def _known(parts: Sequence[Part], todo: Sequence[Stage]) -> int:
        """Return how many stages need not be shown, as the next is simulated already too."""
        known = [not any(part.lacking(s.points, s.seeds) for part in parts) for s in todo]
        return max((n for n, is_known in enumerate(known) if is_known), default=0)

    def _simulate(
        self, show: Show, parts: Sequence[Part], stage: Stage, began: float | None
    ) -> None:
        """Simulate what a stage lacks; `began` is when a first answer was, None for later ones."""
        told = time.monotonic()
        done, total = (
            0,
            sum(
                len(points) * (last - first)
                for part in parts
                for points, first, last in part.lacking(stage.points, stage.seeds)
            ),
        )
        for part in parts:
            while True:
                with self._subject.lock:
                    left = part.lacking(stage.points, stage.seeds)
                    if not left:
                        break
                    done += self._turn(part, *left[0])
                self._check(began)
                if time.monotonic() - told > SAY_EVERY:
                    told = time.monotonic()
                    self._send("working", show, text=f"simulating, {done:,} of {total:,} runs")

    def _turn(self, part: Part, points: Sequence[int], first: int, last: int) -> int:
        """Do some of the simulations that are left, as many as `TURN` allows; return how many."""
        room = 1 if self._cost is None else max(1, int(TURN / self._cost))
        seeds = max(1, min(last - first, room // len(points)))
        chosen = points[: max(1, room // seeds)]
        began = time.monotonic()
        part.simulate(chosen, first, first + seeds)
        count = len(chosen) * seeds
        self._cost = max(time.monotonic() - began - OVERHEAD, 1e-6) / count
        return count

    def _check(self, began: float | None) -> None:
        """Stop if something else is asked for, but let a first answer have its time."""
        if self._closed:
            raise Overtaken
        patient = began is not None and time.monotonic() - began < PATIENCE
        if (self._latest or self._saves) and not patient:
            raise Overtaken
        if began is None:
            self._answer_life()

    def _answer_life(self) -> None:
        """Answer the last request for lives, if there is one; what is wrong with it is told there.

        Between two calls of the refining, which goes on afterwards, but not before a first answer.
        """
        with self._condition:
            life, self._life = self._life, None
        if life is None:
            return
        try:
            with self._subject.lock:
                found = self._subject.part(life.settings, life.along).life(life.value, life.seed)
        except InputError as error:
            found = {"refused": str(error)}
        except Exception as error:  # as in `_run`
            traceback.print_exc(file=sys.stderr)
            found = {"refused": f"internal error: {type(error).__name__}: {error}"}
        self._send("life", life, value=life.value, seed=life.seed, **found)

    def _save(self, save: Save) -> None:
        if self._shown is None:
            raise InputError("page: nothing is shown yet")
        with self._subject.lock:
            content = saved(self._subject, self._shown, save)
        self._send("saved", save, **content)
