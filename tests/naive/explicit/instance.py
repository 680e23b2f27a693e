"""An engine with several tables, drafts or stages on the clock."""

from dataclasses import dataclass, field

from ..instance import Instance, Step
from .checks import check_step
from .scheduler import ExplicitScheduler


@dataclass
class ExplicitStep(Step):
    """A step with what it verified, and with what windows gave back.

    Attributes
    ----------
    win : int
        Blocks given back because their windows had left them.
    acc : list of [id, drafts, accepted]
        Verifications, once its output is processed.
    pull : list of [id, tokens]
        Prompts that it began to pull.
    held : int
        Finished requests that hold blocks after scheduling.
    """

    win: int = 0
    acc: list = field(default_factory=list)
    pull: list = field(default_factory=list)
    held: int = 0


class ExplicitInstance(Instance):
    """An engine that schedules under the rules of hybrid caches, drafts and pipelines.

    Attributes
    ----------
    stages_us : list of int
        When each stage of the pipeline is done with all that was scheduled.
    blocked : bool
        Whether it waits for the oldest batch: nothing is scheduled before, whoever enters.
    """

    step_type = ExplicitStep
    role = "both"

    def __init__(self, index, scenario, keys, max_steps, check):
        super().__init__(index, scenario, keys, max_steps, check)
        self.drafts = scenario.engine.drafts
        self.scheduler = ExplicitScheduler(scenario.engine, scenario.cache, keys, self.role)
        self.check = False
        self.checks = check
        self.window_freed = 0
        self.blocked = False
        self.stages_us = [0] * scenario.engine.pipeline_parallel_size
        self.draft_tokens = self.accepted_tokens = 0

    def _columns(self, decision, wait, evicted):
        freed = self.scheduler.tables.window_freed - self.window_freed
        return super()._columns(decision, wait, evicted) | {
            "win": freed,
            "pull": [[request.id, tokens] for request, tokens in decision.pulls],
            "held": len(self.scheduler.held),
        }

    def _begin(self, now):
        """Return when the first stage begins; it needs the tokens sampled so many calls before."""
        begin = max(now, self.stages_us[0])
        if len(self.queue) == len(self.stages_us) and self.queue[0].decision.sampling:
            begin = max(begin, self.queue[0].end)
        return begin

    def _end(self, start, duration):
        """Let each stage compute its part of a batch, and return when the last has done so."""
        count = len(self.stages_us)
        for stage in range(count):
            part = duration * (stage + 1) // count - duration * stage // count
            start = max(start, self.stages_us[stage]) + part
            self.stages_us[stage] = start
        return start

    def _schedule(self, now):
        self.window_freed = self.scheduler.tables.window_freed
        return super()._schedule(now)

    def proceed(self):
        """Do what happens at the time of the next event, as long as it changes anything.

        A head may need more than the whole pool: with drafts beside windows admissions plan with
        less than it asks for then. It is tried again when another request enters.
        """
        now = self.next_event()
        self.finishing = []
        self._note_usage(now)
        if self.queue and self.queue[0].end == now:
            self._process_oldest(now)
        self._enter_queue(now)
        stuck = False
        while not stuck and (self._has_work() or self.queue):
            if self._has_work() and len(self.queue) < self.depth and not self.blocked:
                batch = self._schedule(now)
                self.queue.append(batch)
                self.blocked = not (batch.step or self._has_work())
            elif self.queue[0].step:
                self.blocked = True
                break
            else:
                decision = self.queue[0].decision
                self._process_oldest(now)
                changed = decision.preempted or decision.timed_out or self.scheduler.running
                stuck = not changed and not any(batch.step for batch in self.queue)

    def _process_oldest(self, now):
        batch = self.queue[0]
        self.blocked = False
        super()._process_oldest(now)
        verified = batch.decision.verified
        self.draft_tokens += sum(drafts for _, drafts, _ in verified)
        self.accepted_tokens += sum(accepted for _, _, accepted in verified)
        if batch.step:
            batch.step.acc = verified
        if self.checks:
            check_step(self.scheduler, batch.decision)

    @property
    def totals(self):
        ends = [step.t + step.d for step in self.steps if step.fin]
        found = super().totals | {"end_us": max(ends, default=0)}
        if self.drafts:
            found["draft_tokens"] = self.draft_tokens
            found["accepted_tokens"] = self.accepted_tokens
        if self.scheduler.tables.window_freed:
            found["window_freed"] = self.scheduler.tables.window_freed
        return found
