"""Random traces without ``expected``, which reach the corners of one feature each."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from record_vllm.features import BOTH, EITHER, HEADS, MIXES
from record_vllm.scenario import ceil_div
from record_vllm.traces import FORMAT, Document
from record_vllm.workloads import SHAPES, Dials, make_requests

MEASURED = {"alpha": [1601.35, 3.51, 1805.54], "beta": [6910.42, 17.67, 2.84]}
SIMPLE = {"alpha": [0.0, 0.0, 0.0], "beta": [1000.0, 10.0, 1.0]}
UNEVEN = {"alpha": [0.0, 0.0, 0.0], "beta": [301.0, 70.0, 3.0]}
"""A prompt takes much longer than many decodes."""


@dataclass
class _Draft:
    """A case in the making."""

    random: Random
    features: set[str]
    engine: dict[str, Any]
    cache: dict[str, Any]
    cluster: dict[str, Any]
    latency: dict[str, list[float]]
    requests: list[dict[str, Any]]
    tags: list[str]

    @property
    def block_size(self) -> int:
        return int(self.cache["block_size"])

    @property
    def step_us(self) -> float:
        return self.latency["beta"][0]


def make_case(feature: str, seed: int) -> Document:
    """Return the case of a seed: the same one each time, other seeds give others."""
    draft = _base(feature, seed)
    if "pipeline" in draft.features:
        _pipeline(draft)
    if "spec" in draft.features:
        _speculate(draft)
    if "hybrid" in draft.features:
        _group(draft)
    if "state" in draft.features:
        _keep_states(draft)
    if "longest" in draft.features:
        _limit(draft)
    if "whole" in draft.features:
        _take_whole(draft)
    _check_head(draft)
    if "kept" in draft.features:
        _keep_some(draft)
    if {"pd", "state", "kept"} <= draft.features:
        draft.engine["enable_prefix_caching"] = True  # else vLLM does not start
    _size_pool(draft)
    if "offload" in draft.features:
        _offload(draft)
    if {"offload", "state"} <= draft.features:
        draft.engine["enable_prefix_caching"] = True  # else vLLM does not start
    if "pd" in draft.features:
        _disaggregate(draft)
    tags = draft.tags + sorted(draft.features - {feature})
    return {
        "format": FORMAT,
        "about": {"group": feature, "seed": seed, "tags": tags},
        "scenario": {
            "engine": draft.engine,
            "cache": draft.cache,
            "cluster": draft.cluster,
            "latency": draft.latency,
        },
        "requests": draft.requests,
    }


def _base(feature: str, seed: int) -> _Draft:
    r = Random(f"record_vllm/{feature}/{seed}")
    features = set(r.choice(MIXES)) if feature == "mix" else set(feature.split("-"))
    if feature in ("pipeline-spec", *BOTH) or (feature in EITHER and r.random() < 0.5):
        features.add("async")
    if feature in HEADS:
        features.add("head")
    if feature == "pd-hybrid" and r.random() < 0.3:
        features.add("spec")
    if feature in ("pd-fail", "pd-error", "pd-lease"):
        features |= {name for name in ("hybrid", "spec") if r.random() < 0.25}
    block_size = r.choice([4, 8, 16, 16])
    latency = r.choice([MEASURED, SIMPLE])
    seqs = r.choice([3, 4, 8, 16, 32])
    budget = max(seqs, block_size * r.choice([2, 4, 8, 16, 128]) + r.randrange(7))
    priority = r.random() < 0.3
    shape = r.choice(SHAPES)
    gap = latency["beta"][0] * r.choice([0.3, 1, 2, 5, 10]) * block_size / 8
    dials = Dials(shape, r.choice([20, 30, 40, 60, 100]), block_size, gap, priority)
    engine = {
        "rules": "vllm",
        "max_num_seqs": seqs,
        "max_num_batched_tokens": budget,
        "long_prefill_token_threshold": r.choice([0, 0, 0, block_size, 2 * block_size + 3]),
        "enable_chunked_prefill": True,
        "enable_prefix_caching": r.random() < 0.9,
        "scheduler": "priority" if priority else "fcfs",
        "reserve_full_prompt": r.random() < 0.85,
        "watermark": r.choice([0.0, 0.0, 0.0, 0.05]),
    }
    if "async" in features:
        engine["async_scheduling"] = True
    requests = make_requests(r, dials)
    tags = [shape] + ["priority"] * priority
    cache: dict[str, Any] = {"block_size": block_size}
    draft = _Draft(r, features, engine, cache, {"instances": 1}, latency, requests, tags)
    if feature == "sync" and r.random() < 0.2:
        _without_chunks(draft)
    return draft


def _pipeline(draft: _Draft) -> None:
    r, states = draft.random, "state" in draft.features
    stages = r.choice([2, 2, 2, 3, 3, 4, 4, 5, 8])
    draft.engine["pipeline_parallel_size"] = stages
    draft.tags.append(f"{stages} stages")
    if r.random() < 0.4:
        draft.latency = UNEVEN
    if r.random() < 0.25:
        for request in draft.requests:
            request["arrival_us"] = 0
        draft.tags.append("all at once")
    if not states and "spec" not in draft.features and r.random() < 0.12:
        _without_chunks(draft)
    kind = r.random()
    if states or kind > 0.3:
        return
    if kind < 0.2:
        _group(draft)
    else:
        draft.cache["groups"] = [{"kind": "full"}, {"kind": "full"}]
        draft.tags.append("two full")


def _without_chunks(draft: _Draft) -> None:
    tokens = [_tokens(request) for request in draft.requests]
    draft.engine["enable_chunked_prefill"] = False
    draft.engine["long_prefill_token_threshold"] = 0
    draft.engine["max_num_batched_tokens"] = max(*tokens, draft.engine["max_num_seqs"])
    draft.tags.append("whole prompts")


def _take_whole(draft: _Draft) -> None:
    """Take prompts whole, but for some requests that are longer than a step, one by a token."""
    _without_chunks(draft)
    engine, drafts = draft.engine, draft.engine.get("speculative", {}).get("tokens", 0)
    lengths = sorted(map(_tokens, draft.requests))
    longest = draft.random.choice(lengths[len(lengths) * 3 // 4 :]) - draft.random.choice([0, 1])
    least = engine["max_num_seqs"] * (1 + drafts) + 2
    engine["max_num_batched_tokens"] = max(longest, least)


def _speculate(draft: _Draft) -> None:
    r, engine = draft.random, draft.engine
    tokens = r.choice([1, 2, 3, 5])
    method = r.choice(["draft", "eagle"])
    if {"pd", "hybrid"} <= draft.features and "head" not in draft.features:
        method = "draft"
    engine["speculative"] = {"tokens": tokens, "method": method}
    for request in draft.requests:
        request["accepted"] = [r.randrange(tokens + 1) for _ in range(r.choice([1, 3, 5, 7]))]
    least = engine["max_num_seqs"] * (tokens + 2 if r.random() < 0.6 else 1)
    engine["max_num_batched_tokens"] = max(engine["max_num_batched_tokens"], least, tokens + 3)
    if 0 < engine["long_prefill_token_threshold"] <= tokens:
        # vLLM 0.33 stops at an assertion when it pads such a request.
        engine["long_prefill_token_threshold"] = 0
    draft.tags.append(f"{engine['speculative']['method']} {tokens}")


def _check_head(draft: _Draft) -> None:
    """Let a draft model draft beside a tier if no group has what an EAGLE head's layers need."""
    full = any(group["kind"] == "full" for group in draft.cache.get("groups", [{"kind": "full"}]))
    drafts = draft.engine.get("speculative")
    if drafts and draft.features & {"offload", "pd"} and not full:
        drafts["method"] = "draft"


def _limit(draft: _Draft) -> None:
    """Let many requests end near the longest that the engine takes, and some be too long."""
    r, engine = draft.random, draft.engine
    kind = r.random()
    if kind < 0.2:
        _group(draft)
    elif kind < 0.35:
        _keep_states(draft)
        draft.cache["block_size"] = max(draft.block_size, 8)
    drafts = engine["speculative"]["tokens"]
    tokens = sorted(_tokens(request) for request in draft.requests)
    longest = tokens[-1 - r.randrange(len(tokens) // 8 + 1)] + r.choice([0, 0, 0, 1, drafts])
    engine["max_model_len"] = max(longest, engine["long_prefill_token_threshold"], drafts + 3)
    for request in draft.requests:
        room = engine["max_model_len"] - _tokens(request) - r.randrange(2 * drafts + 1)
        if room > 0 and r.random() < 0.6:
            segment, count = request["output"]
            request["output"] = [segment, count + room]  # prompts with this answer stay as they are
    _repeat_long_prompt(draft)
    if kind > 0.85:
        engine["enable_chunked_prefill"] = False
        engine["long_prefill_token_threshold"] = 0
        needed = max(engine["max_model_len"], engine["max_num_batched_tokens"])
        engine["max_num_batched_tokens"] = needed
        if r.random() < 0.3:  # the step's budget is the longest then
            del engine["max_model_len"]
            draft.tags.append("whole prompts")
    draft.tags.append(f"at most {engine.get('max_model_len', 'a step')}")


def _repeat_long_prompt(draft: _Draft) -> None:
    """Let requests have one long prompt, of which the others need to compute but one token."""
    r, longest = draft.random, draft.engine["max_model_len"]
    near = longest - 1 - r.randrange(draft.engine["speculative"]["tokens"] + 3)
    prompt = near // draft.block_size * draft.block_size + 1
    if not 1 <= prompt < longest:
        return
    segments = [s for request in draft.requests for s in (*request["prompt"], request["output"])]
    content = 1 + max(segment for segment, _ in segments)
    for request in r.sample(draft.requests, min(6, len(draft.requests))):
        request["prompt"] = [[content, prompt]]
        request["output"] = [request["output"][0], longest - prompt - r.randrange(longest - prompt)]
    draft.tags.append("repeated")


def _group(draft: _Draft) -> None:
    r, size = draft.random, draft.block_size
    window = r.choice([size, 2 * size, 3 * size + 1, 4 * size, 8 * size, 5])
    full: dict[str, Any] = {"kind": "full"}
    sliding: dict[str, Any] = {"kind": "sliding", "window": window}
    wider: dict[str, Any] = {"kind": "sliding", "window": 2 * window + 3}
    layouts = {
        "window only": [sliding],
        "1:1": [full, sliding],
        "1:2": [full, sliding, sliding],
        "1:5": [full, *[sliding] * 5],
        "two windows": [full, sliding, wider],
    }
    name = r.choice(list(layouts))
    groups = layouts[name]
    if r.random() < 0.2:
        groups = groups[1:] + groups[:1]
    draft.cache["groups"] = groups
    draft.tags.append(name)


def _keep_states(draft: _Draft) -> None:
    r = draft.random
    full: dict[str, Any] = {"kind": "full"}
    state: dict[str, Any] = {"kind": "state"}
    if r.random() < 0.5:
        state["checkpoint"] = True
        draft.tags.append("checkpoints")
    layouts = {
        "1:1": [full, state],
        "1:3": [full, *[state] * 3],
        "2:1": [full, full, state],
        "states first": [state, state, full],
    }
    name = r.choice(list(layouts))
    draft.cache["groups"] = layouts[name]
    draft.tags.append(name)


def _keep_some(draft: _Draft) -> None:
    r, size = draft.random, draft.block_size
    interval = size * r.choice([0, 0, 0, 1, 2, 3, 4, 8])
    draft.cache["prefix_cache_retention_interval"] = interval
    draft.tags.append(f"kept every {interval}")


def _size_pool(draft: _Draft) -> None:
    r = draft.random
    needs = sorted(_blocks(draft, request) for request in draft.requests)
    regime = r.choice(["ample", "tight", "tight", "starving", "starving"])
    if regime == "ample":
        blocks = sum(needs[-draft.engine["max_num_seqs"] :]) + sum(needs) // 3
    elif regime == "tight":
        blocks = int(needs[-1] * r.uniform(1.5, 3)) + 2
    else:  # sometimes the largest request never fits
        blocks = needs[-2] if r.random() < 0.15 else needs[-1] + r.randrange(4)
    draft.cache["gpu_blocks"] = max(blocks, 2)
    draft.tags.append(regime)


def _blocks(draft: _Draft, request: dict[str, Any]) -> int:
    """Return the blocks that a request needs in all groups."""
    drafts = draft.engine.get("speculative", {}).get("tokens", 0)
    tokens = _tokens(request) - 1 + 2 * drafts
    tokens = min(tokens, draft.engine.get("max_model_len", tokens))
    steps = draft.engine.get("pipeline_parallel_size", 1) + ("async" in draft.features)
    in_flight = draft.engine["max_num_batched_tokens"] * steps
    total = 0
    for group in draft.cache.get("groups", [{"kind": "full"}]):
        blocks = ceil_div(tokens, draft.block_size)
        if group["kind"] == "state":
            blocks = min(blocks, 3) + drafts
        if group["kind"] == "sliding":
            kept = ceil_div(group["window"] - 1 + in_flight, draft.block_size) + 1
            blocks = min(blocks, kept)
        total += blocks
    return total


def _tokens(request: dict[str, Any]) -> int:
    prompt: int = sum(n for _, n in request["prompt"])
    return prompt + int(request["output"][1])


def _offload(draft: _Draft) -> None:
    r = draft.random
    factor = r.choice([1, 1, 1, 2, 4])
    total = sum(ceil_div(_tokens(request), draft.block_size) for request in draft.requests)
    share = r.choice([1, 1, 6, 25])
    draft.cache |= {
        "offload": "vllm",
        "cpu_blocks": max(2, total // share // factor),
        "offload_block_factor": factor,
        "offload_prompt_only": r.random() < 0.5,
        "offload_eviction": r.choice(["lru", "lru", "arc"]),
        "transfer_base_latency_us": r.choice([0, 10, 500, int(draft.step_us * 2)]),
        "transfer_bandwidth": r.choice([100.0, 8.0, 1.0, 0.25, 0.0625, 0.015625]),
    }
    if draft.cache.get("prefix_cache_retention_interval", 0) % (draft.block_size * factor):
        draft.cache["prefix_cache_retention_interval"] *= factor  # else vLLM does not start
    draft.tags += [f"CPU 1/{share}", draft.cache["offload_eviction"], f"factor {factor}"]


def _disaggregate(draft: _Draft) -> None:
    r, size = draft.random, draft.block_size
    prefill, decode = r.choice([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2)])
    more = 2 * draft.engine.get("speculative", {}).get("tokens", 0)
    largest = max(ceil_div(_tokens(request) + more, size) for request in draft.requests)
    if draft.features & {"hybrid", "state"}:
        largest = max(_blocks(draft, request) for request in draft.requests)
    draft.cluster = {
        "prefill_instances": prefill,
        "decode_instances": decode,
        "prefill_gpu_blocks": largest * r.choice([1, 2, 4, 12]) + r.randrange(5),
        "decode_gpu_blocks": largest * r.choice([1, 2, 4, 12]) + r.randrange(5),
        "kv_transfer_base_us": r.choice([0, 100, int(draft.step_us)]),
        "kv_transfer_bandwidth": r.choice([8.0, 1.0, 0.125, 0.015625]),
        "pd_handoff_us": r.choice([0, 0, 250]),
    }
    if "both" in draft.features:
        draft.cluster["prefill_kv_role"] = "kv_both"
    draft.tags.append(f"{prefill} prefill, {decode} decode")
    if "offload" in draft.features:
        side = r.choice([None, None, "prefill", "decode"])
        if side:
            draft.cluster[f"{side}_cpu_blocks"] = 0
            draft.tags.append(f"no tier to {side}")
    if draft.features & {"fail", "error", "lease"}:
        _give_leases(draft)


def _give_leases(draft: _Draft) -> None:
    r = draft.random
    share = r.choice([0.1, 0.3, 1.0])
    lease, beats, recomputes = 10_000 * int(draft.step_us), False, "fail" in draft.features
    if "lease" in draft.features:
        share = r.choice([0.0, 0.0, 0.2])
        steps, beats, recomputes = r.choice([4, 12, 40, 120]), r.random() < 0.8, r.random() < 0.5
        lease = steps * int(draft.step_us) + (r.randrange(steps) if beats else 0)
    draft.cluster |= {
        "kv_lease_us": lease,
        "kv_heartbeats": beats,
        "kv_load_failure_policy": "recompute" if recomputes else "fail",
    }
    for request in draft.requests:
        request["pull_fails"] = r.random() < share
