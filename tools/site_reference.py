"""The pages of the site that are made from the code: keys, variables, commands, functions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import kvsweep
import kvsweep.plot
from kvsweep.cli import commands
from kvsweep.config.json_schema import sweep_schema
from kvsweep.dimensions import DIMENSIONS
from kvsweep.metrics import VARIABLES

Schema = dict[str, Any]

# What these hold is told in words: the keys of all other tables.
OWN_TABLES = ("policies", "grid", "design")


def write(folder: Path) -> None:
    """Write all pages into `folder`."""
    folder.mkdir()
    pages = {"keys": keys(), "variables": variables(), "commands": help_pages(), "python": python()}
    for name, lines in pages.items():
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n")


def keys() -> Iterator[str]:
    """Yield the reference of all keys of a sweep file."""
    schema = sweep_schema()
    yield "# Keys of a sweep file\n"
    yield "Made from the models that check the file; `kvsweep schema` prints the same for editors."
    yield "A key that has no default may be left out unless others need it. An axis of `[grid]`"
    yield 'names a key with its table, as `"cache.gpu_blocks"`.\n'
    for name, table in schema["properties"].items():
        if "$ref" not in table and "properties" not in table and name != "policies":
            continue
        yield f"## `[{name}]`\n"
        yield f"{_sentence(table.get('description', ''))}\n"
        if name in OWN_TABLES:
            yield from _own_table(name, table, schema)
        else:
            yield from _rows(schema, table["$ref"], "")
    yield "## At the top of the file\n"
    top = {n: t for n, t in schema["properties"].items() if t.get("type") == "string"}
    yield from _table([_row(schema, name, entry) for name, entry in top.items()])


def _own_table(name: str, table: Schema, schema: Schema) -> Iterator[str]:
    if name == "policies":
        yield "`[policies.NAME]` has keys of all tables, by their paths or as tables: what the"
        yield "policy of this name sets.\n"
        return
    if name == "grid":
        yield "Any key of a scenario by its path, `policy` and `seed`. A value is a list, which may"
        yield "hold ranges, or a range: `{ start, stop, step }`, `{ start, stop, num }` with or"
        yield 'without `scale = "log"`; for seeds also `{ count }` and `{ until = { ... } }`.\n'
        return
    yield "Any key of a scenario by its path, as a list or `{ from, to }` with or without `log`,"
    yield "and:\n"
    own = {key: entry for key, entry in table["properties"].items() if "." not in key}
    yield from _table([_row(schema, key, entry) for key, entry in own.items()])


def _rows(schema: Schema, reference: str, prefix: str) -> Iterator[str]:
    yield from _table(list(_all_rows(schema, reference, prefix)))


def _all_rows(schema: Schema, reference: str, prefix: str, seen: str = "") -> Iterator[list[str]]:
    """Yield a row for each key below a table; those of lengths, as of `prompt`, once."""
    definition = schema["$defs"][reference.rpartition("/")[2]]
    for key, entry in definition["properties"].items():
        yield _row(schema, f"{prefix}{key}", entry)
        inner = [r for r in _references(entry) if r not in seen]
        if len(inner) > 1 and f"{prefix}{key}" != "prompt":
            continue  # distributions of lengths
        inside = f"{prefix}{key}{'[]' if entry.get('type') == 'array' else ''}."
        for target in inner:
            yield from _all_rows(schema, target, inside, seen + target)


def _references(entry: Schema) -> Iterator[str]:
    if "$ref" in entry:
        yield entry["$ref"]
    for word in ("anyOf", "oneOf"):
        for member in entry.get(word, ()):
            yield from _references(member)
    for word in ("items", "additionalProperties"):
        if isinstance(entry.get(word), dict):
            yield from _references(entry[word])


def _row(schema: Schema, key: str, entry: Schema) -> list[str]:
    default = "" if "default" not in entry else f"`{_toml(entry['default'])}`"
    about = _sentence(entry.get("description", "")) or _about(schema, entry)
    return [f"`{key}`", default, entry.get("x-unit", ""), _range(entry), about]


def _about(schema: Schema, entry: Schema) -> str:
    found = next(_references(entry), None)
    return _sentence(schema["$defs"][found.rpartition("/")[2]]["description"]) if found else ""


def _range(entry: Schema) -> str:
    """Return what a value may be, in a few words."""
    for word in ("anyOf", "oneOf"):
        if word in entry:
            return " or ".join(dict.fromkeys(filter(None, map(_range, entry[word]))))
    if "const" in entry:
        return f"`{_toml(entry['const'])}`"
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    kinds = {
        "integer": "integer", "number": "number", "boolean": "`true`, `false`", "string": "text",
        "array": "list", "object": "table",
    }  # fmt: skip
    if "$ref" in entry:
        return "table"
    words = kinds.get(entry.get("type", ""), "")
    if entry.get("pattern", "").endswith(r"\.toml$"):
        return "a file `*.toml`"
    low, above = entry.get("minimum"), entry.get("exclusiveMinimum")
    high, below = entry.get("maximum"), entry.get("exclusiveMaximum")
    parts = [f"from {low:,.12g}" if low is not None and above is None else ""]
    parts += [f"above {above:,.12g}" if above is not None and low is None else ""]
    parts += [f"from {low:,.12g}" if above is not None and low is not None else ""]
    parts += [f"to {high:,.12g}" if high is not None else ""]
    parts += [f"below {below:,.12g}" if below is not None else ""]
    return " ".join([words, *filter(None, parts)])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(part)}" for key, part in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') or not text else '.'}"


def _table(rows: list[list[str]]) -> Iterator[str]:
    yield "{.keys}"
    yield "| key | default | unit | values | meaning |"
    yield "|---|---|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def variables() -> Iterator[str]:
    """Yield the reference of all variables of a store."""
    yield "# Variables of a store\n"
    yield "Every variable has the dimensions of the grid, and those named here. A cell whose"
    yield "`status` is not `ok` has no value of any. In brackets: rules, or service levels, without"
    yield "which there is no such variable.\n"
    yield "| variable | dimensions | type | unit | meaning |"
    yield "|---|---|---|---|---|"
    yield "| `status` | | str | | How the simulation of the cell ended. |"
    yield "| `status_detail` | | str | | Why it did not end well. |"
    for name, found in VARIABLES.items():
        unit = "" if found.units == "1" else found.units
        needs = f" ({', '.join(found.rules)})" if len(found.rules) == 1 else ""
        needs += f" ([slo]: {' or '.join(found.levels)})" if found.levels else ""
        dims = ", ".join(f"`{dim}`" for dim in found.dims)
        about = f"{_sentence(found.long_name)[:-1]}{needs}."
        yield f"| `{name}` | {dims} | {found.dtype} | {unit} | {about} |"
    yield "\n## Dimensions\n"
    yield "| dimension | meaning |"
    yield "|---|---|"
    for name, about in DIMENSIONS.items():
        yield f"| `{name}` | {_sentence(about)} |"


def help_pages() -> Iterator[str]:
    """Yield the help of all commands."""
    yield "# Commands\n"
    yield "What `kvsweep COMMAND --help` prints. Exit codes: 0 all well, 1 cells that did not"
    yield "complete or a bug, 2 wrong input or a machine without memory or room, told in a line.\n"
    yield from _help(commands, ["kvsweep"])


def _help(command: click.Command, words: list[str]) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(words), max_content_width=96)
    context.terminal_width = 96
    yield f"## {' '.join(words)}\n"
    yield f"```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _help(command.commands[name], [*words, name])


def python() -> Iterator[str]:
    """Yield the reference of the public functions, which Sphinx fills in."""
    yield "# Python\n"
    yield "Names of `kvsweep` are imported on first use. In a table:"
    yield "[what each is for](../docs/api.md)."
    for module, title in ((kvsweep, "kvsweep"), (kvsweep.plot, "kvsweep.plot")):
        yield f"\n## {title}\n"
        for name in sorted(module.__all__, key=str.lower):
            value = getattr(module, name)
            kind = "autoexception" if isinstance(value, type) else "autofunction"
            yield f"### {name}\n\n```{{eval-rst}}\n.. {kind}:: {title}.{name}\n```\n"
