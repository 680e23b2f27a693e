"""What a vLLM server says of its KV cache: the log of its start, or a scrape of its metrics.

The lines of vLLM 0.6 to 0.33 that are read, each as its source has it:

- ``Available KV cache memory: 51.63 GiB`` (each worker; 0.33 too)
- ``GPU KV cache size: 410,128 tokens`` and ``Maximum concurrency for 8,192 tokens per request:
  50.06x``, one line from 0.28 on
- ``# GPU blocks: 25633, # CPU blocks: 0``, ``# CUDA blocks: ...`` (to 0.8)
- ``vllm cache_config_info with initialization after num_gpu_blocks is: 25633``, behind ``Engine
  000: `` of each engine or ``2 Engines: `` a sum
- ``Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512``
- ``non-default args: {...}``, ``max_num_batched_tokens=8192``, ``kv_cache_dtype=fp8`` and ``Async
  scheduling is disabled`` for the settings
- ``enable_prefix_caching=False`` and ``Using Triton/FLA GDN prefill kernel`` for states
- ``Setting kv cache block size to 64``, ``Setting attention block size to 1600 tokens``
- ``vllm:cache_config_info{block_size="16",num_gpu_blocks="25633",...} 1.0`` of Prometheus
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCKS, MAX_INPUT_BYTES
from kvsweep.reading import read_text
from kvsweep.sizing.dtypes import ALIASES, BYTES, SPARSE_MLA
from kvsweep.sizing.sizes import GIB

T = TypeVar("T")

_NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+)"
_AVAILABLE = re.compile(r"Available KV cache memory: (-?\d+(?:\.\d+)?) GiB")
_TOKENS = re.compile(rf"KV cache size: {_NUMBER} tokens")
_CONCURRENCY = re.compile(rf"Maximum concurrency for {_NUMBER} tokens per request: (\d+\.\d+)x")
_BLOCKS = re.compile(r"# (?:GPU|CUDA|cuda|rocm) blocks: (\d+)")
_TOLD = re.compile(
    r"(?:([1-9]\d*) Engines: |Engine (\d+): )?"
    r"vllm cache_config_info with .* num_gpu_blocks is: (\d+)"
)
_OVERRIDE = re.compile(r"with num_gpu_blocks_override=(\d+)")
_SET_BLOCK_SIZE = re.compile(r"Setting (?:kv cache|attention) block size to (\d+)")
_ASKED_BLOCK_SIZE = re.compile(r"\bblock_size['\"]?[:=] ?(\d+)")
_CONNECTOR = re.compile(r"extra_config['\"]?[:=] ?\{[^{}]*\}")
_SETTINGS = {
    "tp": re.compile(r"\btensor_parallel_size['\"]?[:=] ?(\d+)"),
    "pp": re.compile(r"\bpipeline_parallel_size['\"]?[:=] ?(\d+)"),
    "max_num_batched_tokens": re.compile(r"\bmax_num_batched_tokens['\"]?[:=] ?(\d+)"),
}
_DTYPE = re.compile(r"\bkv_cache_dtype['\"]?[:=] ?['\"]?(?:torch\.)?(\w+)")
_TORCH = {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}
_SYNCHRONOUS = re.compile(
    r"\basync_scheduling['\"]?[:=] ?False|[Aa]sync(?:hronous)? scheduling (?:is|will be) disabled"
)
_CACHING = re.compile(r"\benable_prefix_caching['\"]?[:=] ?['\"]?(True|False)")
_GDN_PREFILL = re.compile(r"Using (\w[\w/ ]*) GDN prefill kernel")
_START = re.compile(r"(?=non-default args:)")
_UTILIZATION = re.compile(r"\bgpu_memory_utilization['\"]?[:=] ?(0?\.\d+|1(?:\.0)?)\b")
_VERSION = re.compile(r"(?:vLLM (?:API )?server version|LLM engine \(v) ?(\d+\.\d+(?:\.\d+)?)")
_ARCHITECTURE = re.compile(r"Resolved architecture: (\w+)")
_SCRAPED = re.compile(r"^vllm:cache_config_info\{(.*)\} ", re.MULTILINE)
_WRITTEN = ("log", "message", "msg", "MESSAGE")
"""Where a line of JSON has what was written: as Docker, logging formatters or journald keep it."""
_SUMMED = "{} engines, whose blocks vLLM adds up: this is one of them"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class ServerLog:
    """What is found; None where nothing is said.

    Attributes
    ----------
    path : str
        The file.
    blocks : int or None
        ``num_gpu_blocks``, the null block included.
    tokens : int or None
        The size that the log tells, tokens.
    max_model_len : int or None
        Of the line on concurrency.
    concurrency : float or None
        The same, as rounded in the log.
    available : list of int
        ``Available KV cache memory`` of the workers, bytes; rounded to 0.01 GiB.
    block_size : int or None
        Tokens of a block.
    utilization : float or None
        ``gpu_memory_utilization``.
    settings : dict of str to object
        What is said of the other fields of `kvsweep.sizing.settings.Asked`.
    version : str or None
        Of vLLM.
    architecture : str or None
        vLLM's name of the model's class.
    overridden : bool
        Whether ``num_gpu_blocks_override`` decides, not the memory that is available.
    notes : list of str
        What the reader should know.
    """

    path: str
    blocks: int | None = None
    tokens: int | None = None
    max_model_len: int | None = None
    concurrency: float | None = None
    available: list[int] = field(default_factory=list)
    block_size: int | None = None
    utilization: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    architecture: str | None = None
    overridden: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def memory(self) -> int | None:
        """Bytes that all workers have for their KV cache: those of the worker with least."""
        return min(self.available) if self.available else None

    @property
    def older_than_020(self) -> bool:
        """Whether tokens of hybrid models are those of one group, as before vLLM 0.20."""
        numbers = re.findall(r"\d+", self.version or "")[:2]
        return bool(numbers) and tuple(map(int, numbers)) < (0, 20)


def read_log_text(path: Path) -> str:
    """Return the text of a log, plain or gzipped; of lines that are JSON, what the server wrote."""
    text = read_text(path, MAX_INPUT_BYTES, packed=True)
    if not text.startswith("{"):
        return text
    return "".join(f"{_written(line)}\n" for line in text.splitlines())


def _written(line: str) -> str:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        return line
    told = [table.get(key) for key in _WRITTEN] if isinstance(table, dict) else []
    return next((each.rstrip() for each in told if isinstance(each, str)), line)


def read_server(path: Path) -> ServerLog:
    """Read the log of a server's start, or a scrape of its metrics, plain or gzipped.

    A log of several starts tells of the last.

    Raises
    ------
    InputError
        If the file says nothing of the size of the KV cache.
    """
    text = read_log_text(path)
    scraped = _SCRAPED.findall(text)
    found = _scrape(path, scraped) if scraped else _log(path, text)
    if found.blocks is None and found.tokens is None and not found.available:
        told = _AVAILABLE.search(text) or _TOKENS.search(text) or _BLOCKS.search(text)
        if found.notes and told:
            raise InputError(
                f"{path}: the last start in it says nothing of the KV cache, as of a server that "
                "did not come up; one before does: give the part of the log with the start meant"
            )
        raise InputError(
            f"{path}: says nothing of the KV cache; expected vLLM's start-up log ('GPU KV cache "
            "size: ... tokens', 'Available KV cache memory: ... GiB', '# GPU blocks: ...') or a "
            "scrape of its /metrics with vllm:cache_config_info"
        )
    if found.memory is not None and found.memory <= 0 and not found.overridden:
        raise InputError(
            f"{path}: Available KV cache memory: {found.memory / GIB:.2f} GiB; this server had "
            "none, and did not start: give the log of one that did"
        )
    if found.blocks is not None and not 1 <= found.blocks <= MAX_BLOCKS:
        raise InputError(f"{path}: {found.blocks:,} blocks; allowed: 1 to {MAX_BLOCKS:,}")
    return found


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _log(path: Path, text: str) -> ServerLog:
    found = ServerLog(str(path))
    starts = _START.split(text)
    if len(starts) > 2:
        found.notes.append(f"the log has {len(starts) - 1} starts of a server: this is the last")
    last = starts[-1]
    found.available = [int(float(one) * GIB) for one in _AVAILABLE.findall(last)]
    _read_tokens(found, last)
    _read_blocks(found, last)
    found.block_size = _last(_SET_BLOCK_SIZE, last, int)
    if found.block_size is None:
        found.block_size = _last(_ASKED_BLOCK_SIZE, _CONNECTOR.sub("", last), int)
    _read_settings(found, last)
    if share := _UTILIZATION.search(last):
        found.utilization = float(share[1])
    if version := _VERSION.search(text):
        found.version = version[1]
    if architecture := _ARCHITECTURE.search(last):
        found.architecture = architecture[1]
    return found


def _read_settings(found: ServerLog, text: str) -> None:
    """Read how the model is served; what was resolved is said after what was asked for."""
    for name, pattern in _SETTINGS.items():
        if (value := _last(pattern, text, int)) is not None:
            found.settings[name] = value
    _note_dtype(found, _last(_DTYPE, text, str))
    if _SYNCHRONOUS.search(text):
        found.settings["async_scheduling"] = False
    if (caching := _last(_CACHING, text, str)) is not None:
        found.settings["prefix_caching"] = caching == "True"
    if (prefill := _last(_GDN_PREFILL, text, str)) is not None:
        # Of the others none tells a state from inside of a step.
        found.settings["gdn_prefill"] = "flashinfer" if prefill == "FlashInfer" else "triton"


def _read_tokens(found: ServerLog, text: str) -> None:
    """Read the size and the concurrency; several workers or engines have the smallest in common."""
    sizes = [_whole(one) for one in _TOKENS.findall(text)]
    if sizes:
        found.tokens = min(sizes)
        if len(set(sizes)) > 1:
            told = ", ".join(f"{size:,}" for size in sizes)
            found.notes.append(f"the log tells several sizes ({told}): this is the smallest")
    said = _CONCURRENCY.findall(text)
    if said:
        longest, concurrency = min(said, key=lambda one: float(one[1]))
        found.max_model_len, found.concurrency = _whole(longest), float(concurrency)


def _last(pattern: re.Pattern[str], text: str, read: Callable[[str], T]) -> T | None:
    values = pattern.findall(text)
    return read(values[-1]) if values else None


def _read_blocks(found: ServerLog, text: str) -> None:
    if override := _OVERRIDE.findall(text):
        found.blocks, found.overridden = int(override[-1]), True
    elif told := _TOLD.findall(text):
        # The front end adds up the blocks of its engines, each of which may have a line of its own.
        engines = int(told[-1][0] or len({index for _, index, _ in told if index}) or 1)
        found.blocks = _of_one(found, int(told[-1][2]), engines, set(_TOKENS.findall(text)))
        if engines > 1:
            found.notes.append(_SUMMED.format(engines))
    else:
        found.blocks = _last(_BLOCKS, text, int)


def _of_one(found: ServerLog, blocks: int, engines: int, sizes: set[str]) -> int | None:
    """Return the blocks of one engine of several; None where the tokens of the smallest tell."""
    equal = blocks % engines == 0 and len(sizes) < 2
    if engines == 1 or equal:
        return blocks // engines
    if not sizes:
        raise InputError(
            f"{found.path}: num_gpu_blocks {blocks:,} is no sum of {engines} equal engines; give "
            "the log of one of them"
        )
    return None


def _scrape(path: Path, scraped: list[str]) -> ServerLog:
    """Return what the labels of ``vllm:cache_config_info`` say, of all engines together."""
    tables = [dict(_LABEL.findall(labels)) for labels in scraped]
    found = ServerLog(str(path))
    first = tables[0]
    counts = [_label(path, table, "num_gpu_blocks") for table in tables]
    if any(count != counts[0] for count in counts):
        raise InputError(
            f"{path}: vllm:cache_config_info: engines differ in num_gpu_blocks "
            f"({', '.join(str(count) for count in counts)}); give the scrape of one of them"
        )
    blocks, engines = counts[0], len({table.get("engine", "") for table in tables})
    if blocks is not None and engines > 1:
        if blocks % engines:
            raise InputError(
                f"{path}: vllm:cache_config_info: num_gpu_blocks {blocks:,} is no sum of "
                f"{engines} equal engines; give the scrape of one of them"
            )
        found.notes.append(_SUMMED.format(engines))
        blocks //= engines
    found.blocks = blocks
    found.block_size = _label(path, first, "block_size")
    found.tokens = _label(path, first, "kv_cache_size_tokens")
    _note_dtype(found, first.get("cache_dtype"))
    if (caching := first.get("enable_prefix_caching")) in ("True", "False"):
        found.settings["prefix_caching"] = caching == "True"
    share = first.get("gpu_memory_utilization", "")
    found.utilization = float(share) if re.fullmatch(r"0?\.\d+|1(\.0)?|0", share) else None
    return found


def _label(path: Path, labels: dict[str, str], name: str) -> int | None:
    value = labels.get(name, "None")
    if value in ("None", ""):
        return None
    if not re.fullmatch(r"\d{1,12}", value):
        raise InputError(f"{path}: vllm:cache_config_info: {name}: {value!r} is no whole number")
    return int(value)


def _note_dtype(found: ServerLog, name: str | None) -> None:
    """Note a data type of 8 bits; of 16 the server has the model's, as it has started."""
    dtype = _TORCH.get(name or "auto", name or "auto")
    if dtype == SPARSE_MLA or BYTES.get(dtype) == 1:
        found.settings["dtype"] = dtype
    elif dtype not in BYTES and dtype not in ("auto", *ALIASES):
        found.notes.append(
            f"{found.path}: keys and values are {dtype}, whose bytes are not known: the GiB are "
            "those of the model's own data type (--dtype says another)"
        )
