"""One trial: clear, warm [A, B], then time the first token and the output of one prompt."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from time import perf_counter, sleep
from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.llama.design import HIT, WARMUP_TOKENS, Design
from kvsweep.llama.prompts import WARMUP, Prompt
from kvsweep.llama.runtime import Runtime

LENGTH, STOP = "length", "stop"


class Generation(NamedTuple):
    """What was generated, in how many seconds, and why it ended."""

    tokens: list[int]
    seconds: float
    finish_reason: str


class TrialResult(NamedTuple):
    """What one trial gave; the names are the variables' (`kvsweep.llama.dataset`)."""

    warmup_time_ms: float
    ttft_ms: float
    total_time_ms: float
    throughput_tok_s: float
    prompt_tokens: int
    computed_tokens: int
    completion_tokens: int
    early_eos: int
    finish_reason: str
    warmup_output: list[int]
    output: list[int]


def run_trial(
    runtime: Runtime, prompts: Mapping[str, Prompt], condition: str, design: Design
) -> TrialResult:
    """Run one trial.

    Nothing is cleared between warming and measuring: that a hit computes Q alone and a miss B and Q
    is the runtime's own doing, and `TrialResult.computed_tokens` records it.

    Raises
    ------
    InputError
        If the runtime does not forget when told to, or computes more than Q for a hit.
    """
    prompt = prompts[condition].tokens
    runtime.clear()
    if runtime.cached_tokens():
        raise InputError(f"the runtime kept {runtime.cached_tokens()} tokens when cleared")
    warmup = generate(runtime, prompts[WARMUP].tokens, WARMUP_TOKENS)
    sleep(design.pause_s)
    first = generate(runtime, prompt, 1)
    computed = runtime.computed_tokens()
    if condition == HIT and computed > design.query:
        raise InputError(
            f"the runtime computed {computed} tokens of a prompt whose last {design.query} alone "
            "are new: it keeps no prefixes of this model"
        )
    sleep(design.pause_s)
    whole = generate(runtime, prompt, design.output)
    made = len(whole.tokens)
    return TrialResult(
        warmup_time_ms=1e3 * warmup.seconds,
        ttft_ms=1e3 * first.seconds,
        total_time_ms=1e3 * whole.seconds,
        throughput_tok_s=made / whole.seconds if made else float("nan"),
        prompt_tokens=len(prompt),
        computed_tokens=computed,
        completion_tokens=made,
        early_eos=int(whole.finish_reason == STOP),
        finish_reason=whole.finish_reason,
        warmup_output=warmup.tokens,
        output=whole.tokens,
    )


def generate(runtime: Runtime, prompt: tuple[int, ...], most: int) -> Generation:
    """Generate until the model ends or there are `most` tokens, the ending token not counted."""
    tokens = []
    reason = LENGTH
    start = perf_counter()
    for token in islice(runtime.generate(prompt), most):
        if runtime.is_end(token):
            reason = STOP
            break
        tokens.append(token)
    return Generation(tokens, perf_counter() - start, reason)
