"""Which profiles of llm-d's router are for which servers, and which requests go to both sides."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvsweep.errors import clip, escaped, shown
from kvsweep.limits import MAX_TOKENS
from kvsweep.vllm_command.containers import settings
from kvsweep.vllm_command.picker_config import PickerConfig, Plugin
from kvsweep.vllm_command.picker_plugins import (
    APART,
    DECIDERS,
    DEFAULT_DECIDER,
    OTHER_HANDLERS,
    SINGLE,
)

_INSTEAD = "--set cluster.pd_uncached_token_threshold=N, tokens, is taken instead"
_BOTH = (
    "--set cluster.routing=... is taken instead, and of prefill and decode apart with it --set "
    "cluster.pd_uncached_token_threshold=N"
)
_FIRST = ("decodefirst", "decode", "")


class Handler(NamedTuple):
    """What decides which profiles a request goes through.

    Attributes
    ----------
    plugin : Plugin or None
        It; None: the router's own, of one profile.
    profiles : dict of str to str
        Names of profiles, by role; empty: there is one profile.
    decider : Plugin or None
        What decides which requests are prefilled apart.
    """

    plugin: Plugin | None
    profiles: dict[str, str]
    decider: Plugin | None = None

    def profile(self, config: PickerConfig, role: str, *, apart: bool) -> str:
        """Return the profile of servers of a role.

        Raises
        ------
        InputError
            If the router's profiles are for other servers.
        """
        by = "schedulingProfiles" if self.plugin is None else self.plugin.name
        if apart != bool(self.profiles):
            told = "prefill and decode apart" if self.profiles else "one kind"
            other = "are of one kind" if self.profiles else "prefill and decode apart"
            raise config.problem(by, f"is for servers of {told}, and those given {other}")
        if not apart:
            return next(iter(config.profiles))
        name = self.profiles[role]
        if name not in config.profiles:
            raise config.problem(by, f"no profile is called {clip(escaped(name))}")
        return name


def handler_of(config: PickerConfig) -> Handler:
    """Return what decides which profiles a request goes through.

    Parameters
    ----------
    config : PickerConfig
        The router's configuration.

    Raises
    ------
    InputError
        If it is none that kvsweep knows.
    """
    handlers = config.of_kind((*SINGLE, *APART, *OTHER_HANDLERS))
    handlers += [it for it in config.plugins.values()
                 if it.kind.endswith("profile-handler") and it not in handlers]  # fmt: skip
    if len(handlers) > 1:
        raise config.problem(handlers[1].name, f"is a handler beside {handlers[0].name}", _BOTH)
    plugin = handlers[0] if handlers else None
    if plugin is not None and plugin.kind in APART:
        return _apart(config, plugin)
    if plugin is not None and plugin.kind not in SINGLE:
        told = "decides by what kvsweep does not know of requests"
        raise config.problem(plugin.name, told, _BOTH)
    if len(config.profiles) > 1:
        told = f"{len(config.profiles)} profiles, and no handler that decides between them"
        raise config.problem("schedulingProfiles", told, _BOTH)
    return Handler(plugin, {})


def _apart(config: PickerConfig, plugin: Plugin) -> Handler:
    given = config.parameters(plugin, _BOTH)
    own = settings(given, "profiles", f"{config.where}: {plugin.name}")
    profiles = {}
    for role in ("prefill", "decode"):
        name = own.get(role) or given.get(f"{role}Profile") or role
        if not isinstance(name, str):
            told = f"profiles: {role}: {shown(name)}: expected a name"
            raise config.problem(plugin.name, told, _BOTH)
        profiles[role] = name
    return Handler(plugin, profiles, _decider(config, plugin, given))


def _decider(config: PickerConfig, plugin: Plugin, given: dict[str, Any]) -> Plugin | None:
    deciders = settings(given, "deciders", f"{config.where}: {plugin.name}")
    name = deciders.get("prefill") or given.get("deciderPluginName")
    if name is None and plugin.kind == "pd-profile-handler":
        name = DEFAULT_DECIDER if DEFAULT_DECIDER in config.plugins else None
    return None if name is None else config.named(name, plugin.name, _BOTH)


def threshold_of(config: PickerConfig, handler: Handler) -> tuple[int | None, str]:
    """Return up to how many uncached tokens a prompt stays, and who says so; None: all go.

    Parameters
    ----------
    config : PickerConfig
        The router's configuration.
    handler : Handler
        Its handler.

    Raises
    ------
    InputError
        If it is of something that kvsweep does not count.
    """
    plugin, decider = handler.plugin, handler.decider
    if plugin is None or plugin.kind not in APART:
        return None, ""
    given = config.parameters(plugin, _BOTH)
    if decider is None:
        if plugin.kind == "pd-profile-handler":
            if config.number(plugin, "threshold", 0, remedy=_INSTEAD):
                told = "threshold: counts characters of a prompt, not tokens"
                raise config.problem(plugin.name, told, _INSTEAD)
            return None, ""
        order = str(given.get("stageOrder") or "")
        if order.lower().replace("-", "").replace("_", "") not in _FIRST:
            return None, ""
        raise config.problem(plugin.name, "no decider, so none is prefilled apart", _INSTEAD)
    if decider.kind not in DECIDERS:
        told = f"no decider that kvsweep knows ({', '.join(DECIDERS)})"
        raise config.problem(decider.name, told, _INSTEAD)
    if decider.kind != DEFAULT_DECIDER:
        return None, ""
    tokens = config.number(decider, "nonCachedTokens", 0, MAX_TOKENS, _INSTEAD)
    if config.number(decider, "promptTokens", 0, remedy=_INSTEAD) > tokens > 0:
        told = "promptTokens: lets more stay than nonCachedTokens, which is not simulated"
        raise config.problem(decider.name, told, _INSTEAD)
    if tokens != int(tokens):
        told = f"nonCachedTokens: {tokens:g}: expected a whole number"
        raise config.problem(decider.name, told, _INSTEAD)
    if tokens == 0:
        told = "nonCachedTokens: 0: none is prefilled apart"
        raise config.problem(decider.name, told, _INSTEAD)
    return int(tokens) - 1, decider.name
