"""A model that needs no download: GPT-2's architecture with random weights, as a GGUF file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.errors import InputError
from kvsweep.files import replaced
from kvsweep.llama.bpe import vocabulary
from kvsweep.llama.words import WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# As GPT-2 was initialised: A. Radford et al., Language Models are Unsupervised Multitask Learners
# (2019); an epsilon of its layer norms.
WEIGHT_SD = 0.02
EPSILON = 1e-5

_FILE_TYPE_F16 = 1
_NORMAL, _CONTROL = 1, 3  # llama.cpp's token types


@dataclass(frozen=True)
class ModelShape:
    """The size of a made model.

    Attributes
    ----------
    layers, dim, heads : int
        Transformer blocks, embedding length, attention heads.
    context : int
        Positions it has.
    vocab : int
        Tokens of its vocabulary.
    """

    layers: int = 4
    dim: int = 256
    heads: int = 4
    context: int = 1024
    vocab: int = 50257


def make_model(path: Path, shape: ModelShape, *, seed: int = 0) -> None:
    """Write a model; the same shape and seed give the same bytes.

    Parameters
    ----------
    path : Path
        GGUF file to write. It appears complete or not at all.
    shape : ModelShape
    seed : int
        Of the weights.

    Raises
    ------
    InputError
        If the heads do not divide the embedding, the package gguf is not installed, or the file
        cannot be written.
    """
    if shape.dim % shape.heads:
        raise InputError(f"--dim: {shape.dim} is not a multiple of the {shape.heads} heads")
    try:
        from gguf import GGUFWriter
    except ImportError:
        raise InputError(
            "make-model needs the package gguf: pip install 'kvsweep[llama]'"
        ) from None

    with replaced(path) as new:
        writer = GGUFWriter(new, "gpt2")
        _describe(writer, shape)
        for name, tensor in tensors(shape, seed):
            writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _describe(writer: Any, shape: ModelShape) -> None:
    """Add the architecture and the tokenizer."""
    tokens, merges = vocabulary(WORDS, shape.vocab)
    writer.add_name("random weights in the shape of GPT-2")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.dim)
    writer.add_feed_forward_length(4 * shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_head_count(shape.heads)
    writer.add_layer_norm_eps(EPSILON)
    writer.add_file_type(_FILE_TYPE_F16)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([_NORMAL] * (len(tokens) - 1) + [_CONTROL])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)


def tensors(shape: ModelShape, seed: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield llama.cpp's name and the values of every tensor: matrices float16, the rest float32.

    There is no ``output.weight``: the embedding is used at both ends, as in GPT-2.
    """
    rng = np.random.default_rng(seed)
    dim = shape.dim

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(WEIGHT_SD)

    yield "token_embd.weight", matrix(shape.vocab, dim).astype(np.float16)
    yield "position_embd.weight", matrix(shape.context, dim)
    for block in (f"blk.{layer}" for layer in range(shape.layers)):
        yield from _norm(f"{block}.attn_norm", dim)
        yield from _norm(f"{block}.ffn_norm", dim)
        for name, rows, columns in (
            ("attn_qkv", 3 * dim, dim),
            ("attn_output", dim, dim),
            ("ffn_up", 4 * dim, dim),
            ("ffn_down", dim, 4 * dim),
        ):
            yield f"{block}.{name}.weight", matrix(rows, columns).astype(np.float16)
            yield f"{block}.{name}.bias", np.zeros(rows, dtype=np.float32)
    yield from _norm("output_norm", dim)


def _norm(name: str, dim: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    yield f"{name}.weight", np.ones(dim, dtype=np.float32)
    yield f"{name}.bias", np.zeros(dim, dtype=np.float32)
