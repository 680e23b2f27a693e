"""Which keys exist and what they hold, read off the models."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kvsweep.config.base import Key
from kvsweep.errors import dotted as dotted

KeyPath = tuple[str | int, ...]
"""A key: table names and list positions from the top of the file, or of a scenario, on."""


DIGITS = 9
"""Of a position in a list, at most."""


def types_at(model: type[BaseModel], path: KeyPath) -> list[Any]:
    """Return the types that the value at `path` below `model` may have; none if there is no key."""
    found: list[Any] = [model]
    for part in path:
        if isinstance(part, int):
            continue
        found = [kind for parent in found for kind in _below(parent, part)]
    return found


def is_table(model: type[BaseModel], path: KeyPath) -> bool:
    """Return whether the value at `path` is a table with keys of its own, or a list of those."""
    return any(_is_model(kind) for kind in types_at(model, path))


def is_list(model: type[BaseModel], path: KeyPath) -> bool:
    """Return whether the value at `path` is a list."""
    kinds = (kind for field in fields_at(model, path) for kind in _alternatives(field.annotation))
    return any(get_origin(kind) is tuple for kind in kinds)


def holds_one(model: type[BaseModel], path: KeyPath) -> bool:
    """Return whether the key at `path` holds one number, name or switch: no list and no table."""
    kinds = [kind for field in fields_at(model, path) for kind in _alternatives(field.annotation)]
    return bool(kinds) and all(
        kind in (int, float, bool, str, NoneType) or get_origin(kind) is Literal for kind in kinds
    )


def known_keys(model: type[BaseModel], path: KeyPath, table: Any) -> list[str]:
    """Return the keys of the table at `path`; `table`, its content, tells distributions apart."""
    models = [kind for kind in types_at(model, path) if _is_model(kind)]
    if isinstance(table, dict) and "dist" in table:
        models = [m for m in models if table["dist"] in tags([m])]
    return [key for each in models for key in each.model_fields]


def tags(models: list[Any]) -> list[str]:
    """Return the values of `dist` that select among `models`."""
    fields = [m.model_fields["dist"] for m in models if _is_model(m) and "dist" in m.model_fields]
    return [tag for field in fields for tag in get_args(field.annotation)]


def key_at(model: type[BaseModel], path: KeyPath) -> Key:
    """Return unit and meaning of the key at `path` below `model`, as its field has them.

    Tables on the way add theirs in front: ``prompts: mean length``. A free table's entries and a
    list's are told by their names: ``client 0: SLO class``.
    """
    unit, words = "1", ""
    for n, part in enumerate(path):
        fields = fields_at(model, path[: n + 1])
        if not fields:
            words += f" {part}" if isinstance(part, int) else f": {part}"
        for key in (item for field in fields[:1] for item in field.metadata):
            if isinstance(key, Key):
                unit, words = key.unit, f"{words}: {key.meaning}" if words else key.meaning
    return Key(unit, words)


def fields_at(model: type[BaseModel], path: KeyPath) -> list[FieldInfo]:
    """Return the fields that the key at `path` below `model` may be: of each table it may be in."""
    models = [kind for kind in types_at(model, path[:-1]) if _is_model(kind)]
    return [m.model_fields[str(path[-1])] for m in models if str(path[-1]) in m.model_fields]


def choices_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the values of a key at `path` that has a few; none of others."""
    kinds = [kind for field in fields_at(model, path) for kind in _alternatives(field.annotation)]
    return [str(v) for kind in kinds if get_origin(kind) is Literal for v in get_args(kind)]


def leaf_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield all dotted keys of scalars, lists and free tables below `model`, once each."""
    for name, field in model.model_fields.items():
        tables = [kind for kind in _members(field.annotation) if _is_model(kind)]
        if tables and get_origin(field.annotation) is not tuple:
            inner = (key for table in tables for key in leaf_keys(table, f"{prefix}{name}."))
            yield from dict.fromkeys(inner)
        else:
            yield f"{prefix}{name}"


def _below(parent: Any, part: str) -> list[Any]:
    if _is_model(parent) and part in parent.model_fields:
        return list(_members(parent.model_fields[part].annotation))
    if get_origin(parent) is dict:
        return list(_members(get_args(parent)[1]))
    return []


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the plain types in an annotation: through Annotated, unions and tuples."""
    for kind in _alternatives(annotation):
        if get_origin(kind) is tuple:
            for argument in get_args(kind):
                if argument is not Ellipsis:
                    yield from _members(argument)
        else:
            yield str if get_origin(kind) is Literal else kind


def _alternatives(annotation: Any) -> Iterator[Any]:
    """Yield what an annotation allows: through Annotated and unions."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for argument in get_args(annotation):
            yield from _alternatives(argument)
    else:
        yield annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
