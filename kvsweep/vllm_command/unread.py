"""Files that start vLLM and are not read, by what to give in their place."""

from __future__ import annotations

import re
from pathlib import PurePath

from kvsweep.vllm_command.options import is_name

_REMEDY = "give the command that it makes, or --log of the server's start"
_CODE = re.compile(r"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*(\"\"\"|'''|import |from [\w.]+ import )")
_PYTHON = re.compile(r"#![^\n]*\bpython")
_FRAMEWORKS = (
    ("modal", "a Modal app"),
    ("bentoml", "a BentoML service"),
    ("ray", "a Ray application"),
    ("sky", "a SkyPilot program"),
)
_KEY = re.compile(r"^([A-Za-z][\w-]*)[ \t]*:", re.MULTILINE)
_HCL = re.compile(
    r"^(?:(?:resource|data|provider|module|variable|job)[ \t]+\"[^\"\n]*\"[^\n{]*"
    r"|(?:terraform|locals)[ \t]*)\{",
    re.MULTILINE,
)


def why_never_read(text: str, where: str) -> str | None:
    r"""Say what a file is that is a program; None: it may be read.

    Parameters
    ----------
    text : str
        The file.
    where : str
        Its name.

    Examples
    --------
    >>> print(why_never_read("import modal\n", "app.py"))  # doctest: +ELLIPSIS
    a Modal app is Python, which is not read: give the command that it makes, or --log ...
    """
    name = PurePath(where).name.lower()
    if name.endswith(".ipynb"):
        return f"a notebook is not read: {_REMEDY}"
    code = _CODE.match(text) is not None and not text.startswith("#!")
    if not (name.endswith(".py") or _PYTHON.match(text) or code):
        return None
    pattern = r"^\s*(?:import|from)[ \t]+{}\b"
    kinds = (kind for word, kind in _FRAMEWORKS if re.search(pattern.format(word), text, re.M))
    kind = next(kinds, None)
    return f"{f'{kind} is ' if kind else ''}Python, which is not read: {_REMEDY}"


def why_not_found(text: str, where: str) -> str | None:
    """Say what a file is in which no command was found; None: nothing known.

    Parameters
    ----------
    text : str
        The file.
    where : str
        Its name.
    """
    name = PurePath(where).name.lower()
    if name.endswith((".tf", ".hcl", ".nomad")) or _HCL.search(text):
        return f"Terraform, or another file of HCL, is not read: {_REMEDY}"
    if name in ("chart.yaml", "chart.yml"):
        return "has a chart's name only: give its values, or what `helm template` makes of it"
    keys = _KEY.findall(text) if name.endswith((".yaml", ".yml")) else []
    if keys and all(is_name(f"--{key.replace('_', '-')}") for key in keys):
        return "options of vLLM: give the command that reads them, as `vllm serve --config FILE`"
    return None
