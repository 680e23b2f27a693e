"""Parameters of which a few show what the rest repeats: the rest is marked ``long``."""

from collections.abc import Iterable
from typing import Any

import pytest


def long_but(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return parameters, those that are not `kept` marked ``long``."""
    return [
        value if value in kept else pytest.param(value, marks=pytest.mark.long) for value in values
    ]
