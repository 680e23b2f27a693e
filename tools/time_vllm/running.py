"""One trace on an engine: requests come when they come, and every step is noted."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from record_vllm.requests import Request
from record_vllm.traces import Document

from time_vllm.asked import prompt_ids
from time_vllm.engine import Engine

NOT_YET = -1
COLUMNS = (
    "scheduled_us",
    "ended_us",
    "prefill",
    "decode",
    "decode_context",
    "before_tokens",
    "running",
    "free_blocks",
    "preempted",
    "drafts",
)


class Notes:
    """What a scheduler decided, and when its steps ended.

    Only references are kept while the engine runs; `columns` makes numbers of them afterwards.
    """

    def __init__(self, scheduler: Any, now: Callable[[], int]) -> None:
        self._kept: list[tuple[Any, ...]] = []
        self._ended: dict[int, int] = {}
        self._sampled: list[tuple[Any, Any]] = []
        schedule, update = scheduler.schedule, scheduler.update_from_output
        pool = scheduler.kv_cache_manager.block_pool

        def noted_schedule(*arguments: Any, **options: Any) -> Any:
            start = now()
            output = schedule(*arguments, **options)
            self._kept.append((output, start, len(scheduler.running), pool.get_num_free_blocks()))
            return output

        def noted_update(output: Any, *arguments: Any, **options: Any) -> Any:
            self._ended[id(output)] = now()
            if output.scheduled_spec_decode_tokens:
                self._sampled.append((output, arguments[0]))
            return update(output, *arguments, **options)

        scheduler.schedule, scheduler.update_from_output = noted_schedule, noted_update

    def columns(self) -> dict[str, list[int]]:
        """Return a list for each of `COLUMNS`, of the steps that computed anything."""
        rows = [self._row(*kept) for kept in self._kept if kept[0].total_num_scheduled_tokens]
        return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}

    def accepted(self) -> dict[str, list[int]]:
        """Return how many drafts each verification of a request accepted, by its name."""
        found: dict[str, list[int]] = defaultdict(list)
        for output, sampled in self._sampled:
            for name in output.scheduled_spec_decode_tokens:
                tokens = sampled.sampled_token_ids[sampled.req_id_to_index[name]]
                found[name].append(max(len(tokens) - 1, 0))
        return found

    def _row(self, output: Any, start: int, running: int, free: int) -> tuple[int, ...]:
        cached = output.scheduled_cached_reqs
        before = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        before.update((new.req_id, new.num_computed_tokens) for new in output.scheduled_new_reqs)
        prefill = decode = context = attended = 0
        drafts = output.scheduled_spec_decode_tokens
        for name, tokens in output.num_scheduled_tokens.items():
            if tokens == 1 or name in drafts:
                decode += 1
                context += before[name]
            else:
                prefill += tokens
                attended += tokens * before[name] + tokens * (tokens - 1) // 2
        preempted = len(output.preempted_req_ids or ())
        ended = self._ended.get(id(output), NOT_YET)
        drafted = sum(map(len, drafts.values()))
        return start, ended, prefill, decode, context, attended, running, free, preempted, drafted


class Copies:
    """Copies between the GPU and a CPU tier, and what of each request they loaded."""

    COLUMNS = ("is_load", "begun_us", "noticed_us", "bytes", "took_us")

    def __init__(self, engine: Engine, scheduler: Any, now: Callable[[], int]) -> None:
        self.loaded: dict[str, int] = defaultdict(int)
        self._rows: dict[int, list[int]] = {}
        allocated = scheduler.connector.update_state_after_alloc

        def noted(request: Any, blocks: Any, tokens: int) -> Any:
            self.loaded[request.request_id] += tokens
            return allocated(request, blocks, tokens)

        def begun(job: int, is_load: bool) -> None:
            self._rows[job] = [int(is_load), now()]

        def ended(job: int, size: int, seconds: float) -> None:
            self._rows[job] += [now(), size, round(1e6 * seconds)]

        scheduler.connector.update_state_after_alloc = noted
        engine.watch_copies(begun, ended)

    def columns(self) -> dict[str, list[int]]:
        """Return a list for each of `COLUMNS`, of the copies in the order of their begin."""
        rows = self._rows.values()
        return {name: [row[i] for row in rows] for i, name in enumerate(self.COLUMNS)}


def run(engine: Engine, requests: list[Request], blocks: int, name: str) -> dict[str, Any]:
    """Run requests in real time, on an empty cache of so many blocks.

    Returns
    -------
    dict
        `steps`, a list for each of `COLUMNS`: `scheduled_us` and `ended_us`, prompt tokens and
        decoding requests of the step (a chunk of one token counts as the latter), tokens before
        those of decoding requests and of prompts (the last two sums of `latency.beta`), running
        requests and free blocks after scheduling, requests preempted, drafts verified. `requests`,
        lists in the order of the trace: `added_us`, `first_token_us`, `finish_us`, `preemptions`.
        With a CPU tier also `loaded_tokens` of each, and `copies`, a list for each of
        `Copies.COLUMNS`; with drafts `accepted`, how many each verification of a request accepts.
        Times are microseconds from the start.
    """
    scheduler = engine.begin(blocks)
    made = [
        engine.request(f"{name}-{i}", prompt_ids(each, engine.vocabulary), each.output_tokens)
        for i, each in enumerate(requests)
    ]
    places = {each.request_id: i for i, each in enumerate(made)}
    added, first, finish = ([NOT_YET] * len(made) for _ in range(3))
    gc.collect()
    begin = time.perf_counter_ns()

    def now() -> int:
        return (time.perf_counter_ns() - begin) // 1000

    notes = Notes(scheduler, now)
    copies = Copies(engine, scheduler, now) if getattr(scheduler, "connector", None) else None
    coming = 0
    while coming < len(made) or engine.busy:
        while coming < len(made) and requests[coming].arrival_us <= now():
            engine.add(made[coming])
            added[coming] = now()
            coming += 1
        for output in engine.step() if engine.busy else ():
            place = places[output.request_id]
            if output.new_token_ids and first[place] == NOT_YET:
                first[place] = now()
            if output.finish_reason is not None:
                finish[place] = now()
    preemptions = [each.num_preemptions for each in made]
    measured = (added, first, finish, preemptions)
    names = ("added_us", "first_token_us", "finish_us", "preemptions")
    found = {"steps": notes.columns(), "requests": dict(zip(names, measured, strict=True))}
    if accepted := notes.accepted():
        found["requests"]["accepted"] = [accepted[each.request_id] for each in made]
    if copies:
        found["requests"]["loaded_tokens"] = [copies.loaded[each.request_id] for each in made]
        found["copies"] = copies.columns()
    return found


def with_accepted(document: Document, made: dict[str, Any]) -> Document:
    """Return a trace whose requests accept as many drafts as they did when it was run."""
    accepted = made["requests"].pop("accepted", None)
    if accepted is None:
        return document
    requests = [
        {**request, "accepted": counts or [0]}
        for request, counts in zip(document["requests"], accepted, strict=True)
    ]
    return {**document, "requests": requests}
