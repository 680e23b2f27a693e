"""One engine's scheduler: which requests compute how many tokens in the next step."""

from dataclasses import dataclass, field

from .pool import BlockPool
from .tier import CpuTier
from .victims import SCORES, choose_victim
from .waiting import waiting_queue

# vLLM's counters of successful admissions: the first ones, and those after a preemption.
PREFIX_STATS = (
    "requests",
    "queries",
    "hits",
    "preempted_requests",
    "preempted_queries",
    "preempted_hits",
)


@dataclass
class Decision:
    """What one call of `schedule` decided, and how many tokens are left to give away."""

    now: int
    budget: int
    threshold: int
    scheduled: dict = field(default_factory=dict)
    sampling: set = field(default_factory=set)
    admitted: list = field(default_factory=list)
    timed_out: list = field(default_factory=list)
    preempted: list = field(default_factory=list)
    preempted_in_flight: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    prefilled: list[int] = field(default_factory=list)
    decoded: list[int] = field(default_factory=list)
    transfer_us: int = 0

    def give(self, request, n):
        self.scheduled[request] = n
        self.budget -= n

    def take_back(self, request):
        self.budget += self.scheduled.pop(request, 0)

    def capped(self, n):
        """Limit a long prefill, so that it leaves room for others."""
        return self.threshold if 0 < self.threshold < n else n


class Scheduler:
    """Running and waiting requests and the blocks they hold."""

    def __init__(self, engine, cache, keys):
        self.engine = engine
        self.block_size = cache.block_size
        self.keys = keys
        self.pool = BlockPool(cache.gpu_blocks, cache.eviction)
        self.tier = CpuTier(cache)
        # vLLM counts the null block too.
        self.watermark_blocks = int(engine.watermark * (cache.gpu_blocks + 1))
        self.running = []
        self.waiting = waiting_queue(engine.scheduler, self.urgency)
        self.prefix_stats = dict.fromkeys(PREFIX_STATS, 0)
        self.blocks_reused = 0
        self.blocks_loaded = 0
        self.preemptions = 0
        self.score = SCORES[engine.victim]

    def servable(self, request):
        """Whether the request can ever finish on this engine, alone."""
        if self.blocks_for(request.longest) > self.pool.usable:
            return False
        return request.longest + 1 <= self.engine.longest

    def held_blocks(self, keys):
        """Return how many of `keys` the cache holds before the first that it does not."""
        count = 0
        while count < len(keys) and self.pool.lookup(keys[count]) is not None:
            count += 1
        return count

    def enqueue(self, request):
        self.keys.extend(request.keys, request.known)
        self.waiting.add(request)

    @property
    def waits(self):
        """Requests that have no seat."""
        return len(self.waiting)

    @property
    def busy(self):
        """Whether there is anything to schedule."""
        return bool(self.running or self.waits)

    def urgency(self, request):
        """Return what the priority scheduler orders by: the priority, smaller is more urgent.

        With aging a request gains one level of priority for every `age_us` since its arrival. All
        age alike, so the order stays that of the time at which each reaches level 0.
        """
        if self.engine.priority == "age":
            return request.priority * self.engine.age_us + request.arrival_us
        return request.priority

    def schedule(self, now):
        """Running requests first, then admissions, the latter only if nobody was preempted.

        Requests whose clients have given up still count as waiting here.
        """
        alone = len(self.running) + self.waits <= 1
        threshold = 0 if alone else self.engine.long_prefill_token_threshold
        decision = Decision(now, self.engine.max_num_batched_tokens, threshold)
        self._schedule_running(decision)
        if not decision.preempted:
            self._schedule_waiting(decision)
        self._account(decision)
        return decision

    def _schedule_running(self, decision):
        k = 0
        while k < len(self.running) and decision.budget > 0:
            request = self.running[k]
            if request.last_token_in_flight:
                k += 1
                continue
            # Not computed anew when a preemption below gives tokens back.
            n = min(decision.capped(request.uncomputed), decision.budget)
            while not self._allocate(request, n, decision.now):
                index = choose_victim(self, request)
                if not self._may_preempt(self.running[index]):
                    return
                victim = self.running.pop(index)
                if index < k:
                    k -= 1
                self._preempt(victim, decision)
                if victim is request:
                    break
            else:
                decision.give(request, n)
                k += 1

    def _may_preempt(self, victim):
        """Whether the next victim can be preempted; else nobody is, and the walk ends."""
        return True

    def _preempt(self, victim, decision):
        """Take the blocks away; outputs are kept, what was published stays published.

        So are the outputs of a batch on its way (`stale`): they are appended when they come.
        """
        decision.take_back(victim)
        decision.preempted.append(victim)
        decision.preempted_in_flight += victim.in_flight > 0
        self._release(victim, decision.now)
        self.preemptions += 1
        victim.done_before = max(victim.done_before, victim.computed)
        victim.computed = 0
        victim.published = 0
        victim.placeholders = 0
        victim.stale = victim.in_flight
        victim.preemptions += 1
        self.waiting.put_back(victim)

    def _schedule_waiting(self, decision):
        """Admit from the head of the queue; the first that does not fit ends it.

        A client's patience is looked at here only: when its request would be tried.

        With `preempt_for_urgent` a head that lacks a seat or blocks (not one that lacks budget)
        takes the place of a less urgent running request, and is tried again until it is admitted
        or there is none. That it must still wait then does not bring the victims back. Victims
        count as this step's preempted, but do not end the admissions; they may be admitted again
        in the same step, behind the head. It ends: heads come in waiting order and victims stand
        behind the head in it, so who was admitted in this step is never a victim in it.
        """
        urgent = self.engine.preempt_for_urgent
        while decision.budget > 0 and self.waiting and (urgent or self._has_seat()):
            request = self.waiting.head()
            assert not request.stale  # its batch was processed before this schedule
            if request.impatient(decision.now):
                decision.timed_out.append(self.waiting.pop())
                continue
            if not self._has_seat():
                if not self._make_way(request, decision):
                    return
                continue
            hits, loads = self._cached_prefix(request)
            cached = self.block_size * (len(hits) + len(loads))
            n = decision.capped(len(request.known) - cached)
            if not self.engine.enable_chunked_prefill and n > decision.budget:
                return
            n = min(n, decision.budget)
            if not self._admit(request, n, hits, loads, decision):
                if not urgent or not self._make_way(request, decision):
                    return
                continue
            self._count_admission(request, hits, loads)
            self.running.append(self.waiting.pop())
            request.computed = cached
            decision.admitted.append((request, cached))
            decision.give(request, n)

    def _has_seat(self):
        return len(self.running) < self.engine.max_num_seqs

    def _make_way(self, request, decision):
        """Preempt the next victim if `request` is more urgent; return whether it was.

        By priority alone, so that nobody gives way to an equal for having come later; with aging
        the victim must also have the later turn, or it would be the next head itself.
        """
        if not self.running:
            return False
        index = choose_victim(self, None)
        victim = self.running[index]
        if victim.priority <= request.priority or self.urgency(victim) <= self.urgency(request):
            return False
        self._preempt(self.running.pop(index), decision)
        return True

    def _cached_prefix(self, request):
        """Return the longest cached run: blocks of the GPU, then keys of the CPU tier.

        The last known token is always recomputed.
        """
        hits = []
        keys = request.keys[: (len(request.known) - 1) // self.block_size]
        if not self.engine.enable_prefix_caching:
            return [], []
        for key in keys:
            block = self.pool.lookup(key)
            if block is None:
                break
            hits.append(block)
        rest = keys[len(hits) :]
        return hits, rest[: self.tier.find(rest)]

    def _count_admission(self, request, hits, loads):
        self.blocks_reused += len(hits)
        self.blocks_loaded += len(loads)
        if self.engine.enable_prefix_caching:
            prefix = "preempted_" if request.preemptions else ""
            self.prefix_stats[prefix + "requests"] += 1
            self.prefix_stats[prefix + "queries"] += len(request.known)
            self.prefix_stats[prefix + "hits"] += self.block_size * len(hits)

    def _allocate(self, request, n, now):
        """Give a running request the blocks for `n` more tokens; False, and no change, without."""
        end = request.computed + n
        need = max(self.blocks_for(end) - len(request.table), 0)
        if need > len(self.pool.free):
            return False
        request.table.extend(self.pool.take(need))
        self._publish(request, end, now)
        return True

    def _admit(self, request, n, hits, loads, decision):
        """Give a waiting request its cached prefix and blocks for `n` more tokens, or nothing."""
        pool = self.pool
        evictable_hits = sum(pool.ref[block] == 0 for block in hits)
        keep = self.watermark_blocks if self.running else 0
        room = len(pool.free) - evictable_hits - keep
        whole = self.blocks_for(len(request.known)) - len(hits)
        if self.engine.reserve_full_prompt and whole > room:
            return False
        end = self.block_size * (len(hits) + len(loads)) + n
        need = self.blocks_for(end) - len(hits)
        if need > room:
            return False
        pool.touch(hits)
        request.table.extend(hits)
        request.table.extend(pool.take(need))
        request.published = len(hits)
        self._load(request, loads, decision)
        self._publish(request, end, decision.now)
        return True

    def _load(self, request, loads, decision):
        """Copy blocks from the CPU tier into the blocks that follow the hits."""
        if loads:
            decision.transfer_us += self.tier.load(loads, decision.now)
        for key in loads:
            self.pool.publish(request.table[request.published], key)
            request.published += 1
        if self.tier.copies:
            self.tier.touch(request.keys[: request.published])

    def _release(self, request, now):
        """Give all blocks of a request back."""
        self.pool.release(request.table)
        request.table = []
        self.tier.relieve(self.pool, now)

    def _publish(self, request, end, now):
        """Publish the full blocks of the first `end` tokens, computed or not, as far as known."""
        if not self.engine.enable_prefix_caching:
            return
        full = min(end, len(request.known)) // self.block_size
        for j in range(request.published, full):
            self.pool.publish(request.table[j], request.keys[j])
            if self.tier.copies:
                self.tier.store(request.keys[j], now)
        request.published = max(request.published, full)

    def _account(self, decision):
        """Count the step's tokens and those before each of them, and mark them as computed.

        Who has nothing left then samples a token; asynchronous scheduling goes on with it unseen.
        """
        for request, n in decision.scheduled.items():
            before = range(request.computed, request.computed + n)
            if request.outputs + request.placeholders >= 1 and request.uncomputed == 1:
                decision.decode_tokens += 1
                decision.decoded += before
            else:
                decision.prefill_tokens += n
                decision.prefilled += before
            for position in range(request.computed, request.computed + n):
                request.executed += 1
                request.recomputed += position < request.done_before
            request.computed += n
            request.in_flight += n
            if request.uncomputed == 0:
                decision.sampling.add(request)
                request.placeholders += self.engine.async_scheduling

    def last_batch(self, request, decision):
        """Whether the batch just scheduled samples the request's last token."""
        coming = request.placeholders or 1
        return request in decision.sampling and request.outputs + coming == request.output_tokens

    def process(self, decision, now):
        """Process a batch's output; return (requests with a new token, requests that are done)."""
        sampled, finished = [], []
        for request, n in decision.scheduled.items():
            request.in_flight -= n
            stale = request.stale > 0
            request.stale -= n if stale else 0
            if request not in decision.sampling:
                continue
            sampled.append(request)
            request.sample()
            if request.outputs < request.output_tokens:
                self.keys.extend(request.keys, request.known)
            else:
                finished.append(request)
            if request.placeholders and not stale:
                request.placeholders -= 1
                self._publish(request, request.computed - request.in_flight, now)
            if request in finished:
                self._finish(request, now)
        return sampled, finished

    def _finish(self, request, now):
        """Let a request go that has all its tokens; it may have been preempted meanwhile."""
        if request in self.running:
            self._release(request, now)
            self.running.remove(request)
        else:
            self.waiting.remove(request)

    def blocks_for(self, tokens):
        return -(-tokens // self.block_size)
