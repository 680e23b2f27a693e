"""Loading a GGUF file into llama.cpp, and what goes wrong then."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import Any

from kvsweep.errors import InputError
from kvsweep.llama.hardware import cpu_name
from kvsweep.llama.llama_runtime import LlamaRuntime
from kvsweep.reading import open_regular

INSTALL = "pip install 'kvsweep[llama]'"

_MAGIC = b"GGUF"
_TEXT_BYTES = 256  # of a value of the model's metadata
_BATCH = 2048  # tokens at once, llama.cpp's own default; llama-cpp-python's would split the prompts
_LOG_ERROR = 4  # ggml_log_level; llama-cpp-python's own table has it wrong


class _Log:
    """Takes llama.cpp's messages, which would go to stderr, and keeps the errors."""

    latest: Any = None  # llama.cpp calls it as long as the process lives

    def __init__(self, api: Any) -> None:
        self.errors: list[str] = []

        @api.llama_log_callback  # type: ignore[untyped-decorator]
        def take(level: int, text: bytes, _: ctypes.c_void_p) -> None:
            if level == _LOG_ERROR:
                self.errors.append(text.decode(errors="replace"))

        api.llama_log_set(take, ctypes.c_void_p(0))
        _Log.latest = take


def load_llama(path: Path, context: int, *, threads: int, gpu_layers: int = 0) -> LlamaRuntime:
    """Load a model with room for `context` tokens.

    Parameters
    ----------
    path : Path
        A GGUF file.
    context : int
        Tokens of the longest prompt and its output.
    threads : int
        Of prefill and of decoding.
    gpu_layers : int
        Layers to offload to a GPU, -1 all, if llama.cpp was built for one.

    Raises
    ------
    InputError
        If llama-cpp-python is not installed, the file is missing, broken or no model, or the model
        has fewer positions.
    """
    api = _import()
    _check_magic(path)
    log = _Log(api)
    about = _metadata(api, path, log)
    trained = int(about["context"] or 0)
    if trained < context:
        raise InputError(
            f"{path}: the longest prompt and its output take {context:,} tokens, more than the "
            f"model's context of {trained:,}"
        )
    try:
        llama = api.Llama(
            str(path),
            n_ctx=context,
            n_batch=min(context, _BATCH),
            n_threads=threads,
            n_threads_batch=threads,
            n_gpu_layers=gpu_layers,
            verbose=False,
        )
    except Exception as error:  # what a broken model raises is of any type
        raise _unreadable(path, log, error) from error
    attributes = {
        "runtime": "llama.cpp (llama-cpp-python)",
        "runtime_version": api.__version__,
        "runtime_features": " ".join(api.llama_print_system_info().decode().split()).rstrip(" |"),
        "model_file": path.name,
        "model_sha256": _sha256(path),
        "model_architecture": about["architecture"],
        "model_name": about["name"],
        "model_context": trained,
        "context": llama.n_ctx(),
        "threads": threads,
        "gpu_layers": gpu_layers,
        "cpu": cpu_name(),
    }
    return LlamaRuntime(llama, attributes)


def _import() -> Any:
    try:
        import llama_cpp
    except ImportError:
        raise InputError(f"measuring needs llama.cpp: {INSTALL}") from None
    except Exception as error:  # its shared library does not load
        raise InputError(f"llama.cpp cannot be loaded: {error}; {INSTALL}") from error
    return llama_cpp


def _check_magic(path: Path) -> None:
    """Refuse what is no GGUF file before llama.cpp sees it."""
    with open_regular(path) as file:
        magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        raise InputError(f"{path}: is no GGUF file")


def _metadata(api: Any, path: Path, log: _Log) -> dict[str, str]:
    """Read name, architecture and trained context, without the weights."""
    parameters = api.llama_model_default_params()
    parameters.vocab_only = True
    model = api.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise _unreadable(path, log)
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)

    def value(key: str) -> str:
        api.llama_model_meta_val_str(model, key.encode(), buffer, _TEXT_BYTES)
        return buffer.value.decode(errors="replace")

    architecture = value("general.architecture")
    about = {
        "architecture": architecture,
        "name": value("general.name"),
        "context": value(f"{architecture}.context_length"),
    }
    api.llama_model_free(model)
    return about


def _unreadable(path: Path, log: _Log, error: Exception | None = None) -> InputError:
    """Return the error of a file that does not load, with llama.cpp's first reason."""
    reason = next(iter(log.errors), str(error or "no reason given"))
    return InputError(f"{path}: llama.cpp cannot load it: {' '.join(reason.split())}")


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
