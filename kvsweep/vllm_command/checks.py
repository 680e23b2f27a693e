"""What vLLM itself, or a simulation, makes of a model with the options of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kvsweep.errors import InputError, escaped, shown
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.dtypes import cache_dtype
from kvsweep.sizing.raising import state_bytes, tells_checkpoints
from kvsweep.sizing.settings import Served
from kvsweep.sizing.shapes import load_model
from kvsweep.vllm_command.offload import SIZE, TRANSFER
from kvsweep.vllm_command.options import options
from kvsweep.vllm_command.values import ONE_GROUP, Values

_RUNS = {"half": "float16", "float16": "float16", "bfloat16": "bfloat16"}
"""Values of ``--dtype`` with 16 bits."""

EXECUTOR, LAUNCHER = "distributed-executor-backend", "external_launcher"

_OPTIONS = {
    "--tp": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--dtype": "--kv-cache-dtype",
    "--utilization": "--gpu-memory-utilization",
    "--kv-memory": "--kv-cache-memory-bytes",
    "model.tp =": "--tensor-parallel-size",
    "model.utilization": "--gpu-memory-utilization",
    "model.gpu": "--gpu",
    "engine.max_num_batched_tokens": "--max-num-batched-tokens",
    "give latency.model": "give --set latency.model=...",
    "transfers is not known; give": "transfers is not known; give by --set",
    "as model.weights_gib = ": "as --set model.weights_gib=",
}
"""What those of ``kvsweep blocks``, and keys of a sweep, are called in a command of vLLM."""
_NAMED = rf"(?<![\w.-])(?<!--set )(?:{'|'.join(map(re.escape, _OPTIONS))})(?![A-Za-z_-]| \()"
# Values that a message quotes stay as they are.
_QUOTED = r"(?<!\w)'[^']*'|\"[^\"]*\""


@contextmanager
def said_of_the_command(where: str, model: str = "") -> Iterator[None]:
    """Say what is wrong with a model and its settings by the options of the command.

    Parameters
    ----------
    where : str
        What the command is called in messages.
    model : str
        Name of the model or its file, which stays as it is.
    """
    try:
        yield
    except InputError as error:
        own = rf"{re.escape(escaped(model))}|" if re.search(_NAMED, model) else ""
        told = re.sub(
            rf"{own}{_QUOTED}|{_NAMED}", lambda found: _OPTIONS.get(found[0], found[0]), str(error)
        )
        ours = told.startswith(("--gpu", "--model", "--log", "--set", "--acceptance"))
        here = ours or not told.startswith("--")
        raise InputError(told if here else f"{where}: {told}") from None


def kept_dtype(values: Values, model: str) -> str | None:
    """Return the data type of keys and values; None: not given.

    Those of 16 bits are the data type that the model runs in, which ``--dtype`` may change: then it
    is that of the checkpoint here, which is as wide.

    Parameters
    ----------
    values : Values
        Of the options.
    model : str
        What `load_model` takes.

    Raises
    ------
    InputError
        If it is another one of 16 bits than that of ``--dtype``.
    """
    given, runs = values.text("kv-cache-dtype"), _RUNS.get(values.text("dtype") or "")
    if runs is None or given not in _RUNS:
        return given
    if _RUNS[given] != runs:
        told = f"{given}; with --dtype {values.text('dtype')} vLLM takes {runs} or auto, or 8 bits"
        raise values.problem("kv-cache-dtype", told)
    return cache_dtype("auto", load_model(model).dtype)


def check_served(values: Values, served: Served) -> None:
    """Refuse what decides something that is not known.

    Raises
    ------
    InputError
        If blocks follow from the attention that is chosen, layers of several kinds are to be in one
        group, a pipeline has what is not simulated of one, or a threshold is longer than requests.
    """
    for option in ("attention-backend", "attention-config"):
        if values.given(option) and served.model.is_latent and served.asked.block_size is None:
            told = "the size of blocks follows from it, with latent attention: give --block-size"
            raise values.problem(option, told)
    _check_states(values, served)
    _check_groups(values, served)
    _check_pipeline(values, served)
    threshold, longest = (
        values.whole("long-prefill-token-threshold") or 0,
        served.limits.max_model_len,
    )
    if threshold > longest:
        most = f"{threshold:,}; vLLM takes at most the {longest:,} tokens of the longest request"
        raise values.problem("long-prefill-token-threshold", most)


_OF_STATES = {
    "gdn-prefill-backend": "gdn_prefill",
    "mamba-cache-dtype": "mamba_dtype",
    "mamba-ssm-cache-dtype": "mamba_ssm_dtype",
}


def _check_states(values: Values, served: Served) -> None:
    """Refuse other states than those of the model on its GPU, which ``[model]`` has no keys for."""
    if served.state is None:
        return
    for option, key in _OF_STATES.items():
        if (value := values.text(option)) is None:
            continue
        change: dict[str, Any] = {key: value}
        asked = replace(served.asked, **change)
        told = tells_checkpoints(served.model, asked, None) or not served.state.checkpoint
        if not told or state_bytes(served.model, asked) != served.state.size:
            raise values.problem(
                option,
                f"{shown(value)} keeps other states than a sweep computes of {served.model.name}; "
                "leave it out, and give by --set the blocks, block size and groups that `kvsweep "
                "blocks` tells with it",
            )


def _check_groups(values: Values, served: Served) -> None:
    """Refuse layers of several kinds in one group; those of full attention are in one anyway."""
    if not values.switch(ONE_GROUP):
        return
    groups = layout(served).groups
    layers = (page.layer for group in groups for page in group.pages)
    alike = all(layer.window is None and layer.state is None for layer in layers)
    if len(groups) > 1 or not alike or any(map(values.given, _DRAFTS)):
        told = options()[f"--{ONE_GROUP}"].why
        raise values.problem(ONE_GROUP, f"{told}; leave it out to go on without it")


_DRAFTS = ("speculative-config", "spec-method")
_NOT_IN_A_PIPELINE = (SIZE, TRANSFER)


def _check_pipeline(values: Values, served: Served) -> None:
    """Refuse what is not simulated of a pipeline, and what vLLM has none with."""
    if served.asked.pp == 1:
        return
    if found := next(filter(values.given, _NOT_IN_A_PIPELINE), None):
        told = "not simulated beside --pipeline-parallel-size; leave out one of the two"
        raise values.problem(found, told)
    drafts = next(filter(values.given, _DRAFTS), None)
    if drafts and not served.asked.async_scheduling:
        told = "simulated beside --pipeline-parallel-size with asynchronous scheduling only"
        raise values.problem(drafts, f"{told}; leave out one of the two")
    if values.text(EXECUTOR) == "uni":
        raise values.problem(EXECUTOR, "'uni'; vLLM takes ray, mp or external_launcher with -pp")
    if values.switch("async-scheduling") and (option := older_runner(values)) is not None:
        told = f"vLLM refuses it in a pipeline with {option}; leave out one of the two"
        raise values.problem("async-scheduling", told)


def older_runner(values: Values) -> str | None:
    """Return the option by which vLLM runs a pipeline as it did before, not asynchronously.

    That is by its first model runner (``_get_v2_model_runner_unsupported_features``); None: the
    second one runs it, or there is no pipeline.
    """
    if (values.whole("pipeline-parallel-size") or 1) == 1:
        return None
    if values.text(EXECUTOR) == LAUNCHER:
        return f"--{EXECUTOR} {LAUNCHER}"
    if values.switch("enable-dbo"):
        return "--enable-dbo"
    return "--ubatch-size" if (values.whole("ubatch-size") or 0) > 1 else None
