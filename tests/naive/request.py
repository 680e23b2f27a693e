"""One request: what it asks for, where the engine is with it, what happened to it."""

from dataclasses import dataclass, field

from .scenario import SLO_PRIORITY


class BlockKeys:
    """Numbers for block contents: equal numbers mean equal tokens from the start of the sequence.

    A key stands for (key of the block before, tokens of this block), which is what vLLM hashes.
    """

    def __init__(self, block_size):
        self.block_size = block_size
        self.number = {}

    def extend(self, keys, known):
        """Append the keys of the full blocks of `known` that have none yet."""
        size = self.block_size
        while (len(keys) + 1) * size <= len(known):
            start = len(keys) * size
            content = (keys[-1] if keys else None, tuple(known[start : start + size]))
            keys.append(self.number.setdefault(content, len(self.number)))


@dataclass(eq=False)
class Request:
    """A request of the trace.

    Attributes
    ----------
    id : int
        Position in the trace.
    arrival_us : int or None
        Arrival at the cluster; of a request that comes after another None until that one's
        completion is certain.
    after : int or None
        The request whose completion makes this one arrive, `think_us` after the client sees it.
    patience_us : int or None
        How long after its arrival its first admission may begin; None: any time.
    known : list of (segment, position)
        Prompt tokens, then the output tokens sampled so far.
    computed : int
        Leading known tokens whose KV entries are in `table` (0 unless running).
    table : list of block
        Blocks held.
    keys : list
        A key for each full block of `known`.
    published : int
        Leading blocks of `table` that are in the cache map.
    placeholders : int
        Output tokens that batches on their way will sample: not known yet, but scheduled upon.
        0 under synchronous scheduling.
    in_flight, stale : int
        Tokens scheduled whose output is not processed; those of them from before a preemption.
    status : str or None
        ``completed``, ``dropped_unservable``, ``rejected``, ``timed_out``, ``not_arrived``; None
        while under way.
    queued_us : int or None
        Entry into the waiting list (for an unservable request: the moment it was dropped).
    scheduled_us : int or None
        When the first admission was scheduled.
    token_us : list of int
        Ends of the steps that sampled its tokens.
    admissions : list of (step index, cached tokens)
        Every admission, the first and those after a preemption.
    executed : int
        Tokens computed, each time that they were.
    done_before : int
        The most leading tokens that were computed when it was preempted: its steps were over.
    recomputed : int
        Of `executed`, those at positions below `done_before`.
    lost : bool
        Whether its prefill instance ended it, without a first token.
    left_over : int
        Tokens of its prompt behind `prompt_tokens`, which another instance computes.
    """

    id: int
    arrival_us: int | None
    priority: int
    prompt_tokens: int
    output_segment: int
    output_tokens: int
    known: list
    after: int | None = None
    think_us: int = 0
    patience_us: int | None = None
    slo_class: str | None = None
    keys: list = field(default_factory=list)
    computed: int = 0
    table: list = field(default_factory=list)
    published: int = 0
    placeholders: int = 0
    in_flight: int = 0
    stale: int = 0
    preemptions: int = 0
    status: str | None = None
    instance: int | None = None
    queued_us: int | None = None
    scheduled_us: int | None = None
    token_us: list = field(default_factory=list)
    admissions: list = field(default_factory=list)
    executed: int = 0
    done_before: int = 0
    recomputed: int = 0
    lost: bool = False
    left_over: int = 0

    @classmethod
    def of(cls, index, row, priority_rule):
        """Make a request from a row of the trace."""
        known = [(segment, k) for segment, tokens in row["prompt"] for k in range(tokens)]
        segment, tokens = row["output"]
        if not known or tokens < 1:
            raise ValueError(f"request {index}: prompt and output need at least one token")
        priority = row.get("priority")
        if priority is None:
            by_class = {"constant": False, "slo-class": True, "age": True}[priority_rule]
            priority = SLO_PRIORITY.get(row.get("slo_class"), 5) if by_class else 0
        after = row.get("after")
        return cls(
            index,
            row["arrival_us"] if after is None else None,
            priority,
            len(known),
            segment,
            tokens,
            known,
            after,
            row.get("think_us") or 0,
            row.get("patience_us"),
            row.get("slo_class"),
        )

    @property
    def outputs(self):
        """Output tokens sampled so far."""
        return len(self.known) - self.prompt_tokens

    @property
    def uncomputed(self):
        """Tokens to schedule, known or not: a token that is being sampled can be scheduled."""
        return len(self.known) + self.placeholders - self.computed

    @property
    def last_token_in_flight(self):
        return self.outputs + self.placeholders == self.output_tokens

    @property
    def longest(self):
        """Tokens ever computed: the last sampled one is not."""
        return self.prompt_tokens + self.output_tokens - 1

    @property
    def first_token_us(self):
        return self.token_us[0] if self.token_us else None

    @property
    def finish_us(self):
        return self.token_us[-1] if self.status == "completed" else None

    @property
    def cached_tokens(self):
        """Prompt tokens found cached at the first admission, or None."""
        return self.admissions[0][1] if self.admissions else None

    def impatient(self, now):
        """Whether its client has given up by `now`: later than its patience, never admitted."""
        if self.patience_us is None or self.admissions:
            return False
        return now > self.arrival_us + self.patience_us

    def sample(self):
        """Append the next output token."""
        self.known.append((self.output_segment, self.outputs))
