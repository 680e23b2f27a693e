"""An engine that only prefills, or only decodes, with a CPU tier: vLLM's MultiConnector."""

from dataclasses import dataclass
from math import inf

from ..explicit.instance import ExplicitStep
from ..explicit.roles import RoleInstance
from ..offload.instance import OffloadInstance, OffloadStep
from .scheduler import TieredScheduler


@dataclass
class TieredRoleStep(ExplicitStep, OffloadStep):
    """A step with what it pulled and copied."""


class TieredRoleInstance(RoleInstance, OffloadInstance):
    """A `RoleInstance` whose batches begin and await copies, too."""

    step_type = TieredRoleStep

    def __init__(self, index, scenario, keys, max_steps, check, role):
        super().__init__(index, scenario, keys, max_steps, check, role)
        self.scheduler = TieredScheduler(scenario.engine, scenario.cache, keys, role)
        self._take_kv_role(scenario.cluster)

    def _alarms(self):
        """Return when copies and transfers end that are under way."""
        ends = self.streams.next_end()
        return [*super()._alarms(), inf if ends is None else ends]

    def _pulls_from(self, batch):
        """It waits for copies before it pulls."""
        return batch.start + batch.decision.transfer_us

    def rests(self):
        return super().rests() and not self.scheduler.connector.unreported

    def _is_idle(self, batch):
        return super()._is_idle(batch) and batch.idle

    def _rests(self, batch):
        return super()._rests(batch) and not self.unsubmitted
