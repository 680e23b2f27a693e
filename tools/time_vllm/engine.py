"""vLLM's engine with random weights on the GPU at hand; all of its names that are used are here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from record_vllm.adapter import cpu_blocks
from record_vllm.scenario import Offload

from kvsweep.errors import InputError
from time_vllm.asked import STATES


class Engine:
    """vLLM's `EngineCore` in this process: the loop that its server runs, without the server.

    Parameters
    ----------
    model : Path
        A folder with the config.json of a model; nothing else of it is read.
    settings : dict
        Of vLLM's `EngineArgs`.
    offload : Offload, optional
        A CPU tier, of a model whose layers all have full attention.

    Attributes
    ----------
    about : dict
        Versions, GPU and settings, as vLLM says them.
    blocks : int
        That the GPU has room for.
    vocabulary : int
        Different tokens.
    windows : list of int, str or None
        Of the groups of layers, in vLLM's order; None: full attention, `STATES`: none, but states.
    """

    def __init__(
        self, model: Path, settings: dict[str, Any], offload: Offload | None = None
    ) -> None:
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
        if offload:
            arguments.kv_transfer_config = _tier(arguments, offload)
        config = arguments.create_engine_config(UsageContext.OPENAI_API_SERVER)
        self._core = EngineCore(config, Executor.get_class(config), log_stats=True)
        self._request, self._sampling = Request, SamplingParams
        self._first = self._core.scheduler
        if offload and cpu_blocks(self._first) != offload.cpu_blocks:
            told = f"vLLM took {cpu_blocks(self._first):,} for {offload.cpu_blocks:,}"
            raise InputError(f"cache.cpu_blocks: {told}: not all layers have full attention")
        self.vocabulary: int = config.model_config.get_vocab_size()
        self.blocks: int = self._first.kv_cache_config.num_blocks - 1  # without the null block
        groups = self._first.kv_cache_config.kv_cache_groups
        self.windows = [_window(group.kv_cache_spec) for group in groups]
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
        whole = first.kv_cache_config
        # A tier reads off their size how much a block takes.
        tensors = [
            dataclasses.replace(each, size=each.size // whole.num_blocks * (blocks + 1))
            for each in whole.kv_cache_tensors
        ]
        core.scheduler = type(first)(
            vllm_config=core.vllm_config,
            kv_cache_config=dataclasses.replace(
                whole, num_blocks=blocks + 1, kv_cache_tensors=tensors
            ),
            structured_output_manager=core.structured_output_manager,
            block_size=first.block_size,
            hash_block_size=first.hash_block_size,
            log_stats=True,
        )
        return core.scheduler

    def watch_copies(self, begun: Callable[..., None], ended: Callable[..., None]) -> None:
        """Tell of every copy between GPU and CPU.

        Parameters
        ----------
        begun : callable
            Called with a number and whether it is a load, when a copy is handed to the GPU.
        ended : callable
            Called with the number, bytes and seconds of a copy, when it is noticed to be over.
        """
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        worker = get_kv_transfer_group().connector_worker.worker
        kind = type(worker)

        def submit(name: str, is_load: bool) -> Callable[..., Any]:
            def noted(job: int, *specs: Any) -> Any:
                begun(job, is_load)
                return getattr(kind, name)(worker, job, *specs)

            return noted

        def get_finished() -> Any:
            found = kind.get_finished(worker)
            for each in found:
                ended(each.job_id, each.transfer_size, each.transfer_time)
            return found

        worker.submit_load = submit("submit_load", True)
        worker.submit_store = submit("submit_store", False)
        worker.get_finished = get_finished

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


def _window(spec: Any) -> int | str | None:
    """Return the window of a group, None of full attention, `STATES` of layers without any."""
    from vllm.v1.kv_cache_interface import MambaSpec

    if isinstance(spec, MambaSpec):
        return STATES
    window: int | None = getattr(spec, "sliding_window", None)
    return window


def _tier(arguments: Any, offload: Offload) -> Any:
    """Return the connector that vLLM offloads with, and how many bytes of memory it has."""
    from vllm.config import KVTransferConfig

    model = arguments.create_model_config()
    heads, layers = model.get_total_num_kv_heads(), model.hf_text_config.num_hidden_layers
    token = 2 * layers * heads * model.get_head_size() * model.dtype.itemsize
    chunk = token * arguments.block_size * offload.block_factor
    return KVTransferConfig(
        kv_connector="OffloadingConnector",
        kv_role="kv_both",
        kv_connector_extra_config={
            "cpu_bytes_to_use": chunk * offload.cpu_blocks,
            "blocks_per_chunk": offload.block_factor,
            "eviction_policy": offload.eviction,
            "offload_prompt_only": offload.prompt_only,
        },
    )
