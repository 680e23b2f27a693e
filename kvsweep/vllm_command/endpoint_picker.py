"""Lines of a sweep from the configuration of llm-d's router: who is asked, and who prefills."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kvsweep.config.compose import parse_override
from kvsweep.config.pools import BOTH_ROLES, ROLES
from kvsweep.config.scenario import Scenario
from kvsweep.errors import InputError, clip, escaped
from kvsweep.policies import Routing, Scorer
from kvsweep.vllm_command.decided import Line, Settings
from kvsweep.vllm_command.picker_config import KIND, REMEDY, PickerConfig
from kvsweep.vllm_command.picker_decider import Handler, handler_of, threshold_of
from kvsweep.vllm_command.picker_plugins import KNOWN, REJECTING
from kvsweep.vllm_command.picker_routing import Choice, choice_of

COUNT, ROUTING, SCORERS = "cluster.instances", "cluster.routing", "cluster.scorers"
THRESHOLD, LEAD = "cluster.sticky_threshold", "cluster.sticky_lead_tokens"
CACHING = "engine.enable_prefix_caching"
DECIDER, INDEX = "cluster.pd_uncached_token_threshold", "cluster.router_index_blocks"

_RULES = (
    "kvsweep's rules are taken from llm-d-router's pages and sources, and not compared with a run "
    "of it"
)


def no_server(where: str) -> InputError:
    """Return the error of a router's configuration without a server."""
    told = f"has the configuration of llm-d's router ({KIND}) alone, and no server"
    return InputError(f"{where}: {told}: give the servers' file beside it")


def route(settings: Settings, config: PickerConfig, overrides: Sequence[str]) -> dict[str, Choice]:
    """Put what a router's configuration decides in place of what is usual.

    Parameters
    ----------
    settings : Settings
        The lines, which are changed, and notes.
    config : PickerConfig
        The configuration.
    overrides : sequence of str
        What ``--set`` gives, ``KEY=VALUE`` each, which has the last word.

    Returns
    -------
    choices : dict of str to Choice
        What the router decides, by role.

    Raises
    ------
    InputError
        If a plugin decides what kvsweep has not.
    """
    given = dict(parse_override(text) for text in overrides)
    counts = _counts(settings, given)
    several = [role for role, count in counts.items() if count > 1]
    notes: list[str] = []
    decides = len(counts) > 1 and DECIDER not in given
    handler = handler_of(config) if decides or (several and ROUTING not in given) else None
    if handler is not None and decides:
        _decide(settings, config, handler, notes)
    choices: dict[str, Choice] = {}
    if ROUTING in given:
        notes.append(f"{config.where}: its profiles are not read, as {ROUTING} is given")
    elif not several:
        notes.append(f"{config.where}: decides nothing where there is one server")
    else:
        assert handler is not None
        own = {role: f"cluster.{role}.routing" for role in ROLES}
        for role in several:
            if own.get(role) not in given:
                profile = handler.profile(config, role, apart=len(counts) > 1)
                choice = choice_of(config, profile)
                choices[role] = choice if _caches(settings, given) else _blind(choice)
    _put(settings, config, choices, given)
    notes += _told(config, choices)
    settings.notes[:0] = notes
    return choices


def _counts(settings: Settings, given: Mapping[str, Any]) -> dict[str, int]:
    """Return how many servers each role has, as lines and ``--set`` say."""
    lines = {line.key: line.value for line in settings.lines}
    if not any(f"cluster.{role}" in lines for role in ROLES):
        count = given.get(COUNT, lines.get(COUNT, 1))
        several = "cluster.pools" in given or not isinstance(count, int)
        return {BOTH_ROLES: 2 if several else count}
    found = {}
    for role in ROLES:
        whole = given.get(f"cluster.{role}")
        told = whole if isinstance(whole, dict) else lines.get(f"cluster.{role}", {})
        count = given.get(f"cluster.{role}.instances", told.get("instances", 1))
        found[role] = count if isinstance(count, int) else 2
    return found


def _caches(settings: Settings, given: Mapping[str, Any]) -> bool:
    """Return whether servers cache prefixes."""
    lines = {line.key: line.value for line in settings.lines}
    found = given.get(CACHING, lines.get(CACHING, True))
    return found is not False


def _blind(choice: Choice) -> Choice:
    """Return a choice without the scorer of what caches hold, where they hold nothing."""
    precise = Scorer.PRECISE_PREFIX.label
    if choice.scorers is None or precise not in choice.scorers:
        return choice
    rest = {name: weight for name, weight in choice.scorers.items() if name != precise}
    notes = (f"{precise}: tells nothing without prefix caching, so it is left out",)
    if rest:
        return choice._replace(scorers=rest, notes=(*choice.notes, *notes))
    return Choice(Routing.ROUND_ROBIN.label, choice.by, notes=notes)


def _decide(settings: Settings, config: PickerConfig, handler: Handler, notes: list[str]) -> None:
    """Put in which requests are prefilled where they are decoded."""
    tokens, by = threshold_of(config, handler)
    if tokens is None:
        return
    settings.lines.append(Line(DECIDER, tokens, f"{config.where}: {by}, {tokens + 1} and more go"))
    notes.append(
        f"{by}: llm-d judges by characters or tokens, and its router's index; here the cache of "
        "the decode instance counts"
    )


def _put(
    settings: Settings,
    config: PickerConfig,
    choices: Mapping[str, Choice],
    given: Collection[str],
) -> None:
    """Put the lines of choices in place of the usual one: for all, or in each pool."""
    if not choices:
        return
    kinds = [(choice.routing, choice.scorers) for choice in choices.values()]
    apart = any(kind != kinds[0] for kind in kinds)
    settings.lines[:] = [line for line in settings.lines if line.key != ROUTING]
    if apart:
        for at, line in enumerate(settings.lines):
            if (choice := choices.get(line.key.removeprefix("cluster."))) is not None:
                own = {"routing": choice.routing}
                more = {} if choice.scorers is None else {"scorers": choice.scorers}
                why = f"{line.why}; routing by {_by(config, choice)}"
                settings.lines[at] = Line(line.key, {**line.value, **own, **more}, why)
    else:
        first = next(iter(choices.values()))
        settings.lines.append(Line(ROUTING, first.routing, _by(config, first)))
        if first.scorers is not None:
            settings.lines.append(Line(SCORERS, first.scorers, "their weights"))
    kept = {choice.sticky: choice for choice in choices.values() if choice.sticky is not None}
    if len(kept) > 1 and not {THRESHOLD, LEAD} <= set(given):
        told = f"prefill and decode differ in how long they keep requests: give {THRESHOLD} and"
        raise InputError(f"{config.where}: {told} {LEAD} by --set; {REMEDY}")
    for sticky, choice in list(kept.items())[:1]:
        assert sticky is not None
        plugin = choice.by.partition(", ")[0]
        for key, value in zip((THRESHOLD, LEAD), sticky, strict=True):
            settings.lines.append(Line(key, value, plugin))


def _by(config: PickerConfig, choice: Choice) -> str:
    return f"{config.where}: {choice.by}"


def _told(config: PickerConfig, choices: Mapping[str, Choice]) -> list[str]:
    """Return what there is to say of a router."""
    found: dict[str, list[str]] = {}
    for role, choice in choices.items():
        found.setdefault(f"{choice.routing} routing is that of {_by(config, choice)}", [])
        for note in choice.notes:
            found.setdefault(note, []).append(role)
    told = [
        f"{of[0]}: {note}" if len(of) == 1 and len(choices) > 1 else note
        for note, of in found.items()
    ]
    if not choices:
        return told
    told.append(_RULES)
    if config.flow_control:
        told.append(f"{config.where}: flowControl: the router lets none wait in kvsweep")
    if others := [it.kind for it in config.plugins.values() if it.kind not in KNOWN]:
        names = clip(escaped(", ".join(dict.fromkeys(others))))
        told.append(f"{config.where}: not known here, and in no profile: {names}")
    for plugin in config.of_kind(REJECTING):
        told.append(f"{config.where}: {plugin.name}: turns requests away, which is not simulated")
    return told


def remember(settings: Settings, choices: Mapping[str, Choice], scenario: Scenario) -> bool:
    """Put in how many blocks a router remembers of a server, and return whether it has an index.

    Parameters
    ----------
    settings : Settings
        The lines, which are changed, and notes.
    choices : mapping of str to Choice
        What it decides.
    scenario : Scenario
        What is simulated so far.
    """
    told = []
    for role, choice in choices.items():
        if choice.memory is not None:
            pool = None if role == BOTH_ROLES else getattr(scenario.cluster, role)
            own = None if pool is None else pool.gpu_blocks
            blocks = scenario.cache.gpu_blocks if own is None else own
            told.append((choice.memory.blocks(blocks, scenario.cache.block_size), choice.memory))
    if not told:
        return False
    blocks, index = max(told, key=lambda each: each[0])
    many = "as many as the cache has" if index.entries is None else f"{index.entries:,}"
    of = "" if index.unit <= scenario.cache.block_size else f", of {index.unit} tokens each"
    settings.lines.append(Line(INDEX, blocks, f"{index.by}: {many}{of}"))
    longest = scenario.engine.max_model_len
    if index.longest and (longest is None or longest > index.longest):
        part = f"the first {index.longest:,} tokens of a prompt"
        settings.notes.append(f"{index.by}: knows {part}, kvsweep's index all")
    return True
