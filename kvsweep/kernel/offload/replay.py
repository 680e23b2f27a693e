"""What copies did during a run of decode steps, found out at its end.

Stores are created by the step that fills a chunk, begin with the next one, and are reported at the
end of a step. While nobody is admitted, preempted or finished nobody can tell when (`may_run`), and
all steps take the same time. So they are replayed: those that are over when the run ends all at
once (`store_at_once`), as they leave nothing but chunks that are idle; the others one by one.
"""

from ..._jit import leaf, part
from ...records import NONE
from ..time.decoding import next_phase
from ..time.step_time import token_time
from . import copies
from .at_once import filling_phase, next_filled, store_at_once
from .connector import settle_finished
from .counted_stores import may_count, nobody_tells
from .lru import idle_in_front
from .room import lacking
from .schedule import offer_scheduled
from .when import stores_meanwhile


@part
def _store_one_by_one(inp, ws, out, lane, inst, tally, index, off, first, begins, duration, last):
    """Create what the steps `first` to `last` still have to store, each in its step."""
    after = inst["step"]
    inst["scheduled"] = inst["running"]
    created = first
    while inst["next_offer"] <= last:
        inst["step"] = inst["next_offer"]
        if inst["step"] > created:
            begun = begins + (created + 1 - first) * duration
            copies.begin_waiting(ws, out, lane, tally, index, off, begun)
            begun = begins + (inst["step"] - lane["async_scheduling"] - first) * duration
            copies.report(inp, ws, out, lane, inst, off, begun)
        offer_scheduled(inp, ws, out, lane, inst, tally, index, off, inst["running"], 0)
        copies.keep_waiting(ws, off)
        created = inst["step"]
        settle_finished(inp, ws, lane, inst, off)
    if created < last:
        begun = begins + (created + 1 - first) * duration
        copies.begin_waiting(ws, out, lane, tally, index, off, begun)
    inst["step"] = after


@leaf
def _may_settle_first(ws, lane, inst, off, phase):
    """Return whether who has finished may settle its recency before the first step offers.

    It is the same if that brings only chunks behind the marks of requests that have their ranks,
    and what makes room for them stands in front of all marks.
    """
    stores = ws.phases[inst["phase_lo"] + filling_phase(lane, phase)]
    sure = may_count(lane) and nobody_tells(inst, off) and off["lags"] == 0
    return sure and idle_in_front(ws, inst, lacking(lane, off, stores))


@leaf
def _store_in_run(inp, ws, out, lane, inst, tally, index, off, first, phase, begins, until):
    """Replay a run from step `first`, which begins at `begins`, at whose end it is `until`.

    The requests that finished before it settle their recency once its first step has offered.
    """
    last = inst["step"] - 1 + inst["in_flight"]
    duration = token_time(lane, 0, inst["running"] - inst["leaving"])
    start = first
    if inst["next_offer"] > first or _may_settle_first(ws, lane, inst, off, phase):
        settle_finished(inp, ws, lane, inst, off)
    if off["finished_head"] != NONE:
        _store_one_by_one(
            inp, ws, out, lane, inst, tally, index, off, first, begins, duration, first
        )
        start += 1
        phase = next_phase(lane, phase)
    if start <= last:
        begun = begins + (start - first) * duration
        copies.begin_waiting(ws, out, lane, tally, index, off, begun)
        left = store_at_once(
            inp, ws, out, lane, inst, tally, index, off, start, phase, begun, duration, last, until
        )
        if left > start:
            phase = (phase + left - start) % lane["block_size"]
            inst["next_offer"] = left + next_filled(ws, lane, inst, phase)
        if left <= last:
            _store_one_by_one(
                inp, ws, out, lane, inst, tally, index, off, first, begins, duration, last
            )


@part
def catch_up(inp, ws, out, lane, inst, tally, index, off, first, phase, begins):
    """Do what copies did during the run of decode steps that has just ended.

    Its first step was `first`, of this phase, and began at `begins`.
    """
    until = inst["clock"]
    alike = not lane["context"]
    if inst["in_flight"] and not lane["async_scheduling"]:
        # The last step is not over, so what ended by its begin is reported.
        until = begins
        if alike:
            until += (inst["step"] - first) * token_time(lane, 0, inst["running"])
    copies.begin_waiting(ws, out, lane, tally, index, off, begins)
    if stores_meanwhile(lane, inst):
        _store_in_run(inp, ws, out, lane, inst, tally, index, off, first, phase, begins, until)
    settle_finished(inp, ws, lane, inst, off)
    copies.report(inp, ws, out, lane, inst, off, until)


@leaf
def leave_run(lane, inst, off):
    """Leave the last step of a run as a step is left that was scheduled by itself."""
    off["end"] = inst["clock"] + inst["device"]
    off["sampling"] = inst["in_flight"]
    off["changes"] = 1
    off["stall"] = 0
    off["queued"] = max(inst["in_flight"], lane["async_scheduling"])
    off["device_end"] = off["end"]
    inst["end"] = off["end"]
    inst["transfer"] = 0
