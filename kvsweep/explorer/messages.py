"""What the page sends, validated: nothing of it is evaluated, and nothing else is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter, ValidationError

from kvsweep.config.explain import shown
from kvsweep.errors import InputError, did_you_mean, dotted
from kvsweep.limits import MAX_LIMIT, MAX_NAME, MAX_SEED
from kvsweep.parsing import parse_json

if TYPE_CHECKING:
    from kvsweep.explorer.controls import Control

PAGE = "page"
"""What messages call the page, as others name a file."""

MAX_MESSAGE = 2**16
"""Bytes of a message of the page."""

MAX_SETTINGS = 256
MAX_MEASURES = 8

Scalar = (
    Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict(), Field(allow_inf_nan=False)]
    | Annotated[str, Strict(), Field(max_length=MAX_NAME)]
)
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Settings = dict[str, Any]
"""Value by key; a key that is not there is as the file has it."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    generation: Annotated[int, Field(ge=0, lt=2**53)]


class Show(_Message):
    """Curves of one scenario, or of two that are compared.

    Attributes
    ----------
    generation : int
        Number of the request; they grow, and answers carry it.
    along : str
        Name of the axis.
    measures : list of str
        What is drawn; the first is that of the cliff.
    threshold : float or None
        Of the cliff; None: no cliff is looked for.
    scenarios : list of dict
        Settings of each.
    """

    kind: Literal["show"]
    along: Name
    measures: Annotated[list[Name], Field(min_length=1, max_length=MAX_MEASURES)]
    threshold: Annotated[float, Field(ge=-MAX_LIMIT, le=MAX_LIMIT, allow_inf_nan=False)] | None
    scenarios: Annotated[
        list[Annotated[dict[Name, Scalar], Field(max_length=MAX_SETTINGS)]],
        Field(min_length=1, max_length=2),
    ]

    @property
    def question(self) -> tuple[Any, ...]:
        """All that decides the answer."""
        settings = tuple(
            tuple(sorted((key, type(value).__name__, value) for key, value in each.items()))
            for each in self.scenarios
        )
        return self.along, tuple(self.measures), self.threshold, settings


class Life(_Message):
    """The life of every request of one simulation.

    Attributes
    ----------
    generation : int
        Number of the request, among those of this kind.
    along : str
        Name of the axis.
    settings : dict
        Of the scenario.
    value : int or float
        Where on the axis.
    seed : int
        The seed.
    """

    kind: Literal["life"]
    along: Name
    settings: Annotated[dict[Name, Scalar], Field(max_length=MAX_SETTINGS)]
    value: Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)]
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]


class Save(_Message):
    """A file of what is shown.

    Attributes
    ----------
    what : str
        ``toml``, ``command``, ``svg`` or ``png``.
    scenario : int
        Of which one, for the first two.
    """

    kind: Literal["save"]
    what: Literal["toml", "command", "svg", "png"]
    scenario: Annotated[int, Field(ge=0, le=1)] = 0


Message = Show | Life | Save

_ADAPTER: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def parse_message(text: str) -> Message:
    """Return what a message of the page asks for.

    Raises
    ------
    InputError
        If it is none that a page sends.
    """
    if len(text.encode(errors="replace")) > MAX_MESSAGE:
        raise InputError(f"{PAGE}: a message of more than {MAX_MESSAGE:,} bytes")
    return read_message(parse_json(text, PAGE))


def read_message(message: Any) -> Message:
    """Return what a parsed message asks for; errors as of `parse_message`."""
    try:
        return _ADAPTER.validate_python(message)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        words = first["msg"][:1].lower() + first["msg"][1:]
        raise InputError(
            f"{PAGE}: {dotted(first['loc']) or 'message'}: {words}, got {shown(first['input'])}"
        ) from None


def check_settings(settings: Settings, known: Mapping[str, Control]) -> None:
    """Refuse keys without a control, and names that theirs does not offer: no file is opened.

    What numbers may be is for the schema to say.

    Raises
    ------
    InputError
        Naming the first.
    """
    for key, value in settings.items():
        if key not in known:
            hint = did_you_mean(key, list(known))
            raise InputError(f"{PAGE}: {key}: cannot be set here{hint}")
        choices = known[key].choices
        if choices and value not in choices:
            names = [str(choice) for choice in choices]
            hint = did_you_mean(value, names) or f"; one of: {', '.join(names)}"
            raise InputError(f"{PAGE}: {key}: {shown(value)} cannot be chosen{hint}")


def check_measures(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse measures that there are not.

    Raises
    ------
    InputError
        Naming the first.
    """
    for name in names:
        if name not in known:
            hint = did_you_mean(name, list(known)) or f"; one of: {', '.join(known)}"
            raise InputError(f"{PAGE}: no measure {name!r}{hint}")
