"""The JSON Schema of a sweep file, made from the models that check it.

It says what can be said of single keys: names, types, ranges, values. What depends on several of
them (a policy that sets an axis, products that are too large) only `load_sweep` finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from kvsweep.config.axes import POLICY, SEED
from kvsweep.config.design import METHODS, OPTIONS
from kvsweep.config.document import Document
from kvsweep.config.preset import preset_names
from kvsweep.config.scenario import Scenario
from kvsweep.config.transfer import links
from kvsweep.config.until import Until
from kvsweep.limits import MAX_AXIS_VALUES, MAX_SEED
from kvsweep.sizing.gpus import gpu_names
from kvsweep.sizing.shapes import model_names

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_AXIS_VALUES}
_SEED: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_SEED}
_ENDS = {"start": _NUMBER, "stop": _NUMBER}

# What `axes` and `design` read themselves, without a model.
_FORMS: dict[str, Schema] = {
    "Range": {
        "description": "start to stop by step, with stop, or num values, linear or log",
        "type": "object",
        "properties": _ENDS
        | {"step": _NUMBER, "num": _COUNT, "scale": {"enum": ["linear", "log"]}},
        "required": ["start", "stop"],
        "oneOf": [{"required": ["step"]}, {"required": ["num"]}],
        "dependentRequired": {"scale": ["num"]},
        "additionalProperties": False,
    },
    "Seeds": {
        "description": "seeds 0 to count - 1",
        "type": "object",
        "properties": {"count": _COUNT},
        "required": ["count"],
        "additionalProperties": False,
    },
    "Interval": {
        "description": "from one number to another, evenly or by their logarithm",
        "type": "object",
        "properties": {
            "from": _NUMBER,
            "to": _NUMBER,
            "log": {"type": "boolean", "default": False},
        },
        "required": ["from", "to"],
        "additionalProperties": False,
    },
    "Enough": {
        "description": "seeds until the interval of a measure is narrow enough",
        "type": "object",
        "properties": {"until": {"$ref": "#/$defs/Until"}},
        "required": ["until"],
        "additionalProperties": False,
    },
    "Until": Until.model_json_schema()
    | {"anyOf": [{"required": ["relative"]}, {"required": ["absolute"]}]},
}

_SCALARS = ("integer", "number", "string", "boolean")


def sweep_schema() -> Schema:
    """Return the JSON Schema (2020-12) of a sweep file.

    Each key has its ``description`` and, where it is no pure number or name, its ``x-unit``;
    ``default``, limits and values as usual.
    """
    scenario = Scenario.model_json_schema()
    document = Document.model_json_schema()
    definitions = {**document["$defs"], **scenario["$defs"], **deepcopy(_FORMS)}
    for name, definition in definitions.items():
        if name not in ("AskedCliff", "Pareto", *_FORMS):
            # A policy or an axis may supply what a table lacks; but which distribution it is.
            definition["required"] = ["dist"] if "dist" in definition.get("properties", {}) else []
        definition["description"] = definition.get("description", "").partition("\n\n")[0]
    tables = document["properties"]
    for section, reference in scenario["properties"].items():
        target = reference.get("$ref") or reference["anyOf"][0]["$ref"]
        tables[section] = {"$ref": target, "description": tables[section]["description"]}
    made = {
        "$schema": DIALECT,
        "title": "kvsweep sweep file",
        "type": "object",
        "additionalProperties": False,
        "properties": tables,
        "$defs": definitions,
    }
    _name_what_comes_along(definitions)
    _fill_tables(made)
    tidy: Schema = _tidy(made)
    return tidy


def _name_what_comes_along(definitions: dict[str, Schema]) -> None:
    """Offer the names of what the package has where files or other names are possible too."""
    named = [{"enum": preset_names()}, {"type": "string", "pattern": r"\.toml$"}]
    for table in ("Latency", "StepTimes"):
        definitions[table]["properties"]["model"]["anyOf"] = named
    definitions["Cache"]["properties"]["link"]["enum"] = list(links())
    served = definitions["ServedModel"]["properties"]
    served["preset"]["examples"] = list(model_names())
    served["gpu"]["examples"] = list(gpu_names())


def _fill_tables(made: Schema) -> None:
    """Say what `policies`, `grid` and `design` may have: each key of a scenario by its path."""
    tables = made["properties"]
    keys = dict(leaves(made))
    single = {key: value for key, (at, leaf) in keys.items() if (value := _scalar(at, leaf))}
    listed = sorted(key for key, (_, leaf) in keys.items() if not _is_scalar(leaf))
    inside = {rf"^{re.escape(key)}\.": True for key in listed}
    sections = {name: tables[name] for name in Scenario.model_fields}
    tables["policies"]["additionalProperties"] = {
        "type": "object",
        "properties": sections | {key: {"$ref": at} for key, (at, _) in keys.items()},
        "patternProperties": inside,
        "additionalProperties": False,
    }
    policy = {"type": "string", "minLength": 1}
    drawn = {key: _range_of(value, keys[key][1]) for key, value in single.items()}
    seeds = _values(_SEED, "Seeds", "Range")
    seeds["anyOf"].append({"$ref": "#/$defs/Enough"})
    tables["grid"] |= {
        "properties": {
            POLICY: {"description": "policies or routings", **_values(policy)},
            SEED: {"description": "seeds of the request lists", **seeds},
            **{key: _axis_of(value, keys[key][1]) for key, value in single.items()},
        },
        "patternProperties": inside,
        "additionalProperties": False,
    }
    tables["design"] |= {
        "properties": _design_options() | drawn,
        "patternProperties": inside,
        "additionalProperties": False,
    }


def _design_options() -> dict[str, Schema]:
    """Return the keys of a design that are no ranges."""
    found: dict[str, Schema] = {
        "method": {"description": "how points are drawn", "enum": list(METHODS)},
        "samples": {"description": "number of points", **_COUNT},
        "seed": {"description": "seed of the draw", **_SEED},
    }
    return {key: found[key] for key in OPTIONS}


def leaves(made: Schema) -> Iterator[tuple[str, tuple[str, Schema]]]:
    """Yield each key of a scenario that is no table, where its schema is, and the schema.

    Tables are walked through, free ones and lists are not.
    """
    for section in Scenario.model_fields:
        target = made["properties"][section]["$ref"]
        yield from _below(made["$defs"], target, f"{section}.")


def _below(definitions: dict[str, Schema], target: str, prefix: str) -> Iterator[Any]:
    seen: set[str] = set()
    for name, schema in definitions[target.rpartition("/")[2]].get("properties", {}).items():
        inner = list(_references(schema))
        if not inner and f"{prefix}{name}" not in seen:
            seen.add(f"{prefix}{name}")
            yield f"{prefix}{name}", (f"{target}/properties/{name}", schema)
        for reference in inner:
            yield from _below(definitions, reference, f"{prefix}{name}.")


def _references(schema: Schema) -> Iterator[str]:
    """Yield the tables that a value may be; those of a list's entries are not the value."""
    if "$ref" in schema:
        yield schema["$ref"]
    for word in ("anyOf", "oneOf"):
        for member in schema.get(word, ()):
            yield from _references(member)


def _kinds(schema: Schema) -> set[str]:
    """Return the types of a value."""
    members = [m for word in ("anyOf", "oneOf") for m in schema.get(word, ())]
    kinds = {kind for member in members for kind in _kinds(member)}
    named = {schema["type"]} if "type" in schema else set()
    return (kinds | named or {"string"}) - {"null"}


def _is_scalar(leaf: Schema) -> bool:
    return _kinds(leaf) <= set(_SCALARS)


def _scalar(at: str, leaf: Schema) -> Schema | None:
    """Return the schema of one value of an axis, None if the key has only lists or tables."""
    if _is_scalar(leaf):
        return {"$ref": at}
    members = [m for m in leaf.get("anyOf", ()) if _kinds(m) and _is_scalar(m)]
    return {"anyOf": members} if members else None


def _axis_of(value: Schema, leaf: Schema) -> Schema:
    numbers = _kinds(leaf) & {"integer", "number"}
    return _about(leaf) | _values(value, *(("Range",) if numbers else ()))


def _range_of(value: Schema, leaf: Schema) -> Schema:
    numbers = _kinds(leaf) & {"integer", "number"}
    listed = {"type": "array", "minItems": 1, "items": value}
    return _about(leaf) | {"anyOf": [listed, *([{"$ref": "#/$defs/Interval"}] if numbers else [])]}


def _values(value: Schema, *ranges: str) -> Schema:
    """Return the schema of an axis: a list, which may hold ranges too, or a range."""
    spans = [{"$ref": f"#/$defs/{name}"} for name in ranges]
    items = {"anyOf": [value, *spans]} if spans else value
    listed = {"type": "array", "minItems": 1, "maxItems": MAX_AXIS_VALUES, "items": items}
    return {"anyOf": [listed, *spans]} if spans else listed


def _about(leaf: Schema) -> Schema:
    return {key: leaf[key] for key in ("description", "x-unit") if key in leaf}


def _tidy(schema: Any) -> Any:
    """Drop what pydantic adds for Python: titles made of names, and nulls, which TOML has not."""
    if isinstance(schema, list):
        return [_tidy(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    kept: Schema = {}
    for word, value in schema.items():
        if word in ("properties", "patternProperties", "$defs"):
            kept[word] = {name: _tidy(member) for name, member in value.items()}
        elif word == "default":
            kept |= {} if value is None else {word: value}
        elif word == "discriminator" or (word == "required" and not value):
            continue
        elif word != "title" or "$schema" in schema:
            kept[word] = _tidy(value)
    return _without_null(kept)


def _without_null(schema: Schema) -> Schema:
    members = schema.get("anyOf")
    if not members or {"type": "null"} not in members:
        return schema
    left = [member for member in members if member != {"type": "null"}]
    rest = {word: value for word, value in schema.items() if word != "anyOf"}
    return {**left[0], **rest} if len(left) == 1 else {**rest, "anyOf": left}
