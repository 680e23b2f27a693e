"""Values of Helm charts that start vLLM, alone or where another file has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvsweep.errors import InputError, clip, escaped, shown
from kvsweep.vllm_command.containers import Container, items, name_of, pod_containers, table
from kvsweep.vllm_command.modelservice import modelservice_containers
from kvsweep.vllm_command.stack_values import stack_containers
from kvsweep.vllm_command.yaml_text import parse_yaml

UNKNOWN = "values of a chart that is not known: give what `helm template RELEASE CHART` makes of it"
"""Why a file of values cannot be read."""

_KEYS = ("servingEngineSpec", "modelArtifacts", "image")

CHART = "chart-vllm 0.0.1"
"""The release of the chart that is an example of vLLM's."""

_OF_THE_EXAMPLE = (
    "autoscaling", "configs", "containerPort", "customObjects", "deploymentStrategy",
    "externalConfigs", "extraContainers", "extraInit", "extraPorts", "gpuModels", "image", "labels",
    "livenessProbe", "maxUnavailablePodDisruptionBudget", "nodeSelector", "readinessProbe",
    "replicaCount", "resources", "secrets", "serviceName", "servicePort", "tolerations",
)  # fmt: skip
"""Its keys, none of which adds arguments."""


def values_of(document: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the tables of values of a document: its own, of a chart in it, or of a release.

    Parameters
    ----------
    document : dict
        A file of values, a HelmRelease of Flux, or an Application of Argo CD.
    where : str
        The file.
    """
    if "kind" in document:
        found = list(_released(document, where))
    else:
        found = [] if "services" in document else [document]
    below = [each for values in found for each in values.values() if isinstance(each, dict)]
    return [each for each in (*found, *below) if any(key in each for key in _KEYS)]


def _released(document: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Yield the values that a release has in itself."""
    spec = table(document, "spec")
    if document["kind"] == "HelmRelease":
        yield table(spec, "values")
    if document["kind"] == "Application":
        for source in (table(spec, "source"), *items(spec, "sources")):
            helm = table(source, "helm")
            yield table(helm, "valuesObject")
            if isinstance(text := helm.get("values"), str):
                told = f"{where}: {name_of(document)}: helm.values"
                found = parse_yaml(text, told, strict=True)
                yield found if isinstance(found, dict) else {}


def chart_containers(values: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the servers that a chart makes of values.

    Parameters
    ----------
    values : dict
        What `values_of` found.
    where : str
        The file.
    """
    if "servingEngineSpec" in values:
        yield from stack_containers(values, where)
    elif "modelArtifacts" in values:
        yield from modelservice_containers(values, where)
    elif "command" in table(values, "image"):
        yield from _of_the_example(values, where)


def _of_the_example(values: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the server of the chart that is an example of vLLM's, ``chart-vllm``."""
    if other := next((key for key in values if key not in _OF_THE_EXAMPLE), None):
        told = f"{clip(escaped(str(other)))}: no key of the chart {CHART}; {UNKNOWN}"
        yield Container(where, "image/vllm", [], problem=f"{where}: {told}")
        return
    image, scaling = table(values, "image"), table(values, "autoscaling")
    count = values.get("replicaCount")
    most = scaling.get("maxReplicas") if scaling.get("enabled") else None
    more = "" if most is None else f", up to autoscaling.maxReplicas {shown(most)}"
    about = {
        "name": "vllm",
        "command": image["command"],
        "env": image.get("env"),
        "image": f"{image.get('repository', '')}:{image.get('tag', '')}",
    }
    containers = {"containers": [about, *items(values, "extraContainers")]}
    replicas = None if count is None else (count, f"replicaCount{more}")
    try:
        yield from pod_containers(containers, "image", where, replicas)
    except InputError as error:
        yield Container(where, "image/vllm", [], problem=str(error))
