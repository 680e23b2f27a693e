"""What llm-d's router remembers of the prompts that it sent: how many blocks of each server."""

from __future__ import annotations

from typing import NamedTuple

from kvsweep.errors import shown
from kvsweep.limits import MAX_BLOCKS
from kvsweep.vllm_command.picker_config import PickerConfig, Plugin
from kvsweep.vllm_command.picker_plugins import APPROXIMATE, PRECISE, PREFIX, TOKEN_LOAD

LEAST_UNIT = 64
"""Tokens of the shortest block that the router tells apart (llm-d-router 09a534fc)."""

USUAL_ENTRIES, USUAL_TOKENS = 31_250, 131_072
"""Defaults of the router's index: blocks of a server, and tokens of a prompt that it looks at."""

_PRODUCER = "prefixMatchInfoProducerName"
_LOADS = "inFlightLoadProducerName"
_TRACKING = ("precise-prefix-cache-producer", PRECISE)


class Index(NamedTuple):
    """An index of prompts.

    Attributes
    ----------
    entries : int or None
        Its blocks of a server; None: as many as its cache has.
    unit : int
        Tokens of a block, at least; 0: as many as the cache's have.
    longest : int
        Tokens of a prompt that it looks at; 0: all.
    precise : bool
        Whether it hears of the caches' events.
    by : str
        The plugin that makes it.
    """

    entries: int | None = None
    unit: int = LEAST_UNIT
    longest: int = USUAL_TOKENS
    precise: bool = False
    by: str = APPROXIMATE

    def blocks(self, gpu_blocks: int, block_size: int) -> int:
        """Return how many blocks of the cache's size it remembers of a server.

        Examples
        --------
        >>> Index().blocks(20_000, 16), Index(precise=True, unit=0).blocks(20_000, 16)
        (80000, 20000)
        """
        entries = gpu_blocks if self.entries is None else self.entries
        return min(max(entries * max(self.unit, block_size) // block_size, 1), MAX_BLOCKS)


def index_of(config: PickerConfig, plugin: Plugin) -> tuple[Index, tuple[str, ...]]:
    """Return the index that a plugin reads, and how kvsweep's differs.

    Parameters
    ----------
    config : PickerConfig
        The router's configuration.
    plugin : Plugin
        A filter or a scorer.

    Raises
    ------
    InputError
        If it is none that kvsweep has.
    """
    given = config.parameters(plugin)
    if plugin.kind == PREFIX and (own := [key for key in given if key.startswith("lruCap")]):
        entries = _whole(config, plugin, own[0], USUAL_ENTRIES)  # as before there were producers
        return Index(entries or USUAL_ENTRIES, 0, 0, False, plugin.name), ()
    name = given.get(_PRODUCER)
    if plugin.kind == TOKEN_LOAD:
        name = _of_loads(config, given.get(_LOADS))
    if name in (None, "", APPROXIMATE) and APPROXIMATE not in config.plugins:
        return Index(), ()  # the router makes one, with its defaults
    producer = config.named(name or APPROXIMATE, plugin.name)
    if producer.kind in _TRACKING:
        told = f"{producer.name}: hears of what caches evict, kvsweep's index of sticky does not"
        return Index(None, 0, 0, True, producer.name), (told,)
    if producer.kind != APPROXIMATE:
        told = f"{_PRODUCER}: {shown(producer.kind)}: kvsweep has no such index"
        raise config.problem(plugin.name, told)
    return _approximate(config, producer), ()


def check_loads(config: PickerConfig, plugin: Plugin) -> None:
    """Refuse loads that count tokens of answers too.

    Raises
    ------
    InputError
        Naming what counts them.
    """
    producer = _loads(config, config.parameters(plugin).get(_LOADS))
    for name in ("addEstimatedOutputTokens", "includeOutputTokens"):
        if producer is not None and producer.parameters.get(name) not in (None, False):
            told = f"{name}: tokens of answers are no load of sticky routing; leave it out"
            raise config.problem(producer.name, told)


def _loads(config: PickerConfig, name: object) -> Plugin | None:
    """Return the producer of loads; None: the router makes one, with its defaults."""
    usual = "inflight-load-producer"
    if name in (None, "") and usual not in config.plugins:
        return None
    return config.named(name or usual, TOKEN_LOAD)


def _of_loads(config: PickerConfig, name: object) -> str | None:
    """Return the producer of prefixes that one of loads reads, which discounts what is cached."""
    producer = _loads(config, name)
    found = None if producer is None else producer.parameters.get(_PRODUCER)
    return found if isinstance(found, str) else None


def _approximate(config: PickerConfig, plugin: Plugin) -> Index:
    given = config.parameters(plugin)
    tuned = given.get("autoTune", True)
    if not isinstance(tuned, bool):
        told = f"autoTune: {shown(tuned)}: expected true or false"
        raise config.problem(plugin.name, told)
    unit = max(_whole(config, plugin, "blockSizeTokens", 0), LEAST_UNIT)
    entries = _whole(config, plugin, "lruCapacityPerServer", USUAL_ENTRIES) or USUAL_ENTRIES
    longest = _whole(config, plugin, "maxPrefixTokensToMatch", USUAL_TOKENS)
    longest = longest or _whole(config, plugin, "maxPrefixBlocksToMatch", 2048) * unit
    return Index(None if tuned else entries, LEAST_UNIT if tuned else unit, longest, False,
                 plugin.name)  # fmt: skip


def _whole(config: PickerConfig, plugin: Plugin, name: str, usual: int) -> int:
    return int(config.number(plugin, name, usual, MAX_BLOCKS))
