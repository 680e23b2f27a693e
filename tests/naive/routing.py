"""The router: what it sees of the instances, what it remembers, whom it chooses.

The router looks at the instances at each routing decision, and only then. With
``snapshot_refresh_us`` it takes their cache use, transfers and thrashing anew only if the last time
is at least so long ago (at first time 0, when all of it is 0); their load, unless ``snapshot_load``
is on, and what a cache really holds it always sees as they are. A load counts the requests that are
still on their way into the queue only with ``count_pending``; a load as old as the rest then grows
by one for each request routed there since.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from math import inf

TRANSFER_WEIGHT = {"critical": 5.0, "batch": 0.2, "background": 0.1}


@dataclass
class View:
    """What the router sees of an instance."""

    load: int = 0
    utilization: float = 0.0
    transfer_us: int = 0
    thrashing: float = 0.0


class Index:
    """The most recently routed prompt blocks of an instance, by the router's own account."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.recent = OrderedDict()

    def matched(self, keys):
        """Return how many of `keys` are known before the first that is not."""
        count = 0
        while count < len(keys) and keys[count] in self.recent:
            count += 1
        return count

    def record(self, keys):
        for key in keys:
            if key in self.recent:
                self.recent.move_to_end(key)
            else:
                if len(self.recent) == self.capacity:
                    self.recent.popitem(last=False)
                self.recent[key] = None


class Router:
    """Chooses instances under the settings of `scenario.Cluster`.

    Attributes
    ----------
    turns : Counter
        Requests routed so far, by the first of the instances that they could go to.
    homes : dict
        prompt-affinity: first of the instances that a request could go to, and key of the last full
        block of its prompt -> the instance that had it.
    unanswered : list of (request, index, tokens)
        sticky: what was routed and has no answer yet, where to, and what its index did not know.
    next : dict
        sticky: first of the instances that a request could go to -> the one behind the last chosen.
    """

    def __init__(self, cluster, block_size):
        self.cluster = cluster
        self.block_size = block_size
        self.turns = Counter()
        self.refreshed_us = 0
        self.views = [View() for _ in range(cluster.instances)]
        self.homes = {}
        self.unanswered = []
        self.next = {}
        self.indices = [Index(cluster.router_index_blocks) for _ in range(cluster.instances)]
        total = 0.0
        for weight in cluster.scorers.values():
            total += weight
        self.weights = {name: weight / total for name, weight in cluster.scorers.items() if total}

    def choose(self, request, instances, now):
        """Return the index of the instance for a request that is routed at `now`."""
        self.look(instances, now)
        return self.decide(request, instances)

    def decide(self, request, instances):
        """Return the same by what the router has seen already; only precise-prefix looks again."""
        keys = request.keys[: request.prompt_tokens // self.block_size]
        policy = {
            "round-robin": self._round_robin,
            "least-loaded": self._least_loaded,
            "always-busiest": self._always_busiest,
            "prompt-affinity": self._prompt_affinity,
            "weighted": self._weighted,
            "sticky": self._sticky,
        }
        candidates = self._candidates(request)
        chosen = policy[self.cluster.routing](request, keys, instances, candidates)
        self.turns[candidates[0]] += 1
        if self.cluster.routing == "sticky":
            self.unanswered.append((request, chosen, self._uncached(request, keys, chosen)))
        self.indices[chosen].record(keys)
        if self.cluster.count_pending:
            self.views[chosen].load += 1
        return chosen

    def look(self, instances, now):
        """See what there is to see of the instances at `now`."""
        self.unanswered = [sent for sent in self.unanswered if not _is_over(sent[0], now)]
        refresh = now - self.refreshed_us >= self.cluster.snapshot_refresh_us
        if refresh:
            self.refreshed_us = now
        for view, instance in zip(self.views, instances, strict=True):
            if refresh or not self.cluster.snapshot_load:
                pending = instance.pending if self.cluster.count_pending else 0
                scheduler = instance.scheduler
                view.load = scheduler.waits + len(scheduler.running) + pending
            if refresh:
                pool, tier = instance.scheduler.pool, instance.scheduler.tier
                view.utilization = pool.used / pool.usable
                view.transfer_us = instance.in_flight.transfer_us if instance.in_flight else 0
                view.thrashing = tier.thrashed / tier.offloads if tier.offloads else 0.0

    def _candidates(self, request):
        """Return the instances of the first pool that serves requests as long as this one.

        Without such lengths these are all instances; if all are too short, those of the last pool.
        """
        pools = [pool for pool in self.cluster.pools if "max_model_len" in pool]
        if not pools:
            return range(self.cluster.instances)
        end = 0
        for pool in self.cluster.pools:
            first, end = end, end + pool["instances"]
            if request.prompt_tokens + request.output_tokens <= pool.get("max_model_len", inf):
                break
        return range(first, end)

    def _round_robin(self, request, keys, instances, candidates):
        return candidates[self.turns[candidates[0]] % len(candidates)]

    # min() and max() return the first of equals.

    def _least_loaded(self, request, keys, instances, candidates):
        return min(candidates, key=lambda i: self.views[i].load)

    def _always_busiest(self, request, keys, instances, candidates):
        return max(candidates, key=lambda i: self.views[i].load)

    def _prompt_affinity(self, request, keys, instances, candidates):
        least = self._least_loaded(request, keys, instances, candidates)
        # A prompt shorter than a block has no key.
        return self.homes.setdefault((candidates[0], keys[-1]), least) if keys else least

    def _sticky(self, request, keys, instances, candidates):
        """Go to the least tokens in flight, its own among them, of those that know the prompt.

        Of all if none knows enough of it, or if these have too much to do.
        """
        in_flight = Counter()
        for _, chosen, tokens in self.unanswered:
            in_flight[chosen] += tokens
        threshold = self.cluster.sticky_threshold
        knows = {i: self.indices[i].matched(keys) / len(keys) if keys else 0.0 for i in candidates}
        sticky = [i for i in candidates if knows[i] >= threshold]
        others = [i for i in candidates if knows[i] < threshold]
        among = sticky or candidates
        lead = self.cluster.sticky_lead_tokens
        if sticky and others and lead:
            least = [min(in_flight[i] for i in group) for group in (sticky, others)]
            among = candidates if least[0] - least[1] > lead else sticky
        first = self.next.get(candidates[0], 0)
        turns = [candidates[(first + k) % len(candidates)] for k in range(len(candidates))]
        chosen = min(
            (i for i in turns if i in among),
            key=lambda i: in_flight[i] + self._uncached(request, keys, i),
        )
        self.next[candidates[0]] = chosen - candidates[0] + 1
        return chosen

    def _uncached(self, request, keys, i):
        """Return the prompt tokens that the index of an instance does not know."""
        return request.prompt_tokens - self.indices[i].matched(keys) * self.block_size

    def _weighted(self, request, keys, instances, candidates):
        scores = [0.0] * len(instances)
        for scorer, weight in self.weights.items():
            for i, instance in enumerate(instances):
                score = self._score(scorer, request, keys, i, instance, candidates)
                scores[i] += min(max(score, 0.0), 1.0) * weight
        return max(candidates, key=lambda i: scores[i])

    def _score(self, scorer, request, keys, i, instance, candidates):
        view = self.views[i]
        if scorer == "prefix-affinity":
            return self.indices[i].matched(keys) / len(keys) if keys else 0.0
        if scorer == "precise-prefix":
            return instance.scheduler.held_blocks(keys) / len(keys) if keys else 0.0
        if scorer == "queue-depth":
            loads = [self.views[c].load for c in candidates]
            low, high = min(loads), max(loads)
            return (high - view.load) / (high - low) if high > low else 1.0
        if scorer == "load-balance":
            return 1.0 / (1.0 + view.load)
        score = 1.0 - view.utilization
        if scorer == "kv-utilization":
            return score
        slo_weight = TRANSFER_WEIGHT.get(request.slo_class, 1.0)
        weight = {"kv-pressure": 1.0, "kv-pressure-slo": slo_weight}[scorer]
        if view.transfer_us > 0:
            score -= weight * view.transfer_us / 10_000.0
        return score - 2.0 * view.thrashing


def _is_over(request, now):
    """Return whether the client has its first token, or will have none."""
    tokens = request.token_us
    return request.status is not None or request.lost or (len(tokens) > 0 and tokens[0] < now)
