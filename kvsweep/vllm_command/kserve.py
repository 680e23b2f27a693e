"""Servers of KServe: an InferenceService, with the ServingRuntime that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvsweep.errors import InputError, clip, shown
from kvsweep.vllm_command.containers import (
    ENTRY_POINT,
    Container,
    items,
    name_of,
    pod_container,
    pod_containers,
    table,
    texts,
)

MOUNTED = "/mnt/models"
"""Where KServe puts the files of ``storageUri``."""

_HUB = re.compile(r"hf://([^:]+)(?::.*)?")
MAIN = "kserve-container"
"""The container of a runtime that serves."""

ADDED = ("command", "args", "env")
"""What a service adds to the container of its runtime."""

_RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
_OF_VLLM = {
    "--model_name": "--served-model-name",
    "--model_id": "--model",
    "--model_dir": "--model",
    "--model_revision": "--revision",
    "--max_length": "--max-model-len",
}
"""Options of KServe's own server for Hugging Face, by those of vLLM; others it hands on."""


def serving_containers(documents: list[dict[str, Any]], where: str) -> Iterator[Container]:
    """Yield the containers of services, and of runtimes that serve none of them.

    Parameters
    ----------
    documents : list of dict
        Those of KServe.
    where : str
        The file.
    """
    runtimes = {name_of(each): each for each in documents if each.get("kind") in _RUNTIMES}
    used = set()
    for document in documents:
        predictor = table(table(document, "spec"), "predictor")
        if document.get("kind") != "InferenceService":
            continue
        name, replicas = name_of(document), _replicas(predictor)
        if "workerSpec" in predictor:
            told = "what its nodes share is not read: give `kubectl get pod POD -o yaml`"
            raise InputError(f"{where}: {name}: workerSpec: {told}")
        if model := table(predictor, "model"):
            runtime = _runtime(model, runtimes, f"{where}: {name}")
            used.add(runtime)
            main = None if runtime is None else _main(runtimes[runtime], f"{where}: {runtime}")
            yield _served(model, main, f"{name}/{MAIN}", where, replicas)
        else:
            yield from pod_containers(predictor, name, where, replicas)
    for name, each in runtimes.items():
        if name not in used:
            yield from pod_containers(table(each, "spec"), name, where, None)


def _runtime(model: dict[str, Any], runtimes: dict[str, Any], where: str) -> str | None:
    """Return the runtime of a service; None: KServe's own server for Hugging Face."""
    form = table(model, "modelFormat").get("name")
    given = None if model.get("runtime") is None else str(model["runtime"])
    if given in runtimes:
        return given
    fitting = [name for name, each in runtimes.items() if form in _formats(each)]
    if given is None and len(fitting) == 1:
        return fitting[0]
    if form == "huggingface" and given in (None, "kserve-huggingfaceserver"):
        return None
    told = f"model format {shown(form)}" if given is None else f"runtime {shown(given)}"
    found = f"{len(fitting)} runtimes have it: give one" if fitting else "is not in the file"
    raise InputError(f"{where}: {told}: {found}: add its ServingRuntime, and name it as `runtime`")


def _formats(runtime: dict[str, Any]) -> list[Any]:
    listed = items(table(runtime, "spec"), "supportedModelFormats")
    return [each.get("name") for each in listed]


def _main(runtime: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the container of a runtime that serves."""
    found = items(table(runtime, "spec"), "containers")
    for each in found:
        if each.get("name") == MAIN or len(found) == 1:
            return each
    raise InputError(f"{where}: has no container {MAIN}")


def _served(
    model: dict[str, Any],
    main: dict[str, Any] | None,
    name: str,
    where: str,
    replicas: tuple[Any, str] | None,
) -> Container:
    """Return the container of a runtime with what a service adds to it, as KServe joins them."""
    if main is None:
        found = pod_container({key: model.get(key) for key in ADDED}, name, where, replicas)
        told = list(_of_hugging_face(found.words, f"{where}: {name}"))
        named = any(word.partition("=")[0] == "--model" for word in told)
        words = [*ENTRY_POINT, *(() if named else (MOUNTED,)), *told]
    else:
        found = pod_container(_joined(main, model, f"{where}: {name}"), name, where, replicas)
        words = found.words
    if hub := _HUB.fullmatch(str(model.get("storageUri"))):
        words = [re.sub(rf"{MOUNTED}/?$", hub[1], word) for word in words]
    return replace(found, words=words)


def _joined(main: dict[str, Any], model: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a container with the command of a service, its arguments too, and its variables.

    As KServe's ``MergeRuntimeContainers``: variables of a name are those of the service, also in
    what the runtime runs.
    """
    own = {each.get("name"): each for each in items(model, "env")}
    env = [own.pop(each.get("name"), each) for each in items(main, "env")]
    args = [word for each in (main, model) for word in texts(each.get("args"), f"{where}: args")]
    command = model.get("command") or main.get("command")
    return {**main, "command": command, "args": args, "env": [*env, *own.values()]}


def _of_hugging_face(words: list[str], where: str) -> Iterator[str]:
    """Yield the words of vLLM for those of KServe's own server, which runs it."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--backend":
            backend = value if equals else next(rest, "")
            if backend not in ("auto", "vllm"):
                raise InputError(f"{where}: --backend {clip(backend)}: is not vLLM")
        else:
            yield _OF_VLLM.get(name, name) + equals + value


def _replicas(predictor: dict[str, Any]) -> tuple[Any, str] | None:
    least, most = predictor.get("minReplicas"), predictor.get("maxReplicas")
    if least is None:
        return None
    more = "" if most in (None, least) else f", up to maxReplicas {shown(most)}"
    return least, f"minReplicas{more}"
