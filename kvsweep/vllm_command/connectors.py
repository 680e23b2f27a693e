"""The connectors of a command: one, or several by MultiConnector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvsweep.errors import shown
from kvsweep.vllm_command.offload import CONNECTOR as TIER
from kvsweep.vllm_command.offload import TRANSFER, check_config
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command

LINKS = ("NixlConnector", "NixlPullConnector")
"""Those whose decode instances pull, as `[cluster] prefill, decode` has it."""

SEVERAL = "MultiConnector"
_EXTRA = "kv_connector_extra_config"


def connectors_of(values: Values) -> list[dict[str, Any]]:
    """Return the configurations of the connectors of a command, in the order they are asked in.

    Parameters
    ----------
    values : Values
        Of the command.

    Raises
    ------
    InputError
        If ``--kv-transfer-config`` cannot be read.
    """
    table = values.table(TRANSFER)
    if table is None or table.get("kv_connector") != SEVERAL:
        return [] if table is None else [table]
    check_config(values, table)
    several = table.get(_EXTRA)
    found = several.get("connectors") if isinstance(several, dict) else None
    if not isinstance(found, list) or not found or not all(isinstance(it, dict) for it in found):
        told = f"{_EXTRA}.connectors: {shown(found)}; expected a list of objects, one a connector"
        raise values.problem(TRANSFER, told)
    for each in found:
        check_config(values, each)
    return found


def link_of(values: Values) -> dict[str, Any] | None:
    """Return the configuration of the connector that hands blocks on, or pulls; None: none does.

    `values` as `connectors_of` takes them.
    """
    found = connectors_of(values)
    return next((each for each in found if each.get("kv_connector") in LINKS), None)


def by_itself(command: Command) -> Command:
    """Return a command as that of a server by itself: with its CPU tier, without its link.

    Parameters
    ----------
    command : Command
        What starts it.

    Raises
    ------
    InputError
        If there is another connector beside, or the tier is asked before a decode instance pulls.
    """
    values = Values(command)
    found = connectors_of(values)
    others = [each for each in found if each.get("kv_connector") not in LINKS]
    for each in others:
        if each.get("kv_connector") != TIER:
            told = f"{shown(each.get('kv_connector'))} beside NixlConnector is not simulated"
            raise values.problem(TRANSFER, f"{told}; leave it out to go on without it")
    if len(others) > 1 or len(found) - len(others) > 1:
        raise values.problem(TRANSFER, "two connectors of a kind: is not simulated")
    if others and found[0] in others and _may_pull(values, found):
        told = f"{TIER} before NixlConnector: a decode instance would load from its tier before"
        raise values.problem(TRANSFER, f"{told} it pulls; simulated is the other order")
    values_left = {
        option: others[0] if option.name == f"--{TRANSFER}" else it
        for option, it in command.values.items()
        if option.name != f"--{TRANSFER}" or others
    }
    return replace(command, values=values_left)


def _may_pull(values: Values, found: list[dict[str, Any]]) -> bool:
    """Return whether a server may be one that pulls: it is not told that it only prefills."""
    table = values.table(TRANSFER) or {}
    told = (table, *(each for each in found if each.get("kv_connector") in LINKS))
    return all(each.get("kv_role") != "kv_producer" for each in told)
