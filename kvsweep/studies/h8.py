"""H8: where preemption sets in as the KV cache shrinks."""

from __future__ import annotations

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import (
    AS_SHIPPED,
    E2E_TOO,
    KERNEL,
    ONE_AT_A_TIME,
    REPAIRED,
    THREE,
    Column,
)
from kvsweep.studies.explained_rows import Measure, Value, make_row, mean, names, number
from kvsweep.studies.figures import figures
from kvsweep.studies.records import Claim, Report, Row, Table
from kvsweep.studies.runs import Case, case

SEEDS = (42, 123, 456)
BLOCKS = (5000, 2200, 2100, 2000)

LATENCIES: tuple[tuple[str, str, Value], ...] = (
    ("TTFT mean, ms", "ttft_mean_ms", lambda run: run.ttft_mean_ms),
    ("TTFT p99, ms", "ttft_p99_ms", lambda run: run.ttft_p99_ms),
    ("E2E p99, ms", "e2e_p99_ms", lambda run: run.e2e_p99_ms),
)


def cases(*blocks: int, seeds: tuple[int, ...] = SEEDS) -> list[Case]:
    """Return the cells of these cache sizes."""
    return [case("h8", seed, gpu_blocks=n) for n in blocks for seed in seeds]


def report(bench: Bench) -> Report:
    """Run H8 again and compare."""
    bench.load(cases(*BLOCKS), THREE)
    bench.load(cases(2100, 2000), ONE_AT_A_TIME)
    counts, rates, latencies = _counts(bench), _rates(bench), _latencies(bench)
    return Report(
        name="h8",
        title="H8: KV cache pressure",
        story=_story(bench),
        tables=(counts, rates, latencies),
        claims=_claims(bench, rates, latencies),
    )


def _counts(bench: Bench) -> Table:
    published = figures("h8")["preemptions"]
    rows = [
        make_row(
            bench,
            Measure(
                f"{n:,} blocks, seed {seed}",
                mean(cases(n, seeds=(seed,)), lambda run: run.preemptions),
                published[str(n)][i],
            ),
            THREE,
            ONE_AT_A_TIME,
        )
        for n in BLOCKS
        for i, seed in enumerate(SEEDS)
    ]
    return Table("H8: preemptions", published["source"], names(THREE), tuple(rows))


def _rates(bench: Bench) -> Table:
    published = figures("h8")["rates"]
    columns = (*THREE, *ONE_AT_A_TIME)
    rows = [
        make_row(
            bench,
            Measure(
                f"{n:,} blocks",
                mean(cases(n), lambda run: run.preemption_rate),
                published[str(n)],
            ),
            columns,
            ONE_AT_A_TIME,
        )
        for n in (2100, 2000)
    ]
    note = (
        "The columns after vLLM's rules repair one defect of the reference at a time: D0 leaks the "
        "blocks of a request whose allocation fails, D1 goes on serving requests that it has "
        "evicted. D2, D3 and D11 hardly matter here."
    )
    title = "H8: preemptions per request, one defect repaired at a time"
    return Table(title, published["source"], names(columns), tuple(rows), (note,))


def _latencies(bench: Bench) -> Table:
    published = figures("h8")["latency"]
    columns = (AS_SHIPPED, REPAIRED, E2E_TOO, KERNEL)
    rows = [
        make_row(
            bench,
            Measure(f"{label}, {n:,} blocks", mean(cases(n, seeds=(42,)), value), given),
            columns,
            ONE_AT_A_TIME,
        )
        for label, key, value in LATENCIES
        for n, given in ((2100, published[key]), (5000, None))
    ]
    note = (
        "The E2E of the reference is not the simulated completion (D4): it adds the output "
        "overhead once per token and the last step twice, so it is too long without any pressure, "
        "and the tokens of lost attempts, so it is longer still after a preemption."
    )
    title = "H8: latencies, seed 42"
    return Table(title, published["source"], names(columns), tuple(rows), (note,))


def _claims(bench: Bench, rates: Table, latencies: Table) -> tuple[Claim, ...]:
    p99 = latencies.rows[2]
    return (
        Claim(
            "Preemption sets in between 2,200 and 2,100 blocks.",
            "H8; taken up by H10",
            "no seed preempts at 2,200 blocks, every seed does at 2,100",
            {column.name: _sets_in(bench, column) for column in THREE},
            why="In every seed the fullest instance needs between 2,100 and 2,200 blocks.",
        ),
        Claim(
            "At 2,100 blocks 11 % of the requests are preempted, at 2,000 blocks 51 %.",
            "H8, mean of three seeds",
            "the preemption rate rises from 2,200 over 2,100 to 2,000 blocks",
            {column.name: _rises(bench, column) for column in THREE},
            rates.rows,
            why=_rates_why(rates.rows[1]),
        ),
        Claim(
            "At 2,100 blocks the p99 of TTFT is 2,305 ms.",
            "H8 and H10, seed 42",
            "the p99 of TTFT at 2,100 blocks is at least 1.5 times that at 5,000 blocks",
            {column.name: _tail_grows(latencies, column) for column in THREE},
            (p99,),
            why=(
                "The reference takes the first token of a preempted request to be the one it makes "
                "after it has been admitted again; the client has long had its first token then. "
                f"Under vLLM's rules a preempted request keeps its tokens, and TTFT stays "
                f"{p99.shown(KERNEL.name)} ms. The leak and the eviction loop make the rest."
            ),
        ),
    )


def _rates_why(row: Row) -> str:
    return (
        f"With its allocator repaired the reference preempts {row.shown(REPAIRED.name)} per "
        f"request at 2,000 blocks, vLLM {row.shown(KERNEL.name)}; as shipped every preemption "
        f"leaks blocks and so causes more of them. The gap is explained by {row.because}."
    )


def _sets_in(bench: Bench, column: Column) -> bool:
    at = {n: [bench.run(c, column).preemptions for c in cases(n)] for n in (2200, 2100)}
    return max(at[2200]) == 0 and min(at[2100]) > 0


def _rises(bench: Bench, column: Column) -> bool:
    rate = {n: mean(cases(n), lambda run: run.preemption_rate)(bench, column) for n in BLOCKS}
    return number(rate[2200]) < number(rate[2100]) < number(rate[2000])


def _tail_grows(latencies: Table, column: Column) -> bool:
    tight, ample = (number(latencies.rows[i].cells[column.name]) for i in (2, 3))
    return tight >= 1.5 * ample


def _story(bench: Bench) -> tuple[str, ...]:
    leaked = bench.run(cases(2100, seeds=(42,))[0], AS_SHIPPED).leaked_blocks
    return (
        "200 requests, prompts of about 512 tokens and outputs of about 256, arrive at 2,000 per "
        "second at four instances. H8 shrinks the KV cache and counts preemptions. The place where "
        "they set in is real: the requests need that many blocks. How steeply they rise is not. "
        "When a running request finds no free block, the reference deletes its block table without "
        f"freeing the blocks (D0); at 2,100 blocks and seed 42 that loses {leaked:,} of the "
        "cluster's 8,400 blocks for good. And it goes on serving requests that it evicted in the "
        "same step, which evict others in turn (D1).",
    )
