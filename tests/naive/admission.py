"""Admission control: who is let in at all."""


class Always:
    """Everybody is."""

    def admit(self, request, now):
        return True


class RejectAll:
    """Nobody is."""

    def admit(self, request, now):
        return False


class TokenBucket:
    """Who finds as many tokens in the bucket as the prompt has; it takes them out.

    The bucket is full at time 0 and refills steadily.
    """

    def __init__(self, capacity, refill_rate):
        self.capacity = capacity
        self.refill_rate = refill_rate
        self.level = capacity
        self.refilled_us = 0

    def admit(self, request, now):
        refill = (now - self.refilled_us) * self.refill_rate / 1e6
        self.level = min(self.capacity, self.level + refill)
        self.refilled_us = now
        if request.prompt_tokens > self.level:
            return False
        self.level -= request.prompt_tokens
        return True


def admission(cluster):
    """Return the admission control of the settings `scenario.Cluster`."""
    if cluster.admission == "token-bucket":
        return TokenBucket(cluster.token_bucket_capacity, cluster.token_bucket_refill_rate)
    return {"reject-all": RejectAll, "always": Always}[cluster.admission]()
