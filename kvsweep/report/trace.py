"""What is in a trace, and what caches find of it, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvsweep.analysis.wording import MISSING, counted, left_out_lines, number
from kvsweep.report.table import table
from kvsweep.traces.info import whole_bins

NOTHING_SHARED = (
    "There is nothing to find: no request begins with a full block of an earlier one, or the file "
    "does not tell, as those without hash ids (docs/traces.md)."
)
_NAMES = 12  # of clients or classes that are told one by one
_COLUMNS = ("min", "mean", "p50", "p90", "p95", "p99", "max")


def info_text(name: str, found: Mapping[str, Any]) -> str:
    """Write what `kvsweep.traces.info.describe` found."""
    arrivals = found["arrivals"]
    head = f"{name}: {counted(found['requests'], 'request')}"
    if arrivals["rate_rps"]:
        head += f" in {number(arrivals['span_s'])} s, {number(arrivals['rate_rps'])} each second"
    lines = [
        head,
        *left_out_lines(found["left_out"]),
        "",
        _lengths(found),
        "",
        *_arrival_lines(arrivals),
        *_reuse_lines(found),
    ]
    lines += _session_lines(found["sessions"])
    for key, title in (("slo_classes", "classes"), ("clients", "clients")):
        if found[key]:
            lines.append(f"{title:<9} {_counts(found[key])}")
    return "\n".join(lines)


def _counts(found: Mapping[str, int]) -> str:
    """Write how many requests have each name, of many names the most frequent."""
    one_more = len(found) == _NAMES + 1  # takes the room of "1 other"
    kept = sorted(found, key=lambda name: -found[name])[: _NAMES + one_more]
    told = [f"{name} {count:,}" for name, count in found.items() if name in kept]
    rest = sum(found.values()) - sum(found[name] for name in kept)
    others = [f"{len(found) - len(kept):,} others {rest:,}"] if rest else []
    return ", ".join(told + others)


def _lengths(found: Mapping[str, Any]) -> str:
    rows = [
        [name, *(number(float(found[f"{name}_tokens"][c])) for c in _COLUMNS)]
        for name in ("prompt", "output")
    ]
    return table(["tokens", *_COLUMNS], rows)


def _arrival_lines(arrivals: Mapping[str, Any]) -> list[str]:
    counts = arrivals["bin_requests"]
    first, end = whole_bins(arrivals["bins_from_s"], len(counts))
    calmest = min(counts[first:end])
    peak = f"{number(arrivals['peak_rps'])} requests/s in the busiest {arrivals['bin_s']} s"
    lines = [f"arrivals  {peak}, {number(calmest / arrivals['bin_s'])} in the calmest"]
    cv, spread = arrivals["gap_cv"], arrivals["dispersion"]
    if cv is not None:
        widths = ", ".join(key.removesuffix("s") for key in spread)
        values = ", ".join(map(_or_dash, spread.values()))
        lines += [
            f"          gaps vary by {number(cv)} (standard deviation / mean; Poisson: 1)",
            f"          counts in {widths} s vary by {values} (variance / mean; Poisson: 1)",
        ]
    return lines


def _reuse_lines(found: Mapping[str, Any]) -> list[str]:
    reuse = found["reuse"]
    lines = [
        f"reuse     {_percent(reuse['ceiling'])} of prompt tokens are found by a cache without end "
        f"of blocks of {reuse['block_size']}",
        f"          {_percent(reuse['requests_with_hits'])} of requests find something",
        f"          {reuse['full_blocks']:,} full blocks, {reuse['distinct_blocks']:,} different "
        f"ones, {reuse['reused_blocks']:,} of these in several requests",
    ]
    if reuse["age_s"]["p50"] is not None:
        ages = ", ".join(f"{key} {number(value)} s" for key, value in reuse["age_s"].items())
        lines.append(f"          found again after {ages}")
    if not reuse["hit_tokens"]:
        lines.append(f"          {NOTHING_SHARED}")
    return lines


def _session_lines(found: Mapping[str, Any]) -> list[str]:
    lines = []
    if found["sessions"]:
        rounds = found["rounds"]
        lines.append(
            f"sessions  {found['sessions']:,}, of {number(rounds['mean'])} requests on average, "
            f"{rounds['max']:,} at most"
        )
    if found["waiting_for_answers"]:
        think = found["think_s"]
        lines.append(
            f"          waiting for an answer first: {found['waiting_for_answers']:,}, which think "
            f"{number(think['mean'])} s on average; their arrivals are the earliest possible, "
            "as if answers took no time"
        )
    if found["impatient"]:
        lines.append(f"          given up after a time: {found['impatient']:,}")
    return lines


def hits_text(name: str, columns: Mapping[str, Sequence[Any]], found: Mapping[str, Any]) -> str:
    """Write what caches find at some capacities, and how many blocks shares of it take."""
    size, ceiling = found["block_size"], found["ceiling"]
    lines = [
        f"{name}: {found['prompt_tokens']:,} prompt tokens, blocks of {counted(size, 'token')}",
        f"A cache without end finds {_percent(ceiling)}; the largest request takes "
        f"{found['smallest_blocks']:,} blocks.",
        *left_out_lines(found["left_out"]),
    ]
    if found["waiting_for_answers"]:
        lines.append(
            f"Waiting for an answer first: {found['waiting_for_answers']:,}, which are taken in "
            "order of the earliest arrivals possible, as if answers took no time."
        )
    if found["model"]:
        lines.append(f"GiB are those of {found['model']} on each GPU.")
    titles = {
        "blocks": lambda value: f"{value:,}",
        "gib": number,
        "lru_hit_rate": _percent,
        "best_hit_rate": _percent,
    }
    shown = {key: write for key, write in titles.items() if key in columns}
    rows = [
        [write(value) for write, value in zip(shown.values(), row, strict=True)]
        for row in zip(*(columns[key] for key in shown), strict=True)
    ]
    names = {"gib": "GiB", "lru_hit_rate": "LRU", "best_hit_rate": "at best"}
    lines += ["", table([names.get(key, key) for key in shown], rows), ""]
    for row in found["shares_of_ceiling"]:
        gib = f", {number(row['gib'])} GiB" if "gib" in row else ""
        lines.append(
            f"{row['share']:4.0%} of the ceiling takes {row['blocks']:,} blocks{gib} (LRU: "
            f"{_percent(row['hit_rate'])})"
        )
    if not found["shares_of_ceiling"]:
        lines.append(NOTHING_SHARED)
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _or_dash(value: float | None) -> str:
    return MISSING if value is None else number(value)
