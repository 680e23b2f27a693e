"""Totals of a lane are what NumPy makes of the columns of its measured requests."""

import batches
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvsweep._jit import kernel
from kvsweep.kernel.summary import copy_requests, end_requests
from kvsweep.metrics import latency_quantiles, mean_latency, summarize_latency
from kvsweep.policies import RequestStatus
from kvsweep.records import NEVER, NONE
from kvsweep.simulate.reduce_lanes import reduce_lanes
from kvsweep.simulate.workspace import allocate_outputs, allocate_workspace

PATIENCE = 700
OVERHEAD = 100


@kernel
def _end(inp, ws, out):
    end_requests(inp, ws, out, inp.lanes[0], out.tallies[0], 0)


@kernel
def _copy(inp, out):
    copy_requests(out, inp.lanes[1], inp.lanes[0]["out_lo"], 1)


def _moment(draw, earliest):
    """Draw a time, ties among them, or none."""
    return draw(
        st.just(NONE)
        | st.integers(earliest, earliest + 3)
        | st.integers(earliest, earliest + 10**12)
    )


@st.composite
def ends(draw):
    """Draw what became of up to 30 requests: (arrival, scheduled, first token, finish, ...)."""
    rows = []
    for _ in range(draw(st.integers(1, 30))):
        arrival = draw(st.integers(0, 10**6))
        scheduled = _moment(draw, arrival)
        first = NONE if scheduled == NONE else _moment(draw, scheduled)
        finish = NONE if first == NONE else _moment(draw, first)
        others = [item for item in RequestStatus if item is not RequestStatus.COMPLETED]
        status = draw(st.sampled_from(others)) if finish == NONE else RequestStatus.COMPLETED
        rows.append((arrival, scheduled, first, finish, draw(st.integers(0, 3)), int(status)))
    return rows, draw(st.integers(0, len(rows) - 1))


def run_end(rows, warmup):
    """Let the kernel sum up a lane with these requests, and copy it; return inputs and outputs."""
    trace = batches.random_traces([1])[0]
    trace["requests"] = [
        {"id": i, "arrival_us": 0, "prompt": [[2 * i, 1]], "output": [2 * i + 1, i + 1]}
        for i in range(len(rows))
    ]
    inputs = batches.inputs_of([trace, trace])
    inputs.lanes["warmup"], inputs.lanes["alpha2"], inputs.lanes["smaller_pool"] = (
        warmup,
        OVERHEAD,
        0,
    )
    inputs.requests["patience"] = PATIENCE
    workspace = allocate_workspace(inputs, 1)
    outputs = allocate_outputs(inputs, keep_requests=True)
    fields = ("arrival", "scheduled", "first_token", "finish", "preemptions", "status")
    for field, column in zip(fields, zip(*rows, strict=True), strict=True):
        workspace.progress[field][: len(rows)] = column
    outputs.outcomes[:] = 99  # of an earlier run
    _end(inputs, workspace, outputs)
    outputs.tallies[1] = outputs.tallies[0]
    _copy(inputs, outputs)
    return inputs, outputs


@given(ends())
def test_totals_are_those_of_the_columns(drawn):
    rows, warmup = drawn
    inputs, outputs = run_end(rows, warmup)
    table = np.array(rows)[warmup:]
    arrival, scheduled, first, finish, preemptions, status = table.T
    delay = np.where(scheduled == NONE, NONE, scheduled - arrival)
    ttft = np.where(first == NONE, NONE, first + OVERHEAD - arrival)
    e2e = np.where(finish == NONE, NONE, finish + OVERHEAD - arrival)
    done = finish != NONE
    several = done & (np.arange(warmup, len(rows)) >= 1)
    tokens_after = np.maximum(np.arange(warmup, len(rows)), 1)
    tpot = np.where(several, (finish - first) / tokens_after, NONE)
    tally = outputs.tallies[0]
    totals = {
        "arrived": len(table),
        "first_arrival": arrival[status != RequestStatus.NOT_ARRIVED].min(initial=NEVER),
        "preemptions": preemptions.sum(),
        "preempted": (preemptions > 0).sum(),
        "admissions": (delay >= 0).sum(),
        "first_tokens": (ttft >= 0).sum(),
        "output_tokens": (np.arange(warmup, len(rows)) + 1)[done].sum(),
        "delay_sum": delay[delay >= 0].sum(),
        "patience_sum": PATIENCE * (status == RequestStatus.TIMED_OUT).sum(),
        "ttft_sum": ttft[ttft >= 0].sum(),
        "e2e_sum": e2e[done].sum(),
        "service_sum": (e2e - delay)[done].sum(),
        "tpots": several.sum(),
    }
    assert {name: tally[name] for name in totals} == totals
    counts = np.bincount(status, minlength=len(RequestStatus))
    assert outputs.outcomes.tolist() == [counts.tolist()] * 2
    columns = {"ttft": (outputs.ttft, ttft), "e2e": (outputs.e2e, e2e)}
    columns["scheduling_delay"] = outputs.delay, delay
    columns["tpot"] = outputs.tpot, tpot
    values = reduce_lanes(inputs, outputs, ())
    for name, (got, want) in columns.items():
        pair = got.reshape(2, -1)[:, warmup:]
        assert pair.tolist() == [want.tolist()] * 2
        mean, quantiles = summarize_latency(want[None])
        exact = 1e-12 if name == "tpot" else 0  # of which a sum is no whole number
        np.testing.assert_allclose(values[f"{name}_mean_ms"], [mean[0]] * 2, rtol=exact)
        np.testing.assert_array_equal(values[f"{name}_ms"], [quantiles[0]] * 2)


def test_no_request_has_no_mean_and_no_quantile():
    none = np.full((1, 4), NONE)
    assert np.isnan(mean_latency(np.array([0]), np.array([0]))).all()
    assert np.isnan(latency_quantiles(none, np.array([0]))).all()
