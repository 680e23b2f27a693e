"""How much a step may schedule: tokens and requests that are given, or as vLLM decides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvsweep.errors import InputError
from kvsweep.sizing.defaults import GEMMA4_FRAME
from kvsweep.sizing.gpus import Defaults, Gpu
from kvsweep.sizing.model import Model
from kvsweep.vllm_command.known import DEFAULT, OWN_LOG, Known
from kvsweep.vllm_command.values import Values

BATCHED_DP_TOKENS = 256
"""``DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP`` of vLLM 0.33.0's scheduler configuration."""

_BATCHED = ("deepep_low_latency", "nixl_ep")

Told = tuple[int, str]
"""A number, and the option that says so."""


class StepLimits(NamedTuple):
    """What a step may schedule.

    Attributes
    ----------
    tokens, seqs : tuple of int and str
        Tokens of a step, and requests that run: each with the option that says so.
    worker_tokens, worker_seqs : int
        What the worker has room for, by which its memory goes.
    """

    tokens: Told
    seqs: Told
    worker_tokens: int
    worker_seqs: int

    @property
    def differ(self) -> bool:
        """Whether less is scheduled than there is room for."""
        return (self.tokens[0], self.seqs[0]) != (self.worker_tokens, self.worker_seqs)


def step_limits(
    values: Values, known: Known, gpu: Gpu | None, longest: int, item: int = 0
) -> StepLimits:
    """Return tokens and requests of a step, as vLLM's ``EngineArgs`` decides them.

    Parameters
    ----------
    values : Values
        Of the options.
    known : Known
        What no option says.
    gpu : Gpu or None
        Whose defaults are taken.
    longest : int
        ``max_model_len``, tokens.
    item : int
        Of the largest picture or video, as `largest_item`.

    Raises
    ------
    InputError
        If nothing tells them, or vLLM refuses them.
    """
    tokens, seqs = _worker(values, known, gpu, longest, item)
    whole = values.switch("enable-chunked-prefill") is False
    if whole and tokens[0] < longest:
        raise values.problem(
            "max-num-batched-tokens",
            f"{tokens[0]:,}; without chunked prefill vLLM wants the {longest:,} tokens of "
            "--max-model-len at least",
        )
    if seqs[0] > tokens[0]:
        raise values.problem(
            "max-num-seqs",
            f"{seqs[0]:,}; vLLM takes at most the {tokens[0]:,} tokens of a step ({tokens[1]})",
        )
    room = tokens[0], seqs[0]
    if (active := values.count("max-num-active-seqs")) is not None:
        if active > seqs[0]:
            most = f"{active:,}; vLLM takes at most the {seqs[0]:,} of --max-num-seqs"
            raise values.problem("max-num-active-seqs", most)
        seqs = active, "--max-num-active-seqs"
    if (scheduled := values.whole("max-num-scheduled-tokens")) is not None:
        if scheduled < seqs[0]:
            few = f"{scheduled:,}, fewer than the {seqs[0]:,} requests that run, is not simulated"
            raise values.problem("max-num-scheduled-tokens", few)
        if whole and scheduled < longest:
            few = f"{scheduled:,}, fewer than the {longest:,} tokens of the longest request"
            told = f"{few}, is not simulated without chunked prefill"
            raise values.problem("max-num-scheduled-tokens", told)
        tokens = scheduled, "--max-num-scheduled-tokens"
    return StepLimits(tokens, seqs, *room)


def largest_item(values: Values, model: Model) -> int:
    """Return the tokens of the largest picture or video that is scheduled as a whole; 0: none is.

    Parameters
    ----------
    values : Values
        Of the options.
    model : Model
        What is served.
    """
    if not model.item_tokens or is_text_only(values, model):
        return 0
    video = (values.table("limit-mm-per-prompt") or {}).get("video")
    frames = video.get("num_frames") if isinstance(video, dict) else None
    return min(model.item_tokens, frames * GEMMA4_FRAME) if frames else model.item_tokens


def is_text_only(values: Values, model: Model) -> bool:
    """Return whether the server takes none of the items that attend to all of themselves."""
    limits = values.table("limit-mm-per-prompt") or {}
    none = all(_most(limits, kind) == 0 for kind in model.whole_items)
    return none or bool(values.switch("language-model-only"))


def told_of_item(values: Values, limits: StepLimits, item: int) -> str | None:
    """Say that vLLM does not start, as a step has no room for a video; None: it has.

    Parameters
    ----------
    values : Values
        Of the options.
    limits : StepLimits
        What a step may schedule.
    item : int
        Of the largest video, as `largest_item`.
    """
    given = values.count("max-num-batched-tokens")
    if given is None or given >= item:
        return None
    if _most(values.table("limit-mm-per-prompt") or {}, "video") == 0:
        return None
    room = f"vLLM does not start: a step of {limits.worker_tokens:,} tokens has no room for a video"
    return f"{room}; it does with {item:,}, or with --limit-mm-per-prompt.video 0"


def _most(limits: Mapping[str, Any], kind: str) -> Any:
    """Return how many of a kind a prompt may have; None: any number."""
    told = limits.get(kind)
    return told.get("count") if isinstance(told, dict) else told


def _worker(
    values: Values, known: Known, gpu: Gpu | None, longest: int, item: int
) -> tuple[Told, Told]:
    """Return ``max_num_batched_tokens`` and ``max_num_seqs``."""
    tokens, seqs = values.count("max-num-batched-tokens"), values.count("max-num-seqs")
    by_tokens, by_seqs = "--max-num-batched-tokens", "--max-num-seqs"
    if tokens is None and known.tokens is not None:
        tokens, by_tokens = known.tokens, OWN_LOG
    if tokens is None or seqs is None:
        if gpu is None:
            missing = by_tokens if tokens is None else by_seqs
            raise InputError(
                f"--gpu: missing: {missing} is not given, and vLLM's default follows from the GPU"
            )
        usual, told = _usual(values, gpu), f"{DEFAULT} on {gpu.name}"
        most = usual.max_num_seqs if seqs is None else seqs
        if tokens is None:
            whole = longest if values.switch("enable-chunked-prefill") is False else 0
            usually = max(whole, item, usual.max_num_batched_tokens)
            tokens, by_tokens = min(most * longest, usually), told
        if seqs is None:
            seqs, by_seqs = min(most, tokens), told
    return (tokens, by_tokens), (seqs, by_seqs)


def _usual(values: Values, gpu: Gpu) -> Defaults:
    """Return what vLLM takes for requests and tokens of a step that are not given."""
    seqs, tokens = gpu.defaults().max_num_seqs, gpu.defaults().max_num_batched_tokens
    batched = values.text("all2all-backend") in _BATCHED and values.switch("enable-expert-parallel")
    if batched and (values.whole("data-parallel-size") or 1) > 1:
        tokens = BATCHED_DP_TOKENS
    twice = 2 if performance_mode(values) == "throughput" else 1
    return Defaults(twice * seqs, twice * tokens)


def fits_memory(values: Values) -> bool:
    """Return whether vLLM takes requests as long as its memory has room for."""
    return values.text("max-model-len") in ("auto", "-1")


def performance_mode(values: Values) -> str | None:
    """Return what vLLM is tuned for; None: not given."""
    return values.choice("performance-mode", "balanced", "interactivity", "throughput")
