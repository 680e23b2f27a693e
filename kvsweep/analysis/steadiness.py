"""Whether results are those of a steady rate: what arrivals say of load, capacity and time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.session_times import in_sessions, session_times
from kvsweep.analysis.warning_records import ResultWarning, seen
from kvsweep.analysis.wording import number, two_digits

if TYPE_CHECKING:
    from kvsweep.config import Scenario

# Waiting lists grow if more than GROWTH of the later arrivals is left waiting, in the mean over the
# seeds, and also more than a cluster just below its capacity shows while it fills (k instances, n
# arrivals: sqrt(k / n)) and by chance (all arrivals of all seeds: 1 / sqrt(n)). Of M/M/1 queues at
# 0.9 of their capacity one in 1,000 exceeds that with 200 arrivals, none with 1,000; at 1.2 times
# the capacity half do with 1,000 arrivals, 98 % with 4,000.
GROWTH, WHILE_FILLING, BY_CHANCE = 0.05, 0.7, 3.0

# A cluster fills up for about as long as one request is served: who arrives meanwhile finds more
# room than those after. If that is more than a fifth of the measured time, an answer is off by a
# tenth and more: of an H100 whose requests take 10 s, 1 % of 20,000 requests is preempted at 53
# requests/s, of 2,000 (a third of the time) at 57, of 1,000 (two thirds) at 63.
FILLING = 0.2

# Requests are held back where the most that may be under way nearly always are, and a rate is not
# met by a tenth: a rate that is served lacks some per cent of itself in a list that ends.
HELD, UNMET = 0.9, 0.9


def queue_growth(cells: Cells) -> ResultWarning | None:
    """Warn of a rate above capacity: latencies tell the length of the request list then."""
    growth, growing = _growing(cells)
    found = seen(
        cells, growing & ~_at_once(cells, *_times(cells)) if growing.any() else growing, growth
    )
    if found is None:
        return None
    return found.warning(
        "queue-growth",
        f"queues grow to the end{found.most(f'by {growth[found.worst]:.0%} of what arrives')}: "
        "arrivals are above capacity, so that latencies depend on the length of the request list; "
        "lower the rate or add capacity",
    )


def _growing(cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return by how much the waiting lists of a setting grow, and whether they do; (grid)."""
    growth, seeds = cells.seed_mean(cells.number("queue_growth"))
    arrivals = np.maximum(cells.number("injected"), 1)
    # In place: of a million cells each intermediate result is 8 MB.
    limit = np.sqrt(cells.instances / arrivals)
    limit *= WHILE_FILLING
    limit += GROWTH
    arrivals *= np.maximum(seeds, 1)
    limit += BY_CHANCE / np.sqrt(arrivals)
    return growth, cells.ok & (growth > limit)


def burst(cells: Cells) -> ResultWarning | None:
    """Warn of requests that come all at once: what is measured is no rate's."""
    # Who sizes a server takes the answer for that of a steady rate, also where nobody waits.
    where = cells.ok if cells.cliff or cells.sized else _growing(cells)[1]
    if not where.any():
        return None
    span, sooner = _times(cells)
    where = where & _at_once(cells, span, sooner)
    sooner -= span
    found = seen(cells, where, sooner)
    if found is None:
        return None
    service = span[found.worst] + sooner[found.worst]
    what = "the cliff is that" if cells.cliff else "latencies are those"
    several = any(len(cells.axes[name]) > 1 for name in cells.labels(found.worst))
    takes, over = _words(cells, found.worst, service)
    return found.warning(
        "burst",
        f"{found.value('injected'):,.0f} requests arrive within {two_digits(span[found.worst])} s"
        f"{found.setting if several else ''}, where {takes}"
        f"{found.share and f'; all arrive before one is {over}' + found.share}: {what} of a burst, "
        "not of a steady rate; for that take more requests at a rate below capacity",
    )


def _words(cells: Cells, at: tuple[int, ...], seconds: float) -> tuple[str, str]:
    """Return how long a request or session takes, and the word for its end."""
    if cells.sized and in_sessions(cells)[at]:
        return f"a session lasts {two_digits(seconds)} s", "over"
    return f"one takes {two_digits(seconds)} s to serve", "served"


def held_back(cells: Cells) -> ResultWarning | None:
    """Warn of a rate that is never sent, as no more than some requests may be under way."""
    if not (cells.cliff or cells.sized):
        return None  # who sets both compares loads, and `throughput_rps` tells what was served
    most, rate = cells.settings(_most_at_once, np.float64), cells.settings(_rate, np.float64)
    if most is None or rate is None or not np.isfinite(most).any():
        return None
    served = cells.number("throughput_rps")
    under_way = served * cells.number("e2e_mean_ms") / 1000  # Little's law
    where = cells.ok & (under_way > HELD * most) & (served < UNMET * rate)
    found = seen(cells, where, under_way / most)
    if found is None:
        return None
    at = found.worst
    asked = "" if np.isinf(rate[at]) else f", not {number(rate[at])}"
    return found.warning(
        "held-back",
        f"requests are held back{found.share}: workload.concurrency lets {most[at]:,.0f} be under "
        f"way, and {number(under_way[at])} are in the mean{found.setting}, so that "
        f"{number(served[at])} are sent each second{asked}, and how long they are held counts in "
        "no latency; leave it out to ask for a rate",
    )


def _most_at_once(scenario: Scenario) -> float:
    """Return how many requests may be under way; NaN: any number."""
    workload = scenario.workload
    return math.nan if workload is None else workload.concurrency or math.nan


def _rate(scenario: Scenario) -> float:
    """Return the requests/s that a scenario asks for; inf of a trace's own, NaN of none."""
    workload = scenario.workload
    if workload is None:
        return math.nan
    if workload.trace:
        read = workload.read
        return math.nan if read is not None and read.arrivals == "at-once" else math.inf
    return math.nan if workload.rate is None else workload.rate


def _times(cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds within which requests arrive, and the mean from first step to end.

    Where the rate of sessions is looked for the latter is of a session, after which as many end as
    begin: before, the load grows.
    """
    service = cells.number("e2e_mean_ms") - cells.number("scheduling_delay_mean_ms")
    # Who is prefilled elsewhere waits for room where it is decoded, too.
    service -= np.nan_to_num(cells.number("pull_wait_mean_ms"))
    service /= 1000
    span = cells.number("arrivals_s")
    return session_times(cells, span, service) if cells.sized else (span, service)


def _at_once(
    cells: Cells, span: NDArray[np.float64], service: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Tell where the last request arrives sooner than one could be served, in the mean; (grid)."""
    return (span < service) & (cells.number("injected") > 1)


def filling(cells: Cells) -> ResultWarning | None:
    """Warn of few requests for their rate: while a cluster fills up there is more room."""
    if not (cells.cliff or cells.sized):
        return None  # what is compared fills up on both sides
    span, service = _times(cells)
    unmeasured = _before_measured(cells, span)
    share = (service - unmeasured) / np.maximum(span - unmeasured, 1e-6)
    where = cells.ok & (share > FILLING) & ~_at_once(cells, span, service)
    if where.any():
        where &= ~_growing(cells)[1]
    found = seen(cells, where, share)
    if found is None:
        return None
    at = found.worst
    measured = two_digits(span[at] - unmeasured[at])
    return found.warning(
        "filling",
        f"{found.value('injected'):,.0f} requests arrive within {measured} s{found.setting}, "
        f"where {_words(cells, at, service[at])[0]}"
        f"{found.share and '; so few' + found.share}: the cluster fills up for {share[at]:.0%} of "
        "that time, so that a steady rate is harder to keep than this; take more requests, or let "
        "the first be workload.warmup",
    )


def _before_measured(cells: Cells, span: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the seconds of a steady rate before the first measured request; (grid)."""
    left_out = cells.warmups.astype(np.float64)
    return span * left_out / np.maximum(left_out + cells.number("injected"), 1)
