"""Policies and statuses: names for files and people, codes for compiled code.

Sweep files and stores hold names (``"round-robin"``), kernels compare codes. A policy belongs to
one rule book or to both: ``vllm``, the kernel, and ``blis``, the replica of the reference
simulator.
"""

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Self

from kvsweep.errors import InputError, did_you_mean

VLLM = ("vllm",)
BLIS = ("blis",)
BOTH = ("vllm", "blis")

RULES = BOTH
"""Names of the rule books, as ``engine.rules`` has them."""

INDEX, LOAD, CACHE, BLOCKS, TOKENS = "index", "load", "cache", "blocks", "tokens"
"""What routers and scorers read: `Routing.reads`, `Scorer.reads`."""


class _Named(IntEnum):
    """A code with a name and a sentence.

    Attributes
    ----------
    doc : str
        What the member stands for, in one sentence.
    """

    doc: str

    def __new__(cls, code: int, doc: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        return member

    @property
    def label(self) -> str:
        """The member's name in files and stores."""
        return self.name.lower()

    @classmethod
    def labels(cls) -> tuple[str, ...]:
        """Return the names of all members, in the order of their codes."""
        return tuple(member.label for member in cls)

    @classmethod
    def from_name(cls, name: str, allowed: Sequence[str] = ()) -> Self:
        """Return the member called `name`.

        Parameters
        ----------
        name : str
            A label, such as ``"round-robin"``.
        allowed : sequence of str
            Labels that the error message names; all if empty.

        Raises
        ------
        InputError
            If there is none of that name.
        """
        for member in cls:
            if member.label == name:
                return member
        known = list(allowed or cls.labels())
        family = re.sub("(?<!^)(?=[A-Z])", " ", cls.__name__).lower()
        raise InputError(
            f"unknown {family} {name!r}; allowed: {', '.join(known)}{did_you_mean(name, known)}"
        )


class Status(_Named):
    """How the simulation of a cell ended."""

    PENDING = 0, "Not simulated yet."
    OK = 1, "Ran to its end; only these cells carry numbers."
    LIVELOCK = 2, "The replica repeats the same steps for ever."
    STEP_LIMIT = 3, "Took more steps than its request list can need, and was stopped."
    FAILED = 4, "Raised an error, named in `status_detail`."


class RequestStatus(_Named):
    """Where a request stands at the end of a simulation."""

    COMPLETED = 0, "All output tokens were sampled."
    RUNNING = 1, "Holds a place in the batch of its instance."
    QUEUED = 2, "Arrived, and waits at its instance or on the way to it."
    DROPPED_UNSERVABLE = 3, "Can never fit into the cache of an instance, or is too long for it."
    REJECTED = 4, "Refused by admission control."
    TIMED_OUT = 5, "Given up by its client."
    NOT_ARRIVED = 6, "Arrives after the horizon, or waits for an answer that never came."
    ERRORED = 7, "The blocks of its prompt could not be pulled from its prefill instance."


class _Policy(_Named):
    """A member of a policy family, known to one rule book or to both.

    Attributes
    ----------
    rules : tuple of str
        The rule books that have this policy.
    """

    rules: tuple[str, ...]

    def __new__(cls, code: int, doc: str, rules: tuple[str, ...]) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        member.rules = rules
        return member

    @property
    def label(self) -> str:
        """The policy's name in files and stores."""
        return self.name.lower().replace("_", "-")

    @classmethod
    @cache  # a sweep of 154,722 variants asks 1.4 million times
    def labels_of(cls, rules: str) -> tuple[str, ...]:
        """Return the names of the policies that the rule book `rules` has."""
        return tuple(member.label for member in cls if rules in member.rules)


class _Reader(_Policy):
    """A policy that reads something of the instances.

    Attributes
    ----------
    reads : tuple of str
        What it is made of: the router's own index; the requests at the instance (``load``); the
        tokens of those that have no answer yet (``tokens``); how its cache fares, which depends on
        its size (``cache``); what that holds (``blocks``).
    """

    reads: tuple[str, ...]

    def __new__(cls, code: int, doc: str, rules: tuple[str, ...], *reads: str) -> Self:
        """Return a member."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        member.rules = rules
        member.reads = reads
        return member


_STICKY = VLLM, INDEX, TOKENS


class Routing(_Reader):
    """Which instance gets a request; ``weighted`` reads what its scorers read."""

    ROUND_ROBIN = 0, "Each instance in turn.", BOTH
    LEAST_LOADED = 1, "The first instance with the fewest requests.", BOTH, LOAD
    WEIGHTED = 2, "The first instance with the highest weighted sum of `cluster.scorers`.", BOTH
    PROMPT_AFFINITY = 3, "The one that had this whole prompt before, else least-loaded.", VLLM, LOAD
    ALWAYS_BUSIEST = 4, "The first instance with the most requests: wrong on purpose.", BOTH, LOAD
    PREFIX_AFFINITY = 5, "The reference's name of prompt-affinity.", BLIS, LOAD
    STICKY = 6, "One that had the prompt's beginning, until it has too much to do.", *_STICKY


class Scorer(_Reader):
    """What weighted routing scores an instance by: 0 to 1, larger is better."""

    PREFIX_AFFINITY = 0, "Share of the prompt that the router's own index knows.", BOTH, INDEX
    QUEUE_DEPTH = 1, "1 for the smallest load, 0 for the largest, linear between.", BOTH, LOAD
    KV_UTILIZATION = 2, "Share of the blocks that nobody uses.", BOTH, CACHE
    LOAD_BALANCE = 3, "1 / (1 + load).", BOTH, LOAD
    KV_PRESSURE = 4, "As kv-utilization, less penalties for transfers and thrashing.", BOTH, CACHE
    KV_PRESSURE_SLO = 5, "As kv-pressure, transfers weighing by the SLO class.", BOTH, CACHE
    PRECISE_PREFIX = 6, "Share of the prompt that the instance's cache holds.", VLLM, BLOCKS


class SloClass(_Named):
    """SLO classes with a meaning of their own, the most urgent first."""

    CRITICAL = 0, "Somebody waits for it."
    STANDARD = 1, "The usual; a class of another name is treated alike."
    BATCH = 2, "Nobody waits for it now."
    BACKGROUND = 3, "It may take as long as it likes."


class Scheduler(_Policy):
    """In which order waiting requests are admitted to the batch."""

    FCFS = 0, "First come, first served.", BOTH
    PRIORITY = 1, "vLLM's priority: smaller number first, then arrival.", VLLM
    SJF = 2, "Shortest prompt first, then arrival.", BOTH
    PRIORITY_FCFS = 3, "The reference's priority: larger number first, then arrival.", BLIS
    REVERSE_PRIORITY = 4, "The reference's priority upside down.", BLIS


class Priority(_Policy):
    """Which priority a request has that brings none of its own."""

    CONSTANT = 0, "The same for all.", BOTH
    SLO_CLASS = 1, "By SLO class: critical is the most urgent.", BOTH
    SLO_BASED = 2, "More urgent the longer ago it arrived.", BLIS
    INVERTED_SLO = 3, "Less urgent the longer ago it arrived.", BLIS
    AGE = 4, "By SLO class, one level more urgent per `engine.priority_age_ms` of age.", VLLM


class Victim(_Policy):
    """Which running request is preempted when one lacks blocks; of equals the last admitted.

    It may be the one that lacks them. By priority it is one of the least urgent.
    """

    LAST = 0, "vLLM's: the last admitted; by priority the one that arrived last.", BOTH
    LEAST_COMPUTED_FIRST = 1, "The one with the fewest computed tokens (vllm#54644).", VLLM
    LEAST_COMPUTED_OTHER = 2, "The same, but if it can another than the one in need.", VLLM
    MOST_COMPUTED = 3, "The one with the most computed tokens: a control.", VLLM
    RANDOM = 4, "Any, by numbers that depend on the requests and past preemptions alone.", VLLM
    COST_AWARE = 5, "Most own blocks per known token, times the output to come (vllm#56897).", VLLM
    FEWEST_REMAINING = 6, "The one with the fewest output tokens to come.", VLLM


class Eviction(_Policy):
    """Which of the cached blocks that nobody uses is evicted first."""

    LRU = 0, "vLLM's: the least recently freed; of a sequence the last block.", BOTH
    LFU = 1, "The one with the fewest hits since it was cached; of equals as under lru.", VLLM


class Offload(_Policy):
    """How blocks come to the CPU tier."""

    WATERMARK = 0, "Cached free blocks move when many blocks are in use after a release.", BOTH
    WRITE_THROUGH = 1, "Full blocks are copied as soon as they are published.", VLLM
    VLLM = 2, "vLLM's connector: prompts are copied, and loaded, beside the computation.", VLLM


class LoadFailure(_Policy):
    """What becomes of a request whose blocks could not be pulled."""

    FAIL = 0, "vLLM's default: it ends with an error.", VLLM
    RECOMPUTE = 1, "Its decode instance computes the prompt.", VLLM


class TierEviction(_Policy):
    """Which blocks of a CPU tier as vLLM has it make room."""

    LRU = 0, "Those used the longest ago.", VLLM
    ARC = 1, "Those used once or those used again, by which of them are missed.", VLLM


class Admission(_Policy):
    """Which requests the cluster lets in."""

    ALWAYS = 0, "All of them.", BOTH
    TOKEN_BUCKET = 1, "As many prompt tokens as a bucket that refills at a rate holds.", BOTH
    REJECT_ALL = 2, "None of them.", BOTH
