"""Files as other tools write them, made of rows: arrival, prompt, output, times of two tokens.

Rows are dicts with ``arrival`` (seconds), ``prompt``, ``output`` (tokens), ``first`` and ``last``
(seconds from the arrival). The files have the formats' exact keys, and what else they hold.
"""

import json
import random


def rows_of(rng=None, count=8):
    """Return some rows, two of which arrive at once."""
    rng = rng or random.Random(1)
    rows, time = [], 0.0
    for i in range(count):
        time += 0 if i % 4 == 1 else rng.randrange(1, 400) / 64
        output = rng.randint(1, 40)
        first = rng.randrange(1, 64) / 64
        last = first + (output - 1) * rng.randrange(1, 9) / 512
        rows.append({"arrival": time, "prompt": rng.randint(20, 900), "output": output})
        rows[-1] |= {"first": first, "last": last}
    return rows


def bench(rows, clock=98765.25, **changes):
    """Return a result of ``vllm bench serve --save-result --save-detailed``."""
    gaps = [(row["last"] - row["first"], row["output"] - 1) for row in rows]
    result = {
        "date": "20260401-120000",
        "endpoint_type": "openai",
        "label": None,
        "model_id": "made-up/model",
        "tokenizer_id": "made-up/model",
        "num_prompts": len(rows),
        "request_rate": 4.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 10.5,
        "completed": len(rows),
        "failed": 0,
        "total_input_tokens": sum(row["prompt"] for row in rows),
        "total_output_tokens": sum(row["output"] for row in rows),
        "request_throughput": 1.5,
        "request_goodput": None,
        "output_throughput": 20.5,
        "total_token_throughput": 200.5,
        "input_lens": [row["prompt"] for row in rows],
        "output_lens": [row["output"] for row in rows],
        "ttfts": [row["first"] for row in rows],
        "itls": [[gap / max(count, 1)] * count for gap, count in gaps],
        "start_times": [clock + row["arrival"] for row in rows],
        "generated_texts": ["" for _ in rows],
        "errors": ["" for _ in rows],
        "mean_ttft_ms": 5.5,
    }
    result |= changes
    return json.dumps({key: value for key, value in result.items() if value != "absent"})


def aiperf(rows, clock=1_759_813_207_532_900_363, phase="profiling"):
    """Return a ``profile_export.jsonl``."""
    return "\n".join(json.dumps(aiperf_line(i, row, clock, phase)) for i, row in enumerate(rows))


def aiperf_line(i, row, clock=0, phase="profiling"):
    """Return a line of it."""
    start = clock + round(1e9 * row["arrival"])
    metrics = {
        "input_sequence_length": {"value": row["prompt"], "unit": "tokens"},
        "time_to_first_token": {"value": 1e3 * row["first"], "unit": "ms"},
        "request_latency": {"value": 1e3 * row["last"], "unit": "ms"},
        "output_token_count": {"value": row["output"], "unit": "tokens"},
        "output_sequence_length": {"value": row["output"], "unit": "tokens"},
    }
    metadata = {
        "session_num": i,
        "x_request_id": f"request-{clock}-{i}",
        "x_correlation_id": f"session-{i}",
        "conversation_id": f"conversation-{i}",
        "turn_index": 0,
        "request_start_ns": start,
        "request_ack_ns": None,
        "request_end_ns": start + round(1e9 * row["last"]),
        "worker_id": "worker_1",
        "record_processor_id": "record_processor_1",
        "benchmark_phase": phase,
        "was_cancelled": False,
        "cancellation_time_ns": None,
    }
    return {"metadata": metadata, "metrics": metrics, "error": None}


def inference_perf(rows, clock=4321.5, early=False):
    """Return a ``per_request_lifecycle_metrics.json``; `early` as the first releases wrote it."""
    return json.dumps([inference_perf_entry(row, clock, early) for row in rows])


def inference_perf_entry(row, clock=4321.5, early=False):
    """Return an entry of it."""
    start = clock + row["arrival"]
    step = (row["last"] - row["first"]) / max(row["output"] - 1, 1)
    times = [start + row["first"] + k * step for k in range(row["output"] - 1)]
    times.append(start + row["last"])
    entry = {"start_time": start, "end_time": start + row["last"] + 0.001, "error": None}
    if early:
        info = {"input_tokens": row["prompt"], "output_tokens": row["output"]}
        return entry | {
            "request": "...",
            "response": "...",
            "info": info | {"output_token_times": times},
        }
    response = {"output_tokens": row["output"], "chunk_times": times, "output_token_times": times}
    info = {
        "request_metrics": {"text": {"input_tokens": row["prompt"]}},
        "response_metrics": response | {"server_usage": None},
        "extra_info": {},
        "lora_adapter": None,
        "labels": {},
        "input_tokens": row["prompt"],
    }
    slos = {"ttft_slo_sec": None, "tpot_slo_sec": None}
    more = {"stage_id": 0, "session_id": None, "scheduled_time": start - 0.001}
    return more | entry | slos | {"request_data": "...", "response_data": "...", "info": info}


def table(rows, clock=0, names="arrival_s,prompt_tokens,output_tokens,ttft_ms,latency_ms"):
    """Return a CSV file."""
    lines = [names]
    for row in rows:
        times = f"{1e3 * row['first']!r},{1e3 * row['last']!r}"
        lines.append(f"{clock + row['arrival']!r},{row['prompt']},{row['output']},{times}")
    return "\n".join(lines) + "\n"


def json_lines(rows, clock=1_778_000_000.25):
    """Return lines of a gateway's log, under the names that a table has."""
    lines = []
    for i, row in enumerate(rows):
        times = {"ttft_ms": 1e3 * row["first"], "latency_ms": 1e3 * row["last"]}
        counts = {"prompt_tokens": row["prompt"], "output_tokens": row["output"]}
        line = {"id": f"r-{i}", "stream": True, "tags": ["a", {"b": 1}], "error": None}
        lines.append(json.dumps(line | {"arrival_s": clock + row["arrival"]} | counts | times))
    return "\n".join(lines) + "\n"


def burstgpt(rows):
    """Return BurstGPT's CSV."""
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    for i, row in enumerate(rows):
        total = row["prompt"] + row["output"]
        counts = f"{row['prompt']},{row['output']},{total}"
        model = ("ChatGPT", "GPT-4")[i % 2]
        lines.append(f"{5 + round(row['arrival'])},{model},{counts},Conversation log")
    return "\n".join(lines) + "\n"


def azure(rows):
    """Return Azure's CSV."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for row in rows:
        minute, second = divmod(row["arrival"], 60)
        time = f"2023-11-16 18:{int(minute):02}:{second:010.7f}"
        lines.append(f"{time},{row['prompt']},{row['output']}")
    return "\n".join(lines) + "\n"


def qwen(rows):
    """Return Qwen-Bailian's JSON lines, each prompt a round of one conversation."""
    lines = []
    for i, row in enumerate(rows):
        line = {"chat_id": i, "parent_chat_id": i - 1, "timestamp": row["arrival"]}
        line |= {"input_length": row["prompt"], "output_length": row["output"], "type": "text"}
        lines.append(
            json.dumps(line | {"turn": i + 1, "hash_ids": list(range(-(-row["prompt"] // 16)))})
        )
    return "\n".join(lines)


def call(t, tokens, out=5, ids=None, block=64, **more):
    """Return a request of a Weka session; without ids the first blocks are 1, 2, ..."""
    ids = list(range(1, tokens // block + 1)) if ids is None else ids
    entry = {"t": t, "type": "s", "model": "made-up", "in": tokens, "out": out, "hash_ids": ids}
    return entry | {"input_types": ["text"], "output_types": ["text"], "stop": ""} | more


def agent(t, requests, **more):
    """Return a subagent of a Weka session."""
    entry = {"t": t, "type": "subagent", "agent_id": "0a1b2c3d", "subagent_type": "Explore"}
    entry |= {"total_tokens": 1000, "tool_use_count": 1, "status": "completed"}
    entry |= {"models": ["made-up"], "tool_tokens": 128, "system_tokens": 10, "requests": requests}
    return entry | more


def session(name, requests, **more):
    """Return a Weka session."""
    head = {"id": name, "models": ["made-up"], "block_size": 64, "tool_tokens": 128}
    return head | {"system_tokens": 10, "requests": requests} | more


def sessions(rng):
    """Return Weka's JSON lines: sessions of some rounds, some with a subagent between."""
    lines = []
    for k in range(rng.randint(1, 4)):
        requests, time, tokens = [], 0.0, rng.randint(1, 300)
        for _ in range(rng.randint(1, 4)):
            took = rng.choice((0.5, 2.25))
            requests.append(call(time, tokens, rng.randint(1, 40), api_time=took))
            time += took + rng.choice((0.0, 1.5))
            if rng.random() < 0.3:
                inner = [call(0.0, 90, api_time=0.5), call(0.75, 200, api_time=0.25)]
                requests.append(agent(time, inner, duration_ms=1000))
                time += 1.25
            tokens += rng.randint(0, 200)
        lines.append(json.dumps(session(f"session-{k}", requests)))
    return "\n".join(lines)
