"""The largest numbers that are believed, the same for every reader: sweep files, traces, options.

Each limit is far beyond what any server has and small enough that nothing that the kernel computes
of such numbers overflows 64 bits, or 32 where it counts blocks and steps. A reader that meets more
names the line or key and the limit.
"""

MAX_TOKENS = 2**24
"""Tokens of one prompt, output or segment; a heavy tail without `max` can draw anything."""

MAX_LEAD_TOKENS = 2**48
"""Tokens of all requests on their way to an instance: `cluster.sticky_lead_tokens`."""

MAX_REQUEST_TOKENS = 2**30
"""Tokens of a request, context and output together; with a block's they have less than 31 bits."""

MAX_REQUESTS = 2**24
"""Requests of a list: a simulation takes some 500 bytes for each."""

MAX_TIME_US = 10**14
"""Any single time, microseconds (three years): an arrival, a pause, a patience, a latency."""

MAX_SECONDS = MAX_TIME_US / 10**6
"""The same in seconds."""

MAX_LEVEL_MS = MAX_TIME_US / 10**3
"""A service level, milliseconds."""

MIN_LEVEL_MS = 1e-3
"""One microsecond, in which times are counted."""

MAX_BLOCKS = 2**28
"""Blocks of one instance's cache, or of its CPU tier: 4 billion tokens at 16 tokens a block."""

MAX_BLOCK_TOKENS = 2**18
"""Tokens of a block. An instance keeps a count for each token of a block."""

MAX_BLOCK_FACTOR = 2**16
"""Blocks of the GPU in one block of a CPU tier: with the smallest blocks, a prompt of 65,536."""

MAX_INSTANCES = 2**16
"""Engine instances of a cluster."""

MAX_RESAMPLES = 10**6
"""Resamples of a bootstrap: each takes a byte for every seed and 8 for every point of a curve."""

MAX_NAME = 256
"""Characters of a name of a client or class."""

MAX_ROUNDS = 2**14
"""Rounds of a session."""

MAX_SEQS = 2**20
"""Requests in one batch."""

MAX_CELL_TOKENS = 2**26
"""Tokens of a block times instances: counts that every simulation clears."""

MAX_CLUSTER_BLOCKS = 2**30
"""Blocks of all instances; with extents they are numbered in 32 bits."""

MAX_REPLICA_BLOCKS = 2**22
"""The same under the rules of the reference, whose blocks are objects of 150 bytes."""

MAX_GAP_US = 2**39
"""Longest time between two tokens of a request, six days; `kernel.tally` sorts them."""

MAX_KEYS = 2**28
"""Full blocks of all requests of a list together, each of which has a key."""

MAX_DRAWN = 2 * MAX_REQUESTS
"""Requests drawn of a list, over all clients; those that arrive first are kept."""

MAX_CONTEXT = 2**26
"""Requests of a list times rounds of a session: entries of a table while prompts are composed."""

MAX_WORKSPACE_BYTES = 2**36
"""Memory of one simulation, 64 GiB."""

MAX_RATE = 1e12
"""Requests per second: a million in each microsecond, the unit of time."""

MIN_RATE = 1 / MAX_SECONDS
"""One request in the longest time."""

MAX_CV = 1e3
"""Standard deviation of gaps over their mean."""

MIN_CV = 1e-6
"""Below, gaps differ by less than doubles resolve over a long list."""

MAX_WEIGHT = 1e9
"""A weight or a fraction; the smallest is the inverse."""

MIN_WEIGHT = 1e-9
"""A weight or a fraction that is not 0."""

MAX_LOG_TOKENS = 20.0
"""Mean or deviation of the logarithm of a length: e**20 tokens are more than `MAX_TOKENS`."""

MIN_TAIL = 0.01
"""Shape of a Pareto tail: at 0.01 every second draw exceeds 2**100."""

MAX_TAIL = 1e6
"""Shape of a Pareto tail, beyond which it is a constant."""

MAX_BATCHED_TOKENS = 2**30
"""Tokens of one step: as many as the longest request has."""

MIN_BANDWIDTH = 1e-6
"""Tokens per microsecond between the tiers: one per second."""

MAX_BANDWIDTH = 1e12
"""Tokens per microsecond between the tiers."""

MAX_BUCKET = 1e15
"""Tokens of a bucket, or tokens per second that flow into it."""

MAX_LIMIT = 1e18
"""Of a measure, in its unit: more than any can be, the largest of which are times in us."""

MAX_SEED = 2**63 - 1
"""A seed; random streams take any integer, stores hold 64 bits with a sign."""

MAX_VALUES = 1_000_000
"""Values of an empirical distribution."""

MAX_AXIS_VALUES = 1_000_000
"""Values of one axis."""

MAX_VARIANTS = 200_000
"""Scenarios of a sweep: each is built and kept, in 0.1 ms and 4 KB. Seeds cost nothing here."""

MAX_CELLS = 10**8
"""Cells of a sweep."""

MAX_WORKERS = 4096
"""Threads or processes of one machine."""

MAX_TASKS = 10**6
"""Tasks of a sweep: each is some files of its store."""

MAX_COEFFICIENT = 1e12
"""A coefficient of a latency model, microseconds (eleven days) per whatever it multiplies."""

MIN_GB_PER_S, MAX_GB_PER_S = 0.01, 1e6
"""GB/s of a link between GPU and CPU. With the next, none is below a token per second."""

MAX_TOKEN_BYTES = 1e7
"""Bytes of a token's keys and values on one GPU, at least 1; OPT-175B's are 4.7 million."""

MAX_ADDED_US = 1e6
"""What is added to a measured step, microseconds: a second."""

MAX_TRIALS = 1000
"""Times that a batch is timed on a device, or a prompt by a real runtime."""

MAX_THREADS = 512
"""Threads of a runtime that is measured: as many as llama.cpp is made for; a hundred times as many
end the process."""

MAX_OFFLOADED = 2**31 - 1
"""Layers to offload to a GPU: more than the model has are all of it, and llama.cpp has 32 bits."""

MAX_CHANNELS = 2**16
"""Embedding length of a model that is made: that of Llama-3.1-405B is 16,384."""

MAX_STEP_US = 2**32
"""The longest step that a latency model may give any batch of its scenario: 71 minutes."""

MAX_FIRST_STEPS = 4
"""Most steps of an instance that `latency.first_steps_us` makes longer: as LANE has fields."""

MAX_INPUT_BYTES = 2**31
"""Bytes of an input file once unpacked; a trace of a million requests has 0.2 GB."""

MAX_SETTINGS_BYTES = 2**24
"""Bytes of a sweep file or a preset; those that come with the package have some 2,000."""

MAX_SCRIPT_CHARACTERS = 2**17
"""Characters of a script that starts a server; to split words takes time by the square."""

MAX_DEPTH = 32
"""Levels of tables and lists in settings; a scenario has four. Recursion ends at some 300."""

MAX_TOTAL_US = 2**61
"""The last arrival and all pauses of a list together, microseconds; the clock holds twice that."""

MAX_MEMORY_BYTES = 2**50
"""Memory of one GPU that is believed, a pebibyte."""

MAX_LAYERS = 2**12
"""Layers of a model, heads, and GPUs that share one: DeepSeek-V3 has 61 and 128."""

MAX_GROUPS = 16
"""Groups of layers of a hybrid cache: Gemma 3 and 4 have 6 and 7."""

MAX_DRAFTS = 64
"""Draft tokens of a decode; servers have 1 to 8."""

MAX_POOLS = 64
"""Pools of unequal instances of a cluster."""
