"""A device whose clock moves by known coefficients and noise: no PyTorch, no waiting."""

import numpy as np

from kvsweep.gpu.step_device import HEAD, Part, Timing

# Microseconds of one layer and of the head, as `Batch.sums` weights them.
LAYER = np.array([20.0, 0.5, 1.5, 0.002, 0.0001])
HEAD_US = np.array([15.0, 0.0, 0.25, 0.0, 0.0])
LAYERS = 10

# What a step computes and moves, all layers and the head: FLOPs, bytes.
FLOPS = np.array([0.0, 2e9, 2.5e9, 4e6, 4e6])
MOVED = np.array([1e9, 1e4, 1e4, 1e4, 0.0])

ATTRIBUTES = {
    "device": "cuda",
    "hardware": "Fake GPU",
    "gpu": "",
    "threads": 0,
    "torch": "9.9",
    "attention_kernel": "none",
    "model": "fake",
    "model_layers": LAYERS,
    "tp": 2,
    "dtype": "bf16",
    "kv_bytes_per_token": 131072,
    "step_flops": FLOPS.tolist(),
    "step_bytes": MOVED.tolist(),
}


class PresetSteps:
    """Takes exactly as long as a preset says, all of it in one layer.

    Parameters
    ----------
    preset : Preset
        The times.
    flops, moved : sequence of 5 float
        What a step computes and moves.
    """

    parts = (Part("full", 1),)

    def __init__(self, preset, flops, moved):
        self.attributes = ATTRIBUTES | {"step_flops": list(flops), "step_bytes": list(moved)}
        self.terms = preset.coefficients()

    def time(self, part, batch):
        sums, (overhead, *computing) = np.array(batch.sums), self.terms["beta"]
        moving = sums @ self.terms["memory"]
        if self.terms["experts"]:
            of_all, share = self.terms["experts"]
            moving += of_all * (1 - (1 - share) ** batch.tokens)
        computed = sums[1:] @ computing
        if self.terms["window"]:
            window, *inside = self.terms["window"]
            computed += np.array(inside[:2]) @ batch.inside(int(window))
            moving += np.array(inside[2:]) @ batch.inside(int(window))
        us = overhead + max(computed, moving)
        return Timing(us / 1e6, calls=1, graphed=True, clock_mhz=float("nan"))


class FakeSteps:
    """Times by coefficients, or by a roofline where `rates` are given.

    Parameters
    ----------
    noise : float
        Standard deviation of a timing's logarithm.
    rates : tuple of 3 float or None
        Overhead of a step in us, FLOP/us and bytes/us; then a layer has an equal share.
    attention : float
        How much longer than by those rates attention takes.
    fail_at : int or None
        Timing, from 0, that raises `failure`.
    """

    parts = (Part("full", LAYERS), Part(HEAD, 1))

    def __init__(
        self, noise=0.02, rates=None, attention=1.0, fail_at=None, failure=KeyboardInterrupt
    ):
        self.attributes = dict(ATTRIBUTES)
        self.noise, self.rates = noise, rates
        self.slower = np.array([1.0, 1.0, 1.0, attention, attention])
        self.rng = np.random.default_rng(1)
        self.timed = []
        self.fail_at, self.failure = fail_at, failure

    def time(self, part, batch):
        if len(self.timed) == self.fail_at:
            raise self.failure
        self.timed.append((part, batch))
        sums = np.array(batch.sums)
        if self.rates is None:
            us = float((LAYER, HEAD_US)[part] @ sums)
        else:
            overhead, flops, moved = self.rates
            step = overhead + max(
                (FLOPS * self.slower) @ sums / flops, (MOVED * self.slower) @ sums / moved
            )
            us = float(step / LAYERS) if part == 0 else 1e-9
        us *= float(np.exp(self.noise * self.rng.standard_normal()))
        return Timing(us / 1e6, calls=3, graphed=True, clock_mhz=1980.0)
