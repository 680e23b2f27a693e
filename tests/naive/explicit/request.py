"""A request with a table for each group, drafts, and what is accepted of them."""

from dataclasses import dataclass, field

from ..request import BlockKeys, Request


class KeysAhead(BlockKeys):
    """Keys of EAGLE: the first token of the next block is part of a block's content."""

    def extend(self, keys, known):
        size = self.block_size
        while (len(keys) + 1) * size + 1 <= len(known):
            start = len(keys) * size
            content = (keys[-1] if keys else None, tuple(known[start : start + size + 1]))
            keys.append(self.number.setdefault(content, len(self.number)))


@dataclass(eq=False)
class ExplicitRequest(Request):
    """A request of the trace.

    Attributes
    ----------
    tables : list of list of block
        Per group the blocks held; None where the window has left a block, or never needed it.
    published_of : list of int
        Per group, leading blocks of the table that are in the cache map, or were left out.
    drafts : int
        Draft tokens that wait to be verified.
    accepted : list of int
        Drafts that its verifications accept at most, again and again.
    verified : int
        Verifications scheduled so far.
    unfinished_prefill : bool
        Whether its last scheduling left tokens uncomputed.
    eligible : int
        The schedule from which on it may decode: asynchronously the stages of a pipeline are apart.
    coming : int
        Tokens that batches on their way will return.
    pulled : bool
        Whether the blocks of its prompt came, or come, from a prefill instance.
    reported_us : int or None
        When its instance took note of the end of its transfer.
    keeps : list of bool
        Per group, whether the chunk being scheduled keeps the last state but one.
    kept_end : list of int
        Per group, where that chunk ends.
    keyed_again : set of (group, slot)
        States whose key is not that of the tokens which end in their slot.
    has_states : bool
        Whether it has been given states since it was admitted.
    junction : int
        Tokens of its blocks that others have, too, if more than those of the last common state.
    pull_fails : bool
        Whether its pull fails: as the trace has it, or as its lease ended before.
    """

    tables: list = field(default_factory=list)
    published_of: list = field(default_factory=list)
    drafts: int = 0
    accepted: list = field(default_factory=lambda: [0])
    verified: int = 0
    unfinished_prefill: bool = False
    eligible: int = 0
    coming: int = 0
    pulled: bool = False
    reported_us: int | None = None
    keeps: list = field(default_factory=list)
    kept_end: list = field(default_factory=list)
    keyed_again: set = field(default_factory=set)
    has_states: bool = False
    junction: int = 0
    pull_fails: bool = False

    @classmethod
    def of(cls, index, row, priority_rule):
        """Make a request from a row of the trace."""
        request = super().of(index, row, priority_rule)
        request.accepted = row.get("accepted") or [0]
        request.pull_fails = bool(row.get("pull_fails"))
        return request

    @property
    def done(self):
        """Whether it has all its tokens."""
        return self.outputs == self.output_tokens

    @property
    def last_token_in_flight(self):
        """Whether batches on their way sample its last token, if no draft is rejected."""
        expected = self.placeholders
        last = self.prompt_tokens + self.output_tokens
        return expected > 0 and self.computed + 2 - expected >= last

    def verify(self, drafts):
        """Return how many of some drafts its next verification accepts."""
        found = min(self.accepted[self.verified % len(self.accepted)], drafts)
        self.verified += 1
        return found
