"""How long a prefill instance keeps blocks for a decode instance, which asks it to go on."""

from math import inf


class Leases:
    """The leases that a prefill instance has given.

    Attributes
    ----------
    duration : int or inf
        How long one lasts.
    ends : dict
        Per finished request whose blocks are kept, in the order of finishing: when its lease ends.
    """

    def __init__(self, cluster):
        self.duration = cluster.kv_lease_us or inf
        self.ends = {}

    def grant(self, request, now):
        self.ends[request] = now + self.duration

    def renew(self, request, until):
        """Let a lease last until then at least, if it has not ended."""
        if request in self.ends:
            self.ends[request] = max(self.ends[request], until)

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
    every, extends : int or inf
        Time between two heartbeats; how long each renews a lease.
    last : int
        When it sent one.
    handed : list
        Requests that came, or will come, from a prefill instance.
    """

    def __init__(self, cluster):
        lease = cluster.kv_lease_us
        self.every = max(1, lease // 6) if lease and cluster.kv_heartbeats else inf
        self.extends = lease * 2 // 3 if lease else 0
        self.last = -inf
        self.handed = []

    @property
    def awaited(self):
        """Those that have entered the waiting list, and whose transfer has not been reported."""
        return [r for r in self.handed if r.queued_us is not None and r.reported_us is None]

    @property
    def next_time(self):
        """When the next one is due; as there is a first one at once, 0 if there was none."""
        return max(0, self.last + self.every) if self.awaited and self.every < inf else inf

    def send(self, now):
        """Return whose leases a schedule renews, and until when."""
        if now < self.next_time:
            return [], now
        self.last = now
        return self.awaited, now + self.extends
