"""What prompts consist of: shared prefixes, earlier rounds, new input, as content segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.sessions import Sessions
from kvsweep.records import NONE
from kvsweep.workload.draws import Draws


@dataclass(frozen=True)
class Content:
    """Prompts and outputs in segments, as the columns of `Requests`.

    Attributes
    ----------
    prompt_tokens : int64 (n,)
    offsets : int64 (n + 1,)
    segments, tokens : int64 (m,)
    output_segment : int64 (n,)
    """

    prompt_tokens: NDArray[np.int64]
    offsets: NDArray[np.int64]
    segments: NDArray[np.int64]
    tokens: NDArray[np.int64]
    output_segment: NDArray[np.int64]


def lay_out(
    drawn: Draws,
    sessions: Sequence[Sessions | None],
    prefix_group: NDArray[np.int64],
    prefix: NDArray[np.int64],
) -> Content:
    """Compose prompts: the prefix, what is in context of the earlier rounds, the new input.

    Segments are numbered: one per prefix group, then two per request, for its new input and its
    output, then one per request for an answer without its thinking.

    Parameters
    ----------
    drawn : Draws
        Requests in order of arrival; with a round, all earlier ones of its session.
    sessions : sequence of Sessions or None
        By client.
    prefix_group, prefix : int64 (n,)
        Number of the shared prefix or -1, and its tokens.
    """
    n = len(drawn.arrival)
    new_input = int(prefix_group.max()) + 1 + 2 * np.arange(n)
    output = new_input + 1
    rounds = int(drawn.round.max()) + 1
    if rounds == 1 and not prefix.any():
        return Content(drawn.prompt, np.arange(n + 1), new_input, drawn.prompt, output)
    segments = np.zeros((n, 2 * rounds), np.int64)
    tokens = np.zeros((n, 2 * rounds), np.int64)
    segments[:, 0], tokens[:, 0] = prefix_group, prefix
    segments[:, -1], tokens[:, -1] = new_input, drawn.prompt
    if rounds > 1:
        _add_context(drawn, sessions, segments, tokens, new_input, output)
    filled = tokens > 0
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(filled.sum(axis=1), out=offsets[1:])
    return Content(tokens.sum(axis=1), offsets, segments[filled], tokens[filled], output)


def _add_context(
    drawn: Draws,
    sessions: Sequence[Sessions | None],
    segments: NDArray[np.int64],
    tokens: NDArray[np.int64],
    new_input: NDArray[np.int64],
    output: NDArray[np.int64],
) -> None:
    """Add the entries of earlier rounds to `segments` and `tokens`, (n, 2 x rounds), in place."""
    answer, answer_tokens = _answers(drawn, sessions, output)
    accumulates = np.array([s is not None and s.context == "accumulate" for s in sessions])
    place = _places(drawn)
    for k in range(place.shape[1] - 1):
        later = np.flatnonzero(accumulates[drawn.client] & (drawn.round > k))
        earlier = place[drawn.session[later], k]
        segments[later, 2 * k + 1], tokens[later, 2 * k + 1] = (
            new_input[earlier],
            drawn.prompt[earlier],
        )
        segments[later, 2 * k + 2], tokens[later, 2 * k + 2] = (
            answer[earlier],
            answer_tokens[earlier],
        )


def previous_round(drawn: Draws) -> NDArray[np.int64]:
    """Return the position of the round before each request, -1 before a first one."""
    before = _places(drawn)[drawn.session, drawn.round - 1]
    return np.where(drawn.round > 0, before, NONE)


def _places(drawn: Draws) -> NDArray[np.int64]:
    """Return the position of each round of each session, (sessions, rounds), -1 if cut off."""
    shape = (int(drawn.session.max()) + 1, int(drawn.round.max()) + 1)
    place = np.full(shape, NONE, np.int64)
    place[drawn.session, drawn.round] = np.arange(len(drawn.arrival))
    return place


def _answers(
    drawn: Draws, sessions: Sequence[Sessions | None], output: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return segment and tokens of what stays of each output in the context of later rounds.

    Thinking comes first. Without it the answer is content of its own: its tokens follow other
    tokens than they did when they were sampled.
    """
    ratio = [s.reason_ratio if s and not s.keep_reasoning else 0.0 for s in sessions]
    dropped = np.rint(np.array(ratio)[drawn.client] * drawn.output).astype(np.int64)
    alone = output[-1] + 1 + np.arange(len(output))
    return np.where(dropped > 0, alone, output), drawn.output - dropped
