"""vLLM's engine with random weights on the GPU at hand; all of its names that are used are here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError


class Engine:
    """vLLM's `EngineCore` in this process: the loop that its server runs, without the server.

    Parameters
    ----------
    model : Path
        A folder with the config.json of a model; nothing else of it is read.
    settings : dict
        Of vLLM's `EngineArgs`.

    Attributes
    ----------
    about : dict
        Versions, GPU and settings, as vLLM says them.
    blocks : int
        That the GPU has room for.
    vocabulary : int
        Different tokens.
    windows : list of int or None
        Of the groups of layers, in vLLM's order; None: full attention.
    """

    def __init__(self, model: Path, settings: dict[str, Any]) -> None:
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        try:
            import torch
            import vllm
        except ModuleNotFoundError as error:
            raise InputError(
                f"{error}: start this by the Python of an environment that has vLLM"
            ) from None
        from vllm.engine.arg_utils import EngineArgs
        from vllm.sampling_params import SamplingParams
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor import Executor
        from vllm.v1.request import Request

        arguments = EngineArgs(
            model=str(model), load_format="dummy", skip_tokenizer_init=True, **settings
        )
        config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
        self._core = EngineCore(config, Executor.get_class(config), log_stats=True)
        self._request, self._sampling = Request, SamplingParams
        self._first = self._core.scheduler
        self.vocabulary: int = config.model_config.get_vocab_size()
        self.blocks: int = self._first.kv_cache_config.num_blocks - 1  # without the null block
        groups = self._first.kv_cache_config.kv_cache_groups
        self.windows = [getattr(g.kv_cache_spec, "sliding_window", None) for g in groups]
        self.about = {
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "gpu": torch.cuda.get_device_name(),
            "blocks": self.blocks,
            "graphs": str(config.compilation_config.cudagraph_mode),
            "windows": self.windows,
        }

    def begin(self, blocks: int) -> Any:
        """Give the engine a scheduler with an empty cache of so many blocks, and return it.

        The GPU's memory stays as it is: of a smaller cache its first blocks are used.
        """
        core, first = self._core, self._first
        core.scheduler = type(first)(
            vllm_config=core.vllm_config,
            kv_cache_config=dataclasses.replace(first.kv_cache_config, num_blocks=blocks + 1),
            structured_output_manager=core.structured_output_manager,
            block_size=first.block_size,
            hash_block_size=first.hash_block_size,
            log_stats=True,
        )
        return core.scheduler

    def request(self, name: str, prompt: Sequence[int], outputs: int) -> Any:
        """Return a request that samples so many tokens, whatever they are."""
        return self._request(
            request_id=name,
            prompt_token_ids=list(prompt),
            sampling_params=self._sampling(
                ignore_eos=True, max_tokens=outputs, temperature=0.0, detokenize=False
            ),
            pooling_params=None,
            block_hasher=self._core.request_block_hasher,
        )

    def add(self, request: Any) -> None:
        """Let a request wait."""
        self._core.add_request(request)

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._core.scheduler.has_requests() or self._core.batch_queue)

    def step(self) -> list[Any]:
        """Run a step; return the outputs of the one that has ended, if any has."""
        outputs, executed = self._core.step_fn()
        self._core.post_step(executed)
        return [each for group in (outputs or {}).values() for each in group.outputs]
