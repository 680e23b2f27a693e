"""From a validation error to one key and one sentence."""

from datetime import date, time
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvsweep.config.base import Key, KeyProblem
from kvsweep.config.schema import KeyPath, choices_at, fields_at, known_keys, tags, types_at
from kvsweep.errors import did_you_mean

_LONGEST_QUOTE = 60

# Distributions by names of other books; that of the closest word may be another distribution.
_OTHER_NAMES = {
    "lognormal": "; a lognormal is 'pareto-lognormal' with mix_weight = 0",
    "pareto": "; a Pareto is 'pareto-lognormal' with mix_weight = 1",
    "normal": "; did you mean 'gaussian'?",
    "fixed": "; did you mean 'constant'?",
}

# Drafts by the names of vLLM's command.
_OTHER_VALUES = {
    "eagle3": "; did you mean 'eagle'?",
    "mtp": "; did you mean 'eagle'?",
    "draft_model": "; did you mean 'draft'?",
}

_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}

# Lists whose entries have a form of their own, which a wrong type does not tell.
_FORMS = {
    "objectives": "; as ['ttft_p99_ms:min', 'throughput_rps:max']",
    "targets": "; as ['ttft_p99_ms<=2000', 'tpot_p99_ms<=50']",
}

_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}


def first_problem(error: ValidationError, model: type[BaseModel], data: Any) -> tuple[KeyPath, str]:
    """Return the key and the description of the problem to report.

    An unknown key comes first: a missing one is often the same key, spelled right.

    Parameters
    ----------
    error : ValidationError
        Raised by `model` for `data`.
    """
    return describe(error.errors(include_url=False), model, data)


def describe(
    problems: list[ErrorDetails], model: type[BaseModel], data: Any
) -> tuple[KeyPath, str]:
    """Return the key and the description of one of several problems of `data`."""
    chosen = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path, table = locate(chosen["loc"], data, missing=chosen["type"] == "missing")
    cause = chosen.get("ctx", {}).get("error")
    if isinstance(cause, KeyProblem):
        return path + cause.path, str(cause)
    if chosen["type"] == "union_tag_not_found":
        return (*path, "dist"), f"missing; allowed: {', '.join(tags(types_at(model, path)))}"
    if chosen["type"] == "union_tag_invalid":
        known = tags(types_at(model, path))
        tag = str(chosen["ctx"]["tag"])
        message = f"unknown value {cut(tag)!r}; allowed: {', '.join(known)}"
        return (*path, "dist"), message + (_OTHER_NAMES.get(tag) or did_you_mean(tag, known))
    if chosen["type"] == "extra_forbidden":
        there = _sections_with(str(path[-1]), path) if "workload" in model.model_fields else ""
        return path, _unknown_key(str(path[-1]), known_keys(model, path[:-1], table), there)
    if chosen["type"] == "missing":
        return path, _missing(model, path)
    said = _sentence(chosen["type"], chosen["input"], chosen.get("ctx", {}), chosen["msg"])
    listed = len(path) > 1 and chosen["type"] in _EXPECTED
    return path, said + (_FORMS.get(str(path[1]), "") if listed else "")


def _sentence(kind: str, given: Any, context: dict[str, Any], fallback: str) -> str:
    if kind == "float_type" and type(given) is int:  # too large for a float
        return f"must be a finite number, got {shown(given)}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {shown(given)}"
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        return f"must be {words} {context[key]:.12g}, got {shown(given)}"
    if kind == "finite_number":
        return f"must be a finite number, got {shown(given)}"
    if kind == "literal_error":
        known = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
        return _unknown(shown(given, quote=False), known)
    if kind == "value_error":
        return str(context["error"])
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "too_long":
        return f"at most {context['max_length']} values, got {context['actual_length']}"
    if kind == "too_short":
        return "must not be empty"
    return fallback[:1].lower() + fallback[1:]


def _missing(model: type[BaseModel], path: KeyPath) -> str:
    """Say what a key that is needed is for: its values if they are few, else what it means."""
    if known := choices_at(model, path):
        return f"missing; allowed: {', '.join(known)}"
    said = [key for field in fields_at(model, path) for key in field.metadata]
    key = next((key for key in said if isinstance(key, Key)), None)
    if key is None:
        return "missing"
    return f"missing; {key.meaning}" + (f" ({key.unit})" if key.unit != "1" else "")


def _unknown(word: str, known: list[str]) -> str:
    hint = _OTHER_VALUES.get(word) or did_you_mean(word, known)
    return f"unknown value {cut(word)!r}; allowed: {', '.join(known)}{hint}"


def _sections_with(word: str, path: KeyPath) -> str:
    """Return the sections of a sweep that have a key which was put elsewhere, as part of a hint."""
    from kvsweep.config.scenario import Scenario

    if len(path) > 2 or word == "policy":  # beside [policies], which that may be
        return ""
    found = [name for name in Scenario.model_fields if word in known_keys(Scenario, (name,), None)]
    found += ["grid"] if word == "seed" else []
    return f"; {' and '.join(f'[{name}]' for name in found)} has it" if found else ""


def _unknown_key(word: str, known: list[str], there: str = "") -> str:
    name, _, number = word.removesuffix("]").partition("[")
    if name in known and number.isdecimal():  # as messages write a part of a list
        return f"unknown key; did you mean {cut(f'{name}.{number}')!r}?"
    close = "" if there else did_you_mean(word, known)
    return f"unknown key{there}" + (close or f"; allowed: {', '.join(known)}")


def shown(value: Any, *, quote: bool = True) -> str:
    """Write a value of the file as the file would have it, tables and lists by their kind."""
    if isinstance(value, bool):
        return str(value).lower()
    # Python refuses to write integers of more than 4,300 digits.
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, date | time):
        return str(value)
    return cut(repr(value) if quote else str(value))


def cut(text: str) -> str:
    """Shorten what is quoted in a message."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def locate(loc: KeyPath, data: Any, *, missing: bool) -> tuple[KeyPath, Any]:
    """Return the key at `loc` without pydantic's union tags, and the table that it is in."""
    path: list[str | int] = []
    table = data
    for i, part in enumerate(loc):
        inside = isinstance(data, dict) and part in data
        if inside or (isinstance(data, list | tuple) and isinstance(part, int)):
            path.append(part)
            table, data = data, data[part]
        elif missing and i == len(loc) - 1:
            path.append(part)
    return tuple(path), table
