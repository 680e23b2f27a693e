"""How long a prefill instance keeps blocks for a decode instance, which asks it to go on."""

from math import inf


class Leases:
    """The leases that a prefill instance has given.

    Attributes
    ----------
    duration : int or inf
        How long one lasts.
    extends : int
        How long a heartbeat lets one last from the end of the step that it comes in.
    ends : dict
        Per finished request whose blocks are kept, in the order of finishing: when its lease ends.
    heard : list of request
        Of whom heartbeats have come in the step under way.
    """

    def __init__(self, cluster):
        self.duration = cluster.kv_lease_us or inf
        self.extends = (cluster.kv_lease_us or 0) * 2 // 3
        self.ends = {}
        self.heard = []

    def grant(self, request, now):
        self.ends[request] = now + self.duration

    def renew(self, now):
        """Let those last longer of whom a heartbeat has come, if they have not been ended."""
        for request in self.heard:
            if request in self.ends:
                self.ends[request] = max(self.ends[request], now + self.extends)
        self.heard = []

    @property
    def next_end(self):
        return min(self.ends.values(), default=inf)

    def ended(self, now):
        """Return whose leases have ended, in the order of finishing."""
        return [request for request, end in self.ends.items() if end <= now]


class Heartbeats:
    """What a decode instance waits for, and when it says so.

    Attributes
    ----------
    every : int or inf
        Time between two heartbeats.
    last : int
        When it sent one.
    handed : list
        Requests that came, or will come, from a prefill instance.
    """

    def __init__(self, cluster):
        lease = cluster.kv_lease_us
        self.every = max(1, lease // 6) if lease and cluster.kv_heartbeats else inf
        self.last = -inf
        self.handed = []

    @property
    def awaited(self):
        """Those in the waiting list or beyond it, whose transfer has not been reported."""
        entered = [r for r in self.handed if r.queued_us is not None and not r.done]
        return [r for r in entered if r.reported_us is None]

    @property
    def next_time(self):
        """When the next one is due; as there is a first one at once, 0 if there was none."""
        return max(0, self.last + self.every) if self.awaited and self.every < inf else inf

    def send(self, now):
        """Return whose leases a schedule renews."""
        if now < self.next_time:
            return []
        self.last = now
        return self.awaited
