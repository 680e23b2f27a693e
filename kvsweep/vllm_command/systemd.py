"""Units of systemd, which are read as scripts: what of their lines does not hold."""

from __future__ import annotations

import re

_REMARK = re.compile(r"(?m)^[ \t]*;(?!;).*$")  # `;;` ends a case of a shell
_RESET = re.compile(r"(?m)^[ \t]*ExecStart=[ \t]*\r?$")
_START = re.compile(r"(?m)^[ \t]*ExecStart=(?:.*\\\r?\n)*.*$")


def without_what_is_taken_back(text: str) -> str:
    r"""Return a text without remarks of units, and without commands that an empty one resets.

    Parameters
    ----------
    text : str
        A script, or a unit, maybe with what overrides it behind.

    Examples
    --------
    >>> without_what_is_taken_back("ExecStart=vllm serve a\nExecStart=\nExecStart=vllm serve b")
    '\n\nExecStart=vllm serve b'
    >>> without_what_is_taken_back("; ExecStart=vllm serve a\nExecStart=vllm serve b")
    '\nExecStart=vllm serve b'
    """
    text = _REMARK.sub("", text)
    resets = list(_RESET.finditer(text))
    if not resets:
        return text
    end = resets[-1].end()
    return _START.sub("", text[:end]) + text[end:]
