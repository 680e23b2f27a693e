"""What `kvsweep measure gpu` measures and where, as its options say: refused before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.cli.gpu_options import ADDED
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.config.added_terms import Added
    from kvsweep.gpu.batches import Plan
    from kvsweep.gpu.machine import Machine
    from kvsweep.gpu.shard import Shard


def asked_shard(model: str, tp: int) -> tuple[str, Shard]:
    """Return a short name of the model, and one GPU's part of it."""
    from kvsweep.gpu.shard import shard_of
    from kvsweep.sizing.shapes import load_config

    config, where, source = load_config(model)
    name = where
    if source is None:
        path = Path(where).resolve()
        name = path.parent.name if path.name == "config.json" else path.stem
    return name or "model", shard_of(config, where, tp)


def check_preset(out: Path | None) -> None:
    """Refuse, before anything is measured, to write where nothing can be, or over other files."""
    from kvsweep.calibrate.step_results import HEADER

    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    if out is None or not out.is_file():
        return
    with out.open("rb") as file:
        if file.read(len(HEADER)) != HEADER.encode():
            raise InputError(
                f"--out {out}: is there and was not written by `kvsweep measure gpu`: it is kept"
            )


def check_added(out: Path | None, added: Added, options: dict[str, Any]) -> None:
    """Refuse to replace what was edited in a preset, unless its option says what it shall have.

    What a preset adds was not measured, and its first line asks to edit it.
    """
    from kvsweep.config.added_terms import Added
    from kvsweep.config.base import KeyProblem
    from kvsweep.config.preset import load_preset

    if out is None or not out.is_file():
        return
    try:
        had = load_preset(str(out.absolute()), Path()).added or Added()  # the table was deleted
    except KeyProblem as problem:
        raise InputError(f"--out: {problem}; mend it, or name another file") from None
    for name, option in ADDED.items():
        value, usual = getattr(had, name), getattr(added, name)
        if value != usual and options[option.strip("-").replace("-", "_")] is None:
            raise InputError(
                f"--out {out}: its {name} is {value:g}, and would be {usual:g}: it is kept; say "
                f"what to write ({option}), or name another file"
            )


def asked_plan(
    shard: Shard, model: str, machine: Machine, fp8: bool, options: dict[str, Any]
) -> Plan:
    """Return the batches to measure."""
    from kvsweep.gpu.asked_ranges import usual_ranges
    from kvsweep.gpu.batches import plan
    from kvsweep.sizing.shapes import load_model

    quick = options["quick"]
    keys = ("max_num_batched_tokens", "max_num_seqs", "max_model_len", "pool_tokens")
    given = {key: options[key] for key in keys if options[key] is not None}
    longest = load_model(model).max_model_len
    ranges = usual_ranges(shard, machine, longest, fp8=fp8, quick=quick, given=given)
    trials = options["trials"] or (3 if quick else 7)
    return plan(ranges, trials=trials, rungs=4 if quick else 6, seed=options["seed"])


def stored_steps(path: Path, overwrite: bool) -> xr.Dataset | None:
    """Return the measurement that is there to go on with."""
    from kvsweep.gpu.step_store import FORMAT, MAKER
    from kvsweep.store import check_replaceable, open_dataset

    check_replaceable(path, FORMAT)
    return open_dataset(path, FORMAT, MAKER) if path.exists() and not overwrite else None


def about_model(name: str, shard: Shard, dtype: str) -> dict[str, Any]:
    """Return what a store says of the model."""
    from kvsweep.gpu.counts import KV_BYTES, experts_weights, step_counts, window_counts

    weight_bytes = 1.0 if dtype == "fp8" else 2.0
    counts = step_counts(shard, weight_bytes)
    inside = window_counts(shard)
    return {
        "model": name,
        "model_layers": shard.layers,
        "tp": shard.tp,
        "dtype": dtype,
        "kv_bytes_per_token": shard.attending * shard.token_channels * KV_BYTES * shard.tp,
        "step_flops": [float(value) for value in counts.flops],
        "step_bytes": [float(value) for value in counts.bytes],
        "experts_share": _experts_share(shard),
        "experts_bytes": experts_weights(shard) * weight_bytes,
        "window": inside.window,
        "window_flops": [float(value) for value in inside.flops],
        "window_bytes": [float(value) for value in inside.bytes],
    }


def _experts_share(shard: Shard) -> float:
    """Return the share of experts that a token is sent to; 0 if every step reads all there are."""
    of = shard.experts
    return of.chosen / of.count if of and of.chosen < of.count else 0.0
