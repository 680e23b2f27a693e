"""Values of llm-d's Helm chart modelservice, as the containers that it makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.vllm_command.containers import (
    ENTRY_POINT,
    Container,
    items,
    pod_container,
    settings,
    table,
    texts,
)
from kvsweep.vllm_command.shell import is_image

CHART = "llm-d-modelservice 0.4.1"
"""The release of the chart whose keys these are."""

_ROLES = {"decode": 1, "prefill": 0}
"""Parts of a service, and how many pods each has unless told."""

MOST = 100_000
"""GPUs that are believed."""

_NAME = re.compile(r"\{\{-?\s*\.Values\.modelArtifacts\.name\s*-?\}\}")
_ROUTER = ("least-loaded", "nearest to a gateway that knows loads")
NOT_READ = (
    "llm-d's scheduler is not read: give its EndpointPickerConfig, or values, beside this file; it "
    "keeps prefixes where they are, as --set cluster.routing=sticky, or scores loads, caches and "
    "prefixes, as weighted"
)
"""What is said where the router is not given."""


def modelservice_containers(values: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the containers of both parts of a service.

    Parameters
    ----------
    values : dict
        What has ``modelArtifacts``.
    where : str
        The file.
    """
    for role, usual in _ROLES.items():
        part = table(values, role)
        count = usual if part.get("replicas") is None else part["replicas"]
        if part.get("create", True) is False or (role == "prefill" and count == 0):
            continue
        for each in items(part, "containers"):
            name = f"{role}/{each.get('name', 'vllm')}"
            try:
                found = _container(each, values, role, name, where)
            except InputError as error:
                text = str(error).removeprefix(f"{where}: ")
                found = Container(where, name, [], problem=f"{where}: {text}")
            found.replicas = (count, f"{role}.replicas")
            found.router, found.notes = _ROUTER, () if count == 1 else (NOT_READ,)
            yield found


def _container(
    about: dict[str, Any], values: dict[str, Any], role: str, name: str, where: str
) -> Container:
    """Return a container as the chart writes it.

    Raises
    ------
    InputError
        If the chart refuses it, or does not say what it starts.
    """
    told, shares = f"{role}.containers", _shares(values, role)
    how = about.get("modelCommand") or "custom"
    args = texts(about.get("args"), f"{told}.args")
    if how == "custom":
        command = texts(about.get("command"), f"{told}.command")
        if not command:
            raise InputError(f"{told}: command: missing, with modelCommand custom")
    elif how in ("vllmServe", "imageDefault"):
        image = str(about.get("image", ""))
        if how == "imageDefault" and not is_image(image):
            unknown = f"what the image {clip(escaped(image))} starts is not known"
            raise InputError(f"{told}: {unknown}: give its command, or modelCommand: vllmServe")
        command, called = list(ENTRY_POINT), str(table(values, "modelArtifacts").get("name", ""))
        port = ("--port", _port(values, role))
        args = [_model(values), *port, *_parallel(shares), "--served-model-name", called, *args]
    else:
        took = "vllmServe, imageDefault or custom"
        raise InputError(f"{told}: modelCommand: {shown(how)}; the chart takes {took}")
    names = {"data": "DP_SIZE", "tensor": "TP_SIZE", "dataLocal": "DP_SIZE_LOCAL"}
    sizes = [{"name": names[key], "value": str(count)} for key, count in shares.items()]
    made = {**about, "command": command, "args": args, "env": [*items(about, "env"), *sizes]}
    return pod_container(made, name, where, None)


def _port(values: dict[str, Any], role: str) -> str:
    """Return where a part answers: behind a proxy on a port of its own."""
    routing = table(values, "routing")
    proxy = table(routing, "proxy")
    if role == "prefill" or proxy.get("enabled", True) is False:
        return shown(routing.get("servicePort", 8000)).strip("'")
    return shown(proxy.get("targetPort", 8200)).strip("'")


def _model(values: dict[str, Any]) -> str:
    """Return the model of an address, as the chart takes it apart.

    Raises
    ------
    InputError
        If it has no such form.
    """
    artifacts = table(values, "modelArtifacts")
    name = str(artifacts.get("name", ""))
    text = str(artifacts.get("uri", "hf://" + name))
    uri = _NAME.sub(lambda _: name, text).replace('"', "")
    scheme, _, rest = uri.partition("://")
    parts = rest.split("/")
    if "{{" in uri:
        raise InputError(f"modelArtifacts.uri: {shown(text)}: a template: put in its value")
    if scheme == "hf" and rest:
        return rest
    if scheme == "pvc" and len(parts) > 1:
        return f"{artifacts.get('mountPath', '/model-cache')}/{rest.partition('/')[2]}"
    if scheme == "pvc+hf" and len(parts) > 2:
        return "/".join(parts[-2:])
    forms = "hf://MODEL, pvc://CLAIM/PATH or pvc+hf://CLAIM/PATH/MODEL"
    raise InputError(f"modelArtifacts.uri: {shown(text)}: expected {forms}")


def _shares(values: dict[str, Any], role: str) -> dict[str, int]:
    """Return the parallelism of a part: ``tensor``, ``data`` and ``dataLocal``."""
    keys = ("tensor", "data", "dataLocal", "workers")
    given = settings(table(values, role), "parallelism", role)
    for key, count in given.items():
        told = f"{role}.parallelism.{clip(escaped(str(key)))}"
        if key not in keys:
            hint = did_you_mean(key, list(keys))
            raise InputError(f"{told}: no key of the chart {CHART}{hint}")
        if isinstance(count, bool) or not isinstance(count, int | None) or abs(count or 0) > MOST:
            raise InputError(f"{told}: {shown(count)}: expected a whole number, at most {MOST:,}")
    tensor, data, local, workers = (max(given.get(key) or 0, 0) for key in keys)
    return {
        "data": data or local * max(workers, 1) or 1,
        "tensor": tensor or 1,
        "dataLocal": local or (data // workers if data and workers else data) or 1,
    }


def _parallel(shares: dict[str, int]) -> Iterator[str]:
    names = {"tensor": "tensor-parallel", "data": "data-parallel", "dataLocal": "data-parallel"}
    for key, name in names.items():
        if shares[key] > 1:
            yield from (f"--{name}-size{'-local' if key == 'dataLocal' else ''}", str(shares[key]))
