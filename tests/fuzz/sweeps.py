"""Sweep files and options as nobody should write them: mutations of the project's own sweeps."""

import random
from copy import deepcopy
from pathlib import Path

from kvsweep.config import Scenario
from kvsweep.config.schema import leaf_keys

ROOT = Path(__file__).parents[2] / "sweeps"
SEEDS = sorted(path for path in ROOT.rglob("*.toml") if "published" not in path.parts)
KEYS = [*leaf_keys(Scenario), "policy", "seed", "title", "cliff.metric", "pareto.objectives"]
EXTREMES = (
    *(0, -1, 1, 2, 3, 7, 255, 2**15, 2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 10**18, 10**30),
    *(0.0, -0.0, 1e-300, 5e-324, 1e-9, 0.5, 1.0, 1.5, 1e9, 1e17, 3e18, 1e30, 1e300, 1.8e308),
    *(float("inf"), float("-inf"), float("nan"), True, False, "", "x", "priority", "\x1b[31m"),
    *([], [1], [1, 1], [[1]], {}, {"x": 1}, {"dist": "constant", "value": 3}, [{}], "a" * 5000),
    *({"count": 3}, {"count": 0}, {"start": 1, "stop": 9, "step": 2}, {"start": 9, "stop": 1}),
    *({"start": 0.5, "stop": 1e308, "step": 1e-9}, {"start": 1, "stop": 2**70, "num": 3}),
    {"start": 5e-324, "stop": 2**62, "num": 4, "scale": "log"},
)
TEXTS = (
    *("1" * 5000, "[" * 3000, "{a=" * 1500, "1e400", "-1e400", "0x" + "f" * 5000, '"', "'''", "#"),
    *("1979-05-27T07:32:00Z", "1\nx = 2", "[1, 2", "{", "\\u0000", "=", "[[a]]", "nan", "+inf"),
)


def smaller(values):
    """Return a sweep of few requests and values: as good here, and ten times quicker to plan."""
    grid = dict(values["grid"])
    for key, axis in grid.items():
        entry = axis[0] if isinstance(axis, list) else axis
        if isinstance(entry, dict) and "start" in entry:
            grid[key] = [entry["start"], entry["stop"]]
        elif isinstance(axis, list) and key != "policy":
            grid[key] = axis[:3]
    few = {"requests": 40, "warmup": 3}
    workload = {key: few.get(key, value) for key, value in values["workload"].items()}
    return values | {"grid": grid, "workload": workload}


def mutated(rng: random.Random, values):
    """Return a copy of parsed TOML with one to four places changed."""
    values = deepcopy(values)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        table, key = rng.choice(list(_places(values)))
        kind = rng.randrange(9)
        if kind == 0:
            del table[key]
        elif kind == 1:
            table[key] = deepcopy(rng.choice(EXTREMES))
        elif kind == 2:
            other, place = rng.choice(list(_places(values)))
            table[key] = deepcopy(other[place])
        elif kind in (3, 7, 8) and isinstance(table[key], int | float):
            table[key] = table[key] * rng.choice((-1, 0, 1e-9, 2, 3, 1000, 10**9, 0.3))
        elif kind == 4 and isinstance(table, dict):
            table[_misspelt(rng, str(key))] = table.pop(key)
        elif kind == 5:
            table[key] = [table[key]] if rng.random() < 0.5 else {key: table[key]}
        elif isinstance(table[key], list) and table[key]:
            table[key] = table[key] * rng.randint(2, 3)
        if not values:
            break
    return values


def option(rng: random.Random):
    """Return a ``KEY=VALUE``, mostly of a key that exists."""
    key = rng.choice(KEYS)
    if rng.random() < 0.15:
        key = _misspelt(rng, key)
    if rng.random() < 0.1:
        key = rng.choice(("grid", "policies.x", "workload", "latency", "grid.seed", "a" * 300))
    if rng.random() < 0.25:
        return f"{key}={rng.choice(TEXTS)}"
    return f"{key}={written(rng.choice(EXTREMES))}"


def written(value):
    """Write a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else "?" for c in value) + '"'
    if isinstance(value, dict):
        pairs = (f"{written(str(key))} = {written(inner)}" for key, inner in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else repr(value)


def as_toml(values):
    """Write parsed TOML with inline tables, one key a line."""
    return "".join(f"{written(str(key))} = {written(inner)}\n" for key, inner in values.items())


def _misspelt(rng, key):
    cut = rng.randrange(len(key) + 1)
    return key[:cut] + rng.choice(("", "x", ".", "_", " ", key)) + key[cut + 1 :] or "x"


def _places(value):
    """Yield every (container, key) of nested tables and lists."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)
