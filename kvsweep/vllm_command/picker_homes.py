"""Where files have the configuration of llm-d's router: by itself, in a ConfigMap, or in values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.limits import MAX_SCRIPT_CHARACTERS
from kvsweep.vllm_command.containers import table
from kvsweep.vllm_command.manifests import begins_as_yaml, is_manifest, split_documents, starts_some
from kvsweep.vllm_command.picker_config import KIND, REMEDY, PickerConfig, read_config
from kvsweep.vllm_command.yaml_text import parse_yaml

# Not in a comment; a text of several lines may be one in quotes.
_TEXT = re.compile(rf"^(?![ \t]*#).*kind\\?[\"']?[ \t]*:[ \t]*\\?[\"']?{KIND}\b", re.MULTILINE)
_VALUES = re.compile(
    r"^(?![ \t]*#).*plugins(?:ConfigFile|CustomConfig|Config)\\?[\"']?[ \t]*:", re.MULTILINE
)
_FLAG = re.compile(r"--?config-?(file|text)(?:=(.*))?", re.DOTALL | re.IGNORECASE)
_OF_INTEREST = re.compile(rf"{KIND}|plugins(?:Config|Custom)|config-?file", re.IGNORECASE)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OWN, _CUSTOM, _NAMED = "pluginsConfig", "pluginsCustomConfig", "pluginsConfigFile"

DEFAULT = "default-plugins.yaml"
_OF_THE_CHART: dict[str, dict[str, Any]] = {
    DEFAULT: {
        "plugins": [{"type": name} for name in (
            "queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer",
        )],
        "schedulingProfiles": [{"name": "default", "plugins": [
            {"pluginRef": "queue-scorer", "weight": 2},
            {"pluginRef": "kv-cache-utilization-scorer", "weight": 2},
            {"pluginRef": "prefix-cache-scorer", "weight": 3},
        ]}],
    },
    "payload-agnostic.yaml": {
        "plugins": [{"type": "active-request-scorer"}, {"type": "session-affinity-scorer"}],
    },
}  # fmt: skip
"""Files that the router's chart has itself (llm-d-router 00bacf3a)."""


@dataclass
class _Found:
    """What files have of a router.

    Attributes
    ----------
    configs : list of tuple of str, str or None and dict
        Where one is, the name of its file if it has one, and itself.
    by_flag : set of str
        Names of files that ``--config-file`` gives.
    by_values : dict of str to set of str
        The same of ``pluginsConfigFile``, by file; the last one's hold, as of ``helm -f``.
    predicts : bool
        Whether values have the latency predictor on, which changes the chart's default.
    """

    configs: list[tuple[str, str | None, dict[str, Any]]] = field(default_factory=list)
    by_flag: set[str] = field(default_factory=set)
    by_values: dict[str, set[str]] = field(default_factory=dict)
    predicts: bool = False


def tells_router(text: str) -> bool:
    r"""Return whether a text may have the configuration of a router.

    Examples
    --------
    >>> tells_router("kind: EndpointPickerConfig\n"), tells_router("kind: Deployment\n")
    (True, False)
    """
    told = _TEXT.search(text) or _VALUES.search(text)
    return told is not None and begins_as_yaml(text)


def is_router_alone(text: str, where: str) -> bool:
    """Return whether a file has the configuration of a router, and no server.

    Parameters
    ----------
    text, where : str
        The file, and its name.
    """
    return tells_router(text) and not (is_manifest(text) and starts_some(text, where))


def picker_of(files: Sequence[tuple[str, str]], *, routed: bool = False) -> PickerConfig | None:
    """Return the configuration of a router that files have; None: they have none.

    Parameters
    ----------
    files : sequence of tuple of str
        Names and texts.
    routed : bool
        Whether the routing is given besides: of several configurations none is read then.

    Raises
    ------
    InputError
        If it cannot be read, or there are several.
    """
    found = _Found()
    for where, text in files:
        for part in _documents(text, where) if tells_router(text) else ():
            _look(part, where, found)
    taken = _taken(found)
    for where, _, config in taken[1:]:
        if _bare(config) != _bare(taken[0][2]):
            if routed:
                return None
            told = f"another {KIND} than {taken[0][0]}; a cluster has one: give the one that holds"
            raise InputError(f"{where}: {told}, or {REMEDY}")
    return read_config(taken[0][2], taken[0][0]) if taken else None


def _bare(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in ("apiVersion", "metadata")}


def _documents(text: str, where: str) -> Iterator[Any]:
    for part, before in split_documents(text):
        if _OF_INTEREST.search(part):
            if len(part) > MAX_SCRIPT_CHARACTERS:
                most = f"a document has at most {MAX_SCRIPT_CHARACTERS:,}"
                raise InputError(f"{where}: {len(part):,} characters; {most}")
            yield parse_yaml(part, where, before, strict=True)


def _look(document: Any, where: str, found: _Found) -> None:
    """Note what a document has, wherever it is."""
    rest: list[Any] = [document]
    seen: set[int] = set()  # anchors of YAML are the same again and again
    while rest:
        part = rest.pop()
        if id(part) in seen or not isinstance(part, dict | list):
            continue
        seen.add(id(part))
        if isinstance(part, list):
            _of_arguments(part, where, found)
            rest += part
            continue
        if part.get("kind") == KIND:
            found.configs.append((where, None, part))
            continue
        _of_values(part, where, found)
        for key, value in part.items():
            if isinstance(value, str) and key != _APPLIED:
                rest += _of_text(str(key), value, where, found)
            elif key != _OWN:
                rest.append(value)


def _of_text(name: str, text: str, where: str, found: _Found) -> list[Any]:
    """Note a configuration that is a text; values that are one are returned."""
    if not _TEXT.search(text) and not _VALUES.search(text):
        return []
    called = f"{where}: {clip(escaped(name))}"
    value = parse_yaml(text, called, strict=True)
    if isinstance(value, dict) and value.get("kind") == KIND:
        found.configs.append((called, PurePath(name).name, value))
        return []
    return [value] if _VALUES.search(text) else []


def _of_arguments(words: list[Any], where: str, found: _Found) -> None:
    """Note which file a container's arguments name, or the text that they have."""
    for word, following in zip_longest(words, words[1:]):
        told = _FLAG.fullmatch(word) if isinstance(word, str) else None
        value = None if told is None else (told[2] if told[2] is not None else following)
        if told is None or not isinstance(value, str):
            continue
        if told[1].lower() == "file":
            found.by_flag.add(PurePath(value).name)
        elif _TEXT.search(value):
            config = parse_yaml(value, f"{where}: --config-text", strict=True)
            if isinstance(config, dict):
                found.configs.append((f"{where}: --config-text", None, config))


def _of_values(part: dict[str, Any], where: str, found: _Found) -> None:
    """Note what values of the router's chart have."""
    if table(part, "latencyPredictor").get("enabled") is True:
        found.predicts = True
    name = part.get(_NAMED)
    if name is not None:
        if not isinstance(name, str) or not name:
            raise InputError(f"{where}: {_NAMED}: {shown(name)}: expected the name of a file")
        found.by_values.setdefault(where, set()).add(PurePath(name).name)
    own = part.get(_OWN)
    if isinstance(own, dict) and own.get("plugins"):
        found.configs.append((f"{where}: {_OWN}", None, {"kind": KIND, **own}))
    custom = part.get(_CUSTOM)
    for key, value in custom.items() if isinstance(custom, dict) else ():
        if isinstance(value, dict) and "plugins" in value and value.get("kind") != KIND:
            raise InputError(f"{where}: {_CUSTOM}: {clip(escaped(str(key)))}: kind: missing")


def _taken(found: _Found) -> list[tuple[str, str | None, dict[str, Any]]]:
    """Return the configurations that hold: those by themselves, and those that are named."""
    alone = [each for each in found.configs if each[1] is None]
    named = {name for _, name, _ in found.configs if name is not None}
    chosen = found.by_flag & named
    if not chosen and found.by_values:
        where, chosen = list(found.by_values.items())[-1]
        for name in sorted(chosen - named):
            alone.append((f"{where}: {name}", None, _of_the_chart(name, where, found, named)))
    if not chosen:
        chosen = named
    return [*alone, *(each for each in found.configs if each[1] in chosen)]


def _of_the_chart(name: str, where: str, found: _Found, named: set[str]) -> dict[str, Any]:
    """Return a configuration that the chart has itself."""
    if name in _OF_THE_CHART and not (name == DEFAULT and found.predicts):
        return _OF_THE_CHART[name]
    if name == DEFAULT:
        told = "with latencyPredictor it is by predicted latencies, which kvsweep has not"
    else:
        hint = did_you_mean(name, list(named))
        told = f"no file of {_CUSTOM}{hint}; give the one that has it"
    raise InputError(f"{where}: {_NAMED}: {shown(name)}: {told}, or leave the router's file out")
