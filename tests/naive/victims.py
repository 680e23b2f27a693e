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
    running, engine = scheduler.running, scheduler.engine
    candidates = list(range(len(running)))
    if engine.scheduler == "priority":
        least = max(scheduler.urgency(request) for request in running)
        candidates = [i for i in candidates if scheduler.urgency(running[i]) == least]
    if engine.victim == "last":
        if engine.scheduler == "priority":
            # max() returns the earliest of equals, as vLLM does; the id plays no part.
            return max(candidates, key=lambda i: running[i].arrival_us)
        return candidates[-1]
    others = [i for i in candidates if running[i] is not asking]
    # Of equals the last in the running list.
    return max(others or candidates, key=lambda i: (score(scheduler, running[i]), i))


def score(scheduler, request):
    """Return what the victim has most of."""
    match scheduler.engine.victim:
        case "least-computed-first":
            return -request.computed
        case "most-computed":
            return request.computed
        case "random":
            return draw(scheduler.preemptions, request)
        case "cost-aware":
            own = sum(scheduler.pool.ref[block] == 1 for block in request.table)
            share = request.outputs / request.output_tokens
            return own / len(request.known) * (1 - share)
        case "fewest-remaining":
            return request.outputs - request.output_tokens


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
