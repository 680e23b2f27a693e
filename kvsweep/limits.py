"""The largest numbers that are believed, the same for every reader: sweep files, traces, options.

Each limit is far beyond what any server has and small enough that nothing that the kernel computes
of such numbers overflows 64 bits, or 32 where it counts blocks and steps. A reader that meets more
names the line or key and the limit.
"""

MAX_TOKENS = 2**24
"""Tokens of one prompt, output or segment; a heavy tail without `max` can draw anything."""

MAX_REQUEST_TOKENS = 2**30
"""Tokens of a request, context and output together; with a block's they have less than 31 bits."""

MAX_REQUESTS = 2**24
"""Requests of a list: a simulation takes some 500 bytes for each."""

MAX_TIME_US = 10**14
"""Any single time, microseconds (three years): an arrival, a pause, a patience, a latency."""

MAX_SECONDS = MAX_TIME_US / 10**6
"""The same in seconds."""

MAX_BLOCKS = 2**28
"""Blocks of one instance's cache, or of its CPU tier: 4 billion tokens at 16 tokens a block."""

MAX_BLOCK_TOKENS = 2**18
"""Tokens of a block. An instance keeps a count for each token of a block."""

MAX_INSTANCES = 2**16
"""Engine instances of a cluster."""

MAX_NAME = 256
"""Characters of a name of a client or class."""

MAX_ROUNDS = 2**14
"""Rounds of a session."""

MAX_SEQS = 2**20
"""Requests in one batch."""

MAX_COEFFICIENT = 1e12
"""A coefficient of a latency model, microseconds (eleven days) per whatever it multiplies."""

MIN_GB_PER_S, MAX_GB_PER_S = 0.01, 1e6
"""GB/s of a link between GPU and CPU. With the next, none is below a token per second."""

MAX_TOKEN_BYTES = 1e7
"""Bytes of a token's keys and values on one GPU, at least 1; OPT-175B's are 4.7 million."""

MAX_STEP_US = 2**32
"""The longest step that a latency model may give any batch of its scenario: 71 minutes."""

MAX_INPUT_BYTES = 2**31
"""Bytes of an input file once unpacked; a trace of a million requests has 0.2 GB."""

MAX_SETTINGS_BYTES = 2**24
"""Bytes of a sweep file or a preset; those that come with the package have some 2,000."""

MAX_DEPTH = 32
"""Levels of tables and lists in settings; a scenario has four. Recursion ends at some 300."""

MAX_TOTAL_US = 2**61
"""The last arrival and all pauses of a list together, microseconds; the clock holds twice that."""
