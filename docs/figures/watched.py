"""Watch the kernel serve two requests, step by step.

It must run uncompiled (``NUMBA_DISABLE_JIT``), so that its state can be read after each step. Both
runs serve the same prompt twice. In the first each request has an answer of its own; in the second
both get the same answer, so that their decode blocks have the same keys.
"""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from kvsweep.config import parse_scenario
from kvsweep.kernel.blocks import pool
from kvsweep.kernel.scheduling import waiting
from kvsweep.kernel.setup import begin_lane
from kvsweep.kernel.time import instance as kernel
from kvsweep.kernel.time.calendar import IDLE
from kvsweep.records import LEAVING, NEVER
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.list_records import prepare
from kvsweep.simulate.workspace import allocate_outputs, allocate_workspace
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.traces import load_trace

BLOCK = 4
BLOCKS = 12
PROMPT = 6
OUTPUT = 14
STEP_US = 10_000
RUNS = {"own": (1, 2), "same": (1, 1)}
"""Output segments of the two requests in each run."""


@dataclass(frozen=True)
class Row:
    """What the kernel knows once it has scheduled a step.

    Attributes
    ----------
    step, phase : int
        Index of the step, and that modulo the block size.
    computed, due, cached : list of int or None, one for each request
        Tokens computed when the step ends; the step at which the request needs attention, as known
        when this one begins; leading blocks in the cache. None: it is not running.
    hits : list of int
        Blocks that it found cached when it was admitted.
    base, waits : list of int or None
        While it decodes: computed tokens = step - base; the phase at which it takes a block.
    takes, free, evictable : int
        Blocks taken in this step, free after it, and those of the free ones that are cached.
    way : str
        The steps that are scheduled together, as "6-13" of a decode run, or "alone".
    """

    step: int
    phase: int
    computed: list[int | None]
    base: list[int | None]
    waits: list[int | None]
    due: list[int | None]
    cached: list[int | None]
    hits: list[int | None]
    takes: int
    free: int
    evictable: int
    way: str


def trace(segments):
    """Return the trace of two requests with the same prompt and the output segments given."""
    rows = [
        {"id": r, "arrival_us": at, "prompt": [[0, PROMPT]], "output": [segment, OUTPUT]}
        for r, (at, segment) in enumerate(zip((0, 4.5 * STEP_US), segments, strict=True))
    ]
    scenario = {
        "cache": {"block_size": BLOCK, "gpu_blocks": BLOCKS},
        "latency": {"beta": [STEP_US, 0, 0]},
    }
    for row in rows:
        row["arrival_us"] = int(row["arrival_us"])
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def check_sums(ws, lane, inst):
    """Assert that the sums that an instance keeps over its decoding requests are right."""
    size, first, slot = lane["block_size"], inst["run_lo"], inst["phase_lo"]
    running = ws.running[first : first + inst["running"]]
    decoding = [ws.progress[r] for r in running if ws.progress[r]["decoding"] == 1]
    phases = [progress["phase"] for progress in decoding]
    assert inst["phase"] == inst["step"] % size
    assert inst["base_sum"] == sum(progress["base"] for progress in decoding)
    assert phases == [progress["base"] % size for progress in decoding]
    counts = np.bincount(np.array(phases, np.int64), minlength=size)
    assert counts.tolist() == ws.phases[slot : slot + size].tolist()
    assert inst["prefilling"] == len(running) - len(decoding)
    assert inst["leaving"] == sum(ws.progress[r]["decoding"] == LEAVING for r in running)
    # The nearest due may have been that of a victim; then it is looked for in vain, and mended.
    dues = ws.due[first : first + inst["running"]]
    assert min(inst["next_due"], IDLE) <= dues.min(initial=IDLE)
    if lane["reach"]:
        _check_short(lane, inst, [progress["base"] for progress in decoding])


def _check_short(lane, inst, bases):
    """Assert that the sums over who was inside a window are right, and that nobody looks anew."""
    short = [base for base in bases if base + lane["reach"] > inst["looked_at"]]
    assert (inst["short"], inst["short_base"]) == (len(short), sum(short))
    first = min(short, default=NEVER) + lane["reach"]
    assert inst["looked_at"] < inst["outgrown_at"] <= first


class Lane:
    """One lane of one instance, both requests in its inbox, to be advanced by hand."""

    def __init__(self, segments):
        loaded = load_trace(trace(segments))
        scenario = parse_scenario(loaded.scenario, "trace")
        prepared = prepare(loaded.requests, resolve_blocks(loaded.requests, BLOCK))
        self.inp = build_inputs([scenario], [prepared], np.zeros((1, 1), np.int64))
        self.ws = allocate_workspace(self.inp, 100)
        self.out = allocate_outputs(self.inp)
        self.lane, self.tally = self.inp.lanes[0], self.out.tallies[0]
        begin_lane(self.inp, self.ws, self.lane, self.tally)
        self.inst = self.ws.instances[0]
        for r in range(len(prepared.records)):
            self.inst["load"] += 1
            waiting.enter_inbox(self.ws, self.inst, r, self.ws.progress[r]["arrival"])

    def advance(self, until):
        """Let everything happen that happens before `until`."""
        arguments = (self.inp, self.ws, self.out, self.lane, self.inst, self.tally, 0, until)
        kernel.advance(*arguments)

    def begins(self, function):
        """Return `function`, called when a step begins, so that it notes who is due when."""

        def call(*arguments):
            running = self.ws.running[: self.inst["running"]].tolist()
            self.due_before = dict(zip(running, self.ws.due.tolist(), strict=False))
            return function(*arguments)

        return call

    def row(self, takes, way):
        """Return what there is to see of the step just scheduled, which took `takes` blocks."""
        inst = self.inst
        step = int(inst["step"] if inst["in_flight"] else inst["step"] - 1)
        check_sums(self.ws, self.lane, self.inst)
        seen = [self._request(r, step) for r in range(2)]
        columns = [list(values) for values in zip(*seen, strict=True)]
        pool = int(takes), int(inst["free"]), int(inst["evictable"])
        return Row(step, step % BLOCK, *columns, *pool, way)

    def _request(self, r, step):
        running = self.ws.running[: self.inst["running"]].tolist()
        if r not in running:
            return None, None, None, None, None, 0
        progress = self.ws.progress[r]
        due = self.due_before.get(r, int(self.ws.due[running.index(r)]))
        blocks_of = int(progress["cached_blocks"]), int(progress["reused"])
        if not progress["decoding"]:
            return int(progress["computed"]), None, None, due, *blocks_of
        base = int(progress["base"])
        return step + 1 - base, base, int(progress["phase"]), due, *blocks_of


def ways(segments):
    """Return how each step is scheduled when nobody stops the kernel between steps."""
    found = []
    decode, clear_step = kernel.decode, kernel.clear_step

    def noted_decode(inp, ws, out, lane, inst, *rest):
        first = int(inst["step"])
        done = decode(inp, ws, out, lane, inst, *rest)
        steps = int(inst["step"] + inst["in_flight"]) - first
        last = first + steps - 1
        found.extend([f"{first}-{last}" if steps > 1 else f"{first}"] * steps)
        return done

    def notedclear_step(*arguments):
        found.append("alone")
        clear_step(*arguments)

    with (
        patch.object(kernel, "decode", noted_decode),
        patch.object(kernel, "clear_step", notedclear_step),
    ):
        Lane(segments).advance(NEVER)
    return found


def watch(segments):
    """Return a Row for every step of a run."""
    lane = Lane(segments)
    rows = []
    for way in ways(segments):
        with (
            patch.object(pool, "allocate", wraps=pool.allocate) as take,
            patch.object(kernel, "only_decodes", lane.begins(kernel.only_decodes)),
        ):
            lane.advance(lane.inst["clock"] + 1)
        rows.append(lane.row(sum(call.args[2] for call in take.call_args_list), way))
    lane.advance(NEVER)
    assert lane.inst["free"] == BLOCKS
    assert lane.inst["step"] == len(rows)
    return rows
