"""Where the blocks of a request stand: the slots of its tables, one table for each group of layers.

Groups of states (states.py) come behind those of attention here, wherever vLLM has them.
"""

import numpy as np

from ..._jit import leaf

FAR = np.int64(2**31 - 2)
"""Tokens that no request has."""

COUNTED = -2
"""Slot of a block that is not cached and has no record; NONE, of states: it is empty."""


@leaf
def groups_of(lane):
    """Return the groups of attention, each with a table of its own per request."""
    return 1 + np.int64(lane["more_groups"])


@leaf
def all_groups(lane):
    """Return the groups, those of states among them."""
    return groups_of(lane) + np.int64(lane["states"])


@leaf
def place_of(lane, group):
    """Return where vLLM has a group: those of states may come first."""
    place = np.int64(group)
    if lane["states_first"]:
        place = (group + lane["states"]) % all_groups(lane)
    return place


@leaf
def group_at(lane, place):
    """Return the group that vLLM has at a place."""
    group = np.int64(place)
    if lane["states_first"]:
        group = (place + groups_of(lane)) % all_groups(lane)
    return group


@leaf
def window_of(inp, lane, group):
    """Return the sliding window of a group in tokens, 0 for full attention."""
    window = np.int64(0)
    if lane["windows"]:
        window = np.int64(inp.groups[lane["group_lo"] + group]["window"])
    return window


@leaf
def slot_of(state, group, block):
    """Return the slot of a block of a request in the table of a group."""
    return state["table_lo"] + group * state["places"] + block


@leaf
def key_of(inp, lane, request, group, block):
    """Return the key of a block of a request in a group."""
    return np.int64(inp.keys[request["key_lo"] + block]) + group * lane["n_keys"]
