"""Services of Docker Compose, as containers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import chain
from typing import Any

from kvsweep.errors import InputError
from kvsweep.vllm_command.containers import ENTRY_POINT, Container, table, texts, unknown
from kvsweep.vllm_command.shell import VARIABLE, is_image

_OF_COMPOSE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)[^{}]*\}|\$([A-Za-z_]\w*)")


def compose_containers(services: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the services of a file of Docker Compose."""
    for name, own in services.items():
        if not isinstance(own, dict):
            continue
        try:
            about = _extended(own, services, f"{where}: {name}")
        except InputError as error:
            yield Container(where, str(name), [], problem=str(error))
            continue
        entry, command = (
            _argv(about.get(key), f"{where}: {name}: {key}") for key in ("entrypoint", "command")
        )
        image = _OF_COMPOSE.sub(_usual, str(about.get("image", "")))
        if not entry and is_image(image):
            entry = list(ENTRY_POINT)
        variables = {
            key: value
            for key, value in _environment(about.get("environment"))
            if VARIABLE not in value
        }
        told = [*entry, *command]
        yield Container(where, str(name), told, variables, _replicas(about), image)


def _replicas(about: dict[str, Any]) -> tuple[Any, str] | None:
    """Return how many of a service there are, and who says so; None: one."""
    deploy = table(about, "deploy")
    if str(deploy.get("mode")).startswith("global"):
        return 1, "deploy.mode global has one on each node, here one"
    given = {"deploy.replicas": deploy.get("replicas"), "scale": about.get("scale")}
    return next(((n, why) for why, n in given.items() if n is not None), None)


def _extended(
    own: dict[str, Any], services: dict[str, Any], where: str, depth: int = 0
) -> dict[str, Any]:
    """Return a service with what it has of those that it extends.

    Raises
    ------
    InputError
        If that is in another file, which may have its image, or not there.
    """
    extends = own.get("extends")
    if extends is None:
        return own
    told = extends if isinstance(extends, dict) else {"service": extends}
    base = services.get(str(told.get("service")))
    if "file" in told or not isinstance(base, dict) or depth > len(services):
        if "image" in own:
            return own
        remedy = "give what `docker compose config` writes"
        raise InputError(f"{where}: extends a service that is not in the file: {remedy}")
    base = _extended(base, services, where, depth + 1)
    joined = {
        "environment": dict(chain(*(_named(each.get("environment")) for each in (base, own)))),
        "deploy": {**table(base, "deploy"), **table(own, "deploy")},
    }
    return {**base, **own, **joined}


def _usual(found: re.Match[str]) -> str:
    """Return what a variable of an image is unless it is set, or what stands for it."""
    return found[0].partition("-")[2].rstrip("}") or "x"


def _argv(given: Any, where: str) -> list[str]:
    """Return the words of a command as Compose takes it: a list, or one text without a shell."""
    if not isinstance(given, str):
        return [_OF_COMPOSE.sub(unknown, each) for each in texts(given, where, "Compose")]
    try:
        return shlex.split(_OF_COMPOSE.sub(unknown, given.replace("\\\n", " ")))
    except ValueError as error:
        raise InputError(f"{where}: {str(error).lower()}") from None


def _environment(given: Any) -> Iterator[tuple[str, str]]:
    """Yield names and values of an environment, without what Compose would put in."""
    for name, value in _named(given):
        if value is not None:
            yield name, _OF_COMPOSE.sub(unknown, str(value))


def _named(given: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of a mapping, or of a list of ``NAME=VALUE``."""
    if isinstance(given, list):
        given = dict(str(each).partition("=")[::2] for each in given if "=" in str(each))
    for name, value in given.items() if isinstance(given, dict) else ():
        yield str(name), value
