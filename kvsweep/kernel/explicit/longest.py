"""The longest request that an engine takes, beyond which no draft has a place (rule R13.7)."""

from ..._jit import leaf


@leaf
def longest_of(lane):
    """Return the tokens of the longest request, output included; without chunks a step takes it."""
    return lane["longest"] if lane["chunked_prefill"] else min(lane["longest"], lane["max_tokens"])


@leaf
def with_places(lane, end):
    """Return how many places a request has that computes up to `end`: those of its next drafts."""
    places = end
    if lane["drafts"] > 0:
        places = min(end + lane["drafts"], longest_of(lane))
    return places


@leaf
def to_verify(lane):
    """Return the places that a verification of drafts and those that follow it take."""
    return 1 + 2 * lane["drafts"] if lane["drafts"] > 0 else 0


@leaf
def left_to_longest(lane, state, tokens):
    """Return how many of `tokens` tokens a request computes: its last one is only sampled."""
    return min(tokens, longest_of(lane) - 1 - state["computed"])


@leaf
def may_pad(lane, computed):
    """Return whether a request with one token left to compute has room for drafts, and a token."""
    return computed + 1 + lane["drafts"] < longest_of(lane)


@leaf
def cuts_nothing(lane, state):
    """Return whether no draft of a request is cut, nor are places for the next, until it ends."""
    steps = 2 + lane["async_scheduling"]
    return state["limit"] - 1 + steps * lane["drafts"] <= longest_of(lane)
