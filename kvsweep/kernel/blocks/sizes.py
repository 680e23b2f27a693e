"""How many blocks so many tokens fill or need, without a division.

A division by a number that the compiler does not know takes 25 instructions, and a simulation
needs five for each request. A multiplication and a shift give the same quotient (Granlund and
Montgomery, "Division by invariant integers using multiplication", 1994).
"""

from ..._jit import leaf

QUOTIENT_BITS = 31
"""Bits of quotients, and of the tokens of a request and of a block together: `kvsweep.limits`."""


@leaf
def full_blocks(lane, tokens):
    """Return the blocks that `tokens` tokens fill."""
    return (tokens * lane["inverse"]) >> lane["inverse_shift"]


@leaf
def blocks_for(lane, tokens):
    """Return the blocks that hold `tokens` tokens."""
    return full_blocks(lane, tokens + lane["block_size"] - 1)


@leaf
def tokens_beyond(lane, tokens):
    """Return how many of `tokens` tokens are in a block that they do not fill."""
    return tokens - full_blocks(lane, tokens) * lane["block_size"]
