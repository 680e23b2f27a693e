"""Which part of the curves a cliff figure shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cliff_records import Cliff
from kvsweep.analysis.statistics import Floats
from kvsweep.plot.ticks import is_wide

Limits = tuple[float, float]

# Of the whole width, that a close-up shows beside cliffs and their intervals at most.
BESIDE = 0.2
BESIDE_LOG = 0.1  # of a logarithmic axis, whose width is decades

# Beyond the point where every mean stays within this share of its range, and within a tenth of the
# way to the threshold, nothing is to be seen.
FLAT = 0.005
FLAT_OF_THRESHOLD = 0.1


class _Scale(NamedTuple):
    """How the axis of a cliff is drawn: to its places, back from one, and what is near there."""

    to: Callable[[Floats], Floats]
    back: Callable[[float], float]
    beside: float

    @classmethod
    def of(cls, cliff: Cliff) -> _Scale:
        if is_wide(cliff.axis):
            return cls(np.log, lambda place: float(np.exp(place)), BESIDE_LOG)
        return cls(np.asarray, float, BESIDE)


def until_flat(cliff: Cliff) -> Limits:
    """Limits of the axis from its tight end to a little beyond where the curves go flat."""
    order = slice(None, None, -1 if cliff.generous == "low" else 1)
    scale = _Scale.of(cliff)
    axis = scale.to(cliff.axis)[order]
    moving = _moving(cliff)[order]
    last = int(np.flatnonzero(moving)[-1]) if moving.any() else len(axis) - 1
    flat = axis[min(last + 1, len(axis) - 1)]
    end = _towards(flat + 0.12 * (flat - axis[0]), axis[-1], flat)
    pad = 0.01 * (end - axis[0])
    return _ascending(scale.back(axis[0] - pad), scale.back(end + pad))


def near_threshold(cliff: Cliff) -> tuple[Limits, Limits]:
    """Limits of the axis and of the measure around the threshold: x, then y.

    The measure runs from its value at the generous end to four times as far as the threshold, or
    as far as there is anything; the axis over the points whose mean lies there and which are not
    far from the cliffs, all of these and their intervals included. Where all cliffs lie beyond one
    end of the axis it is that end.
    """
    if end := _end_beyond(cliff):
        return _towards_end(cliff, end)
    means = np.array([group.curve.mean for group in cliff.groups])
    sign = -1.0 if cliff.past == "below" else 1.0
    good = sign * float(np.nanmin(sign * means))
    reach = cliff.threshold - good
    if sign * reach <= 0.0:
        return _from_threshold(cliff, sign)
    far = good + 4.0 * reach
    share = (means - good) / (far - good)
    inside = ((share > 0.01) & (share < 1.0)).any(axis=0)
    points = cliff.axis[inside] if inside.any() else cliff.axis
    scale = _Scale.of(cliff)
    near = _around(
        scale.to(points),
        scale.to(_places(cliff)),
        scale.to(np.array(until_flat(cliff))),
        scale.beside,
    )
    x = scale.back(near[0]), scale.back(near[1])
    extent = max(1.05 * (_worst(cliff, x, sign) - sign * good), 1.3 * abs(reach))
    return x, _ascending(good - 0.12 * reach, good + sign * min(extent, 4.0 * abs(reach)))


def _end_beyond(cliff: Cliff) -> str:
    """Return the end of the axis, ``below`` or ``above``, that all cliffs lie beyond, if one is."""
    edges = [cliff.edge(group.mean_curve.outcome) for group in cliff.groups]
    sides = {edge[0] if edge else "" for edge in edges}
    return sides.pop() if len(sides) == 1 else ""


def _towards_end(cliff: Cliff, end: str) -> tuple[Limits, Limits]:
    """Limits about an end of the axis, and of the measure there with the threshold."""
    scale = _Scale.of(cliff)
    low, high = scale.to(np.array(until_flat(cliff))).tolist()
    part = 2.0 * scale.beside * (high - low)
    near = (low, low + part) if end == "below" else (high - part, high)
    x = scale.back(near[0]), scale.back(near[1])
    values = [cliff.threshold, _worst(cliff, x, 1.0), -_worst(cliff, x, -1.0)]
    found = [value for value in values if np.isfinite(value)]
    room = 0.2 * (max(found) - min(found)) or room_beside(cliff.threshold)
    return x, (min(found) - room, max(found) + room)


def _around(points: Floats, places: Floats, whole: Floats, beside: float) -> Limits:
    """Limits of the axis about `points` and `places`, of the first those near the others."""
    room = beside * (whole[1] - whole[0])
    if places.size:
        points = np.clip(points, places.min() - room, places.max() + room)
    found = np.concatenate([points, places])
    low, high = float(found.min()), float(found.max())
    pad = 0.08 * (high - low) or 1.0
    return max(low - pad, float(whole[0])), min(high + pad, float(whole[1]))


def _worst(cliff: Cliff, x: Limits, sign: float) -> float:
    """Return the worst of means and their intervals within limits, `sign` times it."""
    edges = np.array(x)
    found = [-np.inf]
    for group in cliff.groups:
        for values in (group.curve.mean, group.curve.low, group.curve.high):
            known = ~np.isnan(values)
            if known.any():
                within = values[known & (cliff.axis >= x[0]) & (cliff.axis <= x[1])]
                ends = np.interp(edges, cliff.axis[known], values[known])
                found += [float(np.max(sign * np.append(within, ends)))]
    return max(found)


def _from_threshold(cliff: Cliff, sign: float) -> tuple[Limits, Limits]:
    """Limits where the curves are past the threshold from the start: all that there is."""
    x = until_flat(cliff)
    worst = sign * _worst(cliff, x, sign)
    extent = worst - cliff.threshold or room_beside(worst)
    y = _ascending(cliff.threshold - 0.3 * extent, worst + 0.05 * extent)
    return x, y


def room_beside(value: float) -> float:
    """Return what an axis of a single value shows of others."""
    return 0.1 * abs(value) or 1.0


def _moving(cliff: Cliff) -> NDArray[np.bool_]:
    """Whether any mean differs visibly from its value at the generous end, by point."""
    moving: NDArray[np.bool_] = np.zeros(cliff.axis.shape, dtype=np.bool_)
    for group in cliff.groups:
        mean = group.curve.mean
        known = np.flatnonzero(~np.isnan(mean))
        if known.size:
            end = mean[known[-1] if cliff.generous == "high" else known[0]]
            steps = (FLAT * np.ptp(mean[known]), FLAT_OF_THRESHOLD * abs(cliff.threshold - end))
            moving = moving | (np.abs(mean - end) > min(steps))
    return moving


def _places(cliff: Cliff) -> Floats:
    """All finite cliffs and interval ends."""
    places = [group.mean_curve.value for group in cliff.groups]
    for group in cliff.groups:
        if group.interval is not None:
            places += [group.interval.low, group.interval.high]
    return np.array([place for place in places if np.isfinite(place)])


def _towards(value: float, end: float, start: float) -> float:
    """Return `value`, but not beyond `end` seen from `start`."""
    low, high = sorted((start, end))
    return float(min(max(value, low), high))


def _ascending(a: float, b: float) -> Limits:
    return (float(a), float(b)) if a <= b else (float(b), float(a))
