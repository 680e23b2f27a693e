"""Two sides of a cluster, prefill and decode, as one scenario."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvsweep.config.cluster_section import Cluster
from kvsweep.config.pools import OF_BLOCKS, ROLES
from kvsweep.config.scenario import Scenario
from kvsweep.errors import InputError, clip, escaped, shown
from kvsweep.vllm_command.decided import Line, Settings
from kvsweep.vllm_command.nixl import keys_of_connector, role_told
from kvsweep.vllm_command.words import Command

COUNT, ROUTING = "cluster.instances", "cluster.routing"
TIER = tuple(
    f"cache.{key}"
    for key in (
        *("cpu_blocks", "offload", "offload_block_factor", "offload_prompt_only"),
        "offload_eviction",
    )
)
"""Keys of a CPU tier, which one side may have alone."""

_OF_THE_MODEL = ("model.preset", "model.config")
_OF_STEPS = ("max_num_seqs", "max_num_batched_tokens")
_TIMES = ("beta", "memory", "experts", "window")
_WORDS = {
    "prefill": r"(?<![a-z])prefill(?:er|ers|s|ing)?(?![a-z])",
    "decode": r"(?<![a-z])decod(?:e|er|ers|es|ing)(?![a-z])",
}


@dataclass
class Side:
    """Servers of a kind, each as if it were by itself.

    Attributes
    ----------
    command : Command
        What starts one of them.
    settings : Settings
        Its scenario, line by line.
    scenario : Scenario
        The same.
    notes : list of str
        What is not in the numbers.
    """

    command: Command
    settings: Settings
    scenario: Scenario
    notes: list[str]

    @property
    def instances(self) -> int:
        """How many engines they are."""
        return self.scenario.cluster.instances

    @property
    def lines(self) -> dict[str, Line]:
        """Its lines by key, without those of the cluster."""
        return {it.key: it for it in self.settings.lines if not it.key.startswith("cluster.")}


def joined(servers: Sequence[Side], given: Collection[str]) -> tuple[dict[str, Side], Settings]:
    """Return the sides of servers, and the lines of their scenario: those of decode, and pools.

    Parameters
    ----------
    servers : sequence of Side
        Two or more.
    given : collection of str
        Keys that ``--set`` gives, in which they may differ.

    Raises
    ------
    InputError
        If it is not told which of them prefill, or they differ in what all instances share.
    """
    sides = {role: _alike(found) for role, found in _by_role(servers).items()}
    prefill, decode = (sides[role][0] for role in ROLES)
    _check_shared(prefill, decode, given)
    tier = {key: line for key, line in prefill.lines.items() if key in TIER}
    counts = {role: sum(each.instances for each in found) for role, found in sides.items()}
    lines = [*(tier | decode.lines).values(), *_cluster(sides, counts)]
    found = {role: each[0] for role, each in sides.items()}
    return found, Settings(decode.settings.served, lines)


def _by_role(servers: Sequence[Side]) -> dict[str, list[Side]]:
    """Return the servers of each role."""
    told = [role_told(each.command) or _role_named(each.command.name) for each in servers]
    if None in told and len(servers) == 2 and _same(*servers) and len(set(told)) == 1:
        told = list(ROLES)  # alike, so that it does not matter which of them prefills
    where = _file(servers[0])
    if None in told:
        raise InputError(
            f"{where}: which of the {len(servers)} servers prefill is not told: give kv_role of "
            "--kv-transfer-config, kv_producer or kv_consumer, or names with prefill and decode"
        )
    found = {role: [it for it, own in zip(servers, told, strict=True) if own == role]
             for role in ROLES}  # fmt: skip
    if lacking := next((role for role in ROLES if not found[role]), None):
        told_of = f"{len(servers)} servers with NixlConnector, none of which is to {lacking}"
        raise InputError(f"{where}: {told_of}; give the servers of both sides")
    return found


def _role_named(name: str) -> str | None:
    """Return the role that a name has, as ``pd/decode/vllm``, its end first; None: it has none."""
    for part in reversed(name.lower().split("/")):
        found = [role for role, word in _WORDS.items() if re.search(word, part)]
        if len(found) == 1:
            return found[0]
    return None


def _same(one: Side, other: Side) -> bool:
    """Return whether two servers do the same."""
    told = [{key: line.value for key, line in each.lines.items()} for each in (one, other)]
    return told[0] == told[1] and one.instances == other.instances


def _alike(servers: list[Side]) -> list[Side]:
    """Return the servers of a side, which must be alike."""
    for each in servers[1:]:
        if found := next(_differences(servers[0], each), None):
            key, one, other = found
            told = f"{key}: {other}, and {one} of another server of this side"
            raise InputError(f"{_called(each)}: {told}; they must be alike")
    return servers


def _file(side: Side) -> str:
    """Return the file that has a server."""
    return side.command.where.partition(": ")[0]


def _called(side: Side) -> str:
    where, name = side.command.where, clip(escaped(side.command.name))
    return where if not name or name in where else f"{where}: {name}"


def _differences(one: Side, other: Side) -> Iterator[tuple[str, str, str]]:
    """Yield the keys in which two servers differ, and what each has, and by whom."""
    for key in one.lines | other.lines:
        told = [each.lines.get(key) for each in (one, other)]
        if len({_value(line) for line in told}) > 1:
            yield key, _said(told[0]), _said(told[1])


def _value(line: Line | None) -> str:
    return "" if line is None else repr(line.value)


def _said(line: Line | None) -> str:
    if line is None:
        return "not given"
    return f"{shown(line.value)} ({line.why})" if line.why else shown(line.value)


def _is_of_a_pool(key: str) -> bool:
    """Return whether each side may have a value of its own: blocks, batches and step times."""
    section, _, name = key.partition(".")
    if section == "model":
        return key not in (*_OF_THE_MODEL, "model.dtype")
    return section == "latency" or name in (*OF_BLOCKS, *_OF_STEPS)


def _check_shared(prefill: Side, decode: Side, given: Collection[str]) -> None:
    """Refuse sides that differ in what a scenario has once."""
    several = bool(_tier_blocks(prefill) and _tier_blocks(decode))
    for key, one, other in _differences(prefill, decode):
        if _is_of_a_pool(key) or key in given or (key in TIER and not several):
            continue
        told = f"{_file(prefill)}: {key}: {one} of prefill, {other} of decode"
        if key in _OF_THE_MODEL:
            raise InputError(f"{told}: both serve one model")
        raise InputError(f"{told}, and a sweep has it once: give it as --set {key}=...")


def _cluster(sides: Mapping[str, list[Side]], counts: Mapping[str, int]) -> Iterator[Line]:
    """Yield the lines of the cluster."""
    prefill, decode = (sides[role][0] for role in ROLES)
    own = _own(prefill, decode)
    yield Line("cluster.prefill", {"instances": counts["prefill"]} | own, _why(sides, "prefill"))
    bare = {"cpu_blocks": 0} if _tier_blocks(prefill) and not _tier_blocks(decode) else {}
    yield Line("cluster.decode", {"instances": counts["decode"]} | bare, _why(sides, "decode"))
    yield from _of_connectors(sides)
    if max(counts.values()) > 1:
        yield _routing(sides)


def _of_connectors(sides: Mapping[str, list[Side]]) -> Iterator[Line]:
    """Yield what the servers' connectors decide: leases of all, failures of those that pull.

    And whether vLLM takes those that prefill for such that load, which it asks asynchronously only.
    """
    prefilling, pulling = (sides[role] for role in ROLES)
    of_all = {"kv_lease_us": [*prefilling, *pulling], "kv_load_failure_policy": pulling}
    if prefilling[0].scenario.engine.async_scheduling:
        of_all["prefill_kv_role"] = prefilling
    for key, servers in of_all.items():
        told = [keys_of_connector(each.command).get(key) for each in servers]
        default = Cluster.model_fields[key].default
        values = {default if each is None else each[0] for each in told}
        if len(values) > 1:
            differ = f"cluster.{key}: {' and '.join(sorted(map(str, values)))}"
            raise InputError(f"{_file(servers[0])}: {differ}, and a sweep has it once")
        if found := next((each for each in told if each), None):
            yield Line(f"cluster.{key}", *found)


def _own(prefill: Side, decode: Side) -> dict[str, Any]:
    """Return what a prefill instance has that a decode instance has not."""
    found: dict[str, Any] = {}
    one, other = prefill.scenario, decode.scenario
    if one.cache.gpu_blocks != other.cache.gpu_blocks:
        found["gpu_blocks"] = one.cache.gpu_blocks
    if _tier_blocks(decode) and _tier_blocks(prefill) != _tier_blocks(decode):
        found["cpu_blocks"] = _tier_blocks(prefill)
    for key in _OF_STEPS:
        if getattr(one.engine, key) != getattr(other.engine, key):
            found[key] = getattr(one.engine, key)
    times = [{key: getattr(each.latency, key) for key in _TIMES} for each in (one, other)]
    if times[0] != times[1]:
        found["latency"] = {key: list(value) for key, value in times[0].items() if value}
    return found


def _tier_blocks(side: Side) -> int:
    """Return the blocks of the CPU tier that each server of a side has."""
    return side.scenario.cache.cpu_blocks


def _why(sides: Mapping[str, list[Side]], role: str) -> str:
    """Return who says how many instances a side has, and in what it differs from decode."""
    lines = [line for each in sides[role] for line in each.settings.lines if line.key == COUNT]
    count = len(sides[role])
    told = ", ".join(dict.fromkeys(line.why for line in lines)) or f"{count} command"
    told += "s" if not lines and count > 1 else ""
    if role == "decode":
        return told
    prefill, decode = (sides[role][0] for role in ROLES)
    keys = [key for key, _, _ in _differences(prefill, decode)]
    says = (of[key].why for key in keys for of in (prefill.lines, decode.lines) if key in of)
    options = ", ".join(dict.fromkeys(why for why in says if why.startswith("--")))
    return f"{told}; not as decode by {options}" if options else told


def _routing(sides: Mapping[str, list[Side]]) -> Line:
    """Return how instances are chosen: as the servers' own file says, or in turn."""
    lines = [it for role in ROLES for each in sides[role] for it in each.settings.lines]
    told = [line for line in lines if line.key == ROUTING]
    usual = Line(ROUTING, "round-robin", "a proxy that asks them in turn")
    return max(told, key=lambda line: line.value == "least-loaded") if told else usual
