"""Request lists of a batch: each is made once, and its block keys once per block size."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..config import Scenario
from ..config.speculative import Speculative
from ..workload.acceptance import with_acceptance
from ..workload.failures import with_failures
from ..workload.generate import generate_all, pairs_of, requests_for
from ..workload.requests import Requests, ordered_classes
from .explicit_records import looks_ahead
from .kept import kept
from .list_records import Prepared, prepare_all


@kept
def _workload_names(scenarios: tuple[Scenario, ...]) -> list[str]:
    """Return what tells the workloads of scenarios apart."""
    names = [item.workload.model_dump_json() if item.workload else "" for item in scenarios]
    once = dict(zip(names, names, strict=True))
    return [once[name] for name in names]  # mostly the same one, kept once


class Kind(NamedTuple):
    """What decides a request list as the kernel sees it, but for the seed.

    Attributes
    ----------
    name : str
        What tells its workload from others.
    block_size, ahead : int
        Tokens of a block, and tokens behind it that its key covers too.
    drafts : Speculative or None
        How many drafts are accepted; None: there are none.
    failures : float
        Probability that a pull fails.
    """

    name: str
    block_size: int
    ahead: int
    drafts: Speculative | None
    failures: float


class RequestLists:
    """The request lists that the cells of a batch need.

    Requests depend on the workload, the seed and, for a trace, on the policy in its path; never on
    anything else of the scenario. So cells that differ in the rest are paired samples.

    Parameters
    ----------
    entropy : int
        Entropy of all random streams.
    base_dir : Path or None
        Folder that paths of traces are relative to.
    most : int, optional
        Requests that are kept of each list, its first ones; all if not given.

    Attributes
    ----------
    rounds : int
        Most rounds of a session in any list, 0 without sessions.
    slo_classes : tuple of str
        Classes of the requests of all lists, in order.
    """

    def __init__(self, entropy: int, base_dir: Path | None, most: int | None = None) -> None:
        self._most = most
        self.rounds = 0
        self.slo_classes: tuple[str, ...] = ()
        self._entropy = entropy
        self._base_dir = base_dir
        self._lists: dict[tuple[str, int], Requests] = {}
        self._prepared: dict[tuple[Kind, int], Prepared] = {}
        self._names: list[str] = []
        self._seeds: tuple[int, ...] = ()

    def load(
        self, variants: Sequence[Scenario], seeds: Sequence[int], policies: Sequence[str | None]
    ) -> None:
        """Make the request list of every variant and seed."""
        self._seeds = tuple(int(seed) for seed in seeds)
        names = _workload_names(tuple(variants))
        for scenario, policy, workload_name in zip(variants, policies, names, strict=True):
            workload, name = scenario.workload, workload_name
            assert workload is not None  # a sweep's scenario has one, by its schema
            if workload.trace and "{policy}" in workload.trace:
                name += f" {policy}"
            self._names.append(name)
            missing = [seed for seed in self._seeds if (name, seed) not in self._lists]
            if missing and workload.trace is None:
                pairs = pairs_of(workload, self._base_dir or Path())
                drawn = generate_all(workload, missing, self._entropy, pairs)
                self._lists.update(zip(((name, seed) for seed in missing), drawn, strict=True))
                continue
            for seed in missing:
                self._lists[name, seed] = requests_for(
                    workload, seed, self._entropy, policy=policy, base_dir=self._base_dir
                )
        if self._most is not None:
            for place, requests in self._lists.items():
                self._lists[place] = requests.first(self._most)
        found = self._lists.values()
        # Lists that are drawn together have one column of rounds in common.
        rounds = {id(requests.round): requests.round for requests in found}.values()
        self.rounds = max(int(each.max()) + 1 for each in rounds)
        self.slo_classes = ordered_classes(n for r in found for n in r.slo_names)

    def sizes(self) -> Iterator[int]:
        """Yield the lengths of the request lists."""
        return map(len, self._lists.values())

    def requests(self, variant: int, seed: int) -> Requests:
        """Return the requests of the variant and the seed at these positions."""
        return self._lists[self._names[variant], self._seeds[seed]]

    def kind(self, variant: int, scenario: Scenario) -> Kind:
        """Return what identifies the variant's lists as the kernel sees them, but for the seed."""
        drafts = scenario.engine.speculative if scenario.engine.drafts else None
        return Kind(
            self._names[variant],
            scenario.cache.block_size,
            looks_ahead(scenario),
            drafts,
            scenario.cluster.kv_load_failure_rate,
        )

    def prepared(self, kinds: Iterable[Kind]) -> list[Prepared]:
        """Return lists with their block keys: those of each seed in turn, by `kinds`."""
        wanted = list(kinds)
        for kind in wanted:
            missing = [seed for seed in self._seeds if (kind, seed) not in self._prepared]
            drawn = (self._drawn(kind, seed) for seed in missing)
            made = prepare_all(drawn, kind.block_size, kind.ahead)
            self._prepared.update(zip(((kind, seed) for seed in missing), made, strict=True))
        return [self._prepared[kind, seed] for seed in self._seeds for kind in wanted]

    def _drawn(self, kind: Kind, seed: int) -> Requests:
        """Return a list with what is drawn beforehand of each of its requests."""
        found = with_acceptance(self._lists[kind.name, seed], kind.drafts, seed, self._entropy)
        return with_failures(found, kind.failures, seed, self._entropy)
