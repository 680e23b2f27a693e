"""Servers of Ray Serve LLM: what `serve run` and a RayService take, as commands of vLLM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.reading import read_text
from kvsweep.vllm_command.containers import (
    ENTRY_POINT,
    Container,
    items,
    name_of,
    settings,
    table,
)
from kvsweep.vllm_command.given import of_arguments
from kvsweep.vllm_command.yaml_text import parse_yaml

RAY = "2.60.0"
"""The release of Ray whose keys these are."""

BUILDERS = {
    "build_openai_app": ("llm_configs",),
    "build_dp_openai_app": ("llm_config",),
    "build_pd_openai_app": ("prefill_config", "decode_config"),
}
"""What an application of ``ray.serve.llm`` is built by, and where its arguments have servers."""

_KEYS = (
    "accelerator_config", "accelerator_type", "callback_config", "deployment_config",
    "engine_kwargs", "experimental_configs", "llm_engine", "log_engine_metrics", "lora_config",
    "model_loading_config", "placement_group_config", "resources_per_bundle", "runtime_env",
    "server_cls",
)  # fmt: skip
"""Those of an ``LLMConfig``; ``resources_per_bundle`` is of older releases."""

_REMOTE = ("s3://", "gs://", "abfss://", "azure://", "pyarrow-")
_GPUS = {
    "A100-40G": "a100-40gb", "A100-80G": "a100", "A10G": "a10g", "A10": "a10g",
    "AMD-Instinct-MI300X-OAM": "mi300x", "AMD-Instinct-MI300X-HF": "mi300x", "B200": "b200",
    "H100": "h100", "H200": "h200", "L4": "l4", "L40S": "l40s", "RTX-PRO-6000": "rtx-pro-6000",
}  # fmt: skip
"""Accelerators of Ray that are one GPU of `kvsweep blocks`; an A100 has 40 or 80 GB."""

_STREAMED_MS = 50
_HANDS_ON = "Ray Serve hands on tokens every"
_DIRECT = "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"
"""The variable with which clients get what vLLM itself sends, of each replica in turn."""
_ROUTER = ("least-loaded", "nearest to Ray Serve, which asks two servers and takes the less loaded")


def is_of_ray(document: dict[str, Any]) -> bool:
    """Return whether a document says what Ray Serve runs."""
    if document.get("kind") == "RayService":
        return True
    keys = ("applications", "import_path", "llm_configs", "model_loading_config")
    return "kind" not in document and any(key in document for key in keys)


def ray_containers(document: dict[str, Any], where: str) -> Iterator[Container]:
    """Yield the servers of a RayService, of a file of ``serve run``, or of one model.

    Parameters
    ----------
    document : dict
        The manifest, or the file.
    where : str
        The file.
    """
    if "model_loading_config" in document:
        yield _container(document, "llm", "?", where, where)
        return
    if "llm_configs" in document:
        document = {"import_path": "ray.serve.llm:build_openai_app", "args": document}
    for app in _applications(document, where):
        name = str(app.get("name") or "default")
        yield from _of_application(app, name, where)


def other_application(document: dict[str, Any], where: str) -> str | None:
    """Return what to say of an application that Python of somebody's own builds; None: is none."""
    for app in _applications(document, where):
        if _builder(app) is None:
            path = clip(escaped(str(app.get("import_path"))))
            told = f"import_path {path}: is Python, which is not read"
            return f"{told}: give the command of vLLM that it makes, or --log of its start"
    return None


def _applications(document: dict[str, Any], where: str) -> list[dict[str, Any]]:
    if document.get("kind") == "RayService":
        text = table(document, "spec").get("serveConfigV2")
        if not isinstance(text, str):
            told = f"serveConfigV2: expected a text, got {shown(text)}"
            raise InputError(f"{where}: {clip(escaped(name_of(document)))}: {told}")
        found = parse_yaml(text, f"{where}: serveConfigV2", strict=True)
        document = found if isinstance(found, dict) else {}
    return [document] if "import_path" in document else items(document, "applications")


def _builder(app: dict[str, Any]) -> tuple[str, ...] | None:
    """Return where the arguments of an application have servers; None: it is another's."""
    path = str(app.get("import_path"))
    module, _, name = path.replace(":", ".").rpartition(".")
    return BUILDERS.get(name) if module.startswith(("ray.serve.llm", "ray.llm")) else None


def _of_application(app: dict[str, Any], name: str, where: str) -> Iterator[Container]:
    args = table(app, "args")
    for key in _builder(app) or ():
        given = args.get(key)
        several = key == "llm_configs"
        for number, each in enumerate(given if several and isinstance(given, list) else [given]):
            path = f"{key}[{number}]" if several else key
            told = f"{where}: {clip(escaped(name))}: {path}"
            part = "" if key.startswith("llm_config") else f"/{key.partition('_')[0]}"
            found = _container(each, f"{name}{part}", path, where, told)
            if items(app, "deployments"):
                found.notes += ("deployments of the application are not read",)
            found.variables = _variables(app) | found.variables
            if found.variables.get(_DIRECT) == "1":
                found.router = ("round-robin", f"{_DIRECT}")
                found.notes = tuple(each for each in found.notes if not each.startswith(_HANDS_ON))
            yield found


def _container(given: Any, name: str, path: str, where: str, told: str) -> Container:
    """Return the container of an ``LLMConfig``, or of the file that has one."""
    found = Container(where, f"{name}/{path}", [*ENTRY_POINT])
    try:
        about = _from_file(given, where, told) if isinstance(given, str) else given
        if not isinstance(about, dict):
            raise InputError(f"{told}: expected the settings of a server, got {shown(about)}")
        loading = settings(about, "model_loading_config", told)
        found.name = f"{name}/{loading.get('model_id', path)}"
        _fill(found, about, loading, told)
    except InputError as error:
        found.problem = str(error)
    return found


def _from_file(path: str, where: str, told: str) -> Any:
    """Return what a file has; its name begins at the folder of the one that names it."""
    beside = Path(where).parent / path
    found = next((each for each in (beside, Path(path)) if os.path.isfile(each)), None)
    if found is None:
        raise InputError(f"{told}: {shown(path)}: no such file; name one that is here")
    text = read_text(found, MAX_SETTINGS_BYTES)
    return parse_yaml(text, str(path), strict=True)


def _fill(found: Container, about: dict[str, Any], loading: dict[str, Any], told: str) -> None:
    """Put in what the settings of a server say.

    Raises
    ------
    InputError
        If they decide what is not simulated, or have a key that Ray has not.
    """
    if unknown := next((key for key in about if key not in _KEYS), None):
        hint = did_you_mean(unknown, list(_KEYS))
        raise InputError(f"{told}: {clip(escaped(str(unknown)))}: no key of Ray {RAY}{hint}")
    engine, kind = about.get("llm_engine", "vLLM"), table(about, "accelerator_config").get("kind")
    if engine != "vLLM":
        raise InputError(f"{told}: llm_engine: {shown(engine)}: is not vLLM")
    if about.get("server_cls") is not None:
        raise InputError(f"{told}: server_cls: a server of one's own is not simulated")
    accelerator = about.get("accelerator_type")
    if kind not in (None, "gpu") or not _on_gpus(about) or str(accelerator).startswith("TPU"):
        raise InputError(f"{told}: a server without GPUs is not simulated")
    served, elsewhere = _model(loading, told)
    found.words += [*served, *_engine(about, told)]
    found.variables, found.router = _variables(about), _ROUTER
    if isinstance(accelerator, str) and accelerator in _GPUS:
        found.gpu = _GPUS[accelerator], f"accelerator_type {accelerator}"
    deployment = settings(about, "deployment_config", told)
    found.replicas = _replicas(deployment, told)
    found.notes = (*elsewhere, *_notes(about, deployment))


def _model(loading: dict[str, Any], told: str) -> tuple[list[str], list[str]]:
    """Return the words for what is served and what it is called, and what there is to say."""
    name, source = loading.get("model_id"), loading.get("model_source")
    if not isinstance(name, str) or not name:
        raise InputError(f"{told}: model_loading_config.model_id: missing: the model's name")
    called = f"--served-model-name={name}"
    if isinstance(source, str) and not source.startswith(_REMOTE):
        return [source, called], []
    address = table(loading, "model_source").get("bucket_uri") if source else None
    place = source if isinstance(source, str) else address
    note = f"files of {clip(escaped(str(place)))} are taken for those of {clip(escaped(name))}"
    return [name, called], [note] if place else []


def _engine(about: dict[str, Any], told: str) -> Iterator[str]:
    given = settings(about, "engine_kwargs", told)
    own = ("model", "served_model_name", "distributed_executor_backend")
    for key in own[:2]:
        if key in given:
            raise InputError(f"{told}: engine_kwargs.{key}: Ray takes it of model_loading_config")
    backend = given.get("distributed_executor_backend") or "ray"
    if backend != "ray":
        raise InputError(f"{told}: engine_kwargs.{own[2]}: {shown(backend)}: Ray takes ray alone")
    rest = {key: value for key, value in given.items() if key not in own}
    yield from of_arguments(rest, f"{told}: engine_kwargs")
    yield f"--{own[2].replace('_', '-')}=ray"


def _variables(about: dict[str, Any]) -> dict[str, str]:
    given = table(table(about, "runtime_env"), "env_vars")
    return {str(key): value for key, value in given.items() if isinstance(value, str)}


def _bundles(about: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return what workers are placed by; None: by the number of GPUs."""
    placed = table(about, "placement_group_config")
    if not placed:
        return None
    return [table(placed, "bundle_per_worker"), *items(placed, "bundles")]


def _on_gpus(about: dict[str, Any]) -> bool:
    bundles = _bundles(about)
    return bundles is None or any(each.get("GPU") for each in bundles)


def _replicas(deployment: dict[str, Any], told: str) -> tuple[Any, str] | None:
    """Return how many servers there are, and who says so; None: one."""
    given = deployment.get("num_replicas")
    if given not in (None, "auto"):
        return given, "num_replicas"
    scaling = settings(deployment, "autoscaling_config", told)
    if given is None and "min_replicas" not in scaling:
        return None
    least, most = scaling.get("min_replicas", 1), scaling.get("max_replicas")
    more = "" if most in (None, least) else f", up to max_replicas {shown(most)}"
    return least, f"min_replicas{more}"


def _notes(about: dict[str, Any], deployment: dict[str, Any]) -> Iterator[str]:
    """Say what the settings decide that no option says."""
    experimental = table(about, "experimental_configs")
    interval = experimental.get("stream_batching_interval_ms", _STREAMED_MS)
    if interval:
        yield f"{_HANDS_ON} {shown(interval)} ms, here each at once"
    if (most := deployment.get("max_ongoing_requests")) is not None:
        yield f"max_ongoing_requests {shown(most)}: others wait at Ray Serve, here at the server"
    if "request_router_config" in deployment:
        yield "request_router_config is not read: give --set cluster.routing=..."
    shares = [each["GPU"] for each in _bundles(about) or () if isinstance(each.get("GPU"), float)]
    if any(0 < share < 1 for share in shares):
        yield f"placement_group_config has {shares[0]:g} of a GPU: who else is on it is not known"
    if "lora_config" in about:
        yield "lora_config is not read: adapters take memory that the estimate does not count"
