"""GPUs by name or by their memory, and what vLLM serves with on them unless told."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError, clip, did_you_mean
from kvsweep.sizing.defaults import BLOCK_SIZE, SPARSE_BLOCK
from kvsweep.sizing.sizes import GIB, is_size, parse_size

VERY_LARGE, LARGE = 160 * GIB, 70 * GIB
"""Memory from which vLLM takes larger defaults (``EngineArgs.get_batch_defaults``)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    Attributes
    ----------
    name : str
        Its name, or its memory as given.
    memory : int
        What CUDA reports, bytes.
    low, high : int
        Bytes that were seen with other drivers.
    source : str
        Where that comes from.
    mla_block, mla_block_8bit : int
        Tokens of a block of MLA, if ``block_size`` is not given; with keys and values of 8 bits.
    sparse_block : int
        Tokens of a block of sparse MLA, whose indexer takes only multiples of it.
    a100 : bool
        Whether vLLM takes it for an A100, to which it gives smaller steps.
    packed : tuple of str
        Data types of keys and values that its backend for sparse MLA keeps as ``fp8_ds_mla``.
    delta_keys : int or None
        Channels of the keys of gated delta nets whose prefill is FlashInfer's by default; 0: any,
        None: none.
    rocm : bool
        Whether it is AMD's, whose processes share no memory of vLLM's CPU tier.
    whole_block : int
        Tokens of a block where images attend to all of themselves, with heads of 256 or 512
        channels.
    wide_block_8bit : int
        Tokens of a block with heads of 512 channels, and keys and values in FP8.
    """

    name: str
    memory: int
    low: int
    high: int
    source: str
    mla_block: int = BLOCK_SIZE
    mla_block_8bit: int = BLOCK_SIZE
    sparse_block: int = SPARSE_BLOCK
    a100: bool = False
    packed: tuple[str, ...] = ()
    delta_keys: int | None = None
    rocm: bool = False
    whole_block: int = BLOCK_SIZE
    wide_block_8bit: int = BLOCK_SIZE

    def defaults(self) -> Defaults:
        """Return what ``vllm serve`` takes unless told."""
        if self.memory >= VERY_LARGE:
            return Defaults(1024, 16384)
        if self.memory >= LARGE and not self.a100:
            return Defaults(1024, 8192)
        return Defaults(256, 2048)


@dataclass(frozen=True)
class Defaults:
    """Settings of ``vllm serve``.

    Attributes
    ----------
    max_num_seqs : int
        Requests in a batch.
    max_num_batched_tokens : int
        Tokens of a step.
    """

    max_num_seqs: int
    max_num_batched_tokens: int


@cache
def figures() -> dict[str, Any]:
    """Return the tables of ``gpus.toml``."""
    path = Path(str(resources.files("kvsweep"))) / "sizing" / "gpus.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def gpu_names() -> list[str]:
    """Return the names of the GPUs that are known."""
    return list(figures()["gpus"])


# Of GPUs of the same name that have other clocks, parts or another memory: laptops, Max-Q, NVL,
# PCIe, MIG's slices, RTX 3090 Ti, RTX 4090 D.
_OTHER = ("laptop", "max", "nvl", "pcie", "mig", "ti", "d")
# GPUs that are none of those known here, and no misspelling of their names: a V100 is no H100.
_OF_ITS_OWN = frozenset(
    {
        *("laptop", "mig", "nvl", "t4", "p100", "v100", "l20", "l40", "a30", "a40", "a800"),
        *("h20", "h800", "gh200", "gb200", "gb300", "b100", "b300"),
        *("mi210", "mi250", "mi250x", "mi300a", "mi308x", "mi325x", "mi350x", "mi355x"),
        *("a2000", "a4000", "a4500", "a5000", "a5500", "a6000", "4000", "4500", "5000"),
        *("rtx4000", "rtx5000", "rtx6000", "2080", "rtx2080", "3060", "rtx3060", "3070", "rtx3070"),
        *("3080", "rtx3080", "4060", "rtx4060", "4070", "rtx4070", "4080", "rtx4080"),
        *("5060", "rtx5060", "5070", "rtx5070", "5080", "rtx5080"),
    }
)
_COUNT = re.compile(r"(?:^|\s)(\d+)\s*x\s|\sx\s*(\d+)\s*$", re.IGNORECASE)
"""How many GPUs there are, as in "2 x H100", "2x H100" or "H100 x2"."""

_GB = re.compile(r"(\d+)gb?")


def known_gpu(name: str) -> str:
    """Return the name of a GPU that its driver has a name for, empty if it is not known.

    Examples
    --------
    >>> known_gpu("NVIDIA GeForce RTX 4090"), known_gpu("NVIDIA H100 80GB HBM3")
    ('rtx4090', 'h100')
    >>> known_gpu("NVIDIA A100-SXM4-40GB"), known_gpu("NVIDIA GeForce RTX 4090 Laptop GPU")
    ('a100-40gb', '')
    """
    plain = re.sub(r"rtx[ -](?=\d)", "rtx", name.lower())
    plain = plain.replace("rtx pro 6000", "rtx-pro-6000")
    words = re.split(r"[ /_]|-(?!pro|6000)", plain)
    if any(word in _OTHER for word in words):
        return ""
    found = [known for known in gpu_names() if known in words]
    if found == ["a100"] and not {"40gb", "40g"}.isdisjoint(words):
        found = ["a100-40gb"]
    if len(found) != 1:
        return ""
    told = (int(each[1]) for word in words if (each := _GB.fullmatch(word)))
    has = figures()["gpus"][found[0]]["gib"]
    return found[0] if all(abs(size / has - 1) < 0.1 for size in told) else ""


def find_gpu(text: str, where: str = "--gpu") -> Gpu:
    """Return a GPU by its name, also its driver's, or by its memory as CUDA reports it.

    Raises
    ------
    InputError
        If it is neither, or says how many there are.
    """
    if (count := _COUNT.search(text)) and int(count[1] or count[2]) > 1:
        raise InputError(
            f"{where}: {clip(text)!r}: name one of the GPUs; how many is told apart from it, by "
            "tp and pp"
        )
    name = text.strip().lower().replace(" ", "-")
    for known, table in figures()["gpus"].items():
        if name == known or name in table["names"]:
            memory, low, high = (int(table[key] * GIB) for key in ("gib", "low", "high"))
            block = table["mla_block"]
            return Gpu(
                known,
                memory,
                low,
                high,
                table["source"],
                block,
                table.get("mla_block_8bit", block),
                table.get("sparse_block", SPARSE_BLOCK),
                table.get("a100", False),
                tuple(table.get("packed", ())),
                table.get("delta_keys"),
                table.get("rocm", False),
                table.get("whole_block", BLOCK_SIZE),
                table.get("wide_block_8bit", BLOCK_SIZE),
            )
    if driver := known_gpu(text):
        return find_gpu(driver)
    if is_size(text):
        memory = parse_size(text, where)
        return Gpu(text.strip(), memory, memory, memory, "given")
    raise InputError(
        f"{where}: {clip(text)!r} is neither a GPU that is known ({', '.join(gpu_names())}) nor an "
        f"amount of memory as 80GiB{_hint(name)}"
    )


def _hint(name: str) -> str:
    """Return the closest name that is known, but for names of GPUs with another memory."""
    if not _OF_ITS_OWN.isdisjoint(re.split(r"[-_/]", name)):
        return ""
    others = [other for table in figures()["gpus"].values() for other in table["names"]]
    return did_you_mean(name, [*gpu_names(), *others])
