"""Scripts of pages: modules of JavaScript, joined to one, as a file without a server needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)


def joined(modules: Iterable[str]) -> str:
    r"""Return modules one after the other, without their imports of each other.

    Examples
    --------
    >>> joined(["export const a = 1;\n", 'import { a } from "./a.js";\nuse(a);\n'])
    'export const a = 1;\n\nuse(a);\n'
    """
    return "\n".join(_IMPORT.sub("", module) for module in modules)
