"""Whom a scheduler preempts when a running request lacks blocks (rule R5.6)."""

LOW = 2**32 - 1


def choose_victim(scheduler, asking):
    """Return the position in the running list of the request to preempt.

    Parameters
    ----------
    scheduler : Scheduler
        With at least one running request.
    asking : Request or None
        The running request that lacks blocks; None: a waiting one does.
    """
    running = scheduler.running
    candidates = list(range(len(running)))
    by_priority = scheduler.engine.scheduler == "priority"
    if by_priority:
        least = max(scheduler.urgency(request) for request in running)
        candidates = [i for i in candidates if scheduler.urgency(running[i]) == least]
    if scheduler.score is None:
        # max() returns the earliest of equals, as vLLM does; the id plays no part.
        latest = max(candidates, key=lambda i: running[i].arrival_us)
        return latest if by_priority else candidates[-1]
    if scheduler.engine.victim == "least-computed-other":
        candidates = [i for i in candidates if running[i] is not asking] or candidates
    # Of equals the last in the running list.
    return max(candidates, key=lambda i: (scheduler.score(scheduler, running[i]), i))


def least_computed(scheduler, request):
    return -request.computed


def most_computed(scheduler, request):
    return request.computed


def random(scheduler, request):
    return draw(scheduler.preemptions, request)


def gain(scheduler, request):
    """Blocks that it would free per token to compute anew, less if much of its output is there."""
    own = sum(scheduler.pool.ref[block] == 1 for block in request.table)
    share = request.outputs / request.output_tokens
    return own / len(request.known) * (1 - share)


def nearness(scheduler, request):
    return request.outputs - request.output_tokens


# What the victim has most of; None: the last one.
SCORES = {
    "last": None,
    "least-computed-first": least_computed,
    "least-computed-other": least_computed,
    "most-computed": most_computed,
    "random": random,
    "cost-aware": gain,
    "fewest-remaining": nearness,
}


def draw(count, request):
    """Return a number of 32 bits that looks random: of the preemptions so far and a request."""
    number = 0
    for value in (count, request.id, request.prompt_tokens, request.output_tokens):
        number = mix(number ^ (value & LOW))
    return number


def mix(x):
    """Return a permutation of 32 bits in which each bit of `x` changes about half of the others.

    The best of two rounds that C. Wellons found (github.com/skeeto/hash-prospector).
    """
    x ^= x >> 16
    x = x * 0x21F0AAAD & LOW
    x ^= x >> 15
    x = x * 0x735A2D97 & LOW
    return x ^ x >> 15
