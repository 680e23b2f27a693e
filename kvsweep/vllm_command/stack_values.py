"""Values of the Helm chart of vLLM's production stack, as the commands that it makes of them."""

from __future__ import annotations

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
)

CHART = "vllm-stack 0.1.16"
"""The release of the chart whose keys these are."""

_VALUES = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
    "runner": "--runner",
    "convert": "--convert",
}
"""Keys of ``vllmConfig`` that become an option with a value, in the chart's order."""

_OTHERS = (
    "enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "prometheusMultiprocDir", "v0",
    "v1",
)  # fmt: skip
_NODES = "pipelineParallelSize"
_SHARED = ("requestGPUMem", "requestGPUMemPercentage", "limitGPUMem", "limitGPUMemPercentage")


def stack_containers(values: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the servers of a file of values, one for each model.

    Parameters
    ----------
    values : dict
        What has ``servingEngineSpec``.
    where : str
        The file.
    """
    serving = table(values, "servingEngineSpec")
    if serving.get("enableEngine", True) is False:
        return
    for number, spec in enumerate(items(serving, "modelSpec")):
        if spec.get("enabled") is False:
            continue
        name = f"{spec.get('name', f'modelSpec[{number}]')}/vllm"
        told = f"{where}: {clip(escaped(str(spec.get('name', f'modelSpec[{number}]'))))}"
        try:
            yield _container(spec, items(serving, "env"), values, name, where)
        except InputError as error:
            text = str(error).removeprefix(f"{where}: ")
            yield Container(where, name, [], problem=f"{told}: {text}")


def _container(
    spec: dict[str, Any],
    shared: list[dict[str, Any]],
    values: dict[str, Any],
    name: str,
    where: str,
) -> Container:
    """Return the container of a model.

    Raises
    ------
    InputError
        If the chart makes no such server of it, or it is not simulated.
    """
    words = [*ENTRY_POINT, *_words(spec)]
    env = [*shared, *items(spec, "env"), *_engine_of(settings(spec, "vllmConfig", ""))]
    image = f"{spec.get('repository', '')}:{spec.get('tag', '')}"
    about = {"command": words, "env": env, "image": image}
    found = pod_container(about, name, where, _replicas(spec))
    several = spec.get("replicaCount") not in (None, 1)
    found.router, notes = _router(values) if several else (None, [])
    found.notes = (*notes, *_notes(spec))
    return found


def _words(spec: dict[str, Any]) -> Iterator[str]:
    """Yield the words behind ``vllm serve``, as the chart's template writes them."""
    if spec.get("modelURL") is None:
        raise InputError("modelURL: missing: the model that is served")
    if settings(spec, "raySpec", "").get("enabled", "raySpec" in spec) is not False:
        told = "a script in the cluster starts it: give the `vllm serve` of its ConfigMap"
        raise InputError(f"raySpec: {told}")
    if settings(spec, "lmcacheConfig", "").get("enabled"):
        told = "LMCache is not simulated; enabled: false goes on without it"
        raise InputError(f"lmcacheConfig: {told}")
    yield _text(spec["modelURL"], "modelURL")
    if spec.get("enableLoRA"):
        yield "--enable-lora"
    if spec.get("enableTool"):
        yield "--enable-auto-tool-choice"
    if spec.get("toolCallParser"):
        yield from ("--tool-call-parser", _text(spec["toolCallParser"], "toolCallParser"))
    nodes = settings(spec, "lwsSpec", "") if settings(spec, "lwsSpec", "").get("enabled") else {}
    yield from _of_vllm(spec, bool(nodes))
    if spec.get("modelRevision"):
        yield from ("--revision", _text(spec["modelRevision"], "modelRevision"))
    if spec.get("chatTemplate"):
        yield from ("--chat-template", "template.jinja")  # it is long, and idle
    if nodes:
        size = _text(nodes.get("size"), "lwsSpec.size")
        stages = settings(spec, "vllmConfig", "").get(_NODES, size)
        yield from ("--distributed-executor-backend", "mp", "--nnodes", size)
        yield from ("--pipeline-parallel-size", _text(stages, f"vllmConfig.{_NODES}"))


def _of_vllm(spec: dict[str, Any], several_nodes: bool) -> Iterator[str]:
    """Yield the words for ``vllmConfig``, of which the chart leaves out what it does not know."""
    given = settings(spec, "vllmConfig", "")
    known = [*_VALUES, *_OTHERS, *([_NODES] if several_nodes else [])]
    if unknown := next((key for key in given if key not in known), None):
        hint = did_you_mean(unknown, known)
        told = f"no key of the chart {CHART}, which leaves it out{hint}; give it in extraArgs"
        raise InputError(f"vllmConfig.{clip(escaped(str(unknown)))}: {told}")
    if not given:
        return
    if (chunked := given.get("enableChunkedPrefill")) is not None:
        yield "--enable-chunked-prefill" if chunked else "--no-enable-chunked-prefill"
    caching = given.get("enablePrefixCaching")
    yield "--enable-prefix-caching" if caching else "--no-enable-prefix-caching"
    for key, option in _VALUES.items():
        if given.get(key) is not None:
            yield from (option, _text(given[key], f"vllmConfig.{key}"))
    more = given.get("extraArgs") or []
    if not isinstance(more, list):
        raise InputError(f"vllmConfig.extraArgs: expected a list of texts, got {shown(more)}")
    for number, each in enumerate(more):
        yield _text(each, f"vllmConfig.extraArgs[{number}]")


def _text(given: Any, told: str) -> str:
    """Return a value as the chart puts it between quotes."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str | float) or (isinstance(given, int) and given.bit_length() < 64):
        return str(given)
    raise InputError(f"{told}: expected a text or a number, got {shown(given)}")


def _engine_of(config: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the variable by which the chart chooses vLLM's engine, of which one is left."""
    if str(config.get("v0")) == "1" or str(config.get("v1", "1")) == "0":
        yield {"name": "VLLM_USE_V1", "value": "0"}


def _replicas(spec: dict[str, Any]) -> tuple[Any, str] | None:
    if spec.get("replicaCount") is None:
        return None
    scaling = table(spec, "keda")
    most = scaling.get("maxReplicaCount") if scaling.get("enabled") else None
    more = "" if most is None else f", up to maxReplicaCount {shown(most)}"
    return spec["replicaCount"], f"replicaCount{more}"


def _router(values: dict[str, Any]) -> tuple[tuple[str, str] | None, list[str]]:
    """Return what sends requests to replicas, and what there is to say of it."""
    spec = table(values, "routerSpec")
    if spec.get("enableRouter", True) is False:
        return None, []
    logic = str(spec.get("routingLogic", "roundrobin"))
    told = clip(escaped(logic))
    if logic == "roundrobin":
        return ("round-robin", f"routingLogic {told}"), []
    turns = "requests go to each replica in turn; --set cluster.routing=..."
    return ("round-robin", f"for {told}"), [f"routingLogic {told} is not simulated: {turns}"]


def _notes(spec: dict[str, Any]) -> Iterator[str]:
    shares = [key for key in _SHARED if spec.get(key) is not None]
    if "mig" in str(spec.get("requestGPUType", "")):
        shares.append("requestGPUType")
    if shares:
        yield f"{', '.join(shares)}: a part of a GPU: give its memory as --gpu"
