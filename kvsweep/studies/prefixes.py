"""What the prefix cache can find at best, counted from a request list alone."""

from __future__ import annotations

from dataclasses import dataclass

from kvsweep.workload.requests import Requests

Content = list[tuple[int, int]]
"""Segments and how many of their tokens, in order."""


@dataclass(frozen=True)
class Expected:
    """Blocks of a run that loses nothing: every block that some earlier request filled is found.

    Attributes
    ----------
    reused : int
        Blocks found.
    blocks : int
        Blocks of all requests, outputs included.
    prompt_blocks : int
        Full blocks of all prompts.
    """

    reused: int
    blocks: int
    prompt_blocks: int

    @property
    def rate(self) -> float:
        """Share of the blocks that are found."""
        return self.reused / self.blocks


def expected_hits(requests: Requests, block_size: int, *, last_token: bool) -> Expected:
    """Count the blocks that rounds of a conversation find of the rounds before them.

    Parameters
    ----------
    requests : Requests
        Conversations whose rounds arrive in order.
    block_size : int
        Tokens per block.
    last_token : bool
        Whether the last output token is stored: the reference stores it; in vLLM it is sampled but
        never computed.
    """
    unstored = 0 if last_token else 1
    contents: dict[int, Content] = {}
    reused = blocks = prompt_blocks = 0
    for i, session in enumerate(requests.session.tolist()):
        prompt = _prompt(requests, i)
        output = (int(requests.output_segment[i]), int(requests.output_tokens[i]) - unstored)
        prompt_tokens = sum(tokens for _, tokens in prompt)
        if session >= 0:
            reused += min(_shared(contents.get(session, []), prompt), prompt_tokens) // block_size
            contents[session] = [*prompt, output]
        blocks += -(-(prompt_tokens + output[1]) // block_size)
        prompt_blocks += prompt_tokens // block_size
    return Expected(reused, blocks, prompt_blocks)


def first_blocks_shared(requests: Requests, block_size: int) -> int:
    """Return how many requests begin with a whole block that an earlier one began with."""
    seen: set[tuple[tuple[int, int], ...]] = set()
    shared = 0
    for i in range(len(requests)):
        start, room = [], block_size
        for segment, tokens in _prompt(requests, i):
            start.append((segment, min(tokens, room)))
            room -= min(tokens, room)
            if not room:
                break
        shared += not room and tuple(start) in seen
        seen.add(tuple(start))
    return shared


def _prompt(requests: Requests, i: int) -> Content:
    low, high = requests.segment_offsets[i : i + 2]
    segments = requests.segment_ids[low:high].tolist()
    return list(zip(segments, requests.segment_tokens[low:high].tolist(), strict=True))


def _shared(before: Content, prompt: Content) -> int:
    """Return the tokens at the start of `prompt` that are those at the start of `before`."""
    shared = 0
    for (segment, tokens), (earlier, stored) in zip(prompt, before, strict=False):
        if segment != earlier:
            break
        shared += min(tokens, stored)
        if tokens != stored:
            break
    return shared
