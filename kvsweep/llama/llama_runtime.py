"""llama.cpp as a runtime, through llama-cpp-python's direct API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvsweep.errors import InputError


class LlamaRuntime:
    """A model loaded by llama.cpp (`kvsweep.llama.runtime.Runtime`)."""

    def __init__(self, llama: Any, attributes: Mapping[str, str | int]) -> None:
        import llama_cpp

        self.attributes = attributes
        self._api = llama_cpp
        self._llama = llama

    def tokenize(self, text: str) -> list[int]:
        """Return the tokens of `text`, none added.

        Raises
        ------
        InputError
            If the model has no tokenizer.
        """
        try:
            tokens: list[int] = self._llama.tokenize(text.encode(), add_bos=False)
        except RuntimeError as error:
            raise InputError(f"llama.cpp failed: {error}") from error
        return tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`."""
        raw: bytes = self._llama.detokenize(list(tokens))
        return raw.decode(errors="replace")

    def is_end(self, token: int) -> bool:
        """Tell whether `token` ends a generation."""
        return bool(self._api.llama_vocab_is_eog(self._llama._model.vocab, token))

    def clear(self) -> None:
        """Forget everything: `reset` alone sets a counter and leaves the KV memory as it is."""
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()

    def cached_tokens(self) -> int:
        """Return how many tokens the KV cache holds."""
        return int(self._api.llama_memory_seq_pos_max(self._llama._ctx.memory, 0)) + 1

    def generate(self, prompt: Sequence[int]) -> Iterator[int]:
        """Compute what of `prompt` is not cached and yield the likeliest tokens, without end.

        Raises
        ------
        InputError
            If llama.cpp fails.
        """
        self._api.llama_perf_context_reset(self._llama._ctx.ctx)
        try:
            yield from self._llama.generate(list(prompt), temp=0.0)
        except RuntimeError as error:
            raise InputError(f"llama.cpp failed: {error}") from error

    def computed_tokens(self) -> int:
        """Return how many tokens were computed since the last `generate` began.

        llama.cpp counts batches and single tokens apart, and says 1 where it counted none.
        """
        counts = self._api.llama_perf_context(self._llama._ctx.ctx)
        return max(int(counts.n_p_eval), int(counts.n_eval))
