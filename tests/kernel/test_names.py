"""Arguments of the kernel's functions are called and ordered as kernel/__init__.py promises."""

import ast

import pytest
from sources import functions

ORDER = ("inp", "ws", "out", "lane", "inst", "tally", "index")
RECORDS = {"lane", "inst", "tally", "request", "progress"}
"""Arguments that are records: their fields are read, they are no positions."""


def parameters(function):
    """Return the names of a function's arguments."""
    return [argument.arg for argument in function.args.args]


def subscripts(function, name):
    """Yield what `name` is subscripted with in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", None) == name:
            yield node.slice


def terms(node):
    """Return the names whose values an index adds up, but not the records it reads."""
    if isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        return set()  # what a call returns is named by its function
    if isinstance(node, ast.Name):
        return {node.id}
    return set().union(*map(terms, ast.iter_child_nodes(node)))


def indices(function, arrays=None):
    """Yield the names in each index of a function; `arrays`: of these fields of `ws` and `inp`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and (
            arrays is None or getattr(node.value, "attr", "") in arrays
        ):
            yield terms(node.slice)


ALL = [(f"{path.parent.name}/{path.name}: {item.name}", item) for path, item, _ in functions()]


@pytest.mark.parametrize("function", [item for _, item in ALL], ids=[name for name, _ in ALL])
def test_arguments_come_in_the_promised_order(function):
    given = [name for name in parameters(function) if name in ORDER]
    assert given == [name for name in ORDER if name in given]
    assert parameters(function)[: len(given)] == given


@pytest.mark.parametrize("function", [item for _, item in ALL], ids=[name for name, _ in ALL])
def test_records_are_records_and_positions_positions(function):
    """``request`` is a REQUEST, ``r`` its position; ``index`` is that of an instance."""
    for name in RECORDS & set(parameters(function)):
        fields = [getattr(item, "value", None) for item in subscripts(function, name)]
        assert all(isinstance(field, str) for field in fields), f"{name} is used as an array"
        assert all(name not in index for index in indices(function)), f"{name} is a position"
    if "r" in parameters(function):
        assert not list(subscripts(function, "r")), "r is a position, not a record"
    if "index" in parameters(function):
        lists = {"running", "due", "requests", "progress", "keys", "table"}
        assert all("index" not in index for index in indices(function, lists))
