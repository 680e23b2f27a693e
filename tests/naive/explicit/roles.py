"""Prefill and decode apart: engines in one order of events, and what goes from one to another."""

import heapq
from copy import deepcopy
from dataclasses import replace
from math import ceil, inf

from ..cluster import Cluster
from ..instance import StepLimit
from ..routing import Router
from .instance import ExplicitInstance
from .leases import Heartbeats, Leases

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
    bound : int
        Requests that are to come here and are at a prefill instance, when a router looks.
    misfits : set
        Prefills of requests that their decode instance can never serve.
    leases, heartbeats : Leases, Heartbeats
        For what it keeps; for what it waits for.
    changed_us : int
        When its schedules last changed anything.
    renewed : list of request
        Whose leases it has just renewed.
    failed, expired : list of request
        Those that it has just ended as their pull failed; whose lease it has just ended.
    """

    def __init__(self, index, scenario, keys, max_steps, check, role):
        self.role = role
        super().__init__(index, scenario, keys, max_steps, check)
        self.clock = 0
        self.inbox = []
        self.link_us = 0
        self.asleep, self.waits_for_output = True, False
        self.changed_us = 0
        self.pulling = []
        self.reported = []
        self.prefilled = []
        self.bound = 0
        self.misfits = set()
        self._take_kv_role(scenario.cluster)
        self.leases = Leases(scenario.cluster)
        self.heartbeats = Heartbeats(scenario.cluster)
        recomputes = {"fail": False, "recompute": True}
        self.recomputes = recomputes[scenario.cluster.kv_load_failure_policy]
        self.renewed, self.failed, self.expired = [], [], []

    def _take_kv_role(self, cluster):
        """Let vLLM take it that a prefill instance loads, if it is told so (R14.5)."""
        if self.role == "prefill":
            self.scheduler.loads = cluster.prefill_kv_role == "kv_both"

    @property
    def pending(self):
        return super().pending + self.bound

    def expect(self, request, entry_us):
        """Let a request that is routed here enter; at equal times after those handed over."""
        request.instance = self.index
        heapq.heappush(self.arriving, (entry_us, (1, request.id), request))

    def expect_handed(self, request, entry_us, number):
        """Let a request enter that is the `number`-th whose prefill has ended."""
        heapq.heappush(self.arriving, (entry_us, (0, number), request))
        self.heartbeats.handed.append(request)

    def serves(self, request):
        return super().serves(request) and request not in self.misfits

    def catch_up(self, now):
        """Let those enter whose time has come before `now`."""
        self._enter_queue(now - 1)

    def turn(self):
        """Return time and kind of its next action."""
        full = len(self.queue) == self.depth
        if self.queue and (full or not self._has_work() or self.waits_for_output):
            return max(self.clock, self.queue[0].end), OUTPUT
        active = self._has_work() or self.queue
        if self.asleep or not active:
            times = [entry[0] for entry in self.arriving]
            times += self._alarms() if active else []
            times += [self.leases.next_end, self.heartbeats.next_time]
            return max(self.clock, min(times, default=inf)), SCHEDULE
        return self.clock, SCHEDULE

    def _alarms(self):
        """Return when transfers end that are under way."""
        return [end for end, _ in self.inbox]

    def next_event(self):
        return self.turn()[0]

    def rests(self):
        """Return whether nothing is on the way to it, and nobody runs."""
        return not (self.scheduler.running or self.inbox or self.arriving)

    def proceed(self):
        """Process an output, or schedule."""
        now, kind = self.turn()
        self.finishing, self.pulling, self.reported, self.prefilled = [], [], [], []
        self.renewed, self.failed, self.expired = [], [], []
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
        self.renewed = self.heartbeats.send(now)
        self.pulling = [(r, n, self._pulls_from(batch)) for r, n in batch.decision.pulls]
        self.queue.append(batch)
        more = batch.step is not None or self._has_work()
        self.waits_for_output = len(self.queue) == self.depth or not more

    def _schedule(self, now):
        start = max(now, self.device_us)
        batch = super()._schedule(now)
        batch.start = start
        return batch

    def _pulls_from(self, batch):
        """Return when the transfers begin that a batch orders."""
        return batch.start

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
        for request in self.prefilled:
            self.leases.grant(request, self.clock)
        self.leases.renew(batch.end)
        self.expired = self.leases.ended(batch.end)
        for request in self.expired:
            request.reported_us = batch.end
            self.inbox = [x for x in self.inbox if x[1] is not request]
            self._let_go(request)
        if batch.step:
            batch.step.free_end = len(self.scheduler.pool.free)
        if not (self.reported or self.expired) and self._rests(batch):
            self.asleep = True
        else:
            self.changed_us = self.clock

    def _rests(self, batch):
        """Whether what it has just processed, and what is on its way, changes nothing."""
        return all(map(self._is_idle, (batch, *self.queue)))

    def _is_idle(self, batch):
        decision = batch.decision
        changed = batch.step or decision.preempted or decision.pulls or decision.timed_out
        return not changed

    def _take_note(self, request):
        """A transfer has ended."""
        if self.role == "prefill":
            self._let_go(request)
        elif request.pull_fails and not self.recomputes:
            self.failed.append(request)
            self.scheduler.fail(request)
            request.status = "errored"
        else:
            self.scheduler.came(request)

    def hear(self, request, now):
        """A heartbeat has come; it counts with the output of a step, if there is any under way."""
        self.leases.heard.append(request)
        if self.asleep:
            self.leases.renew(now)

    def _let_go(self, request):
        del self.leases.ends[request]
        self.scheduler.let_go(request)


class RoleCluster(Cluster):
    """Instances that prefill, instances that decode, and what goes from one to the other.

    Attributes
    ----------
    prefills : list of ExplicitRequest
        A request as its prefill instance sees it: with one token to sample.
    transfers : list of [id, tokens, submitted, start, end]
        In order of submission.
    expired_leases, failed_pulls : int
        Of all instances.
    """

    def __init__(self, requests, scenario, check):
        super().__init__(requests, scenario, check)
        self.routers = {
            role: Router(self.cluster.routed_to(role), scenario.cache.block_size)
            for role in ("prefill", "decode")
        }
        self.prefills = [self._to_prefill(request) for request in requests]
        self.transfers = []
        self.handed = 0
        self.expired_leases = self.failed_pulls = 0

    def _instances(self, scenario):
        from ..tiered.roles import TieredRoleInstance  # which is one of these

        found = []
        for role in ("prefill", "decode"):
            pool = scenario.cluster.of_role(role)
            one = scenario.of_pool(pool)
            for _ in range(pool["instances"]):
                index = len(found)
                engine = TieredRoleInstance if one.cache.connects else RoleInstance
                found.append(engine(index, one, self.keys, self.max_steps, self.check, role))
        return found

    def _to_prefill(self, request):
        """Return a request as its prefill instance computes it, which has keys of all of it."""
        prefill = replace(deepcopy(request), output_tokens=1)
        self.keys.extend(prefill.keys, prefill.known)
        tables = self.of_role("prefill")[0].scheduler.tables
        prefill.prompt_tokens = tables.pulled_of(request.prompt_tokens)
        prefill.left_over = request.prompt_tokens - prefill.prompt_tokens
        del prefill.known[prefill.prompt_tokens :]
        return prefill

    def of_role(self, role):
        return [instance for instance in self.instances if instance.role == role]

    def _route(self, request, now):
        """Choose the decode instance, decide whether to prefill apart, then where."""
        self.keys.extend(request.keys, request.known)
        for instance in self.instances:
            instance.catch_up(now)
        away = [r for r in self.requests if self._is_at_prefill(r)]
        for each in self.requests:
            each.lost = self.prefills[each.id].status not in (None, "completed")
        for decoder in self.of_role("decode"):
            decoder.bound = sum(request.decode_instance is decoder for request in away)
        for role, router in self.routers.items():
            router.look(self.of_role(role), now)
        decoder = request.decode_instance = self._decoder(request)
        entry_us = now + self.latency.queueing_us(request.prompt_tokens)
        fits = decoder.scheduler.servable(request)
        if self._stays(request, decoder):
            request.pulled = True  # there is nothing to pull
            decoder.expect(request, entry_us)
        else:
            fits = self._prefill_apart(request, entry_us) and fits
        if not fits:
            self._over(entry_us)

    def _is_at_prefill(self, request):
        prefill = self.prefills[request.id]
        return prefill.instance is not None and prefill.status is None

    def _decoder(self, request):
        decoders, router = self.of_role("decode"), self.routers["decode"]
        chosen = router.decide(request, decoders)
        if router.cluster.routing == "round-robin":
            chosen = request.id % len(decoders)
        return decoders[chosen]

    def _stays(self, request, decoder):
        """Whether the prompt is prefilled where it is decoded."""
        threshold = self.cluster.pd_uncached_token_threshold
        if threshold is None:
            return False
        size = self.keys.block_size
        held = decoder.scheduler.held_blocks(request.keys[: request.prompt_tokens // size])
        return request.prompt_tokens - held * size <= threshold

    def _prefill_apart(self, request, entry_us):
        """Let a request enter a prefill instance; return whether it fits there."""
        prefill, decoder = self.prefills[request.id], request.decode_instance
        instances = self.of_role("prefill")
        chosen = instances[self.routers["prefill"].decide(request, instances)]
        prefill.arrival_us = request.arrival_us
        chosen.expect(prefill, entry_us)
        if not decoder.scheduler.servable(request):
            chosen.misfits.add(prefill)
        return chosen.scheduler.servable(prefill)

    def _after(self, instance):
        """Let what an instance has just done go to others."""
        for request, tokens, at in instance.pulling:
            start = end = at
            if tokens:
                start = max(at, instance.link_us)
                end = start + self.cluster.kv_transfer_base_us
                end += ceil(tokens / self.cluster.kv_transfer_bandwidth)
                instance.link_us = end
                instance.inbox.append((end, request))
            self.transfers.append([request.id, tokens, at, start, end])
            prefill = self.prefills[request.id]
            prefiller = self.instances[prefill.instance]
            if prefill in prefiller.leases.ends and not (tokens and request.pull_fails):
                prefiller.inbox.append((end, prefill))
        self._after_leases(instance)
        for prefill in instance.prefilled:
            request = self.requests[prefill.id]
            request.patience_us = None  # its first step has begun
            entry_us = instance.clock + self.cluster.pd_handoff_us
            request.decode_instance.expect_handed(request, entry_us, self.handed)
            self.handed += 1

    def _after_leases(self, instance):
        """Renew leases; let those whose leases have ended know that their pulls fail."""
        for request in instance.renewed:
            prefill = self.prefills[request.id]
            self.instances[prefill.instance].hear(prefill, instance.clock)
        for prefill in instance.expired:
            self.requests[prefill.id].pull_fails = True
        self.expired_leases += len(instance.expired)
        if instance.role == "decode":
            self.failed_pulls += sum(request.pull_fails for request in instance.reported)
        for _ in instance.failed:
            self._over(instance.clock)
        if instance.renewed:
            self._check_that_it_ends(instance.clock)

    def _check_that_it_ends(self, now):
        """Heartbeats go on for ever where who is stuck has blocks kept, and leases all renewed."""
        still_us = now - max(each.changed_us for each in self.instances)
        comes = self.calendar or (self.unsent and self.places)
        rest = all(each.rests() for each in self.instances)
        if rest and not comes and still_us > 2 * self.cluster.kv_lease_us:
            raise StepLimit("nothing happens but heartbeats")

    def _conclude(self):
        for request, prefill in zip(self.requests, self.prefills, strict=True):
            if prefill.status in ("dropped_unservable", "timed_out"):
                request.status = prefill.status

    def run(self):
        """Return the result; what was counted of a request on both sides is one."""
        result = super().run()
        result.transfers = self.transfers
        result.expired_leases, result.failed_pulls = self.expired_leases, self.failed_pulls
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
