"""Presets: files of latencies that come with the package, or of the user's own."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError, model_validator

from kvsweep.config import named_shape
from kvsweep.config.added_terms import Added
from kvsweep.config.base import Count, KeyProblem, Name, Positive, Section
from kvsweep.config.coefficients import (
    BETAS,
    Alphas,
    Betas,
    Experts,
    Window,
    check_experts,
    check_window,
    padded,
    padded_memory,
)
from kvsweep.config.explain import first_problem
from kvsweep.config.roofline import Device, Shape, roofline_terms
from kvsweep.config.source import read_source
from kvsweep.errors import InputError, clip, did_you_mean
from kvsweep.sizing.step_terms import StepTerms

_SUMS = ("beta", "memory")


class Preset(Section):
    """A file of latencies, and where they come from.

    Attributes
    ----------
    model, hardware : str
        What was measured.
    kind : str
        ``linear``: `beta` is given. ``roofline``: `device` is, and `shape` or `shape_of`; or `beta`
        and `memory`.
    alpha, beta, memory, experts, window : tuple of float
        As in `kvsweep.config.latency.Latency`.
    added : Added or None
        Terms beside what was measured, by their names.
    shape, device : Shape, Device
        As in `kvsweep.config.roofline`.
    shape_of : str or None
        Instead of `shape`: a model that comes with the package (`kvsweep.sizing.shapes`), a mixture
        of experts or one with multi-head latent attention among them.
    kv_bytes_per_token : float or None
        Bytes of a token's keys and values, all layers and all that devices hold; a roofline has a
        shape instead.
    tp : int or None
        Devices that share the model; a roofline's are in `device`.
    link : str or None
        What the CPU tier of this hardware is behind (`kvsweep.config.transfer.links`).
    source, fit : str
        Where the figures come from, and how well the model fits.
    """

    model: Name
    hardware: Name
    kind: Literal["linear", "roofline"]
    alpha: Alphas = ()
    beta: Betas | None = None
    memory: Betas | None = None
    experts: Experts | None = None
    window: Window | None = None
    added: Added | None = None
    shape: Shape | None = None
    device: Device | None = None
    shape_of: Name | None = None
    kv_bytes_per_token: Positive | None = None
    tp: Count | None = None
    link: Name | None = None
    source: Name
    fit: Name

    @model_validator(mode="before")
    @classmethod
    def _no_step_tokens(cls, given: Any) -> Any:
        """Say what became of a key that files of before may have."""
        if isinstance(given, dict) and "step_tokens" in given:
            raise KeyProblem(
                ("step_tokens",),
                "not needed: each step reads the experts of its own tokens; take the line out",
            )
        return given

    @model_validator(mode="after")
    def _complete(self) -> Self:
        shape = "shape" if self.shape_of is None or self.shape is not None else "shape_of"
        counted = self.memory is None
        needed = {"linear": ("beta",), "roofline": (shape, "device") if counted else _SUMS}
        for key in (*_SUMS, shape, "device"):
            if (getattr(self, key) is not None) != (key in needed[self.kind]):
                word = "needs" if key in needed[self.kind] else "has no"
                raise KeyProblem(("kind",), f"{self.kind!r} {word} {key!r}")
        for key in ("kv_bytes_per_token", "tp"):
            if self.device is not None and getattr(self, key) is not None:
                raise KeyProblem((key,), "kind 'roofline' has none: shape and device tell")
        self._check_shape()
        for key in ("experts", "window"):
            if getattr(self, key) and self.device is not None:
                raise KeyProblem((key,), "has no effect: the shape tells")
        memory = padded_memory(self.memory or ())
        check_experts(self.experts or (), memory)
        check_window(self.window or (), memory)
        return self

    def _check_shape(self) -> None:
        """Refuse what has no effect beside a shape, or is no shape."""
        if self.shape_of is not None and self.device is not None:
            if self.shape is not None:
                raise KeyProblem(("shape_of",), "give either shape or shape_of")
            named_shape.check(self.shape_of, self.device)
        elif self.device is not None and self.device.flops_8bit is not None:
            raise KeyProblem(("device", "flops_8bit"), "has no effect without shape_of")
        if self.device is not None and self.device.peer_bandwidth and self.device.tp == 1:
            raise KeyProblem(("device", "peer_bandwidth"), "has no effect with tp = 1")

    @property
    def gpu_token_bytes(self) -> float | None:
        """Bytes of a token's keys and values on one device, None if it is not known."""
        if self.device is not None:
            if self.shape_of is not None:
                return named_shape.token_bytes(self.shape_of, self.device)
            assert self.shape is not None
            return self.shape.gpu_token_bytes(self.device.tp)
        if self.kv_bytes_per_token is None:
            return None
        return self.kv_bytes_per_token / (self.tp or 1)

    def coefficients(self) -> dict[str, Any]:
        """Return the settings of the latency section that the preset stands for."""
        beta, memory = self.beta or (), self.memory or ()
        experts, window = self.experts or (), self.window or ()
        if self.device is not None:
            beta, memory, experts, window = self.roofline(self.device)
        if self.added is not None:
            beta, memory = self.added.to(padded(beta, BETAS), padded_memory(memory))
        found = {"alpha": self.alpha, "beta": beta, "window": window}
        return found | ({"memory": memory, "experts": experts} if memory else {})

    def roofline(self, device: Device) -> StepTerms:
        """Return the step times of a roofline's shape on a device."""
        if self.shape_of is not None:
            return named_shape.terms_of(self.shape_of, device)
        assert self.shape is not None
        return roofline_terms(self.shape, device)


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package, sorted."""
    return sorted(_bundled())


@cache
def _bundled() -> dict[str, Path]:
    root = Path(str(resources.files("kvsweep"))) / "presets"
    return {p.relative_to(root).with_suffix("").as_posix(): p for p in root.rglob("*.toml")}


def load_preset(name: str, folder: Path) -> Preset:
    """Read a preset by its name, or a file (``*.toml``) relative to `folder`.

    Raises
    ------
    KeyProblem
        At ``model``: no such preset or file, or the file is malformed.
    """
    if name.endswith(".toml"):
        return _read(folder / name)
    if name in _bundled():
        return _read_bundled(name)
    from kvsweep.sizing.shapes import model_named

    known, begun = preset_names(), model_named(name.rstrip("/"))
    hint, words = did_you_mean(name, known), ""
    if fitting := sum(each.startswith(f"{begun}/") for each in known):  # a model without its GPU
        hint, words = f"; {fitting} begin with {begun!r}", f" {begun}"
    raise KeyProblem(
        ("model",),
        f"unknown preset {clip(name)!r}{hint}; `kvsweep presets{words}` lists "
        f"{'them' if words else 'all'}, or give a path ending in .toml",
    )


@cache
def _read_bundled(name: str) -> Preset:
    return _read(_bundled()[name])


def _read(path: Path) -> Preset:
    try:
        source = read_source(path)
        try:
            return Preset.model_validate(source.values)
        except ValidationError as error:
            raise source.error(*first_problem(error, Preset, source.values)) from None
    except InputError as problem:
        raise KeyProblem(("model",), str(problem)) from None
