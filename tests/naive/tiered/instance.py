"""An engine with a CPU tier, and with several tables or drafts, on the clock."""

from dataclasses import dataclass, field

from ..explicit.checks import check_step
from ..offload.instance import OffloadInstance, OffloadStep
from .scheduler import TieredScheduler


@dataclass
class TieredStep(OffloadStep):
    """A step with what it copied, what it verified, and what windows gave back.

    Attributes
    ----------
    win : int
        Blocks given back because their windows had left them.
    acc : list of [id, drafts, accepted]
        Verifications, once its output is processed.
    """

    win: int = 0
    acc: list = field(default_factory=list)


class TieredInstance(OffloadInstance):
    """An engine with a connector whose requests have several tables, or drafts."""

    step_type = TieredStep

    def __init__(self, index, scenario, keys, max_steps, check):
        super().__init__(index, scenario, keys, max_steps, check)
        self.scheduler = TieredScheduler(scenario.engine, scenario.cache, keys)
        self.drafts = scenario.engine.drafts
        self.window_freed = 0
        self.draft_tokens = self.accepted_tokens = 0

    def _schedule(self, now):
        self.window_freed = self.scheduler.tables.window_freed
        return super()._schedule(now)

    def _columns(self, decision, wait, evicted):
        freed = self.scheduler.tables.window_freed - self.window_freed
        return super()._columns(decision, wait, evicted) | {"win": freed}

    def _process_oldest(self, now):
        batch = self.queue[0]
        super()._process_oldest(now)
        verified = batch.decision.verified
        self.draft_tokens += sum(drafts for _, drafts, _ in verified)
        self.accepted_tokens += sum(accepted for _, _, accepted in verified)
        if batch.step:
            batch.step.acc = verified

    def _check(self, batch):
        check_step(self.scheduler, batch.decision)

    @property
    def totals(self):
        found = super().totals
        if self.drafts:
            found["draft_tokens"] = self.draft_tokens
            found["accepted_tokens"] = self.accepted_tokens
        if self.scheduler.tables.window_freed:
            found["window_freed"] = self.scheduler.tables.window_freed
        return found
