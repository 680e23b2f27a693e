"""What windows and states keep in the prefix cache: ``--prefix-cache-retention-interval``."""

from __future__ import annotations

from kvsweep.config.groups import keeps_some
from kvsweep.config.served_model import cache_groups
from kvsweep.sizing.capacity import layout
from kvsweep.sizing.settings import Served
from kvsweep.vllm_command.known import DEFAULT
from kvsweep.vllm_command.values import Values

OPTION = "prefix-cache-retention-interval"


def retention(values: Values, served: Served) -> dict[str, tuple[int, str]]:
    """Return the key of the cache that says so, and who says it.

    Without the option vLLM takes 0 from 0.29 on; its ``None`` keeps all, as a block's tokens do.

    Raises
    ------
    InputError
        If vLLM would not start with it.
    """
    keeps = keeps_some(cache_groups(layout(served)))
    told = values.text(OPTION)
    if told in ("None", ""):  # as vLLM's parser has it
        interval = served.block_size
    else:
        interval = values.whole(OPTION) or 0
    if interval % served.block_size:
        size = served.block_size
        raise values.problem(OPTION, f"{interval} is no multiple of the {size} tokens of a block")
    if not keeps:
        if interval and told not in ("None", ""):
            message = (
                "the model has no windows and no states, and vLLM does not start; leave it out"
            )
            raise values.problem(OPTION, message)
        return {}
    if values.switch("enable-prefix-caching") is False:
        return {}
    why = DEFAULT if told is None else f"--{OPTION}"
    return {"prefix_cache_retention_interval": (interval, why)}
