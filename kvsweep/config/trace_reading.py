"""How a trace file is read: its format, and what its format leaves open."""

from typing import Annotated, Literal

from pydantic import Field

from kvsweep.config.base import Count, Key, Name, Rate, Seconds, Section, Tokens
from kvsweep.limits import MAX_BLOCK_TOKENS, MAX_REQUESTS

Format = Literal[
    "kvsweep",
    "mooncake",
    "qwen-bailian",
    "weka",
    "azure",
    "burstgpt",
    "vllm-bench",
    "aiperf",
    "inference-perf",
    "csv",
    "parquet",
    "jsonl",
]
"""Formats of traces and of measured runs; `kvsweep.workload.formats` recognises them."""

TimeUnit = Literal["s", "ms", "us", "ns"]


class Columns(Section):
    """Which column of a CSV or Parquet file, or key of JSON lines, holds what.

    Left out: the column of the key's name, for lengths `prompt_tokens` and `output_tokens`; times
    may end in a unit, as ``arrival_ms``. Empty, of those that are not needed: none.

    Of times, `arrival`, `first_token` and `last_token` are on one clock of any origin; `ttft` and
    `latency` count from the arrival. A request's end is told by `last_token` or by `latency`, its
    first token by `first_token` or by `ttft`.
    """

    arrival: Annotated[Name | None, Key("1", "column of the arrivals")] = None
    prompt: Annotated[Name | None, Key("1", "column of the prompts' lengths")] = None
    output: Annotated[Name | None, Key("1", "column of the outputs' lengths")] = None
    first_token: Annotated[str | None, Key("1", "column of the first tokens' times")] = None
    last_token: Annotated[str | None, Key("1", "column of the last tokens' times")] = None
    ttft: Annotated[str | None, Key("1", "column of the times to first token")] = None
    latency: Annotated[str | None, Key("1", "column of the times to last token")] = None
    client: Annotated[str | None, Key("1", "column of the clients")] = None
    slo_class: Annotated[str | None, Key("1", "column of the SLO classes")] = None


class Reading(Section):
    """What a trace's file does not say, or what its content would be recognised wrongly for.

    A key that the file's format does not use is refused.

    Attributes
    ----------
    format : str or None
        One of `Format`; None: recognised by content.
    block_size : int or None
        Tokens of a block that has a hash id; None: 512 for Mooncake's, 16 for Qwen-Bailian's.
    partial_block : str
        Whether the last, partial block of a prompt has an id: ``with-id`` or ``without-id``.
    time_unit : str or None
        Unit of times: s, ms, us, ns. None: the format's; a column's by the end of its name.
    columns : Columns or None
        Names of the columns of a CSV or Parquet file, or of the keys of JSON lines.
    failed : str
        What becomes of requests that failed: ``refuse`` the file, or ``leave-out``.
    arrivals : str
        ``recorded``; ``at-once``: all at time 0, in their order, for ``workload.concurrency``;
        ``even``: evenly at the rate that the file says it had.
    shared_prefix : int or None
        Tokens that all prompts begin with, of formats that say nothing of content.
    run : int or None
        Which of the runs that a file holds, from 0.
    lanes : int or None
        Sessions that are under way at once: each lane takes one after the other.
    sessions_per_s : float or None
        Sessions that begin each second, evenly, instead of lanes.
    subagents : str or None
        ``in-turn``: one after the other while the session waits; ``beside``: each from its recorded
        start on, and the session does not wait; ``leave-out``.
    subagent_ids : str
        Whether a subagent's hash ids are those of its session (``shared``), or its own but for the
        blocks of tools and system prompt (``own``).
    subagent_times : str or None
        What the times of a subagent's requests count from: its own start (``relative``) or the
        session's (``absolute``).
    think_cap_s : float or None
        Longest think time, seconds; longer ones are cut to it.
    think_unknown_s : float or None
        Think time, seconds, where the file does not tell it.
    """

    format: Annotated[Format | None, Key("1", "format of the trace")] = None
    block_size: Annotated[
        Annotated[Count, Field(le=MAX_BLOCK_TOKENS)] | None,
        Key("token", "tokens of a block that has a hash id"),
    ] = None
    partial_block: Annotated[
        Literal["with-id", "without-id"], Key("1", "id of a prompt's partial block")
    ] = "with-id"
    time_unit: Annotated[TimeUnit | None, Key("1", "unit of the trace's times")] = None
    columns: Columns | None = None
    failed: Annotated[
        Literal["refuse", "leave-out"], Key("1", "what becomes of failed requests")
    ] = "refuse"
    arrivals: Annotated[
        Literal["recorded", "at-once", "even"], Key("1", "arrivals of the trace's requests")
    ] = "recorded"
    shared_prefix: Annotated[
        Tokens | None, Key("token", "tokens that all of the trace's prompts begin with")
    ] = None
    run: Annotated[
        Annotated[int, Field(strict=True, ge=0, le=MAX_REQUESTS)] | None,
        Key("1", "which of the file's runs"),
    ] = None
    lanes: Annotated[
        Annotated[Count, Field(le=MAX_REQUESTS)] | None,
        Key("1", "sessions of the trace under way at once"),
    ] = None
    sessions_per_s: Annotated[
        Rate | None, Key("request/s", "rate at which the trace's sessions begin")
    ] = None
    subagents: Annotated[
        Literal["in-turn", "beside", "leave-out"] | None, Key("1", "when subagents run")
    ] = None
    subagent_ids: Annotated[
        Literal["shared", "own"], Key("1", "whose a subagent's hash ids are")
    ] = "shared"
    subagent_times: Annotated[
        Literal["relative", "absolute"] | None, Key("1", "origin of the subagents' times")
    ] = None
    think_cap_s: Annotated[Seconds | None, Key("s", "longest think time of the trace")] = None
    think_unknown_s: Annotated[
        Seconds | None, Key("s", "think time that the trace does not tell")
    ] = None


AS_FOUND = Reading()
"""Everything by content and by the formats' rules."""
