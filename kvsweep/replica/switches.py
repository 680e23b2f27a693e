"""The reference's rules that can be switched: what changed between its commits, and its defects.

The published runs were made at two commits of the reference simulator (inference-sim, February
2026). Every rule in which the two differ, and every defect that can be repaired on its own, is one
named flag here. The numbers D0 to D14 name the defects throughout the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from kvsweep.errors import InputError, did_you_mean


def _switch(default: bool, name: str, effect: str) -> bool:
    """Declare one switch: its value at commit B as shipped, defect or commit, and its effect."""
    value: bool = field(default=default, metadata={"name": name, "effect": effect})
    return value


@dataclass(frozen=True)
class Switches:
    """The rule switches of one run; the defaults are commit B as shipped.

    The names are those of ``engine.blis`` in a scenario. `describe` lists each with its effect.
    """

    visit_evicted: bool = _switch(
        True,
        "D1",
        "Requests evicted during a step stay in that step's scheduling loop: they get blocks while "
        "queued, and evict the batch down to nothing because they are never its tail.",
    )
    rollback_keeps_table: bool = _switch(
        False,
        "D0",
        "If off, a failed allocation deletes the request's block table without freeing its blocks: "
        "they are leaked for ever, and the request goes on without its context.",
    )
    step_registers: bool = _switch(
        False,
        "D2",
        "If off, the step that a queued request starts is not registered, so two requests queued "
        "at the same microsecond on an idle instance start two interleaved chains of steps.",
    )
    min_one_new: bool = _switch(
        False,
        "D3",
        "If off, a fully cached prompt is admitted with zero new tokens: its cached blocks are "
        "neither referenced nor counted, and its table starts at the first output token.",
    )
    rollback_keeps_tokens: bool = _switch(
        False,
        "D11",
        "If off, a roll-back restores the key of a block it had taken but not its tokens, so keys "
        "later built on that block are wrong and an offload copies an empty block.",
    )
    e2e_is_completion: bool = _switch(
        False,
        "D4",
        "If off, the reported e2e latency is not the simulated completion: the output overhead is "
        "added per token, the last step twice, and the tokens of attempts lost to preemption too.",
    )
    last_step_occupies: bool = _switch(
        False,
        "D5",
        "If off, the last step of a busy period does not occupy the instance: a request queued "
        "during it starts a step at once, overlapping it.",
    )
    drop_counts_output: bool = _switch(
        False,
        "D6",
        "If off, the check for requests that can never fit looks at the prompt only; one whose "
        "output does not fit preempts itself for ever.",
    )
    retry_within_chunk: bool = _switch(
        False,
        "D7",
        "If off, the second try of an allocation after a reload can start behind its end, where "
        "the reference crashes.",
    )
    transfer_per_block: bool = _switch(
        False,
        "D8",
        "If off, the transfer bandwidth, documented as blocks per microsecond, divides the tokens "
        "of a block; either way it costs one microsecond per block from 16 upwards.",
    )
    router_sees_transfers: bool = _switch(
        False,
        "D9",
        "If off, transfer time is filled and cleared within one step, so no scorer can ever see "
        "it; if on, a snapshot shows the transfers charged to the step under way.",
    )
    entries_keep_owner: bool = _switch(
        False,
        "D10",
        "If off, taking a block removes the lookup entry of its key even if another block with "
        "the same content owns it, and that block can no longer be found.",
    )
    cpu_slots_exact: bool = _switch(
        False,
        "D12",
        "If off, an offload that replaces the CPU entry of the same block takes a slot that is "
        "never given back: the CPU tier fills up with nothing and offloading stops for good.",
    )
    pooled_rates: bool = _switch(
        False,
        "D13",
        "If off, the hit rate is an unweighted mean over instances and the preemption rate is 0 "
        "when nothing completed; if on, blocks are pooled and the rate is undefined (NaN) then.",
    )
    recount_after_fill: bool = _switch(
        True,
        "B",
        "The blocks to take are counted again after tokens went into a partly filled block; "
        "commit A takes as many as counted at first, possibly one that stays empty.",
    )
    rollback_prepends: bool = _switch(
        True,
        "B",
        "A roll-back returns the blocks it had taken to the head of the free list, as they were; "
        "commit A appends them to the tail, last taken first.",
    )
    work_conserving: bool = _switch(
        True,
        "B",
        "A step that leaves nothing running but requests waiting is followed by another; at commit "
        "A the queue stands until the next arrival.",
    )
    drop_unservable: bool = _switch(
        True,
        "B",
        "A request whose prompt needs more blocks than the cache has is dropped on arrival; at "
        "commit A it blocks the queue for ever.",
    )
    step_time_final_batch: bool = _switch(
        True,
        "B",
        "The step time counts the tokens of the batch that runs; commit A also counts tokens "
        "granted to requests that were evicted later in the same step.",
    )
    router_uses_kv_blocks: bool = _switch(
        True,
        "B",
        "The router indexes prompts in KV blocks and `prefix-affinity` routes by the last full "
        "block; commit A uses blocks of 16 tokens and the whole prompt.",
    )


SOUND = {
    "visit_evicted": False,
    "rollback_keeps_table": True,
    "step_registers": True,
    "min_one_new": True,
    "rollback_keeps_tokens": True,
}
"""What repairs D0, D1, D2, D3 and D11 together: the defects that lose blocks, tokens or steps."""


def describe() -> dict[str, tuple[str, str]]:
    """Return ``{switch: (defect or commit that it belongs to, its effect)}``."""
    return {f.name: (f.metadata["name"], f.metadata["effect"]) for f in fields(Switches)}


def from_mapping(values: Mapping[str, object]) -> Switches:
    """Return the switches of an ``engine.blis`` table; absent ones are as shipped at commit B.

    Raises
    ------
    InputError
        If a name is unknown or a value is not a boolean.
    """
    known = list(describe())
    flags: dict[str, bool] = {}
    for name, value in values.items():
        if name not in known:
            raise InputError(f"engine.blis.{name}: unknown switch{did_you_mean(name, known)}")
        if not isinstance(value, bool):
            raise InputError(f"engine.blis.{name}: expected true or false, got {value!r}")
        flags[name] = value
    return Switches(**flags)
