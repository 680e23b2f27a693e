"""Traces that provoke trouble: tiny pools and budgets, shared and repeated content, ties in time.

One generator serves both `traces`, a hypothesis strategy that shrinks, and `random_trace`, for
long loops without hypothesis. Of any choice the first option is the plainest: hypothesis shrinks
towards it.
"""

from hypothesis import strategies as st

SLO_CLASSES = ("standard", "critical", "batch", "background", "gold", None)
# The first one is the usual; the others decide only where blocks run short.
VICTIMS = (
    *("last",) * 5,
    "least-computed-first",
    "least-computed-other",
    "most-computed",
    "random",
    "cost-aware",
    "fewest-remaining",
)
SCORERS = (
    "prefix-affinity",
    "precise-prefix",
    "queue-depth",
    "load-balance",
    "kv-utilization",
    "kv-pressure",
    "kv-pressure-slo",
)
# The first three keep all times on a grid, so that entries, routings and step ends coincide.
ALPHAS = ((0, 0, 0), (10, 0, 0), (0, 10, 0), (3, 1, 7), (500.5, 0.25, 0.0), (1601.35, 3.51, 0.5))
BETAS = ((10, 0, 0), (1, 0, 0), (10, 10, 10), (10, 1, 1), (999.9, 0.333, 33.3))
# Step times that depend on the context, all of it or that of one kind of token.
CONTEXT_BETAS = (
    (10, 0, 0, 1),
    (10, 1, 1, 0, 1),
    (10, 10, 0, 10, 10),
    (99.9, 0.3, 3.3, 0.37, 0.011),
)
# Of rooflines: the other sum, in which one or the other may be the larger from step to step.
# Each with the experts that are read beside it, if any.
MEMORIES = (
    ((1,), ()),
    ((0, 1, 1, 1), (300, 0.05)),
    ((30, 0, 0, 0.5, 0.1), ()),
    ((77.7, 0.1, 0.2, 0.3, 0.4), (99.9, 0.4)),
)
# Of sliding windows, short ones and one that few requests outgrow: the last two beside a memory.
WINDOWS = ((5, 3, 0), (2, 0, 1.5), (12, 0.37, 0.011, 2.5, 0.3), (40, 0, 0, 0.9, 0))
# Of instances that are cold at first: for a step, for some, for none but a later one.
FIRST_STEPS = ((2500,), (184_000, 130_000), (0, 0, 700), (3, 0, 20, 1000))
# Segment numbers: system prompts, their sub-groups, prompts, outputs shared and own.
SYSTEM, GROUP, PROMPT, SHARED_OUTPUT, OUTPUT = 0, 10, 1000, 5000, 6000


@st.composite
def traces(
    draw, max_requests=12, closed_loop=False, asynchronous=False, beyond=False, offload=False
):
    """Traces (``kvsweep-trace/1``) of up to `max_requests` requests.

    With `closed_loop` some of them wait for the answer to another, and some clients give up. With
    `asynchronous` some are scheduled asynchronously. With `beyond` comes what vLLM's engine does
    not have: other victims, with which some runs never end, and a limit on the requests under way
    where nobody waits or gives up. With `offload` all have a CPU tier as vLLM has it.
    """
    return _trace(_Drawn(draw), max_requests, closed_loop, asynchronous, beyond, offload)


def random_trace(
    rng, max_requests=30, closed_loop=False, asynchronous=False, beyond=False, offload=False
):
    """Return a trace of the same family as `traces`, drawn from a `random.Random`."""
    return _trace(_Random(rng), max_requests, closed_loop, asynchronous, beyond, offload)


@st.composite
def routed_traces(draw):
    """Traces for a router alone: up to 40 prompts, all at the edges of blocks."""
    return _routed_trace(_Drawn(draw), 40)


def random_routed_trace(rng):
    """Return a longer trace of the same family as `routed_traces`."""
    return _routed_trace(_Random(rng), 150)


class _Drawn:
    """Choices drawn by hypothesis."""

    def __init__(self, draw):
        self.draw = draw

    def integer(self, low, high):
        return self.draw(st.integers(low, high))

    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def chance(self, percent):
        return self.integer(0, 99) >= 100 - percent


class _Random:
    """Choices drawn from a random generator."""

    def __init__(self, rng):
        self.integer = rng.randint
        self.pick = rng.choice

    def chance(self, percent):
        return self.integer(0, 99) < percent


def _trace(source, max_requests, closed_loop, asynchronous, beyond, offload):
    scenario = _scenario(source)
    count = source.integer(1, max_requests)
    requests = _requests(source, scenario, count, closed_loop)
    caches = scenario["engine"]["enable_prefix_caching"]
    if asynchronous and source.chance(50):
        scenario["engine"] |= {"async_scheduling": True, "preempt_for_urgent": False}
    if offload:
        scenario["engine"]["preempt_for_urgent"] = False
        scenario["cache"] |= _connector(source)
        if scenario["cache"]["block_size"] == 1:
            scenario["cache"]["offload_block_factor"] = 3  # chunks of one token are refused
    elif not scenario["engine"].get("async_scheduling") and caches and source.chance(30):
        scenario["cache"] |= _tier(source)
    if caches:
        scenario["cache"]["eviction"] = source.pick(("lru", "lru", "lfu"))
    step_us = int(scenario["latency"]["beta"][0])
    scenario["cluster"] |= _routing(source, step_us) | _admission(source, step_us)
    if beyond:
        scenario["engine"]["victim"] = source.pick(VICTIMS)
        waits = any("after" in row or "patience_us" in row for row in requests)
        if not waits and source.chance(50):
            scenario["workload"] = {"concurrency": source.integer(1, source.pick((4, 2, 8, 20)))}
        if not offload and source.chance(25):
            scenario["latency"]["first_steps_us"] = list(source.pick(FIRST_STEPS))
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": requests}


def _scenario(source):
    seqs = source.integer(1, 8)
    chunked = not source.chance(25)
    extra = source.pick((2048, 0, 1, 2, 4, 9, 30) if chunked else (2048, 60, 20))
    latency = _latency(source)
    scenario = {
        "engine": {
            "rules": "vllm",
            "max_num_seqs": seqs,
            "max_num_batched_tokens": seqs + extra,
            "long_prefill_token_threshold": source.pick((0, 0, 1, 2, 4, 7, 16)),
            "scheduler": source.pick(("fcfs", "priority", "sjf")),
            "priority": source.pick(("constant", "slo-class")),
            "enable_prefix_caching": not source.chance(15),
            "enable_chunked_prefill": chunked,
            "reserve_full_prompt": not source.chance(30),
            "watermark": source.pick((0.0, 0.0, 0.0, 0.03, 0.15, 0.3, 0.5)),
        },
        "cache": {
            "block_size": source.pick((4, 1, 2, 3, 5, 7, 8, 16)),
            "gpu_blocks": source.integer(2, source.pick((8, 16, 40, 80))),
        },
        "cluster": _cluster(source, int(latency["beta"][0])),
        "latency": latency,
    }
    if source.chance(15):
        _squeeze(source, scenario)
    if scenario["engine"]["scheduler"] == "priority":
        _urgent(source, scenario["engine"], int(latency["beta"][0]))
    return scenario


def _latency(source):
    latency = {"alpha": list(source.pick(ALPHAS)), "beta": list(source.pick(BETAS))}
    if source.chance(30):
        latency["beta"] = list(source.pick(CONTEXT_BETAS))
        if source.chance(40):
            memory, experts = source.pick(MEMORIES)
            latency["memory"] = list(memory)
            if experts:
                latency["experts"] = list(experts)
        if source.chance(40):
            windows = WINDOWS if "memory" in latency else WINDOWS[:2]
            latency["window"] = list(source.pick(windows))
    return latency


def _tier(source):
    """A CPU tier, from one block to more than there is content."""
    return {
        "cpu_blocks": source.integer(1, source.pick((3, 10, 40, 200))),
        "offload": source.pick(("watermark", "write-through")),
        "offload_threshold": source.pick((0.0, 0.3, 0.6, 0.8, 1.0)),
        "transfer_bandwidth": source.pick((1.0, 0.3, 7.0, 100.0)),
        "transfer_base_latency_us": source.pick((0, 1, 10, 40)),
        "transfer_overlap": source.chance(30),
        "thrashing_window_us": source.pick((0, 20, 100, 1_000_000)),
    }


def _connector(source):
    """A CPU tier as vLLM has it: mostly too small, and slow enough for copies of several steps."""
    return {
        "cpu_blocks": source.integer(1, source.pick((3, 10, 40, 200))),
        "offload": "vllm",
        "offload_block_factor": source.pick((1, 1, 1, 2, 4)),
        "offload_prompt_only": source.chance(50),
        "offload_eviction": source.pick(("lru", "arc")),
        "transfer_bandwidth": source.pick((1.0, 0.1, 0.03, 7.0, 100.0)),
        "transfer_base_latency_us": source.pick((0, 1, 10, 40, 200)),
    }


def _urgent(source, engine, step_us):
    """Priorities that age, by less than a step or by many; running requests that give way."""
    if source.chance(40):
        engine["priority"] = "age"
        engine["priority_age_ms"] = source.pick((step_us, 1, 5 * step_us, 1_000_000)) / 1000
    engine["preempt_for_urgent"] = source.chance(50)


def _squeeze(source, scenario):
    """Long prefills in small chunks among decodes that need a block at almost every step.

    Only then does it matter that a victim gives its tokens back within the step.
    """
    seqs = source.integer(3, 6)
    scenario["engine"] |= {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": seqs + source.integer(0, 3),
        "long_prefill_token_threshold": 0,
        "enable_chunked_prefill": True,
        "scheduler": "priority",
        "watermark": 0.0,
    }
    scenario["cache"] = {
        "block_size": source.integer(1, 2),
        "gpu_blocks": source.integer(16, 40),
    }
    scenario["cluster"]["instances"] = 1


def _cluster(source, step_us):
    return {
        "instances": source.pick((1, 2, 2, 3, 4, 8)),
        "admission_latency_us": source.pick((0, 0, step_us, 1)),
        "routing_latency_us": source.pick((0, 0, step_us, 7)),
    }


def _routing(source, step_us):
    routings = ("round-robin", "least-loaded", "prompt-affinity", "always-busiest", "sticky")
    names = [name for name in SCORERS if source.chance(40)] or [source.pick(SCORERS)]
    if source.chance(50):
        names.reverse()
    routing = "weighted" if source.chance(60) else source.pick(routings)
    # A weight of 0 counts for nothing, but not all of them may.
    weights = [source.pick((1, 2, 0.1, 3.7, 0) if i else (1, 0.3)) for i in range(len(names))]
    return {
        "routing": routing,
        "scorers": dict(zip(names, weights, strict=True)),
        "router_index_blocks": source.pick((10_000, 1, 2, 3, 5, 9, 17)),
        "sticky_threshold": source.pick((0.8, 0.5, 1.0, 0.1)),
        "sticky_lead_tokens": source.pick((286_704, 0, 1, 5, 20, 60)),
        "count_pending": not source.chance(30),
        "snapshot_refresh_us": source.pick((0, 0, step_us, 4 * step_us, source.integer(1, 99))),
        "snapshot_load": source.chance(30),
    }


def _routed_trace(source, max_requests):
    """Prompts that are short walks through few segments, and few blocks remembered.

    Without precise-prefix: there are no caches.
    """
    block_size = source.integer(1, 3)
    cluster = _routing(source, 1)
    cluster["scorers"].pop("precise-prefix", None)
    cluster["scorers"]["prefix-affinity"] = source.pick((1, 0.2))
    if source.chance(50):
        # What the index knows decides, nothing else.
        cluster |= {"routing": "weighted", "scorers": {"prefix-affinity": 1, "load-balance": 0.01}}
    cluster["instances"] = source.pick((2, 1, 3, 8, 64, 65, 130))
    rows = []
    for i in range(source.integer(1, max_requests)):
        prompt = [
            [source.integer(0, 1 + k), source.integer(1, 3 * block_size)]
            for k in range(source.integer(1, 4))
        ]
        if source.chance(40):
            prompt.append([PROMPT + i, source.integer(1, 5 * block_size)])
        row = {"id": i, "arrival_us": i, "prompt": prompt, "output": [OUTPUT + i, 1]}
        slo_class = source.pick(SLO_CLASSES)
        rows.append(row | ({"slo_class": slo_class} if slo_class else {}))
    scenario = {"cluster": cluster, "cache": {"block_size": block_size}}
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def _admission(source, step_us):
    if source.chance(2):
        return {"admission": "reject-all"}
    if source.chance(85):
        return {"admission": "always"}
    return {
        "admission": "token-bucket",
        "token_bucket_capacity": source.pick((100, 20, 55.5)),
        # Tokens per step: many, few, hardly any.
        "token_bucket_refill_rate": source.pick((30, 4.4, 0.1)) * 1e6 / step_us,
    }


def _requests(source, scenario, count, closed_loop):
    block_size = scenario["cache"]["block_size"]
    # The longest sequence of which all but the last token fits into the pool.
    most = scenario["cache"]["gpu_blocks"] * block_size + 1
    if not scenario["engine"]["enable_chunked_prefill"]:
        most = min(most, scenario["engine"]["max_num_batched_tokens"] + 1)
    step_us = int(scenario["latency"]["beta"][0])
    habits = {
        "copies": source.pick((0, 20, 50)),
        "conversations": source.pick((0, 30, 70)),
        "longest_prompt": source.pick((2 * block_size + 1, 4 * block_size + 2, 48)),
        "system": source.pick((0, 50, 100)),
        "shared_outputs": source.chance(30),
        "priorities": source.pick((0, 0, 70, 100)),
        # Later requests more urgent: victims are then those that a step has already served.
        "rising_urgency": source.chance(30),
        "slo_classes": source.chance(50),
        # Share of the requests that wait for another's completion, and of impatient clients.
        "closed_loop": source.pick((0, 40, 80)) if closed_loop else 0,
        "impatience": source.pick((0, 0, 10, 50)) if closed_loop else 0,
    }
    open_ends = []
    rows, now = [], 0
    for i in range(count):
        now += source.pick((0, 0, 0, step_us, 2 * step_us, source.integer(0, 6 * step_us)))
        client = _client(source, open_ends, habits, step_us)
        earlier = rows[client["after"]] if "after" in client and source.chance(70) else None
        prompt = _prompt(source, rows, i, habits, block_size, most, earlier)
        longest_output = max(most - _length(prompt), 1)
        tokens = 1 if source.chance(15) else _tokens(source, block_size, min(longest_output, 40))
        if source.chance(2):
            tokens += most
        segment = SHARED_OUTPUT + i % 2 if habits["shared_outputs"] else OUTPUT + i
        row = {"id": i, "arrival_us": now, "prompt": prompt, "output": [segment, tokens]}
        rows.append(row | _urgency(source, i, habits) | client)
        open_ends.append(i)
    return rows


def _client(source, open_ends, habits, step_us):
    """Whether a request waits for another's answer, and how long its client waits for its own."""
    row = {}
    if open_ends and source.chance(habits["closed_loop"]):
        row["after"] = open_ends.pop(source.integer(0, len(open_ends) - 1))
        row["think_us"] = source.pick((0, step_us, 1, source.integer(0, 6 * step_us)))
    if source.chance(habits["impatience"]):
        row["patience_us"] = source.pick((0, step_us, 4 * step_us, source.integer(0, 9 * step_us)))
    return row


def _urgency(source, i, habits):
    row = {}
    if source.chance(habits["priorities"]):
        row["priority"] = source.integer(-1, 2) - (i if habits["rising_urgency"] else 0)
    slo_class = source.pick(SLO_CLASSES) if habits["slo_classes"] else None
    if slo_class:
        row["slo_class"] = slo_class
    return row


def _prompt(source, rows, i, habits, block_size, most, earlier=None):
    """A copy of an earlier prompt, the next round of one, or a new one behind shared segments.

    With `earlier`, the request that this one comes after, the next round of that if it fits.
    """
    if not earlier and rows and source.chance(habits["copies"]):
        return source.pick(rows)["prompt"]
    if earlier or (rows and source.chance(habits["conversations"])):
        prompt = _next_round(source, earlier or source.pick(rows), i, block_size)
        if _length(prompt) <= most:
            return prompt
    prompt = []
    if source.chance(habits["system"]):
        system = source.integer(0, 1)
        prompt.append([SYSTEM + system, source.pick((2 * block_size, block_size + 1, 1))])
        if source.chance(50):
            group = GROUP + 2 * system + source.integer(0, 1)
            prompt.append([group, _tokens(source, block_size, 2 * block_size)])
    own = max(min(most - _length(prompt), habits["longest_prompt"]), 1)
    if not prompt or source.chance(80):
        prompt.append([PROMPT + i, _tokens(source, block_size, own)])
    too_long = _length(prompt) > most
    return [[PROMPT + i, 1]] if too_long and source.chance(90) else prompt


def _next_round(source, earlier, i, block_size):
    """The earlier prompt, some or all of its answer, perhaps something seen before, a question."""
    segment, tokens = earlier["output"]
    answer = [segment, tokens if source.chance(70) else source.integer(1, tokens)]
    prompt = [*earlier["prompt"], answer]
    if source.chance(15):
        prompt.append(source.pick(prompt))
    if source.chance(80):
        prompt.append([PROMPT + i, _tokens(source, block_size, block_size + 2)])
    return prompt


def _tokens(source, block_size, most):
    """A length from 1 to `most`, half of the time at the edge of a block."""
    tokens = source.integer(1, most)
    if source.chance(50):
        tokens = tokens // block_size * block_size + source.pick((0, 1))
    return min(max(tokens, 1), most)


def _length(prompt):
    return sum(tokens for _, tokens in prompt)
