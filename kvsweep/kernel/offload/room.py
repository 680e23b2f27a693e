"""Room in a CPU tier as vLLM has it: how many chunks must go for new ones."""

from ..._jit import leaf

BEING_WRITTEN, GHOST = -1, -2
"""`RUN.readers` of what is on its way to the CPU, and of what is remembered though it is gone."""


@leaf
def lacking(lane, off, new):
    """Return how many chunks must make room for `new` ones; 0 or less: none."""
    return new - (lane["cpu_blocks"] - off["chunks"])


@leaf
def count_evicted(off, count):
    """Count chunks that made room."""
    off["chunks"] -= count
    off["idle"] -= count
    off["evictions"] += count


@leaf
def is_victim(ws, off, node):
    """Return whether the chunks of a run may make room: idle, and not on offer."""
    run = ws.tier[node]
    return run["readers"] == 0 and run["offer"] != off["offers"]
