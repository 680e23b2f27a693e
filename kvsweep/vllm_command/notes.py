"""What a command decides that is not in the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvsweep.errors import shown
from kvsweep.sizing.settings import Served
from kvsweep.vllm_command.step_limits import performance_mode
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command


def notes_of(
    command: Command,
    values: Values,
    served: Served,
    idle: Sequence[str],
    *,
    estimated: bool,
    divided_times: bool,
) -> Iterator[str]:
    """Say what is not in the numbers.

    Parameters
    ----------
    command : Command
        The command.
    values : Values
        Of its options.
    served : Served
        What it serves.
    idle : sequence of str
        Options that decide nothing, as another one or the server's log does.
    estimated : bool
        Whether the blocks are estimated from the memory of a GPU.
    divided_times : bool
        Whether step times are written that know of experts which instances share.
    """
    by_role: dict[str, list[str]] = {"times": [], "memory": [], "none": []}
    for option in command.values:
        if option.role in by_role:
            by_role[option.role].append(option.name)
    by_role["none"] += idle
    drafting = values.given("speculative-config") or values.given("spec-method")
    if estimated and drafting:
        yield "the estimate of the blocks knows neither weights nor keys and values of drafts"
    if estimated and by_role["memory"]:
        names = ", ".join(by_role.pop("memory"))
        yield f"neither the estimate of the blocks nor step times know of {names}"
    if slower := [*by_role["times"], *by_role.get("memory", ())]:
        yield f"step times do not know of {', '.join(slower)}"
    if by_role["none"]:
        yield f"without effect here: {', '.join(by_role['none'])}"
    if served.model.experts and (values.whole("data-parallel-size") or 1) > 1:
        yield "instances of a mixture of experts wait for each other in each step, here they do not"
        if divided_times:
            yield (
                "step times are computed, as if all instances had as many tokens; what they "
                "exchange for the experts is left out"
            )
        if estimated and served.asked.pp > 1:
            yield "the estimate of the blocks takes each instance to have all experts, not a part"
    if performance_mode(values) == "interactivity":
        yield "step times do not know of --performance-mode interactivity"
    generation = values.table("override-generation-config") or {}
    if (most := generation.get("max_new_tokens")) is not None:
        count = shown(most).strip("'")
        told = f"the server ends answers after {count} tokens, here requests say"
        yield f"--override-generation-config: {told}: workload.clip = {{ output = ... }} of a trace"
    if own := [name for name in command.variables if name.startswith("VLLM_")]:
        yield f"variables of the environment are not read: {', '.join(own)}"
