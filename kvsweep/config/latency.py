"""The latency section: coefficients given in place, by a preset's name, or by a file."""

import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from kvsweep.config.base import KeyProblem, Name, Real, Section
from kvsweep.errors import did_you_mean

_TERMS = 3

Coefficients = Annotated[tuple[Real, ...], Field(max_length=_TERMS)]


class Preset(Section):
    """A file of coefficients, and where they come from.

    Attributes
    ----------
    model, hardware : str
        What was measured.
    kind : str
        Form of the latency model: ``linear``.
    alpha, beta : tuple of float
        As in `Latency`.
    source, fit : str
        Who measured, and how well the model fits.
    """

    model: Name
    hardware: Name
    kind: Literal["linear"]
    alpha: Coefficients
    beta: Coefficients
    source: Name
    fit: Name


class Latency(Section):
    """Linear latencies of one instance, microseconds; missing coefficients are 0.

    Attributes
    ----------
    model : str or None
        Preset (``<model>/<hardware>/<tp>``) or TOML file that the coefficients come from.
    alpha : tuple of 3 float
        Queueing is ``int(alpha[0] + alpha[1] * prompt tokens)``; ``int(alpha[2])`` is added once to
        every time that a client sees, never to the clock.
    beta : tuple of 3 float
        A step takes ``int(beta[0] + beta[1] * prefill tokens + beta[2] * decoding requests)``.
    """

    model: Name | None = None
    alpha: Coefficients = (0.0, 0.0, 0.0)
    beta: Coefficients = (0.0, 0.0, 0.0)

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("model"), str):
            return given
        for key in ("alpha", "beta"):
            if key in given:
                raise KeyProblem((key,), "give either model or alpha and beta")
        folder = (info.context or {}).get("base_dir", Path())
        preset = load_preset(given["model"], folder)
        return given | {"alpha": preset.alpha, "beta": preset.beta}

    @field_validator("alpha", "beta")
    @classmethod
    def _padded(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        return values + (0.0,) * (_TERMS - len(values))


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
        f"unknown preset {name!r}; allowed: {', '.join(known)}, or a path ending in .toml"
        f"{did_you_mean(name, known)}",
    )


@cache
def _read_bundled(name: str) -> Preset:
    return _read(_bundled()[name])


def _read(path: Path) -> Preset:
    try:
        return Preset.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise KeyProblem(("model",), f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise KeyProblem(("model",), f"{path}: {key}: {first['msg']}") from None
    except ValueError as error:
        raise KeyProblem(("model",), f"{path}: not TOML: {error}") from None
