"""Prefill and decode apart: engines in one order of events, and what goes from one to another."""

import heapq
from copy import deepcopy
from dataclasses import replace
from math import ceil, inf

from ..cluster import Cluster
from .instance import ExplicitInstance

OUTPUT, SCHEDULE = 0, 1


class RoleInstance(ExplicitInstance):
    """An engine that only prefills, or only decodes.

    It does one thing at a time: process the output of its oldest batch, or schedule one. A batch
    that computes nothing takes no time and is not listed; when such batches change nothing more,
    the engine sleeps until a request enters or a transfer ends.

    Attributes
    ----------
    inbox : list of (time, request)
        Transfers that are under way, by their ends.
    link_us : int
        When the link to it is free.
    asleep, waits_for_output : bool
        Whether a schedule would change nothing; whether it comes after the next output.
    """

    def __init__(self, index, scenario, keys, max_steps, check, role):
        self.role = role
        super().__init__(index, scenario, keys, max_steps, check)
        self.clock = 0
        self.inbox = []
        self.link_us = 0
        self.asleep, self.waits_for_output = True, False
        self.pulling = []
        self.reported = []
        self.prefilled = []
        self.gave_up = []

    def turn(self):
        """Return time and kind of its next action."""
        full = len(self.queue) == self.depth
        if self.queue and (full or not self._has_work() or self.waits_for_output):
            return max(self.clock, self.queue[0].end), OUTPUT
        active = self._has_work() or self.queue
        if self.asleep or not active:
            times = [entry[0] for entry in self.arriving]
            times += [end for end, _ in self.inbox] if active else []
            return max(self.clock, min(times, default=inf)), SCHEDULE
        return self.clock, SCHEDULE

    def next_event(self):
        return self.turn()[0]

    def proceed(self):
        """Process an output, or schedule."""
        now, kind = self.turn()
        self.finishing, self.pulling, self.reported, self.prefilled = [], [], [], []
        self.gave_up = []
        self._note_usage(now)
        self.clock = now
        if kind == OUTPUT:
            self._output()
        else:
            self._dispatch(now)
        if self.role == "prefill":
            self.finishing = []

    def _dispatch(self, now):
        self.asleep = False
        self._enter_queue(now)
        if not self._has_work():
            self.asleep, self.waits_for_output = not self.queue, bool(self.queue)
            return
        batch = self._schedule(now)
        self.gave_up = batch.decision.timed_out
        self.pulling = [(r, tokens, batch.start) for r, tokens in batch.decision.pulls]
        self.queue.append(batch)
        more = batch.step is not None or self._has_work()
        self.waits_for_output = len(self.queue) == self.depth or not more

    def _schedule(self, now):
        start = max(now, self.device_us)
        batch = super()._schedule(now)
        batch.start = start
        return batch

    def _output(self):
        batch = self.queue[0]
        self.waits_for_output = False
        before = set(self.scheduler.held)
        self._process_oldest(self.clock)
        self.prefilled = [request for request in self.scheduler.held if request not in before]
        came = sorted((x for x in self.inbox if x[0] <= batch.end), key=lambda x: x[0])
        self.inbox = [x for x in self.inbox if x[0] > batch.end]
        self.reported = [request for _, request in came]
        for request in self.reported:
            request.reported_us = batch.end
            self._take_note(request)
        if batch.step:
            batch.step.free_end = len(self.scheduler.pool.free)
        if not self.reported and all(map(_is_idle, (batch, *self.queue))):
            self.asleep = True

    def _take_note(self, request):
        """A transfer has ended."""
        if self.role == "prefill":
            self.scheduler.let_go(request)
        else:
            self.scheduler.came(request)


def _is_idle(batch):
    decision = batch.decision
    changed = batch.step or decision.preempted or decision.pulls or decision.timed_out
    return not changed


class RoleCluster(Cluster):
    """Instances that prefill, instances that decode, and what goes from one to the other.

    Attributes
    ----------
    prefills : list of ExplicitRequest
        A request as its prefill instance sees it: with one token to sample.
    transfers : list of [id, tokens, submitted, start, end]
        In order of submission.
    """

    def __init__(self, requests, scenario, check):
        super().__init__(requests, scenario, check)
        self.prefills = [replace(deepcopy(r), output_tokens=1) for r in requests]
        self.transfers = []
        self.handed = 0

    def _instances(self, scenario):
        found = []
        for role in ("prefill", "decode"):
            pool = scenario.cluster.of_role(role)
            one = scenario.of_pool(pool)
            for _ in range(pool["instances"]):
                index = len(found)
                found.append(RoleInstance(index, one, self.keys, self.max_steps, self.check, role))
        return found

    def of_role(self, role):
        return [instance for instance in self.instances if instance.role == role]

    def _routed(self):
        return replace(self.cluster, instances=len(self.of_role("prefill")))

    def _route(self, request, now):
        """Let a request enter its prefill instance, if it fits there and where it goes later."""
        prefill = self.prefills[request.id]
        self.keys.extend(request.keys, request.known)
        chosen = self.of_role("prefill")[self.router.choose(request, self.of_role("prefill"), now)]
        entry_us = now + self.latency.queueing_us(request.prompt_tokens)
        decoders = self.of_role("decode")
        request.decode_instance = decoders[request.id % len(decoders)]
        decode = request.decode_instance.scheduler
        if chosen.scheduler.servable(prefill) and decode.servable(request):
            prefill.arrival_us = request.arrival_us
            chosen.expect(prefill, entry_us)
            return
        request.status, request.queued_us = "dropped_unservable", entry_us
        request.instance = chosen.index
        chosen.dropped += 1
        self._over(entry_us)

    def _after(self, instance):
        """Let what an instance has just done go to others."""
        for request, tokens, at in instance.pulling:
            start = max(at, instance.link_us)
            end = start + self.cluster.kv_transfer_base_us
            end += ceil(tokens / self.cluster.kv_transfer_bandwidth)
            instance.link_us = end
            self.transfers.append([request.id, tokens, at, start, end])
            instance.inbox.append((end, request))
            prefill = self.prefills[request.id]
            self.instances[prefill.instance].inbox.append((end, prefill))
        for prefill in instance.gave_up:
            self.requests[prefill.id].status = prefill.status
        for prefill in instance.prefilled:
            request = self.requests[prefill.id]
            request.patience_us = None  # its first step has begun
            entry_us = instance.clock + self.cluster.pd_handoff_us
            heapq.heappush(request.decode_instance.arriving, (entry_us, self.handed, request))
            self.handed += 1

    def run(self):
        """Return the result; what was counted of a request on both sides is one."""
        result = super().run()
        result.transfers = self.transfers
        for request, prefill in zip(self.requests, self.prefills, strict=True):
            request.prefill = prefill
            request.decode_admissions = request.admissions
            request.decode_preemptions = request.preemptions
            if prefill.queued_us is None:
                continue
            request.decode_queued_us, request.queued_us = request.queued_us, prefill.queued_us
            request.scheduled_us, request.instance = prefill.scheduled_us, prefill.instance
            request.admissions = prefill.admissions + request.admissions
            request.preemptions += prefill.preemptions
            request.executed += prefill.executed
            request.recomputed += prefill.recomputed
        return result
