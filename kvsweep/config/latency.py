"""The latency section: coefficients given in place, by a preset's name, or by a file."""

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from kvsweep.config import named_shape
from kvsweep.config.added_terms import Added
from kvsweep.config.base import (
    Coefficient,
    Count,
    Key,
    KeyProblem,
    Microseconds,
    Name,
    Positive,
    Section,
)
from kvsweep.config.explain import first_problem
from kvsweep.config.roofline import Device, Shape, StepTerms, roofline_terms
from kvsweep.config.source import read_source
from kvsweep.errors import InputError, clip, did_you_mean
from kvsweep.limits import MAX_FIRST_STEPS

NO_LATENCY = "missing; give a model, as in model = 'llama-3.1-8b/h100/tp2', or alpha, beta"
"""What is wrong with a scenario that does not say how long steps take."""

_ALPHAS = 3
_BETAS = 5
_TOKEN_TERMS = 3
_SUMS = ("beta", "memory")

Alphas = Annotated[tuple[Coefficient, ...], Field(max_length=_ALPHAS)]
Betas = Annotated[tuple[Coefficient, ...], Field(max_length=_BETAS)]


class Preset(Section):
    """A file of latencies, and where they come from.

    Attributes
    ----------
    model, hardware : str
        What was measured.
    kind : str
        ``linear``: `beta` is given. ``roofline``: `device` is, and `shape` or `shape_of`; or `beta`
        and `memory`.
    alpha, beta, memory : tuple of float
        As in `Latency`.
    added : Added or None
        Terms beside what was measured, by their names.
    shape, device : Shape, Device
        As in `kvsweep.config.roofline`.
    shape_of : str or None
        Instead of `shape`: a model that comes with the package (`kvsweep.sizing.shapes`), a mixture
        of experts or one with multi-head latent attention among them.
    step_tokens : int or None
        Tokens of a step, with `shape_of` a mixture of experts: each step reads as many experts as
        one of so many tokens does; None: all.
    kv_bytes_per_token : float or None
        Bytes of a token's keys and values, all layers and devices; a roofline has a shape instead.
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
    added: Added | None = None
    shape: Shape | None = None
    device: Device | None = None
    shape_of: Name | None = None
    step_tokens: Count | None = None
    kv_bytes_per_token: Positive | None = None
    tp: Count | None = None
    link: Name | None = None
    source: Name
    fit: Name

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
        return self

    def _check_shape(self) -> None:
        """Refuse what has no effect beside a shape, or is no shape."""
        if self.shape_of is not None and self.device is not None:
            if self.shape is not None:
                raise KeyProblem(("shape_of",), "give either shape or shape_of")
            named_shape.check(self.shape_of, self.device, self.step_tokens)
        elif self.step_tokens is not None:
            raise KeyProblem(("step_tokens",), "has no effect without shape_of")
        elif self.device is not None and self.device.flops_8bit is not None:
            raise KeyProblem(("device", "flops_8bit"), "has no effect without shape_of")

    @property
    def gpu_token_bytes(self) -> float | None:
        """Bytes of a token's keys and values on one device, None if it is not known."""
        if self.device is not None:
            if self.shape_of is not None:
                return named_shape.token_bytes(self.shape_of, self.device)
            assert self.shape is not None
            return self.shape.kv_token_bytes / self.device.tp
        if self.kv_bytes_per_token is None:
            return None
        return self.kv_bytes_per_token / (self.tp or 1)

    def coefficients(self) -> dict[str, Any]:
        """Return the settings of the latency section that the preset stands for."""
        beta, memory = self.beta or (), self.memory or ()
        if self.device is not None:
            beta, memory = self.roofline(self.device)
        if self.added is not None:
            beta, memory = self.added.to(_padded(beta, _BETAS), memory)
        return {"alpha": self.alpha, "beta": beta, **({"memory": memory} if memory else {})}

    def roofline(self, device: Device) -> StepTerms:
        """Return `Latency.beta` and `Latency.memory` of a roofline's shape on a device."""
        if self.shape_of is not None:
            return named_shape.terms_of(self.shape_of, device, self.step_tokens)
        assert self.shape is not None
        return roofline_terms(self.shape, device)


class Latency(Section):
    """Latencies of one instance, microseconds; missing coefficients are 0.

    A token's context is the number of tokens before it in its request: those computed before the
    step for a decoded one, which grows by one from token to token within a chunk of a prefill.

    Attributes
    ----------
    model : str or None
        Preset (``<model>/<hardware>/<tp>``) or TOML file that the coefficients come from.
    alpha : tuple of 3 float
        Queueing is ``int(alpha[0] + alpha[1] * prompt tokens)``; ``int(alpha[2])`` is added once to
        every time that a client sees, never to the clock.
    beta : tuple of 3 or 5 float
        A step takes ``int(beta[0] + beta[1] * prefill tokens + beta[2] * decoding requests
        + beta[3] * context of the decoded tokens + beta[4] * context of the prefill tokens)``.
    memory : tuple of 0 or 5 float
        If given, ``int(beta[0] + max(sum of the other terms of beta, sum of memory))``, where
        `memory` weights 1 and the same four sums: a roofline, of computing and of moving data.
    first_steps_us : tuple of 0 to 4 int
        What the first, the second ... step of each instance takes longer: a server that has just
        started compiles kernels and fills pools on its first batches.
    """

    model: Annotated[Name | None, Key("1", "preset of the latencies")] = None
    alpha: Annotated[
        Alphas,
        Key("us", "coefficient of queueing and overhead"),
    ] = (0.0,) * _ALPHAS
    beta: Annotated[Betas, Key("us", "coefficient of the step time")] = (0.0,) * _TOKEN_TERMS
    memory: Annotated[Betas, Key("us", "coefficient of moving data in a step")] = ()
    first_steps_us: Annotated[
        tuple[Microseconds, ...],
        Field(max_length=MAX_FIRST_STEPS),
        Key("us", "what the first steps of an instance take longer"),
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("model"), str):
            return given
        for key in ("alpha", "beta", "memory"):
            if key in given:
                raise KeyProblem((key,), "give either model or alpha and beta")
        folder = (info.context or {}).get("base_dir", Path())
        return given | load_preset(given["model"], folder).coefficients()

    @field_validator("alpha")
    @classmethod
    def _pad_alpha(cls, alpha: tuple[float, ...]) -> tuple[float, ...]:
        return _padded(alpha, _ALPHAS)

    @field_validator("beta")
    @classmethod
    def _pad_beta(cls, beta: tuple[float, ...]) -> tuple[float, ...]:
        """Return one form for each meaning: context terms appear only if there are any."""
        return padded_beta(beta)

    @field_validator("memory")
    @classmethod
    def _pad_memory(cls, memory: tuple[float, ...]) -> tuple[float, ...]:
        return padded_memory(memory)


def padded_beta(beta: tuple[float, ...]) -> tuple[float, ...]:
    """Return coefficients of a step in one form; none stay none."""
    if not beta:
        return beta
    return _padded(beta, _BETAS if any(beta[_TOKEN_TERMS:]) else _TOKEN_TERMS)


def padded_memory(memory: tuple[float, ...]) -> tuple[float, ...]:
    """Return coefficients of moving data in one form."""
    return _padded(memory, _BETAS) if any(memory) else ()


def _padded(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    return (*values, *(0.0,) * count)[:count]


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
    known = preset_names()
    raise KeyProblem(
        ("model",),
        f"unknown preset {clip(name)!r}; allowed: {', '.join(known)}, or a path ending in .toml"
        f"{did_you_mean(name, known)}",
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
