"""The sources of the kernel, as syntax trees."""

import ast
from pathlib import Path

import kvsweep

KERNEL = Path(kvsweep.__file__).parent / "kernel"


def functions():
    """Yield (path, function, names of its decorators) of all functions of the kernel."""
    for path in sorted(KERNEL.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                decorators = {getattr(item, "id", "") for item in node.decorator_list}
                yield path, node, decorators
