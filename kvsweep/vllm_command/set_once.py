"""Variables of a script of the shell: which it sets once and for all, and their values put in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# In double quotes, and bare. Nothing is put in in single quotes, unless these are in double ones.
_IN_DOUBLE = r"\\.|\$\{([A-Za-z_]\w*)(?::-[^{}]*)?\}|\$([A-Za-z_]\w*)"
_WITHIN = re.compile(_IN_DOUBLE, re.DOTALL)
_USED = re.compile(rf"{_IN_DOUBLE}|'[^']*'|\"((?:\\.|[^\"\\])*)\"", re.DOTALL)
# What gives a variable a value: N=1, N+=1, ((N*=2)), for N in, read N, unset N. --n=1 does not.
_GIVEN = re.compile(r"(?<![\w$-])([A-Za-z_]\w*)(?:[-+*/%]?=|\+\+)")
_TAKEN = re.compile(
    r"\b(?:for|select|read|unset|mapfile|readarray|getopts|printf[ \t]+-v)\b([^\n;&|]{0,99})"
)
_NAME = re.compile(r"(?<![\w$])[A-Za-z_]\w*")
_WORDS = re.compile(r"[\w@%+=:,./ -]*")
"""Values that the shell takes as they are."""

# A table of JSON, without what a shell puts in, or takes for a quote.
_TABLE = re.compile(r"\s*\{[^$`']*\}\s*", re.DOTALL)
# Where variables stand: in double quotes, or bare. Nothing is put in in single quotes.
_PLACES = re.compile(
    r"'[^']*'|\"(?P<inside>(?:\\.|[^\"\\])*)\"|\\."
    r"|\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<bare>[A-Za-z_]\w*))",
    re.DOTALL,
)
_INSIDE = re.compile(r"\\.|\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.DOTALL)
# What a shell would take apart, or for names of files.
_TAKEN_APART = re.compile(r"[\s*?\[]")
_ESCAPED = re.compile(r"\\([\\\"$`])")

# NAME=VALUE, as the whole of a command.
_SETTING = re.compile(
    r"[ \t]*(?:(?:export|readonly|declare|typeset)[ \t]+(?:-\w+[ \t]+)*)?(?P<name>[A-Za-z_]\w*)="
    r"(?:\"(?P<double>(?:\\.|[^\"\\])*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'#;&|()]+))"
    r"[ \t]*(?:;|&&|\r?$)"
)
# From here on a line may run never, often, or elsewhere.
_BRANCHES = re.compile(
    r"[ \t]*(?:(?:if|for|while|until|case|select|function|exit|return|cat|trap)\b|[{(]"
    r"|\w+[ \t]*\(\))"
)
# Other scripts set what they like; those of virtual environments set nothing of these.
_OTHERS = re.compile(
    r"(?:^|[;&|\n])[ \t]*(?:source|\.|eval)[ \t]+(?!\S*/(?:activate|conda\.sh)\b|\"\$\(\S*conda\b)"
)
# What goes on in the next line, and a text in quotes.
_GOES_ON = re.compile(r"(?:\\|(?<=&&)[ \t]*|(?<=\|)[ \t]*)\r?\n")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_COMMAND = re.compile(r"vllm[ \t]+serve\b|vllm\.entrypoints")
# Wherever it stands, as another shell may read what is in quotes.
_ASKED = re.compile(r"\$\{?([A-Za-z_]\w*)")


def times_set(script: str) -> Counter[str]:
    """Return how often a script gives variables values, by name.

    Examples
    --------
    >>> found = times_set("TP=2; read -r TP; vllm serve m --tp=$TP")
    >>> found["TP"], found["tp"]
    (2, 0)
    """
    found = Counter(_GIVEN.findall(script))
    for taken in _TAKEN.findall(script):
        found.update(set(_NAME.findall(taken)))
    return found


def runs_others(script: str) -> bool:
    """Return whether a script reads another one, which sets what it likes."""
    return _OTHERS.search(script) is not None


def is_plain(value: str) -> bool:
    """Return whether a value is the same in a script, quoted or not."""
    return _WORDS.fullmatch(value) is not None


def put_in(script: str, values: Mapping[str, str]) -> str:
    """Put values in for variables where the shell would.

    Parameters
    ----------
    script : str
        A script.
    values : mapping of str to str
        By name; all others stay as they are.

    Examples
    --------
    >>> put_in("vllm serve $M '$M' ${M:-b} $N", {"M": "a"})
    "vllm serve a '$M' a $N"
    """

    def put(found: re.Match[str]) -> str:
        return values.get(found[1] or found[2], found[0])

    def place(found: re.Match[str]) -> str:
        return put(found) if found[3] is None else f'"{_WITHIN.sub(put, found[3])}"'

    return _USED.sub(place, script)


def set_once(script: str) -> dict[str, str]:
    r"""Return the variables that a script sets once, at its beginning, to words that are plain.

    What is used before it is set has another value there, and is left out.

    Parameters
    ----------
    script : str
        Without its comments.

    Examples
    --------
    >>> set_once("export M=a/b\nTP=2\nif [ $1 ]; then TP=4; fi\nP=1\nvllm serve $M")
    {'M': 'a/b'}
    """
    return _set_at_the_beginning(script)[0]


def tables_set_once(script: str) -> dict[str, str]:
    r"""Return the variables that a script sets once, at its beginning, to a table of JSON.

    Parameters
    ----------
    script : str
        Without its comments.

    Examples
    --------
    >>> tables_set_once("KT='{\"kv_role\": 1}'; vllm serve m")
    {'KT': '{"kv_role": 1}'}
    """
    return _set_at_the_beginning(script)[1]


def put_tables_in(script: str, tables: Mapping[str, str]) -> str:
    r"""Put tables of JSON in for variables where the shell would, as one word.

    Parameters
    ----------
    script : str
        A script.
    tables : mapping of str to str
        By name; all others stay as they are, and so does what the shell would take apart.

    Examples
    --------
    >>> print(put_tables_in('vllm serve m --kv "$T" --kv $T', {"T": '{"a": 1}'}))
    vllm serve m --kv "{\"a\": 1}" --kv $T
    """

    def escaped(found: re.Match[str]) -> str:
        value = tables.get(found[1] or found[2])
        return found[0] if value is None else re.sub(r"([\\\"])", r"\\\1", value)

    def put(found: re.Match[str]) -> str:
        if (inside := found["inside"]) is not None:
            runs = "$(" in inside or "`" in inside
            return found[0] if runs else f'"{_INSIDE.sub(escaped, inside)}"'
        value = tables.get(found["braced"] or found["bare"])
        return found[0] if value is None or _TAKEN_APART.search(value) else f"'{value}'"

    return _PLACES.sub(put, script)


def _set_at_the_beginning(script: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that are set once, to plain words and to tables."""
    found: dict[str, str] = {}
    tables: dict[str, str] = {}
    used: set[str] = set()
    if runs_others(script):
        return found, tables
    times = times_set(script)
    joined = _GOES_ON.sub(" ", _QUOTED.sub(lambda text: text[0].replace("\n", "\0"), script))
    for line in joined.split("\n"):
        if _BRANCHES.match(line):
            break
        while told := _SETTING.match(line):
            line = line[told.end() :]
            value = _value(told, found)
            once = times[told["name"]] == 1 and told["name"] not in used
            if value and once and is_plain(value) and not _COMMAND.search(value):
                found[told["name"]] = value
            elif once and _TABLE.fullmatch(value) and not _COMMAND.search(value):
                double = told["double"] is not None
                table = _ESCAPED.sub(r"\1", value) if double else value
                tables[told["name"]] = table.replace("\0", "\n")
            used.update(_ASKED.findall(told[0]))
        used.update(_ASKED.findall(line))
    return found, tables


def _value(told: re.Match[str], known: Mapping[str, str]) -> str:
    """Return what is set, with values of others put in."""
    if told["single"] is not None:
        return told["single"]
    if told["double"] is not None:
        return put_in(f'"{told["double"]}"', known)[1:-1]
    return put_in(told["bare"], known)
