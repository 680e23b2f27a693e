"""The command that starts a server, in a line or a script of the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvsweep.errors import InputError, clip, escaped
from kvsweep.limits import MAX_SCRIPT_CHARACTERS
from kvsweep.vllm_command.pieces import refuse_more, refuse_pieces
from kvsweep.vllm_command.release import Release, release_of
from kvsweep.vllm_command.set_once import put_in, put_tables_in, set_once, tables_set_once
from kvsweep.vllm_command.systemd import without_what_is_taken_back

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OF_VLLM = re.compile(r"\b(VLLM_\w+)=")
_IMAGE = re.compile(r"(?:[\w.:-]+/)+vllm-openai(?:-\w+)*(?::[\w.-]+)?(?:@\S+)?")
_SERVER = "vllm.entrypoints.openai.api_server"
_CLI = "vllm.entrypoints.cli.main"
_DEMONSTRATION = "vllm.entrypoints.api_server"
# A comment, or what may hold anything that ends a command.
_OPAQUE = re.compile(
    r"(?:(?<=\s)|^)#[^\n]*|'[^']*'|\"(?:\\.|[^\"\\])*\"|\\[^\n]"
    r"|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^{}]*\}|`[^`]*`",
    re.DOTALL | re.MULTILINE,
)
# echo "..." > start.sh, or | bash
_WRITTEN = re.compile(
    r"(?:^|(?<=[\n;&|]))[ \t]*(?:echo|printf)[ \t]+(?:-\w+[ \t]+){0,3}"
    r"(\"(?:\\.|[^\"\\])*\"|'[^']*'|(?:[^\s;&|<>\"'][^\n;&|<>\"']*)?[^\s;&|<>\"'])[ \t]*"
    r"(?:>>?[ \t]*[^\s;&|]+|\|[ \t]*(?:sudo[ \t]+)?(?:(?:ba|da|z)?sh|tee)\b[^\n;&|]*)"
)
_BEGINS = re.compile(
    r"(?:#![^\n]*\n|\s)*(?:(?:exec|nohup|sudo|env|[A-Za-z_]\w*=\S*)\s+)*"
    r"(?:\S*/)?(?:vllm\s+serve|python3?\s+-m\s+vllm|docker\s+run)\s"
)
_PLACE = re.compile("\0(\\d+)\0")
# Streams: `> log`, `2>&1`, `&> log`, `< /dev/null`.
_STREAM = re.compile(r"(?:\d+|&)?(?:>>?|<)(?:&\d|[ \t]*[^\s;&|]+)")
# NAME=(vllm serve ...), over lines.
_ARRAY = re.compile(r"=\([^()]*\)")
_END = re.compile(r"\n|[;()]|&&|\|\||\||&")
# Outside of single quotes, unless these are in double ones.
_IN_DOUBLE = r"\\.|\$(?=[\w{(@*])|`"
_WITHIN = re.compile(_IN_DOUBLE, re.DOTALL)
_DOLLAR = re.compile(rf"'[^']*'|\"(?:\\.|[^\"\\])*\"|{_IN_DOUBLE}", re.DOTALL)
_RUN = ("run", "create")
# What may stand before a program: `if ! pgrep ...`, `sudo pkill ...`.
_BEFORE = ("if", "while", "until", "then", "do", "else", "!", "sudo", "exec")
# What has a command in its words and does not run it.
_NOT_RUN = ("echo", "printf", "which", "type", "logger", "grep", "pgrep", "pkill")
_INSIDE = re.compile(r"vllm serve |vllm\.entrypoints\.(?:(?:openai\.)?api_server|cli\.main serve) ")
# Of Markdown: what is around a command that a page shows, to the shell quotes of a command.
_FENCE = re.compile(r"^[ \t]*```+[\w-]*[ \t]*\r?$", re.MULTILINE)
# Of Windows' shells: what joins lines, as a backslash does elsewhere.
_JOINED = re.compile(r"(?<=[ \t])[`^][ \t]*\r?\n")
# for GPU in 0 1 2; do vllm serve ... &
_LOOP = re.compile(r"(?:^|[\n;&|])[ \t]*for[ \t]+\w+[ \t]+in\b")
_LOOPED = re.compile(r"vllm\s+serve\s|vllm\.entrypoints\.|/vllm-openai")
# Lines that may say something of a server though they do not name it.
_KEPT = re.compile(r"\s*(?:[\"']*-|export\s|[A-Za-z_]\w*=)")
VARIABLE = "\ue000"
"""Stands in words where the shell would put in the value of a variable or of a command."""

NO_COMMAND = (
    "no command that starts vLLM: expected `vllm serve MODEL ...`, `python -m "
    "vllm.entrypoints.openai.api_server ...` or `docker run ... vllm/vllm-openai ...`, or a "
    "manifest of Kubernetes, KServe, Compose or Ray Serve with one"
)
ONLY_AN_IMAGE = (
    "an image that nothing runs; a part of a manifest: give the whole, with `kind` or `services`; "
    "of a Helm chart what `helm template` makes of it; else `docker run ... IMAGE ...`"
)


class Started(NamedTuple):
    """What starts a server.

    Attributes
    ----------
    words : list of str
        What follows ``vllm serve``, or what else starts it.
    by_module : bool
        Whether that is the module of vLLM's server, whose parser has all options itself; of
        ``vllm serve`` a part of it has.
    before : list of str
        What stands before, as ``docker run --gpus all IMAGE``.
    variables : dict of str to str
        What is set in front of it.
    release : Release or None
        That of the image it runs in, or of what is installed before; None: not told.
    """

    words: list[str]
    by_module: bool
    before: list[str]
    variables: dict[str, str]
    release: Release | None


class _Run(NamedTuple):
    """A command: its words, where the options of its server begin, and what runs it."""

    words: list[str]
    start: int | None
    around: tuple[str, ...] = ()


def server_of(words: Sequence[str], where: str) -> Started:
    """Return the words after what starts the server, and the variables that are set.

    Parameters
    ----------
    words : sequence of str
        Of a command, or one text with one.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it starts none, or several.
    """
    found = servers_of(words, where)
    if len(found) > 1:
        raise InputError(f"{where}: starts {len(found)} servers; give the command of one")
    return found[0]


def servers_of(words: Sequence[str], where: str) -> list[Started]:
    """Return what starts each of the servers, as `server_of` returns that of one.

    Parameters
    ----------
    words, where
        As `server_of` takes them.

    Raises
    ------
    InputError
        If they start none.
    """
    commands = list(_commands(words, where))
    if len(words) == 1 and all(each.start is None for each in commands):
        commands = list(_commands([_as_written(words[0])], where)) or commands
    variables: dict[str, str] = {}
    release: Release | None = None
    found: list[Started] = []
    for number, (command, at, around) in enumerate(commands):
        # What follows a server is not its own, but of a service, whose lines have no order.
        own = not _with_api(found) or command[0].lower().startswith("environment=")
        for word in command[:at] if own else ():
            variables |= dict.fromkeys(_OF_VLLM.findall(word), "")
            release = release_of(word) or release
            if each := _ASSIGNMENT.fullmatch(word):
                variables[each[1]] = each[2]
        if at is not None:
            _refuse_folding([each.words for each in commands[number + 1 :]], where)
            by_module, before = command[at - 1] == _SERVER, [*around, *command[:at]]
            found.append(Started(command[at:], by_module, before, variables, release))
    if not found:
        raise InputError(f"{where}: {_why_none(commands)}")
    return _with_api(found) or found


def _with_api(servers: list[Started]) -> list[Started]:
    """Return the servers that answer requests: other nodes of one have no API."""
    return [each for each in servers if "--headless" not in each.words]


def _why_none(commands: list[_Run]) -> str:
    for command, _, _ in commands:
        if _DEMONSTRATION in command:
            return f"{_DEMONSTRATION}: has defaults of its own: expected `vllm serve`"
        if (at := _image(command)) is not None:
            return f"{unmarked(command[at])}: {ONLY_AN_IMAGE}"
    return NO_COMMAND


def is_in_a_loop(text: str) -> bool:
    """Return whether a text starts its server again and again, as one on each GPU.

    Examples
    --------
    >>> is_in_a_loop("for i in 0 1; do vllm serve m --port 800$i & done"), is_in_a_loop("for a in")
    (True, False)
    """
    parts = re.split(r"\bdone\b", without_comments(text))
    begins = ((part, _LOOP.search(part)) for part in parts)
    return any(found and _LOOPED.search(part, found.end()) for part, found in begins)


def starts_server(words: Sequence[str], where: str) -> bool:
    """Return whether words, or one text with commands, start a server, be it one not to be read."""
    try:
        commands = list(_commands(words, where))
    except InputError:
        return True  # `server_of` says what is wrong, if it is the one that is asked for
    return any(each.start is not None for each in commands)


def unmarked(word: str) -> str:
    """Return a word as messages have it, with what stands for variables of the shell."""
    return clip(escaped(word.replace(VARIABLE, "$")))


def is_image(name: str) -> bool:
    """Return whether an image is vLLM's own, which starts a server unless told otherwise.

    Examples
    --------
    >>> is_image("vllm/vllm-openai:v0.33.0"), is_image("nginx:1.29")
    (True, False)
    """
    return _IMAGE.fullmatch(name) is not None


def _refuse_folding(following: list[list[str]], where: str) -> None:
    """Refuse options on a line of their own: the shell does not join lines, manifests may."""
    if following and re.match(r"--?[A-Za-z]", following[0][0]):
        raise InputError(
            f"{where}: {unmarked(following[0][0])}: begins a line, and the one before it ends "
            "without a backslash, or with a blank or in a comment; put the command on one line"
        )


def _commands(words: Sequence[str], where: str) -> Iterator[_Run]:
    """Yield the command, or those of one text, that may say something of a server."""
    yield from _of_text(words[0], where) if len(words) == 1 else _of_words(list(words), where)


def _of_text(text: str, where: str) -> Iterator[_Run]:
    if len(text) > MAX_SCRIPT_CHARACTERS:
        most = f"a script has at most {MAX_SCRIPT_CHARACTERS:,}"
        raise InputError(f"{where}: {len(text):,} characters; {most}")
    text = without_what_is_taken_back(_FENCE.sub("", text))
    if text.count("`") == sum(found[0][0] == "`" for found in _JOINED.finditer(text)):
        text = _JOINED.sub("\\\n", text)
    plain = without_comments(text)
    refuse_pieces(plain.replace("\\\n", " "), where)
    constants, tables = set_once(plain), tables_set_once(plain)
    if constants or tables:
        text = put_tables_in(put_in(plain, constants), tables)
    for line in _lines(text):
        if not ("vllm" in line or _KEPT.match(line)):
            continue
        try:
            words = shlex.split(_DOLLAR.sub(_mark, line))
        except ValueError as error:
            told = f"{unmarked(' '.join(line.split()))}: {str(error).lower()}"
            raise InputError(f"{where}: {told}") from None
        yield from _of_words(words, where)


def _of_words(words: list[str], where: str) -> Iterator[_Run]:
    """Yield a command, and those of a text in it: sh -c "vllm serve ..."."""
    inside = next((at for at, word in enumerate(words) if _INSIDE.search(word)), None)
    if _by_name(words[:inside]) is not None:  # the text is a value, as of --chat-template
        inside = None
    if _only_named(words[:inside]):
        return
    if inside is None:
        if words:
            yield _Run(words, _start(words))
        return
    refuse_more([word.replace(VARIABLE, "$") for word in words[inside + 1 :]], where)
    around = words[:inside]
    if around:
        yield _Run(around, None)
    for each in _of_text(words[inside], where):
        yield each._replace(around=(*around, *each.around))


def _as_written(text: str) -> str:
    """Return a script with what it prints into another, or to a shell, as commands of its own."""

    def put(found: re.Match[str]) -> str:
        printed = found[1].strip()
        quoted = printed[:1] in "\"'" and printed.endswith(printed[0]) and len(printed) > 1
        inner = (printed[1:-1] if quoted else printed).replace("\\n", "\n")
        return f"\n{inner}\n" if _BEGINS.match(inner) else found[0]

    return _WRITTEN.sub(put, text)


def _lines(text: str) -> Iterator[str]:
    """Yield each command of a text, without comments and streams; a backslash joins lines."""
    opaque: list[str] = []

    def place(found: re.Match[str]) -> str:
        if found[0].startswith("#"):
            return ""
        unknown = found[0][0] in "$`"
        opaque.append(f"{VARIABLE}{found[0][1:2]}...{found[0][-1]}" if unknown else found[0])
        return f"\0{len(opaque) - 1}\0"

    text = text.replace("\0", "").replace("\r\n", "\n")
    text = _OPAQUE.sub(place, text).replace("\\\n", " ")
    text = _ARRAY.sub(lambda found: found[0].replace("\n", " "), text)
    for line in _END.split(_STREAM.sub(" ", text)):
        yield _PLACE.sub(lambda found: opaque[int(found[1])], line)


def without_comments(text: str) -> str:
    """Return a script without its comments."""
    return _OPAQUE.sub(_uncommented, text)


def _uncommented(found: re.Match[str]) -> str:
    return "" if found[0].startswith("#") else found[0]


def _mark(found: re.Match[str]) -> str:
    if found[0][0] == '"':
        return f'"{_WITHIN.sub(_mark_within, found[0][1:-1])}"'
    return VARIABLE if found[0] in "$`" else found[0]


def _mark_within(found: re.Match[str]) -> str:
    """Mark what is in double quotes; `shlex` would keep backslashes before dollars there."""
    return found[0][1] if found[0] in ("\\$", "\\`") else _mark(found)


def _only_named(words: list[str]) -> bool:
    """Return whether what follows these words is named by them, not run."""
    first = next((_program(word) for word in words if word not in _BEFORE), None)
    return first in _NOT_RUN


def _program(word: str) -> str:
    """Return the program of a word, also of ``ExecStart=/usr/bin/vllm`` and Make's ``@vllm``."""
    return word.rpartition("/")[2].rpartition("=")[2].lstrip("@")


def _start(words: list[str]) -> int | None:
    """Return where the options of a server begin; None if these words start none."""
    if "pull" in words[:3]:
        return None
    if (named := _by_name(words)) is not None:
        return named
    image = _image(words) if (dashes := _in_pod(words)) is None else dashes
    if image is None or not any(word in _RUN or VARIABLE in word for word in words[:image]):
        return None
    return image + 2 if words[image + 1 : image + 2] == ["serve"] else image + 1


def _in_pod(words: list[str]) -> int | None:
    """Return where ``--`` is, behind which ``kubectl run --image=IMAGE`` has its server's words."""
    at = words.index("--") if "--" in words else 0
    runs = any(_program(word) in ("kubectl", "oc") for word in words[:at])
    images = (word.removeprefix("--image=") for word in words[:at])
    return at if runs and "--command" not in words[:at] and any(map(is_image, images)) else None


def _by_name(words: list[str]) -> int | None:
    """Return where options begin behind vLLM's own command; None if it is not there."""
    for at, word in enumerate(words):
        runs = _program(word) == "vllm" or word == _CLI
        if runs and words[at + 1 : at + 2] == ["serve"]:
            return at + 2
        if word == _SERVER:
            return at + 1
    return None


def _image(words: list[str]) -> int | None:
    """Return where vLLM's image is, which starts a server by itself; None if it is not there."""
    # Of Apptainer: docker://vllm/vllm-openai
    images = (at for at, word in enumerate(words) if is_image(word.removeprefix("docker://")))
    return next(images, None)
