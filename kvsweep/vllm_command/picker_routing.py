"""What a profile of llm-d's router is as a routing of kvsweep: the nearest one, or none."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from kvsweep.errors import clip, escaped, shown
from kvsweep.limits import MAX_LEAD_TOKENS
from kvsweep.policies import Routing
from kvsweep.vllm_command.picker_config import PickerConfig, Plugin
from kvsweep.vllm_command.picker_index import Index, check_loads, index_of
from kvsweep.vllm_command.picker_plugins import (
    ACTIVE,
    AFFINITY,
    ALIKE,
    ANY,
    BEST,
    BY_CHANCE,
    BY_LABEL,
    BY_LOAD,
    OF_ROLES,
    PRECISE,
    PREFIX,
    QUEUE,
    SCORES,
    TOKEN_LOAD,
)

FEWEST_TOKENS = (1.0, 1)
"""`sticky_threshold` and `sticky_lead_tokens` that keep nothing where it is.

Who knows all full blocks of a prompt, and has no more than a token above the others' least, has the
fewest tokens with the prompt's own anyway: the others lack a block of it.
"""

_OF_EQUALS = "of equals the first server is taken here, in llm-d any, or the next"
_FRESH = "figures of queues and caches are fresh here, in llm-d as old as its last look, 50 ms"


class Choice(NamedTuple):
    """How a server is chosen.

    Attributes
    ----------
    routing : str
        One of `kvsweep.policies.Routing`.
    by : str
        The plugins that say so.
    scorers : dict or None
        Weights, by kvsweep's scorers.
    sticky : tuple of float and int, or None
        `sticky_threshold` and `sticky_lead_tokens`.
    memory : Index or None
        What the router remembers.
    notes : tuple of str
        How the router's own choice differs.
    """

    routing: str
    by: str
    scorers: dict[str, float] | None = None
    sticky: tuple[float, int] | None = None
    memory: Index | None = None
    notes: tuple[str, ...] = ()


def choice_of(config: PickerConfig, profile: str) -> Choice:
    """Return what a profile of a router is as a routing of kvsweep.

    Parameters
    ----------
    config : PickerConfig
        The router's configuration.
    profile : str
        The name of one of its profiles.

    Raises
    ------
    InputError
        If a plugin decides what no routing of kvsweep has.
    """
    scored: list[tuple[Plugin, float]] = []
    keeping: list[Plugin] = []
    notes: list[str] = []
    picker = BEST
    for plugin, weight in config.profiles[profile]:
        if plugin.kind in (*SCORES, *BY_LOAD, TOKEN_LOAD):
            config.parameters(plugin)
            scored += [(plugin, weight)] if weight > 0 else []
        elif plugin.kind == AFFINITY:
            keeping += [plugin] if config.number(plugin, "affinityThreshold", 0.8, 1) > 0 else []
        elif plugin.kind in (BEST, ANY, BY_CHANCE):
            config.parameters(plugin)
            picker = plugin.kind
        elif plugin.kind in ALIKE:
            notes.append(f"{plugin.kind}: scores all servers alike, as no adapters are simulated")
        elif plugin.kind in BY_LABEL:
            notes.append(f"{plugin.kind}: labels are not read, all servers of a kind are asked")
        elif plugin.kind.endswith("-scorer") and weight == 0:
            continue
        elif plugin.kind not in OF_ROLES:
            raise config.problem(plugin.name, f"kvsweep has nothing like {_called(plugin)}")
    if picker == BY_CHANCE:
        raise config.problem(picker, "draws by scores, and kvsweep takes the highest")
    if picker == ANY:
        found = _any(config, keeping)
    else:
        found = _kept(config, keeping, scored) if keeping else _scored(config, scored)
    return found._replace(notes=(*found.notes, *notes))


def _called(plugin: Plugin) -> str:
    return clip(escaped(plugin.kind)) if plugin.name != plugin.kind else "it"


def _any(config: PickerConfig, keeping: list[Plugin]) -> Choice:
    if keeping:
        raise config.problem(ANY, f"draws among what {AFFINITY} keeps, which kvsweep does not")
    told = f"{ANY}: servers are asked in turn here, which is more even than at random"
    return Choice(Routing.ROUND_ROBIN.label, ANY, notes=(told,))


def _kept(
    config: PickerConfig, keeping: list[Plugin], scored: list[tuple[Plugin, float]]
) -> Choice:
    """Return the choice of a filter that keeps requests where their prompts' beginnings went."""
    plugin = keeping[0]
    if len(keeping) > 1:
        raise config.problem(keeping[1].name, f"a second {AFFINITY}, and sticky routing has one")
    kinds = [scorer.kind for scorer, _ in scored]
    if kinds != [TOKEN_LOAD]:
        told = ", ".join(kinds) or "no scorer"
        raise config.problem(plugin.name, f"with {told}: sticky routing has {TOKEN_LOAD} after it")
    if config.number(plugin, "explorationProbability", 0, 1):
        told = "explorationProbability: sticky routing does not explore; leave it out"
        raise config.problem(plugin.name, told)
    threshold = config.number(plugin, "affinityThreshold", 0.8, 1)
    index, notes = index_of(config, plugin)
    check_loads(config, scored[0][0])
    by = f"{plugin.name}, {scored[0][0].name}"
    lead = _lead(config, plugin)
    told_too = _capped(config, scored[0][0])
    sticky = (threshold, lead)
    return Choice(Routing.STICKY.label, by, None, sticky, index, (*notes, *told_too))


def _lead(config: PickerConfig, plugin: Plugin) -> int:
    """Return how many more tokens in flight end stickiness; 0: it has no end."""
    given = config.parameters(plugin)
    for file in ("prefillCalibrationFile", "prefillCalibrationRequired"):
        if given.get(file) and "peakPrefillThroughput" not in given:
            told = f"{file}: is of the cluster: give peakPrefillThroughput as it is there"
            raise config.problem(plugin.name, told)
    source = given.get("ttftSource", "prefillThroughput")
    longest = config.number(plugin, "maxTTFTPenaltyMs", 18_000)
    if source != "prefillThroughput" and longest > 0:
        told = f"ttftSource: {shown(source)}: only prefillThroughput, its default, is simulated"
        raise config.problem(plugin.name, told)
    tokens = Fraction(config.number(plugin, "maxTokensInFlightPenalty", 0))
    if "maxTokensInFlightPenalty" in given:
        predicted = bool(config.of_kind(("predicted-latency-producer",)))
        if given.get("maxTTFTPenaltyMs", predicted):
            told = "of predicted latencies beside maxTokensInFlightPenalty, and not simulated"
            raise config.problem(plugin.name, f"maxTTFTPenaltyMs: is {told}: give 0")
    else:
        rate = Fraction(config.number(plugin, "peakPrefillThroughput", 15_928))
        if longest > 0 and not rate:
            told = "peakPrefillThroughput: 0: expected more than 0, or maxTTFTPenaltyMs: 0"
            raise config.problem(plugin.name, told)
        tokens = Fraction(longest) * rate / 1000
    # 0 has no end, and less than a token has.
    return min(max(math.floor(tokens), 1), MAX_LEAD_TOKENS) if tokens else 0


def _capped(config: PickerConfig, scorer: Plugin) -> tuple[str, ...]:
    """Say that a scorer does not tell loads apart that are larger than a threshold."""
    usual = 4_194_304
    most = config.number(scorer, "queueThresholdTokens", usual)
    if not 0 < most < usual:
        return ()
    return (f"{scorer.name}: tells no loads above {most:g} tokens apart, here they are",)


def _scored(config: PickerConfig, scored: list[tuple[Plugin, float]]) -> Choice:
    """Return the choice of scorers alone."""
    if not scored:
        told = "no scorer: llm-d takes any server, here they are asked in turn"
        return Choice(Routing.ROUND_ROBIN.label, "no scorer", notes=(told,))
    if len(scored) == 1:
        plugin = scored[0][0]
        if plugin.kind == TOKEN_LOAD:
            check_loads(config, plugin)
            index, notes = index_of(config, plugin)
            told = f"{plugin.name} alone: sticky, with a threshold and a lead that keep nothing"
            notes = (told, *notes, *_capped(config, plugin))
            return Choice(Routing.STICKY.label, plugin.name, None, FEWEST_TOKENS, index, notes)
        if plugin.kind in BY_LOAD:
            return _least_loaded(config, plugin)
    return _weighted(config, scored)


def _least_loaded(config: PickerConfig, plugin: Plugin) -> Choice:
    if plugin.kind == ACTIVE:
        _check_active(config, plugin)
        notes: tuple[str, ...] = (_OF_EQUALS,)
    else:
        counted = "counts waiting requests alone, least-loaded running ones too"
        notes = (f"{plugin.name}: {counted}", _OF_EQUALS, _FRESH)
    return Choice(Routing.LEAST_LOADED.label, plugin.name, notes=notes)


def _check_active(config: PickerConfig, plugin: Plugin) -> None:
    if config.number(plugin, "idleThreshold", 0):
        told = "idleThreshold: takes servers for idle that are not, which kvsweep does not"
        raise config.problem(plugin.name, told)
    if not config.number(plugin, "maxBusyScore", 1, 1):
        raise config.problem(plugin.name, "maxBusyScore: 0: tells no busy servers apart")


def _weighted(config: PickerConfig, scored: list[tuple[Plugin, float]]) -> Choice:
    scorers: dict[str, float] = {}
    notes: list[str] = []
    index = None
    for plugin, weight in scored:
        if plugin.kind not in SCORES:
            told = f"kvsweep has nothing like {_called(plugin)} beside other scorers"
            raise config.problem(plugin.name, told)
        name = SCORES[plugin.kind]
        if plugin.kind == PREFIX:
            index, told_too = _prefix(config, plugin)
            name = name if index else SCORES[PRECISE]
            notes += told_too
        if name in scorers:
            raise config.problem(plugin.name, f"a second scorer that is {name} in kvsweep")
        scorers[name] = weight
        if plugin.kind == PRECISE:
            told = "share of the prompt, older routers set the best to 1 and the worst to 0"
            notes.append(f"{plugin.name}: is the cached {told}")
        if plugin.kind == QUEUE:
            notes.append(f"{plugin.name}: counts waiting requests, queue-depth running ones too")
    by = ", ".join(plugin.name for plugin, _ in scored)
    indexes = index if "prefix-affinity" in scorers else None
    notes += [_OF_EQUALS] if set(scorers) <= {"prefix-affinity"} else [_OF_EQUALS, _FRESH]
    return Choice(Routing.WEIGHTED.label, by, scorers, None, indexes, tuple(notes))


def _prefix(config: PickerConfig, plugin: Plugin) -> tuple[Index | None, tuple[str, ...]]:
    """Return the index of a scorer of prefixes; None: it reads the caches' own events."""
    for name in ("prefixLengthWeight", "matchLengthWeight"):
        if config.number(plugin, name, 0, 1):
            told = f"{name}: lengths of prefixes, beside their share, are not scored in kvsweep"
            raise config.problem(plugin.name, told)
    mode = config.parameters(plugin).get("mode", "estimate")
    if mode not in ("estimate", "cache_tracking"):
        told = f"mode: {shown(mode)}: expected estimate or cache_tracking"
        raise config.problem(plugin.name, told)
    if mode == "cache_tracking":
        return None, ()
    index, notes = index_of(config, plugin)
    return (None, ()) if index.precise else (index, notes)
