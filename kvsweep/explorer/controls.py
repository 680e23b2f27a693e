"""What can be set on the page: every scalar of a scenario, as the schema has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from kvsweep.config.axes import POLICY, SEED, Axis, about, number_kind
from kvsweep.config.compose import SECTIONS, parts_of
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import KeyPath, fields_at, is_table, leaf_keys, types_at
from kvsweep.config.served_model import STAGES, key_of_stages
from kvsweep.errors import dotted
from kvsweep.explorer.choices import choices
from kvsweep.explorer.ranges import slider_range
from kvsweep.policies import Routing

if TYPE_CHECKING:
    from kvsweep.config import Sweep

AXES = "axes"
"""Group of the controls that are axes of the sweep; other groups are sections."""


@dataclass(frozen=True)
class Control:
    """One key that can be set.

    Attributes
    ----------
    key : str
        Dotted key of the sweep file, ``policy``, or an axis of a store.
    group : str
        `AXES`, or the section.
    kind : str
        ``number``, ``switch`` or ``choice``.
    unit, meaning : str
        Of the value; unit ``1`` for pure numbers.
    value : bool, int, float, str or None
        As long as nothing is set; None: the file does not say, and there is no default.
    shown : bool
        Whether the page has it from the beginning; others are added by name.
    whole : bool
        Whether a number is an integer.
    choices : tuple
        The values of a ``choice``.
    low, high : float
        Ends of the slider of a number.
    logarithmic : bool
        Whether equal steps of the slider are equal ratios.
    """

    key: str
    group: str
    kind: str
    unit: str
    meaning: str
    value: Any
    shown: bool
    whole: bool = False
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return asdict(self)


def controls_of(sweep: Sweep, along: Axis) -> tuple[Control, ...]:
    """Return the controls of a sweep: its axes, the keys of its file, and all others.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    along : Axis
        What curves are drawn along, which has no control.
    """
    first = sweep.first_point
    scenario = sweep.scenario(first)
    others = [axis for axis in sweep.axes if axis.key not in (SEED, along.key)]
    found = [_of_axis(sweep, scenario, axis) for axis in others]
    taken = {along.key, *(control.key for control in found), _following(scenario)}
    written = [".".join(map(str, path)) for path in _leaves(sweep.base, ())]
    usual = scenario.model_dump(mode="json")
    for key in dict.fromkeys([*written, *leaf_keys(Scenario)]):
        control = _of_key(key, sweep, scenario, usual, shown=key in written)
        if control and key not in taken:
            found.append(control)
    order = (AXES, *SECTIONS)
    return tuple(sorted(found, key=lambda control: order.index(control.group)))


def _following(scenario: Scenario) -> str | None:
    """Return the key of a pipeline's stages that another one decides, and so has no control."""
    if scenario.model is None:
        return None
    decides = dotted(key_of_stages(scenario))
    return next(key for key in STAGES if key != decides)


def _of_axis(sweep: Sweep, scenario: Scenario, axis: Axis) -> Control:
    key, first = about(axis.key), axis.values[0]
    common = (AXES, key.unit, key.meaning, first)
    if axis.key == POLICY:
        routings = Routing.labels_of(scenario.engine.rules)
        named = dict.fromkeys([*axis.values, *sweep.policies, *routings])
        return _choice(axis.key, *common, tuple(named))
    if isinstance(first, bool):
        return Control(axis.key, AXES, "switch", key.unit, key.meaning, first, True)
    if all(type(value) in (int, float) for value in axis.values):
        path = parts_of(axis.key, sweep.base)
        return _number(axis.key, path, *common, shown=True, axis=axis.values)
    listed = choices(parts_of(axis.key, sweep.base), scenario.engine.rules)
    return _choice(axis.key, *common, tuple(dict.fromkeys([*axis.values, *listed])))


def _of_key(
    key: str, sweep: Sweep, scenario: Scenario, usual: dict[str, Any], *, shown: bool
) -> Control | None:
    """Return the control of a key, None if it is no scalar or its names are not known."""
    path = parts_of(key, sweep.base)
    if _is_list(path) or _is_of_another_kind(usual, path):
        return None
    kinds = set(types_at(Scenario, path)) - {type(None)}
    told, value = about(key), _value(usual, path)
    common = (str(path[0]), told.unit, told.meaning, value)
    if kinds == {bool}:
        return Control(key, common[0], "switch", told.unit, told.meaning, value, shown)
    if kinds and kinds <= {int, float}:
        return _number(key, path, *common, shown=shown)
    if kinds == {str} and (names := choices(path, scenario.engine.rules)):
        if isinstance(value, str):
            names = list(dict.fromkeys([value, *names])) if value not in names else names
        return _choice(key, *common, tuple(names), shown=shown)
    return None


def _number(
    key: str,
    path: KeyPath,
    group: str,
    unit: str,
    meaning: str,
    value: Any,
    *,
    shown: bool,
    axis: tuple[Any, ...] = (),
) -> Control:
    ends = slider_range(path, value, unit, axis)
    whole = number_kind(key) is int
    return Control(
        key,
        group,
        "number",
        unit,
        meaning,
        value,
        shown,
        whole=whole,
        low=ends.low,
        high=ends.high,
        logarithmic=ends.logarithmic,
    )


def _choice(
    key: str,
    group: str,
    unit: str,
    meaning: str,
    value: Any,
    names: tuple[Any, ...],
    *,
    shown: bool = True,
) -> Control:
    return Control(key, group, "choice", unit, meaning, value, shown, choices=names)


def _leaves(table: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the keys of values in nested tables and lists of tables."""
    if isinstance(table, Mapping):
        for key, inner in table.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(table, list) and is_table(Scenario, path):
        for i, inner in enumerate(table):
            yield from _leaves(inner, (*path, i))
    else:
        yield path


def _is_list(path: KeyPath) -> bool:
    """Whether a key holds a list, and may hold no scalar instead."""
    kinds = {kind for field in fields_at(Scenario, path) for kind in _kinds(field.annotation)}
    return tuple in kinds and not kinds & {bool, int, float, str}


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value may have; a tuple whatever is in it."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for argument in get_args(annotation):
            yield from _kinds(argument)
    else:
        yield origin or annotation


def _is_of_another_kind(tables: Any, path: KeyPath) -> bool:
    """Whether a key belongs to another distribution than the one that is there."""
    table = value_at(tables, path[:-1])
    return isinstance(table, Mapping) and "dist" in table and path[-1] not in table


def _value(tables: Any, path: KeyPath) -> Any:
    value = value_at(tables, path)
    return value if isinstance(value, bool | int | float | str) else None


def value_at(table: Any, path: KeyPath) -> Any:
    """Return what is at a key of nested tables and lists, None if nothing is."""
    for part in path:
        inside = isinstance(table, Mapping) and part in table
        inside |= isinstance(table, list) and isinstance(part, int) and part < len(table)
        table = table[part] if inside else None
    return table
