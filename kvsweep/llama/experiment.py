"""The whole experiment, and what is kept of it when it is interrupted."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kvsweep.llama.dataset import fill, template
from kvsweep.llama.design import CONDITIONS, Design
from kvsweep.llama.prompts import Prompt, build_prompts
from kvsweep.llama.runtime import Runtime
from kvsweep.llama.trial import run_trial

if TYPE_CHECKING:
    import xarray as xr


def measure_prefix(
    runtime: Runtime,
    design: Design,
    *,
    keep: Callable[[xr.Dataset], None] = lambda ds: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> xr.Dataset:
    """Run all trials of `design`.

    Parameters
    ----------
    runtime : Runtime
    design : Design
    keep : callable
        Called with the dataset before each repetition, so that what cannot be stored is known in
        time, and at the end, however that comes.
    progress : callable
        Called with the trials done and all trials.

    Returns
    -------
    Dataset
        Dimensions size, condition, trial (`kvsweep.llama.dataset`).

    Raises
    ------
    InputError
        If the model's tokenizer makes no such prompts, or the runtime fails.
    """
    prompts = [build_prompts(runtime, design, size) for size in design.sizes]
    ds = template(design, runtime.attributes, prompts)
    per_repetition = design.count // design.trials
    with _no_collections():
        _rehearse(runtime, prompts[0], design)
        try:
            for done, cell in enumerate(design.order()):
                if done % per_repetition == 0:
                    keep(ds)
                progress(done, design.count)
                condition = CONDITIONS[cell.condition]
                trial = run_trial(runtime, prompts[cell.size], condition, design)
                fill(ds, cell, trial, done, runtime)
        finally:
            keep(ds)
    progress(design.count, design.count)
    return ds


def _rehearse(runtime: Runtime, prompts: Mapping[str, Prompt], design: Design) -> None:
    """Run a trial of each condition for nothing: the first touches the weights' memory."""
    for condition in CONDITIONS:
        run_trial(runtime, prompts, condition, replace(design, pause_s=0.0))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the garbage collector out of the timed parts."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
