"""How fast blocks move between the GPU and its CPU: a link's bytes over the bytes of a token."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.config.base import KeyProblem, Name, Positive, Section
from kvsweep.config.groups import attention_groups
from kvsweep.config.pools import ROLES, RolePool, pools_of
from kvsweep.config.preset import Preset, load_preset
from kvsweep.errors import did_you_mean
from kvsweep.limits import MAX_TOKEN_BYTES

if TYPE_CHECKING:
    from kvsweep.config.cache_section import Cache
    from kvsweep.config.pools import Pool
    from kvsweep.config.scenario import Scenario

OFFLOAD_OF_RULES = {"vllm": "write-through", "blis": "watermark"}
"""The default of ``cache.offload``: vLLM's own way, and the only one that the reference has."""

REFERENCE_BANDWIDTH = 100.0
"""Tokens per microsecond, the reference's default, which rules ``blis`` keep."""

GIGA_PER_MICRO = 1e3
"""Bytes per microsecond of a GB/s."""

SPEED_KEYS = ("link", "link_gb_per_s", "kv_bytes_per_token")


class Link(Section):
    """A link between a GPU and the memory of its CPU.

    Attributes
    ----------
    peak_gb_per_s, gb_per_s : float
        Each direction, 10^9 bytes per second: as stated, and as reached.
    source : str
        Who measured what is reached.
    """

    peak_gb_per_s: Positive
    gb_per_s: Positive
    source: Name


@cache
def links() -> dict[str, Link]:
    """Return the links that have names."""
    path = Path(str(resources.files("kvsweep"))) / "links.toml"
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Link.model_validate(table) for name, table in tables.items()}


def settle(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Return what the rules, the link and the model decide of a scenario's cache, by key.

    Raises
    ------
    KeyProblem
        If the speed of transfers is given twice, or missing where there is a CPU tier.
    """
    cache, rules = scenario.cache, scenario.engine.rules
    found: dict[str, Any] = {}
    if cache.offload is None:
        found["offload"] = OFFLOAD_OF_RULES[rules]
    if _given(cache, "transfer_bandwidth"):
        for key in SPEED_KEYS:
            if _given(cache, key):
                raise KeyProblem(
                    ("cache", key), "give either transfer_bandwidth or a link and bytes per token"
                )
        return found
    if rules == "blis":
        return found | {"transfer_bandwidth": REFERENCE_BANDWIDTH}
    return found | _speed(scenario, folder)


def _given(cache: Cache, key: str) -> bool:
    """Return whether the user gave a key, rather than `settle` at an earlier time."""
    return key in cache.model_fields_set and getattr(cache, key) is not None


def _speed(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """Return the link, the bytes of a token on a GPU, and what they make of each other."""
    cache = scenario.cache
    model = scenario.latency.model
    preset = load_preset(model, folder) if model else None
    rate, link = _link_rate(cache, preset)
    where = str(folder / model) if model and model.endswith(".toml") else model
    token = _token_bytes(cache, preset, where, served=scenario.model is not None)
    if rate is not None and token is not None:
        return {
            "link": link,
            "link_gb_per_s": rate,
            "kv_bytes_per_token": token,
            # What is moved is blocks, each of one group: all of them share the bytes of a token.
            "transfer_bandwidth": GIGA_PER_MICRO * rate / token * sharing_groups(cache),
        }
    if cache.cpu_blocks > 0:
        raise KeyProblem(("cache", "cpu_blocks"), _missing(rate, token))
    return {}


def sharing_groups(cache: Cache) -> int:
    """Return the groups that share the bytes of a token; a state is as long as their blocks."""
    return max(1, len(attention_groups(cache.groups)))


def _link_rate(cache: Cache, preset: Preset | None) -> tuple[float | None, str | None]:
    """Return the GB/s of the link that is given, or else the preset's, and its name if any."""
    if _given(cache, "link_gb_per_s"):
        if _given(cache, "link"):
            raise KeyProblem(("cache", "link_gb_per_s"), "give either link or link_gb_per_s")
        return cache.link_gb_per_s, None
    given = _given(cache, "link")
    name = cache.link if given else (preset.link if preset else None)
    if name is None:
        return None, None
    if name not in links():
        known = list(links())
        message = f"unknown link {name!r}; allowed: {', '.join(known)}{did_you_mean(name, known)}"
        raise KeyProblem(("cache", "link") if given else ("latency", "model"), message)
    return links()[name].gb_per_s, name


def _token_bytes(
    cache: Cache, preset: Preset | None, where: str | None, *, served: bool
) -> float | None:
    """Return the bytes of a token on a GPU: given, of the served model, or of the preset."""
    if _given(cache, "kv_bytes_per_token") or served:
        return cache.kv_bytes_per_token
    found = preset.gpu_token_bytes if preset else None
    if found is not None and not 1 <= found <= MAX_TOKEN_BYTES:
        bytes_ = f"{found:g} bytes of KV cache a token and GPU"
        message = f"{where}: {bytes_}; allowed: 1 to {MAX_TOKEN_BYTES:g}"
        raise KeyProblem(("latency", "model"), message)
    return found


def _missing(rate: float | None, token: float | None) -> str:
    """Say what a CPU tier lacks."""
    needed = []
    if rate is None:
        needed.append(f"cache.link ({', '.join(links())}) or cache.link_gb_per_s")
    if token is None:
        needed.append("cache.kv_bytes_per_token (of one GPU)")
    return (
        f"the speed of transfers is not known; give {' and '.join(needed)}, "
        "or cache.transfer_bandwidth in tokens per microsecond"
    )


def known_token_bytes(scenario: Scenario, folder: Path | None) -> float | None:
    """Return the bytes of a token on a GPU, if given or known of the model or its step times.

    Parameters
    ----------
    scenario : Scenario
        Whose tokens.
    folder : Path or None
        Where files that it names are; None: files are not read, they may be gone.
    """
    known = scenario.cache.kv_bytes_per_token
    if known is not None or scenario.model is not None:
        return known
    return _preset_bytes(scenario.latency.model, folder)


def _preset_bytes(preset: str | None, folder: Path | None) -> float | None:
    """Return the bytes of a token on a GPU that a preset tells."""
    if preset is None or (folder is None and preset.endswith(".toml")):
        return None
    return load_preset(preset, folder or Path()).gpu_token_bytes


def _pool_bytes(scenario: Scenario, pool: Pool, folder: Path | None) -> float | None:
    """Return the bytes of a token on a GPU of a pool, which may have others, or another number.

    Which it has is told by the preset of its step times: where those of the scenario are a
    preset's too, as many more as there.
    """
    known = known_token_bytes(scenario, folder)
    if pool.latency is None:
        return known
    own = _preset_bytes(pool.latency.model, folder)
    usual = _preset_bytes(scenario.latency.model, folder)
    if own is None or known is None:
        return own
    return None if usual is None else known * own / usual


def has_usual_bytes(own: str | None, usual: str | None) -> bool:
    """Return whether the step times of a pool are of GPUs with as many bytes of a token.

    Files are not read; where nothing tells, they have not.

    Parameters
    ----------
    own, usual : str or None
        Presets of the pool's step times and of ``[latency]``; None: coefficients are given.
    """
    if own is None or own == usual:
        return own is not None
    with suppress(KeyProblem):  # a store may name one of another release
        found = _preset_bytes(own, None)
        return found is not None and found == _preset_bytes(usual, None)
    return False


def tier_text(scenario: Scenario, folder: Path) -> str:
    """Write the speed of a CPU tier, in GB/s too where the bytes of a token tell them.

    All instances have one in tokens: of a side whose GPUs hold others of a token, theirs is told.
    """
    text, reached = transfer_text(scenario.cache), tier_gb_per_s(scenario, folder)
    if reached is None:
        return text
    usual = f"{reached:,.4g}"
    if scenario.cache.link_gb_per_s is None:
        text = f"{text}: {usual} GB/s of each GPU"
    sides = _tier_sides(scenario, folder)
    others = [f"{speed} GB/s of each GPU of {role}" for role, speed in sides if speed != usual]
    return ", ".join([text, *others])


def _tier_sides(scenario: Scenario, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the GB/s between each GPU and its CPU by role, of those with a tier where known."""
    bandwidth = scenario.cache.transfer_bandwidth
    for role, pool in pools_of(scenario.cluster):
        if isinstance(pool, RolePool) and pool.cpu_blocks != 0 and bandwidth is not None:
            token = _pool_bytes(scenario, pool, folder)
            if token is not None:
                yield role, f"{_moved(bandwidth, token, scenario):,.4g}"


def tier_gb_per_s(scenario: Scenario, folder: Path | None = None) -> float | None:
    """Return the GB/s between each GPU and its CPU; None if that is not known, or no tier.

    `folder` as `known_token_bytes` has it.
    """
    cache = scenario.cache
    if cache.cpu_blocks == 0 or cache.transfer_bandwidth is None:
        return None
    return _gb_per_s(cache.transfer_bandwidth, scenario, folder)


def transfer_text(cache: Cache) -> str:
    """Write the speed of transfers, and what it is made of."""
    assert cache.transfer_bandwidth is not None
    text = f"{_three_digits(cache.transfer_bandwidth)} tokens/us"
    if cache.link_gb_per_s is None:
        return text
    link = f" ({cache.link})" if cache.link else ""
    shared = sharing_groups(cache)
    groups = f", in blocks of one of {shared} groups" if shared > 1 else ""
    return (
        f"{text}: {cache.link_gb_per_s:g} GB/s{link} over "
        f"{cache.kv_bytes_per_token:,.10g} bytes a token on each GPU{groups}"
    )


def pull_gb_per_s(scenario: Scenario, folder: Path | None = None) -> float | None:
    """Return the GB/s of each GPU from prefill to decode; None if that is not known, or no link.

    Of the side with fewer GPUs, where the sides differ: each of them moves more. `folder` as
    `known_token_bytes` has it.
    """
    return max(_sides_gb_per_s(scenario, folder).values(), default=None)


def _sides_gb_per_s(scenario: Scenario, folder: Path | None) -> dict[str, float]:
    """Return the GB/s of each GPU from prefill to decode by role, without those not known."""
    bandwidth = scenario.cluster.kv_transfer_bandwidth
    if bandwidth is None:
        return {}
    found = {role: _pool_bytes(scenario, pool, folder) for role, pool in pools_of(scenario.cluster)}
    return {
        role: _moved(bandwidth, token, scenario)
        for role, token in found.items()
        if token is not None
    }


def pull_tokens_per_us(gb_per_s: float, scenario: Scenario, folder: Path | None) -> float | None:
    """Return `cluster.kv_transfer_bandwidth` of a link of so many GB/s for each GPU; None: unknown.

    `folder` as `known_token_bytes` has it.
    """
    of_one = _gb_per_s(1.0, scenario, folder)
    return None if of_one is None else gb_per_s / of_one


def _gb_per_s(bandwidth: float, scenario: Scenario, folder: Path | None) -> float | None:
    token = known_token_bytes(scenario, folder)
    return None if token is None else _moved(bandwidth, token, scenario)


def _moved(bandwidth: float, token: float, scenario: Scenario) -> float:
    """Return the GB/s of so many tokens per microsecond.

    Tokens are counted in each group, which has its part of the bytes of a token.
    """
    return bandwidth * token / sharing_groups(scenario.cache) / GIGA_PER_MICRO


def pull_text(scenario: Scenario, folder: Path) -> str:
    """Write the speed of transfers from prefill to decode, of each side where they differ."""
    bandwidth = scenario.cluster.kv_transfer_bandwidth
    assert bandwidth is not None
    text = f"{_three_digits(bandwidth)} tokens/us from prefill to decode"
    reached = _sides_gb_per_s(scenario, folder)
    if not reached:
        return text
    told = {role: f"{speed:,.4g}" for role, speed in reached.items()}
    if len(told) == len(ROLES) and len(set(told.values())) == 1:
        return f"{text}: {told['prefill']} GB/s of each GPU"
    sides = ", ".join(f"{speed} GB/s of each GPU of {role}" for role, speed in told.items())
    return f"{text}: {sides}"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
