"""The dataset of an experiment: dimensions size, condition, trial; filled trial by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep._version import __version__
from kvsweep.llama.design import CONDITIONS, Cell, Design
from kvsweep.llama.prompts import PROMPTS, WARMUP, Prompt
from kvsweep.llama.runtime import Runtime
from kvsweep.llama.trial import TrialResult
from kvsweep.metrics import Variable

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "kvsweep-prefix/1"

_TITLE = "KV cache: what losing a prefix costs"
_QUESTION = "How long is the first token in coming when A is removed from [A, B, Q]?"

_DIMS = ("size", "condition", "trial")
TRIAL_VARIABLES = tuple(
    Variable(name, _DIMS, dtype, units, meaning)
    for name, dtype, units, meaning in (
        ("warmup_time_ms", "float64", "ms", "time to fill the cache with [A, B]"),
        ("ttft_ms", "float64", "ms", "time to first token"),
        ("total_time_ms", "float64", "ms", "time of the whole output, its prompt cached"),
        ("throughput_tok_s", "float64", "token/s", "throughput of the output"),
        ("prompt_tokens", "int64", "token", "length of the prompt"),
        ("computed_tokens", "int64", "token", "prompt tokens computed before the first token"),
        ("completion_tokens", "int64", "token", "length of the output"),
        ("early_eos", "int64", "1", "1 if the output ended before its full length"),
        ("finish_reason", "str", "1", "length: full length; stop: the model ended it"),
    )
)
POSITION = Variable("position", _DIMS, "int64", "1", "place of the trial in the order of running")

_PROMPT = ("size", "prompt")
PROMPT_VARIABLES = (
    Variable("token_count", _PROMPT, "int64", "token", "tokens of the prompt as sent"),
    Variable(
        "text_tokens", _PROMPT, "int64", "token", "tokens that the tokenizer makes of the text"
    ),
    Variable("prompt_text", _PROMPT, "str", "1", "the prompt as text"),
    Variable("sample_output", _PROMPT, "str", "1", "output of the first trial as text"),
)

_A = Variable("context_a", ("size",), "int64", "token", "context A, removed in a miss")
_B = Variable("context_b", ("size",), "int64", "token", "context B, kept")


def template(
    design: Design, attributes: Mapping[str, Any], prompts: Sequence[Mapping[str, Prompt]]
) -> xr.Dataset:
    """Return the dataset before the first trial: NaN, -1 or an empty string everywhere.

    Parameters
    ----------
    design : Design
    attributes : mapping
        Of the runtime.
    prompts : sequence of mapping of str to Prompt
        Of each size.
    """
    import xarray as xr

    sizes = {"size": len(design.sizes), "condition": 2, "trial": design.trials, "prompt": 3}
    ds = xr.Dataset(attrs=_attributes(design, attributes))
    for variable in (*TRIAL_VARIABLES, POSITION, *PROMPT_VARIABLES):
        shape = tuple(sizes[dim] for dim in variable.dims)
        ds[variable.name] = _array(variable, np.full(shape, _missing(variable), _dtype(variable)))
    ds = ds.assign_coords(
        size=("size", _text([size.label for size in design.sizes]), _about("contexts A:B")),
        condition=("condition", _text(CONDITIONS), _about("prompt: hit [A, B, Q] or miss [B, Q]")),
        trial=("trial", np.arange(1, design.trials + 1), _about("repetition")),
        prompt=("prompt", _text(PROMPTS), _about("prompt: warmup is [A, B]")),
        context_a=_array(_A, np.array([size.a for size in design.sizes])),
        context_b=_array(_B, np.array([size.b for size in design.sizes])),
    )
    for i, of_size in enumerate(prompts):
        for k, name in enumerate(PROMPTS):
            ds["token_count"][i, k] = len(of_size[name].tokens)
            ds["text_tokens"][i, k] = of_size[name].text_tokens
            ds["prompt_text"][i, k] = of_size[name].text
    return ds


def fill(ds: xr.Dataset, cell: Cell, trial: TrialResult, position: int, runtime: Runtime) -> None:
    """Enter the results of one trial."""
    for variable in TRIAL_VARIABLES:
        ds[variable.name].values[cell] = getattr(trial, variable.name)
    ds[POSITION.name].values[cell] = position
    if cell.trial == 0:
        samples = ds["sample_output"].values[cell.size]
        samples[PROMPTS.index(CONDITIONS[cell.condition])] = runtime.detokenize(trial.output)
        samples[PROMPTS.index(WARMUP)] = runtime.detokenize(trial.warmup_output)


def _attributes(design: Design, runtime: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "title": _TITLE,
        "question": _QUESTION,
        **runtime,
        "query_tokens": design.query,
        "output_tokens": design.output,
        "pause_ms": 1e3 * design.pause_s,
        "seed": design.seed,
        "kvsweep": __version__,
    }


def _array(variable: Variable, values: Any) -> tuple[tuple[str, ...], Any, dict[str, str]]:
    attributes = {"units": variable.units, "long_name": variable.long_name}
    return variable.dims, values, attributes


def _about(long_name: str) -> dict[str, str]:
    return {"units": "1", "long_name": long_name}


def _dtype(variable: Variable) -> str:
    return "object" if variable.dtype == "str" else variable.dtype


def _missing(variable: Variable) -> Any:
    return "" if variable.dtype == "str" else variable.missing


def _text(names: Sequence[str]) -> Any:
    return np.array(names, dtype=object)
