"""What a user asks of the blocks of a model: the options of ``kvsweep blocks``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from kvsweep.sizing.capacity import check_blocks
from kvsweep.sizing.server_log import ServerLog
from kvsweep.sizing.settings import Asked, Served
from kvsweep.sizing.shapes import model_names


@dataclass(frozen=True)
class Question:
    """What the user gives: options of ``kvsweep blocks``; None where one is not given.

    Two are none: `is_raised`, whether the block size is one that a server told, and `known`,
    whether the blocks are known otherwise, so that an estimate which leaves none proves nothing.
    """

    model: str | None = None
    gpu: str | None = None
    kv_memory: str | None = None
    log: Path | None = None
    blocks: int | None = None
    tp: int | None = None
    pp: int | None = None
    dtype: str | None = None
    block_size: int | None = None
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    async_scheduling: bool | None = None
    prefix_caching: bool | None = None
    gdn_prefill: str | None = None
    mamba_dtype: str | None = None
    mamba_ssm_dtype: str | None = None
    is_raised: bool | None = None
    weights: str | None = None
    activation: str | None = None
    known: bool = False

    def asked(self, found: ServerLog | None = None) -> Asked:
        """Return the settings: those given, else those of a log, else vLLM's defaults."""
        said: dict[str, Any] = dict(found.settings) if found else {}
        if found is not None:
            said |= {"block_size": found.block_size, "max_model_len": found.max_model_len}
            said["utilization"] = found.utilization
            said["is_raised"] = found.block_size is not None and self.block_size is None
        keys = (
            *("tp", "pp", "dtype", "block_size", "utilization", "max_model_len"),
            *("max_num_batched_tokens", "max_num_seqs", "async_scheduling"),
            *("prefix_caching", "gdn_prefill", "mamba_dtype", "mamba_ssm_dtype", "is_raised"),
        )
        own = {key: getattr(self, key) for key in keys if getattr(self, key) is not None}
        rest = {key: value for key, value in said.items() if value is not None}
        return Asked(**(rest | own))


def check(question: Question) -> None:
    """Refuse questions that say too little or too much."""
    if question.model is None and question.log is None:
        known = ", ".join(model_names())
        raise InputError(f"--model: missing; a config.json, or one of {known}")
    ways = {"--gpu": question.gpu, "--kv-memory": question.kv_memory, "--log": question.log}
    given = [option for option, value in ways.items() if value is not None]
    if question.blocks is not None:
        check_blocks(question.blocks, "--blocks")
        if extra := [option for option in given if option != "--gpu"]:
            raise InputError(
                f"{extra[0]}: --blocks asks for the memory of blocks; give one of them"
            )
    elif len(given) != 1:
        wrong = f"{' and '.join(given)} together" if given else "missing"
        raise InputError(f"--gpu, --kv-memory, --log: {wrong}; give one of them, or --blocks")
    _check_effects(question)


ON_GPU = ("utilization", "weights", "activation", "max_num_seqs")
"""Options that only tell how a GPU's memory is used."""

OF_MODEL = (
    *("tp", "pp", "dtype", "max_model_len", "max_num_batched_tokens"),
    *("prefix_caching", "gdn_prefill", "mamba_dtype", "mamba_ssm_dtype"),
)
"""Options that only tell how a model is served."""


STATES = ("gdn_prefill", "mamba_dtype", "mamba_ssm_dtype")
"""Options that only tell how states are kept."""

NAMES = {
    "gdn_prefill": "gdn-prefill-backend",
    "mamba_dtype": "mamba-cache-dtype",
    "mamba_ssm_dtype": "mamba-ssm-cache-dtype",
}
"""Options that are not called as their keys."""


def _option(key: str, value: Any) -> str:
    name = NAMES.get(key, key.replace("_", "-"))
    return f"no-{name}" if value is False else name


def _check_effects(question: Question) -> None:
    """Refuse options that change nothing of the answer."""
    idle = [(key, "--gpu") for key in ON_GPU if question.gpu is None]
    idle += [(key, "--model") for key in OF_MODEL if question.model is None]
    for key, needed in idle:
        if (value := getattr(question, key)) is not None:
            raise InputError(f"--{_option(key, value)}: has no effect without {needed}")
    if question.blocks is not None and question.utilization is not None:
        raise InputError("--utilization: has no effect with --blocks, which asks for it")


def refuse_idle_states(question: Question, served: Served) -> None:
    """Refuse options of states that a model does not keep, or not so.

    Raises
    ------
    InputError
        Naming the first that changes nothing.
    """
    has_none = f"has no effect on {served.model.name}, which keeps no"
    for key in (*STATES, "prefix_caching"):
        value = getattr(question, key)
        if value is not None and served.state is None:
            raise InputError(f"--{_option(key, value)}: {has_none} states")
    if question.gdn_prefill is None:
        return
    if served.model.states[0].key is None:
        raise InputError(f"--{NAMES['gdn_prefill']}: {has_none} states of gated delta nets")
    if not served.asked.prefix_caching:
        raise InputError(f"--{NAMES['gdn_prefill']}: has no effect without prefix caching")
