"""YAML, by PyYAML's safe loader; what that raises of odd values is an `InputError` as well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvsweep.errors import InputError, clip

# Of values as `!!int ""`, `!!bool x` and `!!timestamp x`, beside errors of YAML.
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
MAX_NODES = 300_000
"""Values of a document, those that aliases repeat counted as often."""

MAX_DEPTH = 1000
"""Brackets that are open at once."""

MAX_BITS = 1024
"""Of whole numbers; Python writes out none that is much longer."""


def parse_yaml(text: str, where: str, before: int = 0, *, strict: bool = False) -> Any:
    """Return the value of a document.

    Parameters
    ----------
    text : str
        The document.
    where : str
        The file.
    before : int
        Lines of the file before it.
    strict : bool
        Whether a key twice is refused, as by Kubernetes and Compose; else the last counts.

    Raises
    ------
    InputError
        If it is none.
    """
    if (deepest := max(_depths(text), default=0)) > MAX_DEPTH:  # PyYAML would take minutes
        raise InputError(f"{where}: no YAML: nested too deeply: {deepest:,} brackets")
    try:
        return _load(text, strict)
    except _error() as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f"line {before + mark.line + 1}: "
        told = getattr(error, "problem", None) or str(error)
    except _ODD as error:
        line, told = "", str(error)
        told = "nested too deeply" if isinstance(error, RecursionError) else f"odd value: {told}"
    raise InputError(f"{where}: {line}no YAML: {clip(' '.join(told.split()))}")


def _depths(text: str) -> Iterator[int]:
    """Yield how many brackets are open after each that opens."""
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        yield depth


def _error() -> type[Exception]:
    import yaml

    found: type[Exception] = yaml.YAMLError
    return found


def _load(text: str, strict: bool) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """Refuses aliases that are too much when written out, and if asked a key twice."""

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.sizes: dict[int, int] = {}

        def compose_node(self, parent: Any, index: Any) -> Any:
            again = self.check_event(yaml.AliasEvent)
            node = super().compose_node(parent, index)
            if again and id(node) not in self.sizes:
                told = "an alias inside of what it stands for"
                raise yaml.MarkedYAMLError(problem=told, problem_mark=node.start_mark)
            if not again:
                self.sizes[id(node)] = self._size(node)
            if self.sizes[id(node)] > MAX_NODES:
                told = f"aliases make more than {MAX_NODES:,} values of it"
                raise yaml.MarkedYAMLError(problem=told, problem_mark=node.start_mark)
            return node

        def _size(self, node: Any) -> int:
            if isinstance(node, yaml.MappingNode):
                parts = [part for pair in node.value for part in pair]
            else:
                parts = node.value if isinstance(node, yaml.SequenceNode) else []
            return 1 + sum(self.sizes[id(part)] for part in parts)

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value if strict else ():
                if key.value != "<<" and isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        told = f"{key.value}: is given twice"
                        raise yaml.MarkedYAMLError(problem=told, problem_mark=key.start_mark)
                    seen.add(key.value)
            return node

        def construct_yaml_int(self, node: Any) -> int:
            found: int = super().construct_yaml_int(node)
            if found.bit_length() > MAX_BITS:
                raise ValueError(f"an integer of {found.bit_length():,} bits")
            return found

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    return yaml.load(text, Loader=Loader)
