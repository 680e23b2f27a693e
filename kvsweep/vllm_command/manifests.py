"""The container of a manifest, of Kubernetes or others, that starts a server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.limits import MAX_SCRIPT_CHARACTERS
from kvsweep.vllm_command.compose import compose_containers
from kvsweep.vllm_command.connectors import LINKS
from kvsweep.vllm_command.containers import (
    Container,
    items,
    name_of,
    pod_containers,
    table,
)
from kvsweep.vllm_command.helm_values import UNKNOWN, chart_containers, values_of
from kvsweep.vllm_command.kserve import serving_containers
from kvsweep.vllm_command.nixl import is_apart
from kvsweep.vllm_command.options import listed
from kvsweep.vllm_command.ray_serve import is_of_ray, other_application, ray_containers
from kvsweep.vllm_command.shell import NO_COMMAND
from kvsweep.vllm_command.words import Command
from kvsweep.vllm_command.yaml_text import parse_yaml

_TOP = re.compile(
    r"^(?:\{\s*)?[\"']?(?:apiVersion|kind|services|applications|import_path|llm_configs"
    r"|model_loading_config)[\"']?\s*:",
    re.MULTILINE,
)
_OF_VALUES = re.compile(
    r"(?:^[ ]{0,16}|[{,][ ]?)[\"']?(?:servingEngineSpec|modelArtifacts)[\"']?:", re.MULTILINE
)
# Of values: an image in parts, and not as a pipeline of GitLab has it.
_IN_PARTS = re.compile(r"^\{?[\"']?image[\"']?:[ \t]*(?:\{|#|$)", re.MULTILINE)
_BEGIN = re.compile(r"\s*(?:\{|%YAML|[\"']?[\w.-]+[\"']?\s*:(?:\s|$))")
"""What a manifest begins with, and no script: a key."""

_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_OF_INTEREST = re.compile(
    r"vllm|serving\.kserve\.io|RayService|import_path|llm_configs|model_loading_config"
    r"|servingEngineSpec|modelArtifacts",
    re.IGNORECASE,
)
# A template of Helm; KServe itself fills in {{.Name}}, and chat templates have {{ names }}.
_HELM = re.compile(
    r"\{\{-?\s*(?:\.(?!Name\b|Namespace\b|Labels\b|Annotations\b)|[$\"(]|/\*"
    r"|(?:block|default|define|else|end|if|include|printf|quote|range|required|template|toYaml|tpl"
    r"|with)\b)"
)
# What changes how many servers there are, beside them in the file.
_SCALER = re.compile(
    r"^[^#\n]*\bkind[\"']?:[ \t]*[\"']?"
    r"(HorizontalPodAutoscaler|PodAutoscaler|ScaledObject|VariantAutoscaling)\b"
    r"|^[^#\n]*\b(autoscaling\.knative\.dev/min-?scale)\b",
    re.MULTILINE | re.IGNORECASE,
)
_SPECS = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
    ("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),
)
"""Where a document may have its containers."""

_POD = "give `kubectl get pod POD -o yaml`"
_OF_A_POD = f"decide what its pods start: {_POD}"
_OTHERS = {
    "LLMInferenceService": f"templates in the cluster {_OF_A_POD}",
    "LLMInferenceServiceConfig": f"templates in the cluster {_OF_A_POD}",
    "DynamoGraphDeployment": "its pods start dynamo.vllm: give `vllm serve` with the same options",
    "Kustomization": "names other files: give what `kubectl kustomize FOLDER` makes of it",
    "Model": f"templates of its operator {_OF_A_POD}",
    "VLLMRuntime": f"templates of its operator {_OF_A_POD}",
}
"""Kinds that do not say what is started, each with what does."""


def is_manifest(text: str) -> bool:
    r"""Return whether a text is a manifest, not a script.

    Examples
    --------
    >>> is_manifest("apiVersion: apps/v1\nkind: Deployment\n"), is_manifest("vllm serve m")
    (True, False)
    """
    parts = "repository" in text and _IN_PARTS.search(text)
    keys = _TOP.search(text) or _OF_VALUES.search(text) or parts
    return bool(keys) and begins_as_yaml(text)


def begins_as_yaml(text: str) -> bool:
    """Return whether a text begins with a key, as no script does."""
    lines = (line for line in text.splitlines() if line.strip(" \t-"))
    first = next((line for line in lines if not line.lstrip().startswith("#")), "")
    return _BEGIN.match(first) is not None and text[:2] != "#!"


def starts_some(text: str, where: str) -> bool:
    """Return whether a manifest has a container that starts a server.

    Parameters
    ----------
    text, where
        As `read_manifest` takes them.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if not _OF_VALUES.search(text):
        _refuse_templates(text, where)
    found = _containers(_documents(text, where), where)
    return any(each.starts_server() for each in found)


def read_manifest(text: str, where: str, chosen: str | None = None) -> Command:
    """Return the command of the container that starts a server.

    Parameters
    ----------
    text : str
        The manifest, of one or more documents.
    where : str
        What it is called in messages.
    chosen : str or None
        Name of the container, of what it is in, or both as ``NAME/CONTAINER``; None: there is one.

    Raises
    ------
    InputError
        If it cannot be read, or starts no server, or several.

    Examples
    --------
    >>> text = "services: {llm: {image: vllm/vllm-openai, command: Qwen/Qwen3-8B -tp 2}}"
    >>> read_manifest(text, "compose.yaml").text
    'vllm serve Qwen/Qwen3-8B -tp 2'
    """
    servers, many = _servers(text, where)
    return _noted(_one(servers, where, chosen), many)


def read_apart(text: str, where: str) -> list[Command]:
    """Return the commands of the servers of a manifest if prefill and decode are apart there.

    Parameters
    ----------
    text, where
        As `read_manifest` takes them.

    Raises
    ------
    InputError
        If it cannot be read, or starts no server.
    """
    servers, many = _servers(text, where)
    if len(servers) < 2 or not all(_names_connector(each) for each in servers):
        return []
    found = [_noted(each, many) for each in servers]
    return found if all(map(is_apart, found)) else []


def _names_connector(server: Container) -> bool:
    """Return whether a server may be one of prefill and decode apart: others are not looked at."""
    return any(name in word for word in server.words for name in LINKS)


def _noted(server: Container, more: tuple[str, ...]) -> Command:
    """Return the command of a server, with what there is to say of it."""
    command = server.command()
    command.notes = (*command.notes, *more)
    return command


def _servers(text: str, where: str) -> tuple[list[Container], tuple[str, ...]]:
    """Return the containers of a manifest that start a server, and what it says of all of them."""
    if not _OF_VALUES.search(text):
        _refuse_templates(text, where)
    documents = _documents(text, where)
    found = list(_containers(documents, where))
    started = [each for each in found if each.starts_server()]
    servers = _told_apart([each for each in started if each.answers] or started)
    if not servers:
        raise InputError(f"{where}: {_why_none(found, documents, where)}")
    scaler = _SCALER.search(text)
    if scaler is None:
        return servers, ()
    told = f"{scaler[1] or scaler[2]}: how many servers it keeps is not read"
    return servers, (f"{told}; --set cluster.instances=N has N",)


def _refuse_templates(text: str, where: str) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("#") and (at := _HELM.search(line)):
            told = clip(escaped(line[at.start() :].strip()))
            raise InputError(
                f"{where}: line {number}: {told}: a template; give what `helm template RELEASE "
                "CHART` makes of it"
            )


def _documents(text: str, where: str) -> list[dict[str, Any]]:
    """Return the documents that may say something of a server."""
    found: list[dict[str, Any]] = []
    for part, before in split_documents(text):
        if _OF_INTEREST.search(part):
            if len(part) > MAX_SCRIPT_CHARACTERS:
                most = f"a document has at most {MAX_SCRIPT_CHARACTERS:,}"
                raise InputError(f"{where}: {len(part):,} characters; {most}")
            document = parse_yaml(part, where, before, strict=True)
            if isinstance(document, dict):
                listed = document.get("kind") == "List"
                found += items(document, "items") if listed else [document]
    return found


def split_documents(text: str) -> Iterator[tuple[str, int]]:
    """Yield the documents of a text, each with the lines before it."""
    before = 0
    for part in _DOCUMENT.split(text):
        yield part, before
        before += part.count("\n")


def _containers(documents: list[dict[str, Any]], where: str) -> Iterator[Container]:
    """Yield the containers of documents of all kinds."""
    for document in documents:
        if is_of_ray(document):
            yield from ray_containers(document, where)
            continue
        for values in values_of(document, where):
            yield from chart_containers(values, where)
        if "kind" not in document:
            yield from compose_containers(table(document, "services"), where)
        if "kserve.io" in str(document.get("apiVersion")):
            continue
        for path in _SPECS:
            spec = document
            for key in path:
                spec = table(spec, key)
            yield from pod_containers(spec, name_of(document), where, _replicas(document))
        if document.get("kind") == "DisaggregatedSet":
            yield from _of_roles(document, where)
    of_kserve = [each for each in documents if "kserve.io" in str(each.get("apiVersion"))]
    yield from serving_containers(of_kserve, where)


def _of_roles(document: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the containers of each role of a DisaggregatedSet, a LeaderWorkerSet for each."""
    spec = table(document, "spec")
    for role in items(spec, "roles"):
        about, name = table(role, "spec"), f"{name_of(document)}/{role.get('name', 'role')}"
        many = _of_slices(about.get("replicas"), spec.get("slices"))
        for template in ("leaderTemplate", "workerTemplate"):
            pod = table(table(table(about, "leaderWorkerTemplate"), template), "spec")
            yield from pod_containers(pod, name, where, many)


def _of_slices(replicas: Any, slices: Any) -> tuple[Any, str] | None:
    """Return how many groups of a role there are in all slices, and who says so; None: one."""
    given = {name: count for name, count in (("replicas", replicas), ("slices", slices))
             if count is not None}  # fmt: skip
    wrong = (name for name, count in given.items() if type(count) is not int or count < 1)
    if (name := next(wrong, None)) is not None:
        return given[name], name  # it is refused
    return (prod(given.values()), ", times ".join(given)) if given else None


def _replicas(document: dict[str, Any]) -> tuple[Any, str] | None:
    """Return how many pods there are, and who says so; None: one."""
    spec = table(document, "spec")
    if document.get("kind") == "DaemonSet":
        return 1, "a DaemonSet has one on each node, here one"
    key = "parallelism" if document.get("kind") == "Job" else "replicas"
    return None if spec.get(key) is None else (spec[key], key)


def _told_apart(found: list[Container]) -> list[Container]:
    """Return containers with names of their own: the second of a name has #2."""
    seen: Counter[str] = Counter()
    for number, each in enumerate(found):
        seen[each.name] += 1
        if seen[each.name] > 1:
            found[number] = replace(each, name=f"{each.name}#{seen[each.name]}")
    return found


def _why_none(found: list[Container], documents: list[dict[str, Any]], where: str) -> str:
    for document in documents:
        kind, name = document.get("kind"), clip(escaped(name_of(document)))
        if isinstance(kind, str) and kind in _OTHERS:
            return f"{name}: {kind}: {_OTHERS[kind]}"
        if is_of_ray(document) and (told := other_application(document, where)):
            return told
        if isinstance(kind, str) and any(_hidden(document, where)):
            return f"{name}: {clip(escaped(kind))}: its containers are not looked for: {_POD}"
    for each in found:
        if "vllm" in each.image and each.words[:1] and each.words[0].startswith("-"):
            told = f"what the image {clip(escaped(each.image))} starts is not known"
            return f"{clip(escaped(each.name))}: {told}: give its `command`, as [vllm, serve]"
    of_charts = any(values_of(each, where) for each in documents)
    return UNKNOWN if of_charts else NO_COMMAND


def _hidden(document: dict[str, Any], where: str) -> Iterator[bool]:
    """Yield whether containers start a server, wherever in a document they are."""
    rest: list[Any] = [document]
    seen: set[int] = set()  # anchors of YAML are the same again and again
    while rest:
        part = rest.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield from (each.starts_server() for each in pod_containers(part, "", where, None))
        if isinstance(part, dict | list):
            rest += part.values() if isinstance(part, dict) else part


def _one(found: list[Container], where: str, chosen: str | None) -> Container:
    """Return the container that is chosen, or the only one."""
    names = [escaped(each.name) for each in found]
    if chosen is not None:
        fitting = [each for each in found if each.name == chosen] or [
            each for each in found if f"/{chosen}/" in f"/{each.name}/"
        ]
        if len(fitting) == 1:
            return fitting[0]
        several = f"{len(fitting)} containers of this name" if fitting else "no such container"
        hint = "" if fitting else did_you_mean(chosen, names)
        told = f"of {where}: {listed(names)}{hint}"
        raise InputError(f"--container: {shown(chosen)}: {several} {told}")
    if len(found) > 1:
        told = f"{len(found)} containers start a server: {listed(names)}"
        raise InputError(f"{where}: {told}; choose one: --container NAME")
    return found[0]
