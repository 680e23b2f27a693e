"""What all sections of a scenario share: strictness, number types, an error that names a key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler

from kvsweep.limits import (
    MAX_BANDWIDTH,
    MAX_COEFFICIENT,
    MAX_CV,
    MAX_RATE,
    MAX_SECONDS,
    MAX_TIME_US,
    MAX_TOKENS,
    MAX_WEIGHT,
    MIN_BANDWIDTH,
    MIN_CV,
    MIN_RATE,
    MIN_WEIGHT,
)


class Section(BaseModel):
    """A table of a sweep file: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Key(NamedTuple):
    """What a key of a scenario holds; it stands last in the annotation of its field.

    `kvsweep.config.schema.key_at` reads it for whoever names a key or its unit: coordinates of
    stores, and by them tables and figures.

    Attributes
    ----------
    unit : str
        Of the value; 1 for pure numbers, names and switches.
    meaning : str
        A few words. Those of a table stand before the meanings of what is in it.
    """

    unit: str
    meaning: str

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Put both into the JSON Schema of the field."""
        unit = {} if self.unit == "1" else {"x-unit": self.unit}
        return {**handler(schema), "description": self.meaning, **unit}


@dataclass(frozen=True)
class Check(AfterValidator):
    """A check of a value, and what a JSON Schema says of it.

    Attributes
    ----------
    keywords : callable () -> dict
        Of the schema; called when one is made.
    """

    keywords: Callable[[], dict[str, Any]]

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the keywords to those of the type."""
        return {**handler(schema), **self.keywords()}


class KeyProblem(ValueError):
    """A wrong value at a key that the raising model only knows by its name.

    Attributes
    ----------
    path : tuple of str or int
        The key, from the raising model on.
    """

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


def fill(section: Section, **values: Any) -> None:
    """Set what follows from other keys; these do not count as given."""
    section.__dict__.update(values)


def not_below(least: float) -> Check:
    """Return a check of the smallest of the numbers above 0 that are of any use."""

    def check(value: float) -> float:
        if value < least:
            raise ValueError(f"must be at least {least:g}, got {value!r}")
        return value

    return Check(check, lambda: {"minimum": least})


# Strict numbers: TOML and JSON tell integers, floats and booleans apart, so no conversion is needed
# but that of an integer to a float.
Whole = Annotated[int, Field(strict=True, ge=0)]
"""An integer, at least 0."""

Count = Annotated[int, Field(strict=True, ge=1)]
"""An integer, at least 1."""

Real = Annotated[float, Field(strict=True, ge=0.0, allow_inf_nan=False)]
"""A finite number, at least 0."""

Positive = Annotated[float, Field(strict=True, gt=0.0, allow_inf_nan=False)]
"""A finite number, more than 0."""

Tokens = Annotated[Count, Field(le=MAX_TOKENS)]
"""Tokens of one prompt or output."""

TokensReal = Annotated[Real, Field(le=MAX_TOKENS)]
"""The same where it need not be whole, as a mean."""

Microseconds = Annotated[Whole, Field(le=MAX_TIME_US)]
"""A time, microseconds."""

Seconds = Annotated[Real, Field(le=MAX_SECONDS)]
"""A time, seconds."""

Rate = Annotated[Positive, Field(le=MAX_RATE), not_below(MIN_RATE)]
"""Events per second."""

Bandwidth = Annotated[Positive, Field(le=MAX_BANDWIDTH), not_below(MIN_BANDWIDTH)]
"""Tokens per microsecond."""

Variation = Annotated[Positive, Field(le=MAX_CV), not_below(MIN_CV)]
"""A coefficient of variation: standard deviation over mean."""

Weight = Annotated[Real, Field(le=MAX_WEIGHT)]
"""A weight, of which the ratios count; 0: none."""

Fraction = Annotated[Positive, Field(le=MAX_WEIGHT), not_below(MIN_WEIGHT)]
"""A weight above 0."""

Coefficient = Annotated[Real, Field(le=MAX_COEFFICIENT)]
"""Microseconds per whatever it multiplies."""

Share = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
"""A number from 0 to 1."""

Switch = Annotated[bool, Field(strict=True)]
"""True or false."""

Name = Annotated[str, Field(min_length=1)]
"""A string that is not empty."""
