"""Numbers with a meaning of their own, and codes of ends and events."""

from enum import IntEnum

import numpy as np

NONE = np.int64(-1)
"""No index, no value."""
ANY_LENGTH = np.int64(2**62)
"""Longest request of an instance that serves all."""
NEVER = np.int64(2**62)
"""A time or step that does not come."""
WHOLE, PREFILL, DECODE = 0, 1, 2
"""`LANE.role`: what an instance does of a request."""
LEAVING = np.uint8(2)
"""`PROGRESS.decoding` of a request whose last token is on its way (asynchronous scheduling)."""
QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""The reported quantiles of every latency."""


class LaneStatus(IntEnum):
    """How a lane (one simulation) ended; the kernel sets it, nothing is raised."""

    OK = 0
    STEP_LIMIT = 1
    WORKSPACE_FULL = 2
    NOT_CONSERVED = 3
    TIME_LIMIT = 4
    UNKNOWN_POLICY = 5


class Event(IntEnum):
    """What the event log records, in the order of decisions within a step."""

    CHUNK = 0
    ADMIT = 1
    PREEMPT = 2
    FINISH = 3
    SKIP = 4
    SAMPLE = 5
    LATER = 6
    LOAD = 7
    STORE = 8
    REFUSE = 9
    VERIFY = 10
    PULL = 11
