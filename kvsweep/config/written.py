"""What was written must matter: keys that no cell of a sweep reads are mistakes, and are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvsweep.config.axes import POLICY, SAMPLE, SEED
from kvsweep.config.compose import parts_of
from kvsweep.config.effects_of_keys import Rule, overruled, unread
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, is_table

if TYPE_CHECKING:
    from kvsweep.config.source import Source
    from kvsweep.config.sweep import Sweep


class Idle(ValueError):
    """A key that has no effect in any cell.

    Attributes
    ----------
    origin : tuple of str or int
        Its place in the file.
    outside : bool
        Whether it came by an option, or is an axis of several values.
    """

    def __init__(self, origin: KeyPath, message: str, *, outside: bool) -> None:
        super().__init__(message)
        self.origin = origin
        self.outside = outside


@dataclass
class _Written:
    """A key that somebody wrote, and what became of it so far.

    Attributes
    ----------
    path : tuple of str or int
        Its place in a scenario.
    origin : tuple of str or int
        Its place in the file: what messages name.
    policy : str or None
        The policy that sets it.
    from_base : bool
        Whether policies and axes may set it again.
    outside : bool
        Whether it came by an option, not by the file, or is an axis of several values.
    swept : bool
        Whether it is an axis of several values.
    lenient : bool
        Whether it suffices that some cell reads the key, whatever its value there.
    rule : Rule or None
        Why the last scenario that it reached did not read it.
    reached, read : bool
        Whether it reached any scenario; whether any scenario reads the key, whoever set it.
    """

    path: KeyPath
    origin: KeyPath
    policy: str | None = None
    from_base: bool = False
    outside: bool = False
    swept: bool = False
    lenient: bool = False
    rule: Rule | None = None
    reached: bool = False
    read: bool = False


def check_effects(sweep: Sweep) -> None:
    """Check that every key that a sweep sets matters in some cell.

    A value of an axis, of a policy or from the command line must reach a cell that reads it. The
    base of a file is what policies and axes start from: there it suffices that some cell reads the
    key. So it does for a default that a policy writes to contrast with another.

    Raises
    ------
    Idle
        For the first key that has no effect: what it needs, or who has the last word.
    """
    open_keys = list(_written(sweep))
    for point in sweep.points():
        scenario = sweep.scenario(point)
        setters = {key: parts_of(key, None) for key in sweep.setters(point)}
        open_keys = [key for key in open_keys if not _matters(key, point, setters, scenario)]
        if not open_keys:
            return
    # Options first: one may have made a key of the file idle, which is no mistake.
    for key in sorted(open_keys, key=lambda key: not key.outside):
        if not key.reached and key.outside:
            raise Idle(key.origin, _overruled(sweep, key), outside=True)
        if key.rule and not (key.lenient and key.read):
            needs = f"has no effect: needs {key.rule.needs}"
            raise Idle(key.origin, needs, outside=key.outside)


def check_options(scenario: Scenario, source: Source) -> None:
    """Check that a scenario reads what options set on top of its trace.

    Raises
    ------
    InputError
        Naming the first key that has no effect, and what it needs.
    """
    for path, _ in _leaves(source.values):
        rule = unread(scenario, path)
        if rule and _is_outside(source, path):
            raise source.error(_part(source, path), f"has no effect: needs {rule.needs}")


def _written(sweep: Sweep) -> Iterator[_Written]:
    usual = Scenario().model_dump(mode="json")
    for path, _ in _leaves(sweep.base):
        outside = _is_outside(sweep.source, path)
        origin = _part(sweep.source, path)
        yield _Written(path, origin, from_base=True, outside=outside, lenient=not outside)
    named: Iterable[Any] = ()
    for axis in sweep.axes:
        # An axis of the file may be narrowed to one value, which is then like one of the base.
        swept = len(axis.values) > 1
        new = swept or ("grid", axis.key) not in sweep.source.lines
        if axis.key == POLICY:
            named = axis.values
            if any(name not in sweep.policies for name in named):
                yield _Written(("cluster", "routing"), ("grid", POLICY), outside=new)
        elif axis.key not in (SEED, SAMPLE):
            path = parts_of(axis.key, sweep.base)
            yield _Written(path, ("grid", axis.key), outside=new, swept=swept)
    for key in sweep.design.ranges if sweep.design else ():
        yield _Written(parts_of(key, sweep.base), ("design", key), swept=True)
    for name in named:
        for override in sweep.policy(name) if name in sweep.policies else ():
            at = parts_of(override.key, sweep.base)
            for below, value in _leaves_below(override.value, at, ()):
                path, origin = at + below, _part(sweep.source, override.origin + below)
                outside = _is_outside(sweep.source, origin)
                lenient = not outside and value == _value_at(usual, path)
                yield _Written(path, origin, str(name), outside=outside, lenient=lenient)


def _matters(
    key: _Written, point: Mapping[str, Any], setters: Mapping[str, KeyPath], scenario: Scenario
) -> bool:
    """Return whether a key reaches a scenario that reads it; take note of what is learnt."""
    names = _names(key.path)
    hidden = key.from_base and any(names[: len(by)] == _names(by) for by in setters.values())
    hidden = hidden or (key.policy is not None and point.get(POLICY) != key.policy)
    rule = unread(scenario, key.path) or (overruled(scenario, key.path) if key.swept else None)
    key.read |= rule is None
    key.reached |= not hidden
    if rule:
        key.rule = rule
    return rule is None and (key.lenient or not hidden)


def _names(path: KeyPath) -> tuple[str, ...]:
    return tuple(str(part) for part in path)


def _overruled(sweep: Sweep, key: _Written) -> str:
    """Say who sets a key again in every cell."""
    names = _names(key.path)
    for axis in sweep.axes:
        by = _names(parts_of(axis.key))
        if names[: len(by)] == by:
            return f"reaches no cell: the axis {axis.key!r} sets it; use --set {axis.key}=VALUE"
    for drawn in sweep.design.ranges if sweep.design else ():
        if names[: len(by := _names(parts_of(drawn)))] == by:
            return "reaches no cell: [design] draws it"
    policies = sweep.policies_run
    return (
        f"reaches no cell: every policy ({', '.join(map(str, policies))}) sets it; "
        "use --set policies.NAME.KEY=VALUE, or --set policy=NAME with other policies"
    )


def _leaves(tables: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    """Yield keys and values of a scenario; a table without keys of its own is a value."""
    yield from _leaves_below(tables, (), ())


def _leaves_below(value: Any, at: KeyPath, below: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yield what is below `value`, which stands at the key `at` of a scenario."""
    here = at + below
    if isinstance(value, Mapping) and is_table(Scenario, here):
        for key, inner in value.items():
            yield from _leaves_below(inner, at, (*below, key))
    elif isinstance(value, list) and is_table(Scenario, here):
        for i, inner in enumerate(value):
            yield from _leaves_below(inner, at, (*below, i))
    else:
        yield below, value


def _value_at(tables: Any, path: KeyPath) -> Any:
    for part in path:
        tables = tables.get(part) if isinstance(tables, dict) else None
    return tables


def _is_outside(source: Source, path: KeyPath) -> bool:
    """Return whether an option set the key, the table that it is in, or a part of its value."""
    labelled = (source.labels.get(path[:n], "") for n in range(1, len(path) + 1))
    return any(label.startswith("--") for label in labelled) or _part(source, path) != path


def _part(source: Source, path: KeyPath) -> KeyPath:
    """Return the part of the value at `path` that an option set, as one scorer; or `path`."""
    n = len(path)
    parts = (at for at, label in source.labels.items() if label.startswith("--") and at[:n] == path)
    return next((at for at in parts if len(at) > n), path)
