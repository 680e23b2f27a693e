"""The options of ``vllm serve`` 0.33.0, and what each does to a simulation (``options.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from kvsweep.errors import InputError, clip, did_you_mean

RELEASE = "0.33.0"
"""The release whose options these are."""

MOST = 12
"""Names that a message has."""

_OPPOSITES = {"--enable-": "--disable-", "--disable-": "--enable-"}


class Option(NamedTuple):
    """An option.

    Attributes
    ----------
    name : str
        As vLLM's parser has it first.
    form : str
        What follows: nothing (``switch``), one word (``value``), one or more (``list``), one or
        none (``optional``).
    role : str
        ``key``: decides what is simulated. ``none``: nothing of it. ``times``, ``memory``: changes
        step times or the memory for the cache, which do not know of it. ``refused``: decides what
        is not simulated, unless it is one of `fine`.
    fine : tuple
        Values that change nothing.
    why : str
        Why it is refused.
    """

    name: str
    form: str
    role: str
    fine: tuple[Any, ...] = ()
    why: str = ""


@cache
def _table() -> dict[str, Any]:
    path = Path(str(resources.files("kvsweep"))) / "vllm_command" / "options.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def options() -> dict[str, Option]:
    """Return all options, by the name that vLLM has first."""
    table = _table()
    found = {
        name: Option(name, form, role)
        for role in ("key", "none", "times", "memory")
        for form, names in table[role].items()
        for name in names
    }
    for name, told in table["refused"].items():
        each = Option(f"--{name}", told["form"], "refused", tuple(told["fine"]), told["why"])
        found[each.name] = each
    return found


@cache
def _spellings() -> dict[str, tuple[Option, bool]]:
    """Return the option of each spelling, and whether a switch is on by it."""
    found = {}
    for name, option in options().items():
        found[name] = (option, True)
        if option.form != "switch":
            continue
        found[f"--no-{name.removeprefix('--')}"] = (option, False)
        for prefix, opposite in _OPPOSITES.items():
            if name.startswith(prefix):
                found[opposite + name.removeprefix(prefix)] = (option, False)
    for other, name in _table()["names"].items():
        found[other] = (options()[name], True)
    return found


def is_name(word: str) -> bool:
    """Return whether an option has this name, letter by letter.

    Examples
    --------
    >>> is_name("--no-async-scheduling"), is_name("--no-async_scheduling")
    (True, False)
    """
    return word in _spellings()


def listed(names: Sequence[str]) -> str:
    """Return names as messages have them, the first if there are many."""
    more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
    return ", ".join(map(clip, names[:MOST])) + more


def find_option(word: str, where: str) -> tuple[Option, bool]:
    """Return an option, and whether a switch is on by this spelling.

    Parameters
    ----------
    word : str
        As it is written, without a value; vLLM takes underscores for dashes, and the beginning of
        a name for the whole of it if there is one such name.
    where : str
        What it is a part of, for messages.

    Raises
    ------
    InputError
        If there is none.

    Examples
    --------
    >>> option, on = find_option("--no_enable_prefix_caching", "the command")
    >>> option.name, option.role, on
    ('--enable-prefix-caching', 'key', False)
    """
    name = word.replace("_", "-") if word.startswith("--") else word
    known = _spellings()
    if name in known:
        return known[name]
    begun = [each for each in known if name.startswith("--") and each.startswith(name)]
    if begun and len({known[each] for each in begun}) == 1:
        return known[begun[0]]
    told = f"begins {listed(sorted(begun))}" if begun else f"no option of vLLM {RELEASE}"
    short = name[1:].rstrip(":").lower()  # --tp, and `--tp: 3` of YAML
    if not begun and short in known:
        hint = f"; did you mean {short!r}, {known[short][0].name}?"
    else:
        hint = "" if begun else did_you_mean(name, [each for each in known if each[:2] == "--"])
    raise InputError(f"{where}: {clip(word)}: {told}{hint}; correct it, or leave it out")
