"""What is fitted: positive parameters, and the step times that they stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.holding import Reference
from kvsweep.config.preset import Preset
from kvsweep.config.roofline import Device
from kvsweep.errors import InputError
from kvsweep.limits import MAX_STEP_US
from kvsweep.sizing.step_terms import StepTerms

Floats = NDArray[np.float64]

TERMS = 5

GONE = 1e-9
"""Of the largest term, what a start has no more than is a term that it lacks: measured ones have
9e-8 at least, and searches that found none ended at 1e-11."""

NOTHING = 1e-6
"""Of the time of a token, what a term that is none takes where a search begins at it."""


class Terms(NamedTuple):
    """Step times of `n` candidates: `Latency.beta`, and of rooflines what they move.

    Attributes
    ----------
    beta : float (n, 5)
    memory : float (n, 5) or None
    experts : float (n, 2) or None
        Of mixtures of experts.
    window : float (n, 5) or None
        Of models with sliding windows: `Latency.window`.
    """

    beta: Floats
    memory: Floats | None
    experts: Floats | None = None
    window: Floats | None = None


class Family(ABC):
    """A kind of latency model with free parameters.

    Attributes
    ----------
    kind : str
        As in a preset.
    names, units : tuple of str
        Of the parameters.
    """

    kind: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    units: ClassVar[tuple[str, ...]]

    source: str = ""
    """Where the figures come from that are not fitted."""

    drawn: ClassVar[bool] = False
    """Whether a search is drawn, weakly, towards the preset from which it starts."""

    @property
    @abstractmethod
    def most(self) -> Floats:
        """The largest value of each parameter."""

    @abstractmethod
    def starts(self, token_us: float, context: float) -> Floats:
        """Return points from which to search, (n, k).

        Parameters
        ----------
        token_us : float
            Typical time between two tokens of a request.
        context : float
            Typical context of all running requests together, tokens.
        """

    @abstractmethod
    def reference(self) -> Reference | None:
        """Return what the preset says that the search starts from; None without one."""

    @abstractmethod
    def terms(self, points: Floats) -> Terms:
        """Return the step times of parameters (n, k)."""

    @abstractmethod
    def tables(self, point: Floats) -> dict[str, Any]:
        """Return what a preset says of the parameters (k,)."""


class Linear(Family):
    """``linear``: the five coefficients of a step."""

    kind = "linear"
    # From a preset 10 % off, a search of five coefficients ended where one was ten times too large.
    drawn = True
    names = tuple(f"beta[{term}]" for term in range(TERMS))
    units = ("us", "us/token", "us/request", "us/token", "us/token")

    def __init__(
        self, start: Sequence[float] | None = None, origin: str = "", window: Sequence[float] = ()
    ) -> None:
        self._start, self._origin, self._window = start, origin, tuple(window)

    @property
    def most(self) -> Floats:
        """No limit."""
        return np.full(TERMS, np.inf)

    def starts(self, token_us: float, context: float) -> Floats:
        """Share the time of a token among the terms in several ways, or take the point given.

        Terms that it lacks are shared, as next to nothing has no slope, and a search stays there;
        and once they are next to nothing, as they may be none.
        """
        shares = product((0.3, 0.5, 0.7, 0.9), (600, 300, 150, 75), (0.05, 0.2), (1e-5, 1e-4))
        rows = [
            (c * token_us, token_us / p, token_us / 1500, d * token_us / context, q * token_us / p)
            for c, p, d, q in shares
        ]
        if self._start is None:
            return np.array(rows)
        known = _terms_of(self._start)
        none = np.full((1, TERMS), NOTHING * token_us / max(context, 1.0))
        return np.unique(np.where(np.isnan(known), np.concatenate([rows, none]), known), axis=0)

    def reference(self) -> Reference | None:
        """Return the point given, where it has a term."""
        return None if self._start is None else Reference(_terms_of(self._start), self._origin)

    def terms(self, points: Floats) -> Terms:
        """Return the parameters: they are the coefficients, as far as the kernel can count them.

        What is inside a sliding window takes what it does in the preset that the search began at.
        """
        window = np.tile(self._window, (len(points), 1)) if self._window else None
        return Terms(np.minimum(points, MAX_STEP_US), None, window=window)

    def tables(self, point: Floats) -> dict[str, Any]:
        """Return the key ``beta``, and a ``window`` that is kept."""
        kept = {"window": list(self._window)} if self._window else {}
        return {"beta": point.tolist()} | kept


def _terms_of(start: Sequence[float]) -> Floats:
    """Return the terms that a point has; NaN for one that it lacks."""
    known = np.asarray(start, np.float64)
    return np.where(known > GONE * known.max(), known, np.nan)


@dataclass(frozen=True)
class Roofline(Family):
    """``roofline``: the shares of two peaks that are reached.

    The overhead of a step stays as given, as what the preset adds: it is hardly told apart from
    reading the weights.

    Attributes
    ----------
    preset : Preset
        The roofline that it starts from.
    device : Device
        That of the preset.
    source : str
        Where its figures come from.
    """

    preset: Preset
    device: Device
    source: str = ""

    kind = "roofline"
    names = ("compute_efficiency", "bandwidth_efficiency")
    units = ("1", "1")

    @property
    def most(self) -> Floats:
        """Nothing is faster than its peak."""
        return np.ones(2)

    def starts(self, token_us: float, context: float) -> Floats:
        """Combine some efficiencies."""
        return np.array(list(product((0.3, 0.5, 0.7, 0.9), repeat=2)))

    def reference(self) -> Reference:
        """Return the efficiencies given."""
        known = [getattr(self.device, name) for name in self.names]
        return Reference(np.array(known), "as the preset has it")

    def terms(self, points: Floats) -> Terms:
        """Evaluate the roofline at each point."""
        rows = [self._row(point) for point in points]
        experts = np.array([row.experts for row in rows])
        window = np.array([row.window for row in rows])
        return Terms(
            np.array([row.beta for row in rows]),
            np.array([row.memory for row in rows]),
            experts if experts.size else None,
            window if window.size else None,
        )

    def tables(self, point: Floats) -> dict[str, Any]:
        """Return the shape, what is added, and the table ``device``."""
        keys = {"shape", "shape_of", "added"}
        shape = self.preset.model_dump(exclude_none=True, include=keys)
        return shape | {"device": self._used(point).model_dump(exclude_none=True)}

    def _row(self, point: Floats) -> StepTerms:
        row, added = self.preset.roofline(self._used(point)), self.preset.added
        if added is None:
            return row
        once = added.host_overhead_us + added.allreduce_step_us
        return row.longer(once, added.allreduce_token_us)

    def _used(self, point: Floats) -> Device:
        return self.device.model_copy(update=dict(zip(self.names, point.tolist(), strict=True)))


def family_of(preset: Preset | None) -> Family:
    """Return what to fit, starting from a preset: its kind decides. None: linear, from anywhere.

    Raises
    ------
    InputError
        If it is a roofline of sums that were measured, which has no efficiencies to fit.
    """
    if preset is None:
        return Linear()
    if preset.device is not None:
        return Roofline(preset, preset.device, preset.source)
    if preset.memory is not None:
        raise InputError(
            "--from: a roofline of measured sums; start from one with a device, or from a linear "
            "preset (`kvsweep measure gpu --kind linear`)"
        )
    known = preset.coefficients()
    beta, window = known["beta"], known["window"]
    origin = f"as the preset of {preset.model} on {preset.hardware} has it"
    return Linear((*beta, *(0.0,) * TERMS)[:TERMS], origin, window)
