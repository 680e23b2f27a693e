"""A container of a manifest: what it runs, with its variables put in, as a command of vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kvsweep.errors import InputError, clip, escaped, shown
from kvsweep.limits import MAX_SCRIPT_CHARACTERS
from kvsweep.vllm_command.release import release_of
from kvsweep.vllm_command.set_once import is_plain, put_in, times_set
from kvsweep.vllm_command.shell import VARIABLE, is_image, starts_server
from kvsweep.vllm_command.words import Command, read_command

ENTRY_POINT = ("vllm", "serve")
"""What the image vllm/vllm-openai runs its arguments with."""

_OF_KUBERNETES = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_OF_KSERVE = re.compile(r"\{\{\s*\.(\w+)[^{}]*\}\}")
LEAST_SECRET = 4
"""Characters of a value that is not written; shorter ones are numbers and words."""

_SHELLS = ("sh", "bash", "dash", "ash", "zsh")


@dataclass
class Container:
    """A container, or a service of Docker Compose.

    Attributes
    ----------
    where, name : str
        File, and what the container is called: ``NAME/CONTAINER``, or the service.
    words : list of str
        What it runs: its command, or the entry point of its image if that is known, and arguments.
    variables : dict of str to str
        Its environment, as far as the manifest tells.
    replicas : tuple of object and str, or None
        How many there are, as the manifest has it, and who says so.
    image : str
        Its image, or what is installed in it.
    router : tuple of str and str, or None
        What sends requests to its replicas, of ``cluster.routing``, and why; None: a Service.
    gpu : tuple of str and str, or None
        Its GPU, as of ``kvsweep blocks``, and who says so.
    notes : tuple of str
        What is not in its command.
    problem : str
        Why it cannot be read; empty: it can.
    """

    where: str
    name: str
    words: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    replicas: tuple[Any, str] | None = None
    image: str = ""
    router: tuple[str, str] | None = None
    gpu: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""

    def starts_server(self) -> bool:
        """Return whether it starts vLLM."""
        if self.problem:
            return True
        told = self._told()
        with self._hiding():
            return any("vllm" in word for word in told) and starts_server(told, self._called)

    @property
    def answers(self) -> bool:
        """Whether its server has an API, which other nodes of one have not."""
        return not any("--headless" in word for word in self.words)

    def command(self) -> Command:
        """Return the command that it runs.

        Raises
        ------
        InputError
            If it cannot be read, has an option that vLLM has not, or replicas are no number.
        """
        if self.problem:
            raise InputError(self.problem)
        with self._hiding():
            found = read_command(self._told(), self._called)
        found.variables = self.variables | found.variables
        found.release = found.release or release_of(self.image)
        if self.replicas is not None:
            count, why = self.replicas
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                told = f"{why}: {shown(count)}: expected a number of servers, 1 or more"
                raise InputError(f"{self._called}: {told}")
            found.replicas, found.replicated_by = count, why
        found.router, found.gpu, found.name = self.router, self.gpu, self.name
        found.notes += self.notes
        return found

    @contextmanager
    def _hiding(self) -> Iterator[None]:
        """Keep values of variables, which may be secret, out of what is refused."""
        try:
            yield
        except InputError as error:
            raise InputError(_without(self.variables, str(error))) from None

    @property
    def _called(self) -> str:
        return f"{self.where}: {clip(escaped(self.name))}"

    def _told(self) -> list[str]:
        """Return the words, or the one text of a script."""
        at = next((i for i, word in enumerate(self.words) if _is_shell(word)), None)
        if at is None or at > 2:  # below `env` or `tini --`
            return [_OF_KUBERNETES.sub(unknown, word) for word in self.words]
        rest = self.words[at + 1 :]
        scripts = (after for word, after in pairwise(rest) if re.fullmatch("-[a-z]*c[a-z]*", word))
        script = next(scripts, None)
        return self.words if script is None else [_of_shell(script, self.variables)]


def _without(variables: dict[str, str], text: str) -> str:
    """Return a message with the names of variables for their values, whole or cut short."""
    for name, value in variables.items():
        shown_as = escaped(value)
        text = text.replace(shown_as, f"$({name})") if len(shown_as) >= LEAST_SECRET else text
        for end in range(len(shown_as) - 1, LEAST_SECRET - 1, -1):
            text = text.replace(f"{shown_as[:end]}...", f"$({name})...")
    return text


def _is_shell(word: str) -> bool:
    return word.rpartition("/")[2] in _SHELLS


def unknown(found: re.Match[str]) -> str:
    """Return what stands for a variable of which only the shell knows the value."""
    name = next((group for group in found.groups() if group), None)
    return "$" if name is None else f"{VARIABLE}{{{name}}}"


def _of_shell(script: str, variables: dict[str, str]) -> str:
    """Put in what the shell would; what the script sets as well is not known."""
    times = times_set(script)
    told = {name: value for name, value in variables.items() if value}
    known = {name: value for name, value in told.items() if not times[name] and is_plain(value)}
    twice = {name: f"{VARIABLE}{name}" for name in told if times[name]}
    return put_in(script, known | twice)


def table(about: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a table of a manifest, empty if there is none."""
    found = about.get(key)
    return found if isinstance(found, dict) else {}


def settings(about: dict[str, Any], key: str, told: str) -> dict[str, Any]:
    """Return a table of settings, empty if there is none, of which nothing may be left out.

    Parameters
    ----------
    about : dict
        What has it.
    key : str
        Its name.
    told : str
        Where that is, for messages; empty: nowhere.

    Raises
    ------
    InputError
        If something else is there.
    """
    found = about.get(key)
    if found is not None and not isinstance(found, dict):
        where = f"{told}: " if told else ""
        raise InputError(f"{where}{key}: expected a table of settings, got {shown(found)}")
    return found or {}


def items(about: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the tables of a list of a manifest, none if there is no list."""
    found = about.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def name_of(document: dict[str, Any]) -> str:
    """Return the name of an object, or its kind."""
    return str(table(document, "metadata").get("name") or document.get("kind"))


def pod_containers(
    spec: dict[str, Any], name: str, where: str, replicas: tuple[Any, str] | None
) -> Iterator[Container]:
    """Yield the containers of a pod.

    Parameters
    ----------
    spec : dict
        What has ``containers``.
    name : str
        Of what the pod is of.
    where : str
        The file.
    replicas : tuple of object and str, or None
        How many pods there are, and who says so.
    """
    for each in items(spec, "containers"):
        yield pod_container(each, f"{name}/{each.get('name', 'container')}", where, replicas)


def pod_container(
    about: dict[str, Any], name: str, where: str, replicas: tuple[Any, str] | None
) -> Container:
    """Return a container of a pod, as `pod_containers` does."""
    variables = _env(about)
    command, args = (
        texts(about.get(key), f"{where}: {name}: {key}") for key in ("command", "args")
    )
    image = str(about.get("image", ""))
    if not command and is_image(image):
        command = list(ENTRY_POINT)

    words = [_filled(_OF_KSERVE.sub(unknown, word), variables) for word in (*command, *args)]
    return Container(where, name, words, variables, replicas, image)


def _filled(text: str, variables: dict[str, str]) -> str:
    """Return a text with variables put in as Kubernetes does; those that are not known stay."""

    def put(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    # What names itself again and again grows without end.
    return _OF_KUBERNETES.sub(put, text)[:MAX_SCRIPT_CHARACTERS]


def texts(given: Any, where: str, taker: str = "Kubernetes") -> list[str]:
    """Return a list of texts; who takes a manifest refuses what is something else."""
    if given is None:
        return []
    if not isinstance(given, list):
        raise InputError(f"{where}: expected a list of texts, got {shown(given)}")
    for number, each in enumerate(given):
        if not isinstance(each, str):
            told = f"{taker} takes texts only, as {_as_text(each)}"
            raise InputError(f"{where}[{number}]: {shown(each)}: {told}")
    return given


def _as_text(given: Any) -> str:
    """Return an example of a text, for ``- --tp: 3`` of YAML, a table, the option that is meant."""
    if isinstance(given, dict) and len(given) == 1:
        ((name, value),) = given.items()
        if isinstance(name, str) and name.startswith("-") and not isinstance(value, dict | list):
            return clip(escaped(f"'{name}={value}'"))
    return "'256'"


def _env(about: dict[str, Any]) -> dict[str, str]:
    """Return the variables whose values a manifest tells, of each the last."""
    found: dict[str, str] = {}
    for each in items(about, "env"):
        if isinstance(each.get("value"), str):
            found[str(each.get("name"))] = _filled(each["value"], found)
    return found
