"""How many servers what stands before a command starts, as a service of Docker's swarm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kvsweep.errors import InputError
from kvsweep.vllm_command.shell import unmarked

ON_EACH_NODE = "--mode global: one server is taken; --set cluster.instances=N has N, one a node"
"""What is told of a service that the swarm starts on each of its nodes."""


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


def is_on_each_node(before: Sequence[str]) -> bool:
    """Return whether a server is started on each node, whose number nothing says."""
    return "service" in before and [*_values("--mode", before)][-1:] == ["global"]


def _values(name: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option, as ``--name VALUE`` or ``--name=VALUE``."""
    for word, following in pairwise([*words, ""]):
        if word == name:
            yield following
        elif word.startswith(f"{name}="):
            yield word.partition("=")[2]
