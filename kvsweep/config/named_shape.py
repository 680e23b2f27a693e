"""The roofline of a preset whose shape is that of a model that comes with the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsweep.config.base import KeyProblem
from kvsweep.errors import InputError, clip, did_you_mean

if TYPE_CHECKING:
    from kvsweep.config.roofline import Device
    from kvsweep.sizing.settings import Served
    from kvsweep.sizing.step_terms import StepTerms


def check(name: str, device: Device) -> None:
    """Check that a model is known, may be served so, and is computed with all that is given.

    Raises
    ------
    KeyProblem
        At the first key that is wrong.
    """
    from kvsweep.sizing.shapes import model_names

    if name not in model_names():
        known = model_names()
        allowed = f"allowed: {', '.join(known)}{did_you_mean(name, known)}"
        raise KeyProblem(("shape_of",), f"unknown model {clip(name)!r}; {allowed}")
    try:
        model = _served(name, device).model
        terms_of(name, device)
    except InputError as problem:
        option, _, message = str(problem).partition(": ")
        if option == "--tp":
            raise KeyProblem(("device", "tp"), message) from None
        raise KeyProblem(("shape_of",), f"step times are not computed of {name}") from None
    assert model.work is not None
    if device.flops_8bit is not None and not model.work.eight_bit:
        raise KeyProblem(
            ("device", "flops_8bit"), f"has no effect: {name} is not computed in 8 bits"
        )


def terms_of(name: str, device: Device) -> StepTerms:
    """Return the step times of a model on a device."""
    from kvsweep.sizing.served_steps import Peaks, terms

    share, eight = device.compute_efficiency, device.flops_8bit or device.flops
    peaks = Peaks(
        device.flops * share,
        eight * share,
        device.bandwidth * device.bandwidth_efficiency,
        device.overhead_us,
        device.exchange,
    )
    return terms(_served(name, device), peaks)


def token_bytes(name: str, device: Device) -> float:
    """Return the bytes of a token's keys and values on one device."""
    served = _served(name, device)
    return float(sum(cache.token_bytes for cache in served.model.caches(device.tp, served.dtype)))


def _served(name: str, device: Device) -> Served:
    from kvsweep.sizing.settings import Asked, serve
    from kvsweep.sizing.shapes import load_model

    return serve(load_model(name), Asked(tp=device.tp), None)
