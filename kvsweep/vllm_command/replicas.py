"""How many servers what stands before a command starts, as a service of Docker's swarm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kvsweep.errors import InputError, clip, escaped
from kvsweep.vllm_command.shell import unmarked

_ONE_TAKEN = "one server is taken; --set cluster.instances=N has N"
_OF_TASKS = ("srun", "mpirun", "mpiexec")
_TASKS = ("-n", "-np", "--np", "--ntasks")
# Where those do not say how many there are.
_EACH = ("-N", "--nodes", "--ntasks-per-node", "-ppn", "--ppn")
_SBATCH = re.compile(r"^#SBATCH[ \t]+([^#\n]*)", re.MULTILINE)
# A server over several nodes has a task on each.
_OVER_NODES = ("--nnodes", "-n", "--node-rank", "-r")
# Of YAML that is read as a script, as SkyPilot's.
# docker service scale llm=3, docker service update --replicas 3, kubectl scale, kubectl autoscale
_SCALED = re.compile(
    r"^[^#\n]*?\b((?:docker|kubectl|oc)[ \t][^\n;&|#]{0,99}?"
    r"\b(?:(?:auto)?scale|service[ \t]+update)\b[^\n;&|#\d]{0,99}\d[^\n;&|#]{0,99})",
    re.MULTILINE,
)
_KEY = re.compile(r"^[ \t]*((?:min_)?replicas)[ \t]*:[ \t]*([2-9]|[1-9]\d{1,5})\b", re.MULTILINE)


def replicas_of(before: Sequence[str], where: str) -> int | None:
    """Return how many servers are started; None if nothing says so.

    Parameters
    ----------
    before : sequence of str
        The words before those of the server: ``docker service create``, or ``kubectl create
        deployment``, and its options, of which the last one holds.
    where : str
        What the command is called in messages.

    Raises
    ------
    InputError
        If it is no number of servers.

    Examples
    --------
    >>> replicas_of(["docker", "service", "create", "--replicas=3", "vllm/vllm-openai"], "")
    3
    """
    given = list(_values("--replicas", before)) if "create" in before else []
    if not given:
        return None
    if not re.fullmatch("0*[1-9][0-9]{0,5}", given[-1]):
        told = f"--replicas: {unmarked(given[-1])}: expected a number of servers, 1 or more"
        raise InputError(f"{where}: {told}")
    return int(given[-1])


def told_of_many(before: Sequence[str], words: Sequence[str], script: str = "") -> str | None:
    """Say that a server is started several times, where it is not told how often; None: it is not.

    Parameters
    ----------
    before : sequence of str
        The words before those of the server.
    words : sequence of str
        Those of the server.
    script : str
        What has the command; lines with ``#SBATCH`` say what ``srun`` is not told.

    Examples
    --------
    >>> told_of_many(["srun", "-n", "4", "vllm", "serve"], ["m"])
    'srun starts it on several tasks: one server is taken; --set cluster.instances=N has N'
    """
    programs = [word.rpartition("/")[2] for word in before]
    if "service" in before and [*_values("--mode", before)][-1:] == ["global"]:
        return f"--mode global starts it on each node: {_ONE_TAKEN}"
    if each := next((name for name in programs if name in ("xargs", "parallel")), None):
        return f"{each} starts it, maybe several times: {_ONE_TAKEN}"
    each = next((name for name in programs if name in _OF_TASKS), None)
    tasks = _tasks(before)
    if not tasks and each == "srun":
        tasks = _tasks([word for line in _SBATCH.findall(script) for word in line.split()])
    over_nodes = any(word.partition("=")[0] in _OVER_NODES for word in words)
    if each is None or over_nodes or not any(re.match("[1-9][0-9]|[2-9]", n) for n in tasks):
        return None
    return f"{each} starts it on several tasks: {_ONE_TAKEN}"


def _tasks(words: Sequence[str]) -> list[str]:
    """Return how many tasks there are, or how many nodes and tasks on each, as options say."""
    apart = [re.sub(r"^(-[nN])(?=[0-9])", r"\1=", word) for word in words]  # -N2
    found = [value for name in _TASKS for value in _values(name, apart)]
    return found or [value for name in _EACH for value in _values(name, apart)]


def told_of_keys(text: str) -> str | None:
    r"""Say that a text which is read as a script has a key for replicas; None: it has not.

    Parameters
    ----------
    text : str
        The text.

    Examples
    --------
    >>> told_of_keys("service:\n  replicas: 3\nrun: vllm serve m")
    'replicas: 3 is not read here: one server is taken; --set cluster.instances=N has N'
    """
    found = _KEY.search(text)
    return None if found is None else f"{found[1]}: {found[2]} is not read here: {_ONE_TAKEN}"


def told_of_scaling(text: str) -> str | None:
    r"""Say that a script has a command that changes how many servers there are; None: it has not.

    Parameters
    ----------
    text : str
        The script.

    Examples
    --------
    >>> told_of_scaling("docker service scale llm=3 # now\n")
    'docker service scale llm=3: is not read; --set cluster.instances=N has N servers'
    >>> told_of_scaling("docker service create --replicas 3 llm\n")
    """
    found = _SCALED.search(text)
    if found is None:
        return None
    command = " ".join(found[1].split())
    return f"{clip(escaped(command))}: is not read; --set cluster.instances=N has N servers"


def _values(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option, as ``--name VALUE`` or ``--name=VALUE``."""
    for word, following in pairwise([*words, ""]):
        if word == name:
            yield following
        elif word.startswith(f"{name}="):
            yield word.partition("=")[2]
