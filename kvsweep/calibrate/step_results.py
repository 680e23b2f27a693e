"""A preset of measured step times: fitted, judged on what was held out, told in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kvsweep.calibrate.judging import marked
from kvsweep.calibrate.presets import rounded, to_toml
from kvsweep.calibrate.robust import Floats
from kvsweep.calibrate.step_fit import DRAWS, StepFit, fit_steps
from kvsweep.calibrate.step_models import LINEAR, SOLVERS, StepTimes, step_times
from kvsweep.config.added_terms import Added
from kvsweep.config.coefficients import BETAS
from kvsweep.config.preset import Preset
from kvsweep.errors import InputError
from kvsweep.gpu.exchange import Exchange
from kvsweep.gpu.step_store import is_done

if TYPE_CHECKING:
    import xarray as xr

STEP_LIMIT = 0.1
"""Median relative error of held-out batches beyond which a fit is bad."""

HOST_OVERHEAD_US = 500.0
"""What the host takes a step unless told, as of the roofline presets."""

HOST_SOURCE = "inference-sim's TOverheadMicros, not measured here"
"""Where that comes from."""


class Terms(NamedTuple):
    """What is added to the times of the layers.

    Attributes
    ----------
    host_overhead_us : float or None
        Of the host in each step; None: `HOST_OVERHEAD_US`.
    exchange : Exchange
        Of GPUs with each other.
    """

    host_overhead_us: float | None
    exchange: Exchange

    @property
    def added(self) -> Added:
        """As a preset has them."""
        host = HOST_OVERHEAD_US if self.host_overhead_us is None else self.host_overhead_us
        return Added(
            host_overhead_us=rounded(host),
            allreduce_step_us=rounded(self.exchange.step_us),
            allreduce_token_us=rounded(self.exchange.token_us),
        )


@dataclass(frozen=True)
class StepResult:
    """A measurement and what follows.

    Attributes
    ----------
    ds : xr.Dataset
        The measurement.
    times : StepTimes
        Its times by batch.
    fits : dict of str to StepFit
        ``linear``, ``roofline`` and ``two-sums``.
    chosen : str
        Which of them the preset has.
    preset : Preset
        For a sweep.
    problems : tuple of str
        What makes the fit bad; empty if it is good.
    """

    ds: xr.Dataset
    times: StepTimes
    fits: dict[str, StepFit]
    chosen: str
    preset: Preset
    problems: tuple[str, ...]

    @property
    def spread(self) -> float:
        """Median over parts and batches of the half width of the middle half, over the median."""
        return spread(self.times.trials)


def spread(trials: Floats) -> float:
    """Return how much trials scatter: half their interquartile range over their median."""
    low, middle, high = np.percentile(trials, [25, 50, 75], axis=2)
    return float(np.median((high - low) / 2 / middle))


def result_of(
    ds: xr.Dataset, terms: Terms, kind: str | None = None, draws: int | None = None
) -> StepResult:
    """Fit all models to a complete measurement and make a preset of one.

    Parameters
    ----------
    ds : xr.Dataset
        The measurement (`kvsweep.gpu.step_store`).
    terms : Terms
        What is added.
    kind : str or None
        Which model the preset has; None: the one that predicts better.
    draws : int or None
        Of the bootstrap; None: `DRAWS`.

    Raises
    ------
    InputError
        If timings are missing.
    """
    if missing := int((~is_done(ds)).sum()):
        raise InputError(
            f"{missing} of {ds['position'].size} timings are missing; the same command goes on"
        )
    times = step_times(ds)
    fits = {name: fit_steps(times, name, draws or DRAWS) for name in SOLVERS}
    chosen = kind or min(fits, key=lambda name: fits[name].error)
    fit = fits[chosen]
    problems: tuple[str, ...] = ()
    if not fit.error <= STEP_LIMIT:
        problems = (f"held-out steps are off by {100 * fit.error:.1f} % (median)",)
    preset = _preset(ds, times, fits, chosen, terms, problems)
    return StepResult(ds, times, fits, chosen, preset, problems)


def _preset(
    ds: xr.Dataset,
    times: StepTimes,
    fits: dict[str, StepFit],
    chosen: str,
    terms: Terms,
    problems: tuple[str, ...],
) -> Preset:
    about, exchange, fit = ds.attrs, terms.exchange, fits[chosen]
    told = HOST_SOURCE if terms.host_overhead_us is None else "given"
    sources = [
        f"measured: `kvsweep measure gpu` at {about['time_ended']} on {hardware(about)}; layers of "
        f"random weights, {about['dtype']}, times {about['model_layers']}; {versions(about)}",
        f"host_overhead_us: {told}",
    ]
    if exchange.source:
        sources.append(f"allreduce_*: {exchange.source}, not measured here")
    others = ", ".join(
        f"{name} {100 * other.error:.1f} %" for name, other in fits.items() if other is not fit
    )
    return Preset(
        model=about["model"],
        hardware=hardware(about),
        kind="linear" if fit.kind == LINEAR else "roofline",
        alpha=(0.0, 0.0, 0.0),
        beta=tuple(map(rounded, fit.beta[:BETAS])),
        memory=tuple(map(rounded, fit.memory[:BETAS])) or None,
        experts=_experts(fit, ds),
        window=window_of(fit, times) or None,
        added=terms.added,
        kv_bytes_per_token=float(about["kv_bytes_per_token"]),
        tp=int(about["tp"]),
        source="; ".join(sources),
        fit=marked(
            f"{fit.kind}: {errors_text(fit)}; {intervals_text(fit)}; others: {others}; "
            f"{fit.note}{'; ' if fit.note else ''}trials scatter by "
            f"{100 * spread(times.trials):.1f} %",
            problems,
        ),
    )


def _experts(fit: StepFit, ds: xr.Dataset) -> tuple[float, ...] | None:
    """Return `Latency.experts`."""
    of_all = fit.memory[len(fit.beta) :]
    return (rounded(of_all[0]), float(ds.attrs["experts_share"])) if of_all else None


def window_of(fit: StepFit, times: StepTimes) -> tuple[float, ...]:
    """Return `Latency.window`."""
    inside = map(rounded, (*fit.beta[BETAS:], *fit.memory[BETAS : len(fit.beta)]))
    return (float(times.window), *inside) if times.window else ()


def hardware(about: dict[str, Any]) -> str:
    """Say on what was measured, and how many of it share a model."""
    name = about["hardware"]
    if about["device"] == "cpu":
        return f"{name}, {about['threads']} thread{'s'[: about['threads'] != 1]}"
    return f"{name}, {'one device' if about['tp'] == 1 else 'tensor parallel ' + str(about['tp'])}"


def versions(about: dict[str, Any]) -> str:
    """Say with which versions, and by which kernel."""
    keys = {"torch": "PyTorch", "cuda": "CUDA", "cudnn": "cuDNN", "driver": "driver"}
    named = [f"{name} {about[key]}" for key, name in keys.items() if key in about]
    named += [f"kvsweep {about['kvsweep']}", f"attention {about['attention_kernel']}"]
    if "state_kernel" in about:
        named.append(f"states {about['state_kernel']}")
    return ", ".join(named)


def errors_text(fit: StepFit) -> str:
    """Say how well held-out batches are predicted."""
    sizes = np.abs(fit.errors)
    return (
        f"{len(sizes)} held-out batches are predicted to {100 * fit.error:.1f} % (median; "
        f"9 of 10 to {100 * np.quantile(sizes, 0.9):.1f} %, on average "
        f"{100 * fit.errors.mean():+.1f} %)"
    )


def intervals_text(fit: StepFit) -> str:
    """Write the intervals of what was fitted."""
    found = zip(fit.names, fit.low, fit.high, strict=True)
    ends = ", ".join(f"{name} {low:.4g} to {high:.4g}" for name, low, high in found)
    return f"95 % intervals: {ends}"


HEADER = """\
# Step times that `kvsweep measure gpu` measured, layer by layer, microseconds. Use it as
# latency.model = "THIS FILE". [added] was not measured: edit it. docs/measuring-gpu.md
"""


def preset_text(preset: Preset) -> str:
    """Return the preset as TOML."""
    return HEADER + to_toml(preset)
