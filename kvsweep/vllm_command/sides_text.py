"""What there is to say and to ask of two sides of a cluster, prefill and decode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kvsweep.config.pools import ROLES
from kvsweep.config.transfer import pull_tokens_per_us
from kvsweep.vllm_command.nixl import notes_of_connector
from kvsweep.vllm_command.sides import COUNT, Side

_USUAL_GB_PER_S = 25.0
_BY_LOG = "--log takes those of the server's own log"


def link_asked(sides: Mapping[str, Side]) -> str:
    """Return the question for the link between both sides, with what it would be in tokens.

    Parameters
    ----------
    sides : mapping of str to Side
        Both. A token has the most bytes on a GPU of the side with fewer GPUs, whose links are the
        narrow ones.
    """
    rates = {
        role: pull_tokens_per_us(_USUAL_GB_PER_S, side.scenario, Path())
        for role, side in sides.items()
    }
    told = {role: rate for role, rate in rates.items() if rate is not None}
    known = ""
    if told:
        role = min(told, key=lambda each: told[each])
        whose = "" if len(set(told.values())) == 1 else f" of {role}"
        known = f" ({told[role]:.3g}: {_USUAL_GB_PER_S:g} GB/s, or 200 Gbit/s, for each GPU{whose})"
    return (
        "no command tells the link from prefill to decode: give "
        f"--set cluster.kv_transfer_bandwidth=N, tokens per microsecond{known}"
    )


def notes_of_sides(sides: Mapping[str, Side], *, decided: bool = False) -> list[str]:
    """Return what there is to say of the sides; what is of one is told to be of it.

    Parameters
    ----------
    sides : mapping of str to Side
        Both.
    decided : bool
        Whether it is told which requests are prefilled apart.
    """
    found: dict[str, list[str]] = {}
    for role, side in sides.items():
        for note in (*side.notes, *notes_of_connector(side.command)):
            found.setdefault(note, []).append(role)
    both = [note for note, of in found.items() if len(of) > 1 and COUNT not in note]
    apart = [
        f"{role}: {_of_side(note, role)}"
        for role in ROLES
        for note, of in found.items()
        if role in of and note not in both
    ]
    decider = "all requests go to a prefill instance first; a decider that lets short ones stay is "
    own = "--set cache.gpu_blocks=N takes those of their logs"
    alike = [note.replace(_BY_LOG, own) for note in both]
    asked = () if decided else (f"{decider}--set cluster.pd_uncached_token_threshold=N",)
    return [*apart, *alike, *asked]


def _of_side(note: str, role: str) -> str:
    """Return a note with the keys that a side has in place of those of all instances."""
    own = f"--set cluster.{role}.gpu_blocks=N takes those of its log"
    note = note.replace(_BY_LOG, own)
    if role == "prefill":
        note = re.sub(r"latency\.model = (\S+)", r"latency = { model = \1 } there", note)
    return note.replace(COUNT, f"cluster.{role}.instances")
