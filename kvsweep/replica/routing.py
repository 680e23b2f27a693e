"""Routing policies and weighted scorers of the reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvsweep.replica.keys import Keys
from kvsweep.replica.prefix_index import PrefixIndex
from kvsweep.replica.request import Request


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the router sees of one instance.

    Queue and batch are always live. The KV figures are as old as ``cluster.snapshot_refresh_us``
    allows, and 0 before the first refresh. Transfer latency and thrashing rate were never part of
    the reference's snapshots; they are here for the scorers that were proposed on top of them.
    """

    queued: int
    batch: int
    pending: int
    utilization: float
    transfer_latency: int
    thrashing_rate: float

    @property
    def load(self) -> int:
        """Requests waiting, running, or routed and not yet queued."""
        return self.queued + self.batch + self.pending


class Routing(Protocol):
    """Chooses an instance for a request."""

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the index of the chosen instance."""
        ...


def least_loaded(snapshots: Sequence[Snapshot]) -> int:
    """Return the first instance with the smallest load."""
    return min(range(len(snapshots)), key=lambda i: snapshots[i].load)


class RoundRobin:
    """Each instance in turn."""

    def __init__(self) -> None:
        self._count = 0

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the next instance."""
        self._count += 1
        return (self._count - 1) % len(snapshots)


class LeastLoaded:
    """The first instance with the smallest load."""

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the least loaded instance."""
        return least_loaded(snapshots)


class AlwaysBusiest:
    """The first instance with the largest load: a pathological policy, on purpose."""

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the most loaded instance."""
        return max(range(len(snapshots)), key=lambda i: snapshots[i].load)


class PrefixAffinity:
    """The instance that got the same prompt before, otherwise the least loaded one.

    ``block_size`` None compares whole prompts (commit A); otherwise prompts up to their last full
    block, and whole prompts if shorter than a block (commit B).
    """

    def __init__(self, keys: Keys, block_size: int | None) -> None:
        self._keys = keys
        self._block_size = block_size
        self._homes: dict[int, int] = {}

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the instance remembered for the request's prompt."""
        tokens = request.prompt_tokens
        if self._block_size is not None and tokens >= self._block_size:
            tokens -= tokens % self._block_size
        key = self._keys.prefix(request, tokens)
        if key not in self._homes:
            self._homes[key] = least_loaded(snapshots)
        return self._homes[key]


class Weighted:
    """The instance with the largest weighted sum of scores; the first one on a tie.

    Parameters
    ----------
    scorers : dict of float
        Scorer -> weight, in the order in which the scores are added up. Weights are normalized.
    keys : Keys
        Numbers the prompt prefixes that the router's index remembers.
    block_size : int
        Tokens per block of the router's index.
    instances : int
        Number of instances.
    """

    def __init__(
        self, scorers: dict[str, float], keys: Keys, block_size: int, instances: int
    ) -> None:
        total = sum(scorers.values())
        self._weights = {name: weight / total for name, weight in scorers.items()}
        self._keys = keys
        self._block_size = block_size
        self._index = PrefixIndex(instances)

    def choose(self, request: Request, snapshots: Sequence[Snapshot]) -> int:
        """Return the instance with the best total score, and record the prompt for it."""
        blocks = self._keys.prompt_blocks(request, self._block_size)
        totals = [0.0] * len(snapshots)
        for name, weight in self._weights.items():
            scores = (
                self._prefix_affinity(blocks, len(snapshots))
                if name == PREFIX_AFFINITY
                else SCORERS[name](request, snapshots)
            )
            for i, score in enumerate(scores):
                totals[i] += min(max(score, 0.0), 1.0) * weight
        chosen = max(range(len(totals)), key=totals.__getitem__)
        self._index.record(chosen, blocks)
        return chosen

    def _prefix_affinity(self, blocks: list[int], instances: int) -> list[float]:
        """Score the share of the prompt's full blocks that the index knows in order."""
        if not blocks:
            return [0.0] * instances
        return [self._index.matched(i, blocks) / len(blocks) for i in range(instances)]


Scorer = Callable[[Request, Sequence[Snapshot]], list[float]]
"""One score per instance, larger is better; clamped to 0..1 by the caller."""

PREFIX_AFFINITY = "prefix-affinity"


def _queue_depth(request: Request, snapshots: Sequence[Snapshot]) -> list[float]:
    """1 for the smallest load, 0 for the largest, linear between."""
    loads = [s.load for s in snapshots]
    low, high = min(loads), max(loads)
    if low == high:
        return [1.0] * len(loads)
    return [(high - load) / (high - low) for load in loads]


def _kv_utilization(request: Request, snapshots: Sequence[Snapshot]) -> list[float]:
    """Share of the blocks not in use; cached blocks without a user count as not in use."""
    return [1.0 - s.utilization for s in snapshots]


def _load_balance(request: Request, snapshots: Sequence[Snapshot]) -> list[float]:
    """Inverse of the load."""
    return [1.0 / (1.0 + s.load) for s in snapshots]


SLO_TRANSFER_WEIGHT = {"critical": 5.0, "batch": 0.2, "background": 0.1}


def _kv_pressure(request: Request, snapshots: Sequence[Snapshot]) -> list[float]:
    """KV utilization with penalties for pending transfers and thrashing (idea 7)."""
    return [_kv_health(s, 1.0) for s in snapshots]


def _kv_pressure_slo(request: Request, snapshots: Sequence[Snapshot]) -> list[float]:
    """KV pressure with the transfer penalty scaled by the request's SLO class (idea 9)."""
    weight = SLO_TRANSFER_WEIGHT.get(request.slo_class, 1.0)
    return [_kv_health(s, weight) for s in snapshots]


def _kv_health(snapshot: Snapshot, transfer_weight: float) -> float:
    """Return 1 - utilization, less the penalties; transfers are never seen here (D9)."""
    health = 1.0 - snapshot.utilization
    if snapshot.transfer_latency > 0:
        health -= transfer_weight * snapshot.transfer_latency / 10_000.0
    return health - 2.0 * snapshot.thrashing_rate


SCORERS: dict[str, Scorer] = {
    "queue-depth": _queue_depth,
    "kv-utilization": _kv_utilization,
    "load-balance": _load_balance,
    "kv-pressure": _kv_pressure,
    "kv-pressure-slo": _kv_pressure_slo,
}
