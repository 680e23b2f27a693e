"""Speculative decoding of a command: ``engine.speculative``."""

from __future__ import annotations

from typing import Any

from kvsweep.errors import InputError, shown
from kvsweep.vllm_command.values import Values

OPTION = "speculative-config"
EAGLE = ("eagle", "eagle3", "mtp")
"""Methods whose block keys look a token ahead (``SpeculativeConfig.use_eagle``)."""

# What changes neither which tokens are scheduled nor which are accepted by the shares given.
_IDLE = (
    "attention_backend", "code_revision", "draft_sample_method", "draft_tensor_parallel_size",
    "draft_lm_head_quantization", "enforce_eager", "max_model_len", "model", "moe_backend",
    "quantization", "revision",
)  # fmt: skip


def drafts(values: Values, acceptance: tuple[float, ...]) -> dict[str, Any]:
    """Return ``engine.speculative`` of a command; empty if it drafts nothing.

    Parameters
    ----------
    values : Values
        Of its options.
    acceptance : tuple of float
        Shares of drafts that are accepted: one, or by position.

    Raises
    ------
    InputError
        If the method is not simulated, or nothing tells how many drafts are accepted.
    """
    table = _table(values)
    if not table:
        if acceptance:
            raise InputError("--acceptance: has no effect: the command drafts nothing")
        return {}
    count, method = table.pop("num_speculative_tokens", None), _method(values, table)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        told = "missing" if count is None else shown(count)
        raise values.problem(OPTION, f"num_speculative_tokens: {told}; a whole number from 1 on")
    if other := next((key for key, value in table.items() if value and key not in _IDLE), None):
        raise values.problem(
            OPTION, f"{other}: what it does is not simulated; leave it out to go on without it"
        )
    if not acceptance:
        raise InputError(
            "--acceptance: missing: no command tells how many drafts are accepted; vLLM's log has "
            "'Per-position acceptance rate: 0.7, 0.5, ...', or give one share, as 0.7"
        )
    if len(acceptance) not in (1, count):  # those beyond a list would never be accepted
        told = f"{len(acceptance)} shares for {count} drafts"
        raise InputError(f"--acceptance: {told}; give one, or one for each position")
    share = acceptance[0] if len(acceptance) == 1 else list(acceptance)
    return {"tokens": count, "method": method, "acceptance": share}


def may_draft(values: Values) -> bool:
    """Return whether a command says anything of drafts.

    Parameters
    ----------
    values : Values
        Of its options.
    """
    return bool(_table(values))


def dropped(drafted: dict[str, Any], tier: dict[str, Any]) -> list[str]:
    """Say what EAGLE and MTP lose beside a CPU tier, if both are there (rule R13.8)."""
    if tier and drafted.get("method") == "eagle":
        return ["beside a CPU tier a hit does without its last block where EAGLE or MTP draft"]
    return []


def _table(values: Values) -> dict[str, Any]:
    table = values.table(OPTION) or {}
    for name, key in (("spec-method", "method"), ("spec-model", "model")):
        if (text := values.text(name)) is not None:
            table[key] = text
    if (count := values.whole("spec-tokens")) is not None:
        table["num_speculative_tokens"] = count
    return table


def _method(values: Values, table: dict[str, Any]) -> str:
    method = str(table.pop("method", None) or "")
    if method in EAGLE or method.endswith("_mtp"):
        return "eagle"
    if method == "draft_model":
        return "draft"
    if method:
        raise values.problem(
            OPTION, f"method: {shown(method)} is not simulated; {', '.join(EAGLE)} and "
            "draft_model are"
        )  # fmt: skip
    raise values.problem(
        OPTION, "method: missing: vLLM finds it in the draft model's files; give eagle, eagle3, "
        "mtp or draft_model"
    )  # fmt: skip
