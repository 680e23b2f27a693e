"""The columns of a comparison: under which rules a published design is run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvsweep.config import Scenario
from kvsweep.replica.defects import defects
from kvsweep.replica.switches import SOUND, Switches

_SHIPPED = Switches()


@dataclass(frozen=True)
class Column:
    """One set of rules.

    Attributes
    ----------
    name : str
        Head of the column.
    rules : str
        ``blis``, the replica of the reference simulator, or ``vllm``, the kernel.
    repairs : tuple of str
        Defects of the reference that are repaired, such as ``D0``.
    """

    name: str
    rules: str = "blis"
    repairs: tuple[str, ...] = ()

    def apply(self, scenario: dict[str, Any]) -> dict[str, Any]:
        """Return the scenario, as plain tables, under these rules.

        vLLM's rules have neither horizon nor switches: every run ends by itself. Their name for
        the reference's ``priority-fcfs`` is ``priority``.
        """
        engine = dict(scenario.get("engine", {}))
        if self.rules == "vllm":
            for key in ("blis", "horizon_us"):
                engine.pop(key, None)
            if engine.get("scheduler") == "priority-fcfs":
                engine["scheduler"] = "priority"
        else:
            switched = {_switch_of(name): _repaired(name) for name in self.repairs}
            engine["blis"] = engine.get("blis", {}) | switched
        return scenario | {"engine": engine | {"rules": self.rules}}


def _switch_of(defect: str) -> str:
    return defects()[defect][0]


def _repaired(defect: str) -> bool:
    return not getattr(_SHIPPED, _switch_of(defect))


SOUND_DEFECTS = tuple(name for name, (switch, _) in defects().items() if switch in SOUND)
"""The defects that lose blocks, tokens or steps."""

AS_SHIPPED = Column("as shipped")
REPAIRED = Column("repaired", repairs=SOUND_DEFECTS)
E2E_TOO = Column("repaired, D4 too", repairs=(*SOUND_DEFECTS, "D4"))
SEEING = Column("repaired, D9 too", repairs=(*SOUND_DEFECTS, "D9"))
KERNEL = Column("vLLM rules", "vllm")
THREE = (AS_SHIPPED, REPAIRED, KERNEL)


def repairing(*names: str) -> Column:
    """Return the rules as shipped with only these defects repaired."""
    return Column(" + ".join(names), repairs=names)


ONE_AT_A_TIME = (
    *(repairing(name) for name in SOUND_DEFECTS),
    repairing("D0", "D1"),
)
"""As shipped with one defect repaired, and with the two that act on each other."""


def tables_of(scenario: Scenario) -> dict[str, Any]:
    """Return a scenario as plain tables that `kvsweep.config.scenario.validate` reads back."""
    dumped: dict[str, Any] = scenario.model_dump(
        mode="json", exclude_unset=True, exclude={"latency": {"model"}}
    )
    return dumped
