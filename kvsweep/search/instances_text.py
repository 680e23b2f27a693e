"""What is to be known of a command that starts an instance: of several, and of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.fleet import fleet, has_pools
from kvsweep.errors import InputError
from kvsweep.search.server_model import blocks_follow, model_name, other_layers
from kvsweep.sizing.gpus import find_gpu
from kvsweep.sizing.model import Model
from kvsweep.sizing.settings import refused_block
from kvsweep.sizing.shapes import load_model
from kvsweep.sizing.sizes import GIB

if TYPE_CHECKING:
    from kvsweep.config import Scenario

ALIKE = 0.05
"""Share by which weights that a log tells may differ from those that are counted."""


def served_model(scenario: Scenario, folder: Path) -> Model | None:
    """Return the model of a scenario; None where nothing tells it."""
    name = model_name(scenario, folder)
    if scenario.model is not None and scenario.model.config is not None:
        name = str(folder / scenario.model.config)
    try:
        return load_model(name)
    except InputError:
        return None


def instances_text(scenario: Scenario, folder: Path) -> str:
    """Say how the instances of a scenario, several without pools, are started.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    count, routing = scenario.cluster.instances, scenario.cluster.routing
    model, option = served_model(scenario, folder), f"--data-parallel-size {count}"
    if share_experts(scenario, folder):
        return f"one server, whose {count} instances share the experts (here {routing})"
    if model is None or not model.experts:
        return (
            f"{count} such servers behind a router (here {routing}); one command with {option} "
            "balances as vLLM does"
        )
    return (
        f"{count} such servers behind a router (here {routing}); instances of one command with "
        f"{option} would share the experts, and have other blocks and step times"
    )


def attention_text(scenario: Scenario, folder: Path) -> str | None:
    """Say that the blocks of a server are others than those simulated; None if they are not.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    shape = other_layers(scenario, folder)
    if shape is None or blocks_follow(scenario):
        return None
    blocks = ", ".join(f"{pool.gpu_blocks:,}" for pool in fleet(scenario))
    return (
        f"{blocks} blocks of full attention were simulated; the model has other layers too: those "
        f"of the command hold as many requests of {shape.limits.max_model_len:,} tokens, and fewer "
        "shorter ones"
    )


def block_text(scenario: Scenario, folder: Path) -> str | None:
    """Say that no attention of vLLM's takes blocks of so many tokens; None if one does.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    model, asked = served_model(scenario, folder), scenario.model
    gpu = None if asked is None or asked.gpu is None else find_gpu(asked.gpu)
    latent = model is not None and model.is_latent
    return refused_block(scenario.cache.block_size, latent, gpu)


def weights_text(scenario: Scenario, folder: Path) -> str | None:
    """Say that a server loads other weights than the sweep has; None if it does not.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    model, asked = served_model(scenario, folder), scenario.model
    if asked is None or asked.weights_gib is None or model is None or model.weights is None:
        return None
    if share_experts(scenario, folder):
        return None
    whole = model.weights.of_instance(asked.tp, 1) / GIB
    if abs(asked.weights_gib - whole) <= ALIKE * whole:
        return None
    told = f"model.weights_gib = {asked.weights_gib:,.12g}: a server of the command loads"
    blocks = ", and has other blocks" if blocks_follow(scenario) else ""
    return f"{told} {whole:,.1f} GiB{blocks}"


def share_experts(scenario: Scenario, folder: Path) -> bool:
    """Return whether instances have the weights of such as share the experts, as vLLM's do.

    Parameters
    ----------
    scenario : Scenario
        Of a sweep.
    folder : Path
        Where its file names start from.
    """
    asked, count = scenario.model, scenario.cluster.instances
    if count == 1 or asked is None or asked.weights_gib is None or has_pools(scenario):
        return False
    model = served_model(scenario, folder)
    if model is None or model.weights is None or not model.experts:
        return False
    part = model.weights.of_instance(asked.tp, count) / GIB
    return abs(asked.weights_gib - part) <= ALIKE * part
