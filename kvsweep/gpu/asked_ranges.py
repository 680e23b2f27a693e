"""How large batches get unless told: as vLLM would have them on this GPU."""

from __future__ import annotations

from collections.abc import Mapping

from kvsweep.errors import InputError
from kvsweep.gpu.batches import SHORTEST_REQUEST, Ranges
from kvsweep.gpu.counts import KV_BYTES
from kvsweep.gpu.machine import Machine
from kvsweep.gpu.shard import Shard
from kvsweep.gpu.torch_load import layer_bytes
from kvsweep.limits import MAX_BATCHED_TOKENS
from kvsweep.sizing.defaults import UTILIZATION
from kvsweep.sizing.gpus import Gpu
from kvsweep.sizing.sizes import GIB

LONGEST = 32768
"""Tokens of a request at most; longer ones are extrapolated unless asked for."""

OF_PROCESSOR = Ranges(512, 32, 2048, 16384)
"""On a processor, which is measured to try this out."""

QUICK = Ranges(2048, 256, 8192, 131072)
"""At most, where it is to be quick."""


def usual_ranges(
    shard: Shard,
    machine: Machine,
    longest: int,
    *,
    fp8: bool,
    quick: bool,
    given: Mapping[str, int],
) -> Ranges:
    """Return the ranges.

    Parameters
    ----------
    shard : Shard
        One GPU's part of a model.
    machine : Machine
        What is measured.
    longest : int
        Tokens of the longest request of the model.
    fp8 : bool
        Whether weights have 8 bits.
    quick : bool
        Whether they are to be small.
    given : mapping of str to int
        Of `Ranges`, what the user says.

    Raises
    ------
    InputError
        If the model does not fit on its GPUs, or what is given is out of range.
    """
    if machine.device.type == "cuda":
        usual = Gpu(machine.name, machine.memory, 0, 0, "", a100=machine.gpu.startswith("a100"))
        defaults = usual.defaults()
        found = {
            "max_num_batched_tokens": defaults.max_num_batched_tokens,
            "max_num_seqs": defaults.max_num_seqs,
            "max_model_len": min(longest, LONGEST),
        }
        if "pool_tokens" not in given:
            if shard.state_bytes and "max_num_seqs" not in given:
                found["max_num_seqs"] = _kept(shard, machine, fp8, defaults.max_num_seqs)
            seqs = given.get("max_num_seqs", found["max_num_seqs"])
            found["pool_tokens"] = _pool(shard, machine, fp8, seqs)
    else:
        found = {**vars(OF_PROCESSOR), "max_model_len": min(longest, OF_PROCESSOR.max_model_len)}
    if quick:
        found = {key: min(value, getattr(QUICK, key)) for key, value in found.items()}
    pool = {**found, **given}["pool_tokens"]
    if "pool_tokens" not in given:
        _check_fits(given.get("max_model_len", 0), pool)
    # The longest request must fit; a pool that is too small for any is told as such.
    found["max_model_len"] = min(found["max_model_len"], max(pool, SHORTEST_REQUEST))
    return Ranges(**{**found, **given})


def _check_fits(longest: int, pool: int) -> None:
    """Refuse a longest request that is given and does not fit: a shorter one would be measured."""
    if longest > pool:
        raise InputError(
            f"--max-model-len: {longest:,}; the KV cache has {pool:,} tokens: give at most that, "
            f"or --pool-tokens {longest} if there is memory for it"
        )


def _weights(shard: Shard, fp8: bool) -> int:
    layers = sum(kind.layers * layer_bytes(shard, kind, fp8) for kind in shard.kinds)
    return layers + 2 * shard.hidden * shard.vocab * KV_BYTES


def _kept(shard: Shard, machine: Machine, fp8: bool, most: int) -> int:
    """Return of how many requests half of the cache keeps the states, `most` at most."""
    room = UTILIZATION * machine.memory - _weights(shard, fp8)
    return max(2, min(most, int(room / 2 / shard.state_bytes)))


def _pool(shard: Shard, machine: Machine, fp8: bool, seqs: int) -> int:
    """Return the tokens that one GPU's cache holds beside its weights and `seqs` states."""
    weights = _weights(shard, fp8)
    room = UTILIZATION * machine.memory - weights - seqs * shard.state_bytes
    tokens = int(room / (shard.attending * shard.token_channels * KV_BYTES))
    if tokens < 1024:
        kept = seqs * shard.state_bytes / GIB
        states = f" and {kept:.1f} of states of {seqs:,} requests" if kept else ""
        raise InputError(
            f"{machine.name}: one GPU's part of {shard.model} at --tp {shard.tp} has "
            f"{weights / GIB:.1f} GiB of weights{states}, which leave no room for a KV cache in "
            f"{machine.memory / GIB:.1f} GiB; more --tp, or --pool-tokens to measure it anyway"
        )
    return min(tokens, MAX_BATCHED_TOKENS)
