"""Service levels: how long a request may take, as ``vllm bench serve --goodput`` has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from kvsweep.config.base import Key, KeyProblem, Positive, Section, not_below
from kvsweep.config.explain import cut
from kvsweep.dimensions import LEVELS
from kvsweep.errors import InputError, did_you_mean
from kvsweep.limits import MAX_LEVEL_MS, MIN_LEVEL_MS

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario

_OF_VLLM = {"ttft": "ttft", "tpot": "tpot", "e2el": "e2e"}

_ASK = "give at least one of ttft_ms, tpot_ms, e2e_ms"

Level = Annotated[Positive, Field(le=MAX_LEVEL_MS), not_below(MIN_LEVEL_MS)]
"""A time that a request may take, milliseconds."""


class Levels(Section):
    """The times that a request may take to be a good one; it must keep all that are given.

    Attributes
    ----------
    ttft_ms : float or None
        To its first token, as the client sees it; None: no such level.
    tpot_ms : float or None
        Per output token after the first: (time to last token - time to first token) / (output
        tokens - 1). A request of one output token keeps it.
    e2e_ms : float or None
        To its last token, as the client sees it; ``e2el`` of vLLM.
    """

    ttft_ms: Annotated[
        Level | None, Key("ms", "time to first token of a good request, at most")
    ] = None
    tpot_ms: Annotated[
        Level | None, Key("ms", "time per output token after the first of a good request, at most")
    ] = None
    e2e_ms: Annotated[Level | None, Key("ms", "time to last token of a good request, at most")] = (
        None
    )

    @property
    def given(self) -> tuple[str, ...]:
        """Names, of `LEVELS`, of those that are given."""
        return tuple(name for name in LEVELS if getattr(self, f"{name}_ms") is not None)


class ServiceLevels(Levels):
    """The levels of all requests, and of those of a class.

    Attributes
    ----------
    classes : dict of str to Levels
        By SLO class: what a class leaves out it takes from the levels of all.
    """

    classes: Annotated[dict[str, Levels], Key("1", "class")] = Field(default={})

    @model_validator(mode="after")
    def _has_levels(self) -> Self:
        for name, levels in self.classes.items():
            if not levels.given:
                raise KeyProblem(("classes", name), _ASK)
        if not self.given and not self.classes:
            raise ValueError(_ASK)
        return self

    def of_class(self, name: str) -> tuple[float | None, ...]:
        """Return the levels of a class in the order of `LEVELS`, milliseconds; None: no such."""
        own = self.classes.get(name, self)
        pairs = ((getattr(own, f"{x}_ms"), getattr(self, f"{x}_ms")) for x in LEVELS)
        return tuple(usual if mine is None else mine for mine, usual in pairs)


def levels_given(scenarios: Iterable[Scenario]) -> tuple[str, ...]:
    """Return which of `LEVELS` any of some scenarios gives, to all requests or to a class."""
    tables: list[ServiceLevels] = [item.slo for item in scenarios if item.slo is not None]
    found = {name for slo in tables for each in (slo, *slo.classes.values()) for name in each.given}
    return tuple(name for name in LEVELS if name in found)


def same_but_levels(scenarios: Sequence[Scenario]) -> list[int]:
    """Return for each scenario the position of the first that differs in its levels alone.

    Such have the same runs. Traces that depend on the policy, which a scenario does not know, are
    taken for different ones.
    """
    if not levels_given(scenarios):
        return list(range(len(scenarios)))
    found: dict[str, int] = {}
    first = []
    for number, scenario in enumerate(scenarios):
        of_policy = scenario.workload is not None and "{policy}" in (scenario.workload.trace or "")
        text = scenario.model_dump_json(exclude={"slo"}) + (str(number) if of_policy else "")
        first.append(found.setdefault(text, number))
    return first


def goodput_overrides(texts: Iterable[str], settings: Iterable[str] = ()) -> Iterator[str]:
    """Yield the overrides, ``slo.ttft_ms=2000``, that ``--goodput ttft:2000`` stands for.

    Parameters
    ----------
    texts : iterable of str
        ``NAME:MS`` each.
    settings : iterable of str
        Those of ``--set``, which may not say the same.

    Raises
    ------
    InputError
        If one is not of the form NAME:MS, names no level or one again, or has no such value; or
        a setting has that level.
    """
    keys = [text.partition("=")[0].strip() for text in settings]
    known = {**_OF_VLLM, "e2e": "e2e"}
    seen: set[str] = set()
    for text in texts:
        name, colon, value = text.partition(":")
        if not (name and colon and value):
            raise InputError(f"--goodput {cut(text)}: expected NAME:MS, as in ttft:2000 tpot:50")
        if name not in known:
            listed = ", ".join(_OF_VLLM)
            hint = did_you_mean(name, list(known))
            raise InputError(f"--goodput {cut(text)}: unknown level; allowed: {listed}{hint}")
        if known[name] in seen:
            raise InputError(f"--goodput {cut(text)}: {name} is given twice")
        seen.add(known[name])
        key = f"slo.{known[name]}_ms"
        if key in keys:
            raise InputError(f"--goodput {cut(text)}: --set {key} says it too; give one of them")
        yield f"{key}={_milliseconds(value, text)!r}"


def _milliseconds(value: str, text: str) -> float:
    with suppress(ValueError):
        if MIN_LEVEL_MS <= (level := float(value)) <= MAX_LEVEL_MS:
            return level
    limits = f"{MIN_LEVEL_MS:g} to {MAX_LEVEL_MS:g}"
    raise InputError(f"--goodput {cut(text)}: must be milliseconds, {limits}, got {cut(value)!r}")
