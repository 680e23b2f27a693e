"""What a token is computed with in layers that keep states, and what GPUs exchange of it."""

from __future__ import annotations

from kvsweep.sizing.architectures import Architecture
from kvsweep.sizing.config_values import Values
from kvsweep.sizing.exchange import Reduces
from kvsweep.sizing.state_weights import has_norm
from kvsweep.sizing.states import BOTH, NEITHER, StateShape, feed_forward, layer_kinds

DELTA_FLOPS = 7
"""FLOPs for each number of a gated delta net's state: see `recurrence`."""

MAMBA2_FLOPS = 5
"""FLOPs for each number of Mamba-2's state."""


def recurrence(states: tuple[StateShape, ...]) -> int:
    """Return the FLOPs of the recurrences of all layers, of one token.

    A gated delta net has ``S = a S (1 - b k k') + b v k'`` and ``o = S q`` (S. Yang, J. Kautz and
    A. Hatamizadeh, Gated Delta Networks, arXiv 2412.06464): ``7 * heads * key * value``, of which
    the decay takes 1, the product with the key 2, what is added 2, the product with the query 2.
    Mamba-2 has ``S = a S + d x b'`` and ``y = S c`` (T. Dao and A. Gu, Transformers are SSMs, arXiv
    2405.21060): ``5 * heads * channels of a head * state``, as it has no product with a key.

    Prefills are computed in chunks, at up to twice as many, which is left out.
    """
    return sum(
        (MAMBA2_FLOPS if shape.key is None else DELTA_FLOPS) * shape.heads * shape.cells
        for shape in states
    )


def reduces(config: Values, about: Architecture, states: tuple[StateShape, ...]) -> Reduces:
    """Return the all-reduces of a step, as the models of vLLM 0.33.0 have them.

    One of the embedding, and one after attention, after what keeps a state (Falcon-H1 has both in a
    layer), and after the feed-forward part (Granite's experts and its shared part one each). The
    norm of Mamba-2 with one group needs the sum of squares of all GPUs (``Mixer2RMSNormGated``).
    """
    mixers = {BOTH: 2, NEITHER: 0}
    vectors = 1 + sum(mixers.get(kind, 1) for kind in layer_kinds(config, about))
    for part in feed_forward(config, about):
        if about.states == "named":
            vectors += (part == "experts") + (config.number("shared_intermediate_size") > 0)
        else:
            vectors += part != "none"
    one_group = sum(shape.groups == 1 for shape in states)
    return Reduces(vectors, one_group if has_norm(config, about) else 0)
