"""Keys whose values, or tables whose keys, are the names of a family or of a list."""

from typing import Any

from pydantic import ValidationInfo

from kvsweep.config.base import Check, KeyProblem
from kvsweep.errors import did_you_mean
from kvsweep.policies import (
    RULES,
    Admission,
    Eviction,
    Offload,
    Priority,
    Routing,
    Scheduler,
    Scorer,
    TierEviction,
    Victim,
)


def known_keys(keys: tuple[str, ...], what: str, family: type[Scorer] | None = None) -> Any:
    """Return a check that a table has no other keys; of a family, those of the rule book."""

    def check(table: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for key in table:
            if key not in keys:
                listed = list(_of_rules(family, info) if family else keys)
                hint = did_you_mean(key, listed)
                raise KeyProblem((key,), f"unknown {what}; allowed: {', '.join(listed)}{hint}")
        return table

    return Check(check, lambda: {"propertyNames": {"enum": list(keys)}})


def member(
    family: type[
        Routing | Scheduler | Priority | Victim | Admission | Eviction | Offload | TierEviction
    ],
) -> Any:
    """Return a check that a value names a member of a family that the rule book has."""

    def check(name: str, info: ValidationInfo) -> str:
        return family.from_name(name, _of_rules(family, info)).label

    return Check(check, lambda: {"enum": list(family.labels())})


def _of_rules(
    family: type[
        Routing
        | Scheduler
        | Priority
        | Victim
        | Admission
        | Eviction
        | Offload
        | TierEviction
        | Scorer
    ],
    info: ValidationInfo,
) -> tuple[str, ...]:
    """Return the names that the scenario's rule book has; all where that is not known."""
    rules = (info.context or {}).get("rules")
    return family.labels_of(rules) if rules in RULES else family.labels()
