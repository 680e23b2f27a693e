"""The models of step times: what each computes, and the search for its coefficients.

The roofline has the FLOPs and bytes of the shape and three numbers; where attention reaches other
rates than matrix products do, `TWO_SUMS` has its form with all coefficients free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from kvsweep.calibrate.robust import OUTLIER, Floats, robust_nnls
from kvsweep.config.coefficients import BETAS
from kvsweep.gpu.batches import Batch
from kvsweep.gpu.step_store import BATCHES

if TYPE_CHECKING:
    import xarray as xr

_NOTHING = 1e-4
"""What the search leaves of a coefficient that is zero, in units of where it begins."""

_TELLING = 3
"""Batches in which a sum is the larger one, for its coefficients to mean something."""

LINEAR, ROOFLINE, TWO_SUMS = "linear", "roofline", "two-sums"


@dataclass(frozen=True)
class StepTimes:
    """A measurement as far as fitting goes.

    Attributes
    ----------
    sums : array of shape (batches, n) or (batches, n + 1)
        What `Latency.beta` weights: n is 5. With a window also the two that `Latency.window` does:
        n is 7. Of a mixture of experts, the share of them that is read too.
    trials : array of shape (parts, batches, trials)
        Times, microseconds, of all layers of a kind.
    held_out : array of shape (batches,)
        Which batches are not fitted to.
    flops : array of shape (n,)
        Of a step and of each unit of its sums.
    moved : array of shape (n,) or (n + 1,)
        Bytes of the same, and of the weights of all experts.
    experts_share : float
        Of all experts, those that a token is sent to; 0: there are none.
    window : int
        Tokens of the window; 0: none.
    """

    sums: Floats
    trials: Floats
    held_out: NDArray[np.bool_]
    flops: Floats
    moved: Floats
    experts_share: float = 0.0
    window: int = 0

    @property
    def of_beta(self) -> int:
        """How many of the sums `Latency.beta` and the first half of `Latency.window` weight."""
        return len(self.flops)

    @property
    def medians(self) -> Floats:
        """Times of whole steps, microseconds, shape (batches,)."""
        times: Floats = np.median(self.trials, axis=2).sum(axis=0)
        return times


def step_times(ds: xr.Dataset) -> StepTimes:
    """Return the times of a complete measurement (`kvsweep.gpu.step_store`)."""
    columns = (ds[variable.name].values.tolist() for variable in BATCHES)
    batches = [Batch(*row) for row in zip(*columns, strict=True)]
    sums = np.array([batch.sums for batch in batches])
    flops, moved = np.array(ds.attrs["step_flops"]), np.array(ds.attrs["step_bytes"])
    known, window = int(ds.attrs.get("window", 0)), _window_of(ds)
    if known:
        flops = _apart(flops, np.array(ds.attrs["window_flops"]), known)
        moved = _apart(moved, np.array(ds.attrs["window_bytes"]), known)
    if window:
        sums = np.column_stack((sums, [batch.inside(window) for batch in batches]))
    elif known:
        flops, moved = _together(flops), _together(moved)
    share = float(ds.attrs.get("experts_share", 0.0))
    if share:
        tokens = np.array([batch.tokens for batch in batches])
        sums = np.column_stack((sums, -np.expm1(tokens * np.log1p(-share))))
        of_experts = float(ds.attrs["experts_bytes"])
        moved = np.array([moved[0] - of_experts, *moved[1:], of_experts])
    return StepTimes(
        sums,
        ds["time_us"].values * ds["layers"].values[:, None, None],
        ds["held_out"].values > 0,
        flops,
        moved,
        share,
        window,
    )


def _window_of(ds: xr.Dataset) -> int:
    """Return the window of a measurement, 0 without one or with one that no request outgrows."""
    window = int(ds.attrs.get("window", 0))
    return window if window < int(ds.attrs["max_model_len"]) else 0


def _apart(counts: Floats, inside: Floats, window: int) -> Floats:
    """Return counts per sum where those of a window are apart: they were of a window in full."""
    of_decode, of_prefill = inside
    full = np.array([0.0, of_prefill, of_decode, 0.0, 0.0]) * (window - 1)
    return np.concatenate((counts - full, inside))


def _together(counts: Floats) -> Floats:
    """Return such counts where a window is full attention."""
    of_decode, of_prefill = counts[BETAS:]
    context: Floats = counts[:BETAS] + np.array([0.0, 0.0, 0.0, of_decode, of_prefill])
    return context


def predict(beta: Floats, memory: Floats, sums: Floats) -> Floats:
    """Return the times of steps by `Latency`'s formulas, not truncated, microseconds.

    `beta` and `memory` have the numbers of `Latency.window` behind them, if there is one; one more
    of `memory` is the first of `Latency.experts`.
    """
    if not len(memory):
        linear: Floats = sums[:, : len(beta)] @ beta
        return linear
    times: Floats = beta[0] + np.maximum(_computing(beta, sums), sums @ memory)
    return times


def _computing(beta: Floats, sums: Floats) -> Floats:
    found: Floats = sums[:, 1 : len(beta)] @ beta[1:]
    return found


def names_of(kind: str, beta: Sequence[float], memory: Sequence[float]) -> tuple[str, ...]:
    """Return what is fitted of a kind, by its name in a preset or with its unit."""
    if kind == ROOFLINE:
        return ("overhead, us", "computing, TFLOP/s", "moving, GB/s")
    windowed = len(beta) > BETAS
    names = [f"beta[{place}]" for place in range(BETAS)]
    names += ["window[1]", "window[2]"] if windowed else []
    if kind == TWO_SUMS:
        names += [f"memory[{place}]" for place in range(BETAS)]
        names += ["window[3]", "window[4]"] if windowed else []
        names += ["experts[0]"] if len(memory) > len(beta) else []
    return tuple(names)


def note_of(beta: Floats, memory: Floats, sums: Floats) -> str:
    """Tell if one of two sums is hardly ever the larger one: it might be less as well."""
    if not len(memory):
        return ""
    computing = int((_computing(beta, sums) >= sums @ memory).sum())
    for what, count in (("moving data", len(sums) - computing), ("computing", computing)):
        if count < _TELLING:
            return f"{what} takes longer in {count} of {len(sums)} batches: its rate is not told"
    return ""


Solver = Callable[[StepTimes, NDArray[np.intp], Floats, Floats | None], Floats]
"""From rows of batches, their times, and what is known to be near, to what is fitted."""


def _linear(
    times: StepTimes, rows: NDArray[np.intp], medians: Floats, near: Floats | None
) -> Floats:
    return robust_nnls(times.sums[rows, : times.of_beta] / medians[:, None])


def _roofline(
    times: StepTimes, rows: NDArray[np.intp], medians: Floats, near: Floats | None
) -> Floats:
    """Return overhead, us a FLOP and us a byte."""
    computed = times.sums[rows, : times.of_beta] @ times.flops
    moved = times.sums[rows] @ times.moved
    # No step is faster than either: their shares of the fastest are where the search begins.
    scale = np.array(
        [medians.min(), *(np.quantile(medians / part, 0.1) for part in (computed, moved))]
    )

    def misses(x: Floats) -> Floats:
        overhead, flop, byte = x * scale
        ratios: Floats = (overhead + np.maximum(flop * computed, byte * moved)) / medians
        return ratios - 1

    starts = np.array([[1e-3, 1.0, 1.0], [0.5, 0.5, 1.0], [0.5, 1.0, 0.5]])
    if near is not None:
        starts = np.maximum(near / scale, 1e-3)[None]
    ends = [
        least_squares(misses, start, bounds=(0.0, np.inf), loss="soft_l1", f_scale=OUTLIER)
        for start in starts
    ]
    best = min(ends, key=lambda end: float(end.cost))
    found: Floats = np.where(best.x > _NOTHING, best.x, 0.0) * scale
    return found


def _two_sums(
    times: StepTimes, rows: NDArray[np.intp], medians: Floats, near: Floats | None
) -> Floats:
    """Return ten coefficients: of the one sum with the overhead, and of the other.

    Of either two more if there is a window, and one more of the other if there are experts: of
    reading all of them.
    """
    sums, count = times.sums[rows], times.of_beta
    if near is None:
        linear = _linear(times, rows, medians, None)
        beta, memory = terms_of(times, ROOFLINE, _roofline(times, rows, medians, None))
        half = np.pad(0.5 * linear, (0, len(memory) - len(linear)))
        starts = [np.concatenate((linear, half)), np.concatenate((beta, memory))]
    else:
        starts = [near]
    scale = medians.mean() / np.maximum(sums.mean(axis=0), 1e-9)
    scale = np.concatenate((scale[:count], scale))

    def misses(x: Floats) -> Floats:
        terms = x * scale
        ratios: Floats = predict(terms[:count], terms[count:], sums) / medians
        return ratios - 1

    def slopes(x: Floats) -> Floats:
        terms = x * scale
        first = (_computing(terms[:count], sums) >= sums @ terms[count:])[:, None]
        beta, memory = np.where(first, sums[:, :count], 0.0), np.where(first, 0.0, sums)
        beta[:, 0] = 1.0  # the overhead is added to the larger one
        found: Floats = np.hstack((beta, memory)) * scale / medians[:, None]
        return found

    ends = [
        least_squares(
            misses,
            np.maximum(start / scale, 1e-6),
            slopes,
            bounds=(0.0, np.inf),
            loss="soft_l1",
            f_scale=OUTLIER,
        )
        for start in starts
    ]
    best = min(ends, key=lambda end: float(end.cost))
    found: Floats = np.where(best.x > _NOTHING, best.x, 0.0) * scale
    return found


def terms_of(times: StepTimes, kind: str, values: Floats) -> tuple[Floats, Floats]:
    """Return `Latency.beta` and `Latency.memory`."""
    if kind == LINEAR:
        return values, np.array([])
    if kind == TWO_SUMS:
        return values[: times.of_beta], values[times.of_beta :]
    overhead, flop, byte = values
    beta = times.flops * flop
    beta[0] = overhead
    return beta, times.moved * byte


def in_units(kind: str, values: Floats) -> Floats:
    """Return what was fitted in the units of `names_of`."""
    if kind != ROOFLINE:
        return values
    rates = [1e6 / max(value, 1e-30) for value in values[1:]]
    return np.array([values[0], rates[0] / 1e12, rates[1] / 1e9])


SOLVERS: dict[str, Solver] = {LINEAR: _linear, ROOFLINE: _roofline, TWO_SUMS: _two_sums}
"""What fits each kind."""
