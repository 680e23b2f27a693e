"""Rings of records: each names its two neighbours, and one that is none stands for both ends."""

from ..._jit import leaf


@leaf
def close_ring(records, end):
    """Let nothing be in the ring of which `end` is the end."""
    records[end]["prev"] = end
    records[end]["next"] = end


@leaf
def unlink(records, node):
    """Take a record out of its ring."""
    before = records[node]["prev"]
    after = records[node]["next"]
    records[before]["next"] = after
    records[after]["prev"] = before


@leaf
def link_before(records, node, after):
    """Put a record into a ring, in front of another one."""
    before = records[after]["prev"]
    records[node]["prev"] = before
    records[node]["next"] = after
    records[before]["next"] = node
    records[after]["prev"] = node
