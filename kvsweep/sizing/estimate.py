"""What a GPU's memory goes to before the KV cache gets the rest: computed where it can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvsweep.errors import InputError
from kvsweep.sizing.architectures import KNOWN
from kvsweep.sizing.gpus import Gpu, figures
from kvsweep.sizing.groups import stages
from kvsweep.sizing.settings import Served
from kvsweep.sizing.sizes import GIB, gib

MARGIN = 2.0
"""An estimate may be off by this factor, up or down: what the runs that are known show."""

PLANS = (1, 2, 4, 8, 16, 32, 64)
"""Tensor parallel sizes that are proposed."""


@dataclass(frozen=True)
class Part:
    """A part of a GPU's memory.

    Attributes
    ----------
    name : str
        What it is.
    size : int
        Bytes.
    low, high : int
        Bytes that it may be.
    kind : str
        ``given``, ``computed``, ``published`` or ``estimate``.
    source : str
        Where the figure comes from.
    """

    name: str
    size: int
    low: int
    high: int
    kind: str
    source: str


@dataclass(frozen=True)
class Budget:
    """The memory of one GPU of each stage of the pipeline.

    Attributes
    ----------
    gpu : Gpu
        The GPU.
    requested : int
        Bytes that vLLM may use.
    weights : tuple of Part
        By stage.
    activation, other : Part
        Of the forward pass with CUDA graphs; outside of PyTorch.
    """

    gpu: Gpu
    requested: int
    weights: tuple[Part, ...]
    activation: Part
    other: Part

    def available(self) -> list[int]:
        """Return what is left to the KV cache of a GPU, bytes, by stage."""
        rest = self.requested - self.activation.size - self.other.size
        return [rest - part.size for part in self.weights]

    def least(self, utilization: float) -> list[int]:
        """Return the same if all goes worse than estimated."""
        rest = math.ceil(self.gpu.low * utilization) - self.activation.high - self.other.high
        return [rest - part.high for part in self.weights]

    def most(self, utilization: float) -> list[int]:
        """Return the same if all goes better than estimated."""
        rest = math.ceil(self.gpu.high * utilization) - self.activation.low - self.other.low
        return [rest - part.low for part in self.weights]

    def utilization(self, cache: int, stage: int) -> float:
        """Return the ``gpu_memory_utilization`` that leaves `cache` bytes on a GPU of a stage."""
        fixed = self.weights[stage].size + self.activation.size + self.other.size
        return (cache + fixed) / self.gpu.memory


def budget(served: Served, gpu: Gpu, weights: int | None, activation: int | None) -> Budget:
    """Return where the memory of a GPU goes.

    Parameters
    ----------
    served : Served
        The model and its settings.
    gpu : Gpu
        The GPU.
    weights : int or None
        Bytes of all weights as loaded, over all GPUs; None: counted.
    activation : int or None
        Bytes on each GPU of a profile run, with CUDA graphs; None: estimated.

    Raises
    ------
    InputError
        If the weights cannot be counted and are not given.
    """
    requested = math.ceil(gpu.memory * served.asked.utilization)
    world = served.asked.tp * served.asked.pp
    part = figures()["other"]
    other = _estimate("outside of PyTorch", part["one" if world == 1 else "more"], part["source"])
    return Budget(gpu, requested, _weights(served, weights), _activation(served, activation), other)


def _weights(served: Served, given: int | None) -> tuple[Part, ...]:
    model, tp, pp = served.model, served.asked.tp, served.asked.pp
    if given is not None:
        each = math.ceil(given / (tp * pp))
        return (Part("weights", each, each, each, "given", "--weights"),) * pp
    if model.published is not None:
        each = math.ceil(2 * model.published / (tp * pp))
        source = f"published: {model.published:,} weights of 16 bits"
        return (Part("weights", each, each, each, "published", source),) * pp
    if model.weights is None:
        raise InputError(
            f"--weights: missing; the weights of {model.name} are {model.weights_unknown}: give "
            "what vLLM's log says ('Model loading took'), times the GPUs, or the bytes of the "
            "checkpoint, as --weights 60.8GiB"
        )
    source = f"computed: {model.weights.parameters:,} weights, {model.weights.text}"
    parts = []
    for stage in stages(model.layers, pp):
        size = math.ceil(model.weights.on_gpu(tp, stage))
        parts.append(Part("weights", size, size, size, "computed", source))
    return tuple(parts)


def _activation(served: Served, given: int | None) -> Part:
    name = "activations, CUDA graphs"
    if given is not None:
        return Part(name, given, given, given, "given", "--activation")
    return _estimate(name, _run(served) * _share(served), figures()["activation"]["source"])


def _run(served: Served) -> float:
    """Return the activations of the large run, GiB."""
    family = "moe" if served.model.experts else KNOWN[served.model.architecture].family
    return float(figures()["activation"][family])


def _share(served: Served) -> float:
    """Return the share of the large run's activations: half by tokens, half by requests."""
    table = figures()["activation"]
    small, large = table["small"], table["large"]
    done = 0.0
    for key in ("max_num_batched_tokens", "max_num_seqs"):
        value = getattr(served.defaults, key)
        done += (value - small[key]) / (large[key] - small[key]) / 2
    # Below the small run nothing is known to be saved.
    return float(small["share"] + (large["share"] - small["share"]) * max(0.0, done))


def _estimate(name: str, amount: float, source: str) -> Part:
    size = amount * GIB
    return Part(name, int(size), int(size / MARGIN), int(size * MARGIN), "estimate", source)


def refuse_without_memory(served: Served, plan: Budget, *, known: bool) -> None:
    """Refuse a GPU on which nothing is left to the KV cache.

    Parameters
    ----------
    served : Served
        The model and its settings.
    plan : Budget
        Where the memory goes.
    known : bool
        Whether something is known to be left, so that only weights which do not fit are wrong.

    Raises
    ------
    InputError
        With the smallest tensor parallel size that leaves something.
    """
    most = max(part.size for part in plan.weights)
    if min(plan.available()) > 0 or (known and most < plan.gpu.memory):
        return
    fixed = plan.activation.size + plan.other.size
    more = int(figures()["other"]["more"] * GIB) - plan.other.size
    fits = _fitting(served, plan.requested - fixed - more, most)
    remedies = [f"--tp {fits}"] if fits else []
    if plan.gpu.memory > most + fixed:
        remedies.append("a higher --utilization")
    if plan.activation.kind == "estimate":
        less = plan.activation.size - _run(served) * figures()["activation"]["large"]["share"] * GIB
        if plan.requested - fixed + less > most:
            remedies.append("a smaller --max-num-batched-tokens")
    remedy = ", ".join(remedies) + " or " if remedies else ""
    raise InputError(
        f"--gpu: no memory is left for the KV cache: of {gib(plan.requested):.2f} GiB that vLLM "
        f"may use on {plan.gpu.name} weights take {gib(most):.2f} and activations "
        f"{gib(fixed):.2f}; try {remedy}a larger --gpu"
    )


def _fitting(served: Served, room: int, weights: int) -> int | None:
    """Return the smallest tensor parallel size whose share of the weights fits, if one does."""
    tp = served.asked.tp
    larger = (size for size in PLANS if size > tp and served.model.takes(size))
    return next((size for size in larger if room > weights * tp / size), None)
