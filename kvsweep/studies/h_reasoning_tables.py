"""The tables of H-Reasoning-KV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.crossing import find_crossings
from kvsweep.analysis.ranks import spearman
from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import AS_SHIPPED, KERNEL, ONE_AT_A_TIME, REPAIRED, THREE, Column
from kvsweep.studies.explained_rows import Measure, make_row, mean, names
from kvsweep.studies.figures import figures
from kvsweep.studies.prefixes import expected_hits
from kvsweep.studies.records import Cell, Row, Table
from kvsweep.studies.runs import Case, Run, case, requests_of

SEEDS = (42, 123, 456)
WORKLOADS = ("reasoning", "throughput-matched", "session-matched")
BLOCKS = (5000, 3000, 2000, 1500, 1200, 1000, 800, 600, 400, 100)
THRESHOLD = 0.05
BLOCK_SIZE = 16
ROUNDS = range(5)
_REASONING_LIST = "data/hrkv-reasoning-s{seed}.json.gz"


def cases(
    workloads: Sequence[str] = WORKLOADS,
    blocks: Sequence[int] = BLOCKS,
    seeds: Sequence[int] = SEEDS,
) -> list[Case]:
    """Return the cells of these workloads, cache sizes and seeds."""
    return [
        case("h-reasoning-kv", seed, policy=name, gpu_blocks=n)
        for name in workloads
        for n in blocks
        for seed in seeds
    ]


@dataclass(frozen=True)
class Tables:
    """All tables of the report, in its order."""

    cliff: Table
    rounds: Table
    hits: Table
    closed: Table
    dropped: Table
    conserved: Table
    rates: Table
    repairs: Table
    completed: Table
    spinning: Table
    monotone: Table

    @classmethod
    def make(cls, bench: Bench) -> Tables:
        """Make the tables from runs."""
        return cls(
            cliff=_cliff(bench),
            rounds=_rounds(bench),
            hits=_hits(bench),
            closed=_closed(bench),
            dropped=_dropped(bench),
            conserved=_conserved(bench),
            rates=_rates(bench),
            repairs=_repairs(bench),
            completed=_completed(bench),
            spinning=_spinning(bench),
            monotone=_monotone(bench),
        )

    @property
    def all(self) -> tuple[Table, ...]:
        """Every table."""
        return tuple(vars(self).values())


def seed_cliff(workload: str, seed: int, bench: Bench, column: Column) -> Cell:
    """Return where one seed's curve passes the threshold, scanned from the ample end."""
    runs = [bench.run(chosen, column) for chosen in cases([workload], seeds=[seed])]
    rates = np.array([run.preemption_rate for run in runs])
    position, _ = find_crossings(np.array(BLOCKS, float), rates, THRESHOLD)
    return "none" if np.isnan(position) else float(position)


def _mean_cliff(workload: str, bench: Bench, column: Column) -> Cell:
    return _mean([seed_cliff(workload, seed, bench, column) for seed in SEEDS])


def seed_ratio(seed: int, bench: Bench, column: Column) -> Cell:
    """Return the cliff of reasoning over that of throughput-matched."""
    cliffs = [seed_cliff(workload, seed, bench, column) for workload in WORKLOADS[:2]]
    if isinstance(cliffs[0], str) or isinstance(cliffs[1], str):
        return "none"
    return cliffs[0] / cliffs[1]


def _mean_ratio(bench: Bench, column: Column) -> Cell:
    return _mean([seed_ratio(seed, bench, column) for seed in SEEDS])


def _mean(cells: Sequence[Cell]) -> Cell:
    known = [cell for cell in cells if not isinstance(cell, str)]
    return sum(known) / len(known) if len(known) == len(cells) else "none"


def _cliff(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["cliff"]
    columns = (*THREE, *ONE_AT_A_TIME)

    def rows(label: str, given: list[str], cells: Sequence[Callable[..., Cell]]) -> list[Row]:
        parts = ("mean over seeds", *(f"seed {seed}" for seed in SEEDS))
        measures = [
            Measure(f"{label}, {part}", cell, text)
            for part, text, cell in zip(parts, given, cells, strict=True)
        ]
        return [make_row(bench, measure, columns, ONE_AT_A_TIME) for measure in measures]

    found: list[Row] = []
    for name in WORKLOADS:
        of_seeds = [partial(seed_cliff, name, seed) for seed in SEEDS]
        found += rows(f"{name}, blocks", published[name], [partial(_mean_cliff, name), *of_seeds])
    of_seeds = [partial(seed_ratio, seed) for seed in SEEDS]
    ratio = "reasoning / throughput-matched"
    found += rows(ratio, published["ratio"], [_mean_ratio, *of_seeds])
    title = "H-Reasoning-KV: cliff (5 % of the completed requests preempted)"
    return Table(title, published["source"], names(columns), tuple(found))


def _ttft(rounds: Sequence[int], seeds: Sequence[int], bench: Bench, column: Column) -> Cell:
    """Return mean TTFT of a round; with two rounds, the growth from one to the other, percent."""
    runs = [bench.run(chosen, column) for chosen in cases(["reasoning"], [5000], seeds)]
    times = [sum(run.ttft_by_round[r] for run in runs) / len(runs) for r in rounds]
    return times[0] if len(times) == 1 else 100 * (times[1] / times[0] - 1)


def _rounds(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["ttft_by_round"]
    measures = [
        Measure(f"round {r}, ms", partial(_ttft, [r], [42]), published["mean_ms"][r])
        for r in ROUNDS
    ]
    measures += [
        Measure(f"growth to round {r}, %", partial(_ttft, [0, r], [42]), text)
        for r, text in enumerate(published["growth_percent"], 1)
    ]
    measures += [
        Measure(f"round {r}, mean of three seeds, ms", partial(_ttft, [r], SEEDS), decimals=2)
        for r in ROUNDS
    ]
    rows = tuple(make_row(bench, measure, THREE) for measure in measures)
    note = (
        "The growth to round 1, published as +6.8 %, is +6.9 % by the published times themselves "
        "(17.77 / 16.63)."
    )
    title = "H-Reasoning-KV: mean TTFT by round, 5,000 blocks"
    return Table(title, published["source"], names(THREE), rows, (note,))


def _hit_rate(run: Run) -> float:
    return run.hit_rate


def _hits(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["hit_rate"]
    overall, *of_seeds = published["reasoning"]
    measures = [
        Measure(
            "reasoning, mean of rounded rates",
            mean(cases(["reasoning"], [5000]), lambda run: round(run.hit_rate, 4)),
            overall,
        ),
        *(
            Measure(
                f"reasoning, seed {seed}",
                mean(cases(["reasoning"], [5000], [seed]), _hit_rate),
                text,
            )
            for seed, text in zip(SEEDS, of_seeds, strict=True)
        ),
        *(
            Measure(f"{name}, mean", mean(cases([name], [5000]), _hit_rate), published[name])
            for name in WORKLOADS[1:]
        ),
    ]
    rows = tuple(make_row(bench, measure, THREE) for measure in measures)
    title = "H-Reasoning-KV: block hit rate, 5,000 blocks"
    return Table(title, published["source"], names(THREE), rows)


def counted(seed: int, *, last_token: bool) -> tuple[int, int]:
    """Return blocks reused and all blocks, counted from the reasoning list."""
    requests = requests_of(_REASONING_LIST, seed)
    found = expected_hits(requests, BLOCK_SIZE, last_token=last_token)
    return found.reused, found.blocks


def prompt_share(seed: int) -> float:
    """Return the share of the prompts' full blocks that the list allows to be found."""
    found = expected_hits(requests_of(_REASONING_LIST, seed), BLOCK_SIZE, last_token=True)
    return found.reused / found.prompt_blocks


def _closed(bench: Bench) -> Table:
    """Compare the hit rates with what the request lists allow at best."""
    rows = []
    for rules, column, last_token in (("reference", AS_SHIPPED, True), ("vLLM", KERNEL, False)):
        for seed in SEEDS:
            reused, blocks = counted(seed, last_token=last_token)
            run = bench.run(cases(["reasoning"], [5000], [seed])[0], column)
            cells: dict[str, Cell] = {
                "from the list": f"{reused}/{blocks}",
                "that is": reused / blocks,
                "simulated": run.hit_rate,
            }
            rows.append(Row(f"{rules}, seed {seed}", None, cells, 7))
    shares = ", ".join(f"{100 * prompt_share(seed):.1f} %" for seed in SEEDS)
    notes = (
        "Counted from the request lists alone: each round finds all full blocks of the rounds "
        "before it, and all blocks of a request count, those of its output too. The difference to "
        "the predicted 73.3 % is neither eviction nor contention: the 16 blocks of each output are "
        "always new, and the lists are cut at 500 requests, so that late rounds are fewer "
        f"(seed 42: {_rounds_of(42)}). Of the prompts' blocks alone {shares} are found.",
        "In vLLM the last output token is sampled but never computed, so the last block of an "
        "answer is not full, and the next round finds one block less.",
    )
    title = "H-Reasoning-KV: the hit rate, closed from the request list"
    columns = ("from the list", "that is", "simulated")
    return Table(title, "Blocks found / all blocks at 5,000 blocks.", columns, tuple(rows), notes)


def _rounds_of(seed: int) -> str:
    counts = np.bincount(requests_of(_REASONING_LIST, seed).round)
    return " ".join(map(str, counts.tolist()))


def _dropped(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["dropped"]
    rows = tuple(
        make_row(
            bench,
            Measure(
                f"{name}, seed {seed}",
                mean(cases([name], [100], [seed]), lambda run: run.dropped),
                text,
            ),
            THREE,
        )
        for name in WORKLOADS
        for seed, text in zip(SEEDS, published[name], strict=True)
    )
    title = "H-Reasoning-KV: unservable requests, 100 blocks"
    return Table(title, published["source"], names(THREE), rows)


def adds_up(run: Run) -> bool:
    """Whether the requests as counted by the instances are those of the list."""
    outcomes = run.completed + run.queued + run.running + run.dropped
    return outcomes + run.not_arrived == run.requests


def _conserved(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["conservation"]

    def passed(bench: Bench, column: Column) -> Cell:
        return sum(adds_up(bench.run(chosen, column)) for chosen in cases())

    row = make_row(bench, Measure("runs that pass, of 90", passed, published["passed"]), THREE)
    note = (
        "Checked against the length of the request list; the reference compares its sum with "
        "itself, and cannot fail."
    )
    title = "H-Reasoning-KV: conservation of requests"
    return Table(title, published["source"], names(THREE), (row,), (note,))


def _rate_measures() -> list[Measure]:
    published = figures("h-reasoning-kv")["preemption_rate"]
    return [
        Measure(
            f"{name}, {int(n):,} blocks",
            mean(cases([name], [int(n)]), lambda run: run.preemption_rate),
            text,
        )
        for name in WORKLOADS[:2]
        for n, text in published[name].items()
    ]


def _rates(bench: Bench) -> Table:
    rows = tuple(make_row(bench, m, THREE, ONE_AT_A_TIME) for m in _rate_measures())
    source = figures("h-reasoning-kv")["preemption_rate"]["source"]
    return Table("H-Reasoning-KV: preemption rates", source, names(THREE), rows)


def _repairs(bench: Bench) -> Table:
    columns = (AS_SHIPPED, *ONE_AT_A_TIME, REPAIRED)
    rows = [
        make_row(bench, Measure(m.label, m.cell, decimals=3), columns) for m in _rate_measures()
    ]
    note = (
        "D0: leaked block tables; D1: evicted requests that go on being served; D2: two chains of "
        "steps (never triggered here); D3: fully cached prompts admitted for nothing; D11: tokens "
        "lost in a roll-back. Repairing D1 alone does not end the cascades; repairing D0 or D3 "
        "alone does; D0 and D1 together give about what all repairs give."
    )
    title = "H-Reasoning-KV: preemption rates, one defect repaired at a time"
    return Table(title, "Means of three seeds.", names(columns), tuple(rows), (note,))


def _completed(bench: Bench) -> Table:
    rows = tuple(
        make_row(
            bench,
            Measure(
                f"{name}, {n:,} blocks, seed {seed}",
                mean(cases([name], [n], [seed]), lambda run: run.completed),
                decimals=0,
            ),
            THREE,
        )
        for name in WORKLOADS[:2]
        for n in (2000, 1500, 1000, 400)
        for seed in SEEDS
    )
    source = "Not in the findings. The runs under vLLM's rules have no horizon."
    return Table("H-Reasoning-KV: requests completed, of 500", source, names(THREE), rows)


def _spinning(bench: Bench) -> Table:
    """Take the largest published rate apart."""
    rows = []
    for n in (1500, 400):
        for seed in SEEDS:
            run = bench.run(cases(["throughput-matched"], [n], [seed])[0], AS_SHIPPED)
            cells: dict[str, Cell] = {
                "preemptions": f"{run.preemptions:,}",
                "completed": f"{run.completed}",
                "rate": run.preemption_rate,
                "last useful step, s": f"{run.last_useful_s:.1f}",
                "blocks leaked": f"{run.leaked_blocks:,}",
            }
            rows.append(Row(f"{n:,} blocks, seed {seed}", None, cells, 1))
    note = (
        "The published 4,602.3 is the mean of 0.0 (the reference prints 0 where nothing completed, "
        "D13), 13,806.0 (one request completed) and 1.0. The horizon is at 100 s; after the last "
        "useful step no request gets any further than it had been."
    )
    title = "H-Reasoning-KV: what 160 and 4,602 preemptions per request are (throughput-matched)"
    columns = tuple(rows[0].cells)
    return Table(title, "As shipped.", columns, tuple(rows), (note,))


def _monotone(bench: Bench) -> Table:
    published = figures("h-reasoning-kv")["monotonicity"]
    order = ("session-matched", "reasoning", "throughput-matched")
    measures = [
        Measure(name, partial(rank_correlation, name), published[name]) for name in order
    ] + [
        Measure(f"{name}, ties averaged", partial(tied_correlation, name), decimals=3)
        for name in order
    ]
    rows = tuple(make_row(bench, measure, THREE) for measure in measures)
    note = (
        "The findings give equal rates, such as the zeros of all ample caches, different ranks in "
        "the order of the sweep, as if preemptions had grown there, and average the correlations "
        "of the three seeds. The last three rows rank equal rates alike, as is usual."
    )
    title = "H-Reasoning-KV: rank correlation of cache size and preemption rate"
    return Table(title, published["source"], names(THREE), rows, (note,))


def _rates_by_seed(workload: str, bench: Bench, column: Column) -> NDArray[np.float64]:
    """Return preemption rates (seeds, blocks)."""
    runs = [[bench.run(c, column) for c in cases([workload], seeds=[seed])] for seed in SEEDS]
    return np.array([[run.preemption_rate for run in row] for row in runs])


def rank_correlation(workload: str, bench: Bench, column: Column) -> Cell:
    """Return the rank correlation of blocks and preemption rate as the findings compute it."""
    rates = _rates_by_seed(workload, bench, column)
    ranks = np.argsort(np.argsort(rates, axis=1, kind="stable"), axis=1)
    position = np.arange(len(BLOCKS))
    # The sweep goes from the largest cache downwards: position and blocks are opposite ranks.
    return float(np.mean([-np.corrcoef(position, row)[0, 1] for row in ranks]))


def tied_correlation(workload: str, bench: Bench, column: Column) -> Cell:
    """Return the same with averaged ranks for ties."""
    rates = _rates_by_seed(workload, bench, column)
    return float(spearman(np.array(BLOCKS, float), rates).mean())
