"""The waiting queue: arrival order, or an order by key."""

import heapq
from collections import deque
from enum import Enum


class Tried(Enum):
    """What became of the head of a queue."""

    ADMITTED = 0
    PASSED = 1
    ENDS = 2


class FcfsQueue:
    """First come, first served; a preempted request goes back to the front."""

    def __init__(self):
        self.items = deque()

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def head(self):
        return self.items[0]

    def pop(self):
        return self.items.popleft()

    def add(self, request):
        self.items.append(request)

    def put_back(self, request):
        self.items.appendleft(request)

    def remove(self, request):
        self.items.remove(request)


class KeyedQueue:
    """Smallest key first; a preempted request goes back by the same key."""

    def __init__(self, key):
        self.key = key
        self.heap = []

    def __len__(self):
        return len(self.heap)

    def __iter__(self):
        return (request for _, request in self.heap)

    def head(self):
        return self.heap[0][1]

    def pop(self):
        return heapq.heappop(self.heap)[1]

    def add(self, request):
        heapq.heappush(self.heap, (self.key(request), request))

    put_back = add

    def remove(self, request):
        self.heap = [entry for entry in self.heap if entry[1] is not request]
        heapq.heapify(self.heap)


def waiting_queue(scheduler, urgency):
    """Return the empty waiting queue of a scheduling policy; `urgency` is that of a request."""
    if scheduler == "priority":
        return KeyedQueue(lambda r: (urgency(r), r.arrival_us, r.id))
    if scheduler == "sjf":
        return KeyedQueue(lambda r: (r.prompt_tokens + r.left_over, r.arrival_us, r.id))
    if scheduler == "fcfs":
        return FcfsQueue()
    raise ValueError(f"engine.scheduler: {scheduler!r} has no waiting queue")
