"""Compiled files that are cached by themselves take nothing of files that may change alone."""

import ast
from pathlib import Path

import pytest

import kvsweep.traces

FOLDER = Path(kvsweep.traces.__file__).parent
COMPILED = sorted(path for path in FOLDER.glob("*.py") if "@kernel" in path.read_text())


def test_there_are_compiled_files():
    assert [path.stem for path in COMPILED] == ["free_blocks", "stack"]


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.stem)
def test_a_compiled_file_imports_only_its_decorators(path):
    tree = ast.parse(path.read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert names == {"numpy", "kvsweep._jit"}
