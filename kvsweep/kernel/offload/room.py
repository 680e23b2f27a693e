"""Room in a CPU tier as vLLM has it: how many chunks must go for new ones."""

from ..._jit import leaf

BEING_WRITTEN = -1


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
