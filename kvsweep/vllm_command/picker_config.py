"""An ``EndpointPickerConfig``: the plugins of llm-d's router, and the profiles that name them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from kvsweep.errors import InputError, clip, did_you_mean, escaped, shown
from kvsweep.limits import MAX_WEIGHT
from kvsweep.vllm_command.containers import settings
from kvsweep.vllm_command.picker_plugins import IN_PROFILES, KNOWN, PARAMETERS

KIND = "EndpointPickerConfig"
_CORRECT = "correct it, or leave the router's file out"
_SLIP = 0.9
"""How like a known name an unknown one is that is a slip; others may be of releases to come."""

REMEDY = "--set cluster.routing=... is taken instead of the router's file"
_VERSIONS = ("inference.networking.x-k8s.io/v1alpha1", "llm-d.ai/v1alpha1", "llm-d.ai/v1")
_KEYS = (
    "apiVersion", "data", "dataLayer", "featureGates", "flowControl", "kind", "metadata", "parser",
    "plugins", "requestHandler", "saturationDetector", "schedulingProfiles",
)  # fmt: skip


class Plugin(NamedTuple):
    """A plugin.

    Attributes
    ----------
    name, kind : str
        What it is called, and its type.
    parameters : dict
        Its parameters, as the file has them.
    """

    name: str
    kind: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class PickerConfig:
    """The configuration of a router.

    Attributes
    ----------
    where : str
        The file, and what has it there.
    plugins : dict of str to Plugin
        By name.
    profiles : dict of str to list of tuple of Plugin and float
        By name: its plugins, each with its weight.
    flow_control : bool
        Whether the router lets requests wait itself.
    """

    where: str
    plugins: dict[str, Plugin]
    profiles: dict[str, list[tuple[Plugin, float]]]
    flow_control: bool = False

    def problem(self, plugin: str, told: str, remedy: str = REMEDY) -> InputError:
        """Return the error of a plugin whose part in the routing cannot be taken over."""
        return InputError(f"{self.where}: {clip(escaped(plugin))}: {told}; {remedy}")

    def of_kind(self, kinds: Iterable[str]) -> list[Plugin]:
        """Return the plugins of some types."""
        return [plugin for plugin in self.plugins.values() if plugin.kind in kinds]

    def named(self, name: Any, by: str, remedy: str = REMEDY) -> Plugin:
        """Return the plugin of a name.

        Parameters
        ----------
        name : object
            What is given for it.
        by : str
            Who names it.
        remedy : str
            What else may be given.

        Raises
        ------
        InputError
            If there is none.
        """
        if not isinstance(name, str) or name not in self.plugins:
            told = f"{shown(name)}: no plugin of this name{did_you_mean(name, list(self.plugins))}"
            raise self.problem(by, told, remedy)
        return self.plugins[name]

    def parameters(self, plugin: Plugin, remedy: str = REMEDY) -> dict[str, Any]:
        """Return the parameters of a plugin that decides.

        Parameters
        ----------
        plugin : Plugin
            The plugin.
        remedy : str
            What else may be given.

        Raises
        ------
        InputError
            If no release of it has one of them.
        """
        known = PARAMETERS[plugin.kind]
        for name in plugin.parameters:
            if name not in known:
                told = f"no parameter of {plugin.kind}{did_you_mean(name, list(known))}"
                raise self.problem(plugin.name, f"{clip(escaped(str(name)))}: {told}", remedy)
        return plugin.parameters

    def number(
        self,
        plugin: Plugin,
        name: str,
        usual: float,
        most: float = math.inf,
        remedy: str = REMEDY,
    ) -> float:
        """Return a parameter that is a number, 0 or more.

        Parameters
        ----------
        plugin : Plugin
            The plugin.
        name : str
            The parameter.
        usual, most : float
            Its default, and the largest that is allowed.
        remedy : str
            What else may be given.

        Raises
        ------
        InputError
            If it is none, or more than allowed.
        """
        given = self.parameters(plugin, remedy).get(name, usual)
        limit = "" if most == math.inf else f", at most {most:g}"
        if not is_number(given) or not 0 <= given <= most:
            told = f"{name}: {shown(given)}: expected a number, 0 or more{limit}"
            raise self.problem(plugin.name, told, remedy)
        return float(given)


def is_number(given: Any) -> bool:
    """Return whether a value of YAML is a finite number."""
    kinds = isinstance(given, int | float) and not isinstance(given, bool)
    return kinds and abs(given) < math.inf


def read_config(told: dict[str, Any], where: str) -> PickerConfig:
    """Return the configuration that a table has.

    Parameters
    ----------
    told : dict
        The table.
    where : str
        What it is called in messages.

    Raises
    ------
    InputError
        If it is none.

    Examples
    --------
    >>> told = {"plugins": [{"type": "queue-scorer"}]}
    >>> [plugin.name for plugin, _ in read_config(told, "epp.yaml").profiles["default"]]
    ['queue-scorer']
    """
    _check_keys(told, _KEYS, where)
    version = told.get("apiVersion", _VERSIONS[0])
    if version not in _VERSIONS:
        raise InputError(f"{where}: apiVersion: {shown(version)}: read are {', '.join(_VERSIONS)}")
    plugins: dict[str, Plugin] = {}
    for each in _tables(told, "plugins", where):
        plugin = _plugin(each, where)
        if plugin.name in plugins:
            name = clip(escaped(plugin.name))
            raise InputError(f"{where}: plugins: {name}: is given twice; give each a name")
        plugins[plugin.name] = plugin
    found = PickerConfig(where, plugins, {}, _lets_wait(told, where))
    if told.get("schedulingProfiles") in (None, []):  # all that a profile may have are in one
        within = [(it, 1.0) for it in plugins.values() if it.kind in IN_PROFILES]
        found.profiles["default"] = within
        return found
    for each in _tables(told, "schedulingProfiles", where):
        name = _text(each, "name", f"{where}: schedulingProfiles")
        if name in found.profiles:
            raise InputError(f"{where}: schedulingProfiles: {clip(escaped(name))}: is given twice")
        found.profiles[name] = _profile(found, each, name)
    return found


def _lets_wait(told: dict[str, Any], where: str) -> bool:
    gates = told.get("featureGates") or []
    if not isinstance(gates, list):
        raise InputError(f"{where}: featureGates: expected a list, got {shown(gates)}")
    return any(gate in ("flowControl", "flowControl=true") for gate in gates)


def _profile(config: PickerConfig, about: dict[str, Any], name: str) -> list[tuple[Plugin, float]]:
    called = clip(escaped(name))
    _check_keys(about, ("name", "plugins"), f"{config.where}: profile {called}")
    found = []
    for each in _tables(about, "plugins", f"{config.where}: profile {called}"):
        _check_keys(each, ("pluginRef", "weight"), f"{config.where}: profile {called}: plugins")
        plugin = config.named(each.get("pluginRef"), f"profile {called}: pluginRef", _CORRECT)
        weight = 1.0 if each.get("weight") is None else each["weight"]
        if not is_number(weight) or not 0 <= weight <= MAX_WEIGHT:
            told = f"weight: {shown(weight)}: expected a number, 0 or more, at most {MAX_WEIGHT:g}"
            raise config.problem(plugin.name, told, _CORRECT)
        found.append((plugin, float(weight)))
    return found


def _plugin(about: dict[str, Any], where: str) -> Plugin:
    _check_keys(about, ("name", "parameters", "type"), f"{where}: plugins")
    kind = _text(about, "type", f"{where}: plugins")
    name = about.get("name") or kind
    if not isinstance(name, str):
        raise InputError(f"{where}: plugins: name: {shown(name)}: expected a name")
    told = f"{where}: {clip(escaped(name))}"
    if kind not in KNOWN and (near := get_close_matches(kind.casefold(), KNOWN, 1, _SLIP)):
        hint = f"; did you mean {near[0]!r}?"
        slip = f"type: {shown(kind)}: no plugin of llm-d's router{hint}"
        raise InputError(f"{told}: {slip}; {_CORRECT}")
    return Plugin(name, kind, settings(about, "parameters", told))


def _check_keys(about: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in about:
        if key not in known:
            hint = did_you_mean(key, list(known))
            raise InputError(f"{where}: {clip(escaped(str(key)))}: no key of an {KIND}{hint}")


def _text(about: dict[str, Any], key: str, where: str) -> str:
    found = about.get(key)
    if not isinstance(found, str) or not found:
        raise InputError(f"{where}: {key}: {shown(found)}: expected a name")
    return found


def _tables(about: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    found = about.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        told = shown(found) if not isinstance(found, list) else "other things among them"
        raise InputError(f"{where}: {key}: expected a list of tables, got {told}")
    return found
