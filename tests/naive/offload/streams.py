"""Copies between the GPU and the CPU: one stream each way, each copy after the one before it."""

from math import ceil


class Streams:
    """When copies begin and end.

    Attributes
    ----------
    log : list of [kind, request, tokens, submitted, start, end, reported]
        All copies, in order of submission; times in microseconds, the last None until reported.
    """

    def __init__(self, cache):
        self.base_us = cache.transfer_base_latency_us
        self.bandwidth = cache.transfer_bandwidth
        self.free_us = {"load": 0, "store": 0}
        self.log = []
        self.going = []

    def submit(self, job, now):
        start = max(now, self.free_us[job.kind])
        job.end_us = start + self.base_us + ceil(job.tokens / self.bandwidth)
        self.free_us[job.kind] = job.end_us
        row = [job.kind, job.request.id, job.tokens, now, start, job.end_us, None]
        self.log.append(row)
        self.going.append((job, row))

    def completed(self, now):
        """Return the copies that have ended by `now` and were not returned before."""
        done = [job for job, _ in self.going if job.end_us <= now]
        for job, row in self.going:
            if job.end_us <= now:
                row[6] = now
        self.going = [(job, row) for job, row in self.going if job.end_us > now]
        return done

    def next_end(self):
        """Return when the next of the copies under way ends, or None."""
        return min((job.end_us for job, _ in self.going), default=None)
