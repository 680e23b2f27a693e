"""The numba decorators, and a cache folder keyed by the sources.

Numba does not notice that a callee in another file or a global constant changed: a cached caller
then goes on returning the old result. So the cache folder is named by a hash of every source file
of this package and of the numba and numpy versions.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba._dynfunc import make_function
from numba.core import ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types.misc import unliteral
from numba.extending import typeof_impl

_PACKAGE = Path(__file__).parent
_COMPILED = ("_jit.py", "records.py", "policies.py", "kernel", "workload/numbering.py")


def source_hash() -> str:
    """Return a hash of the sources that decide results: kernel, records, workload, metrics."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        if name.startswith((*_COMPILED, "workload", "metrics.py", "simulate", "replica")):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    root = os.environ.get("KVSWEEP_CACHE_DIR")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.relative_to(_PACKAGE).as_posix().startswith(_COMPILED):
            digest.update(path.read_bytes())
    checked = "-checked" if numba.config.BOUNDSCHECK else ""
    return base / "kvsweep" / (digest.hexdigest()[:16] + checked)


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())


class _Bundle(types.NamedTuple):  # type: ignore[misc, name-defined]
    """The type of a named tuple of arrays that is passed on as one value.

    numba passes each of the seven numbers of each array by itself, and most functions get fifty
    arrays: taking them apart and together again was a third of the time of compiling.
    """


@register_default(_Bundle)
class _BundleModel(models.TupleModel):  # type: ignore[misc]
    def get_argument_type(self) -> Any:
        return self.get_value_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value


def _type_of_bundle(value: Any, context: Any) -> _Bundle:
    return _Bundle(tuple(typeof_impl(item, context) for item in value), type(value))


def pass_whole(*bundles: type[tuple[Any, ...]]) -> None:
    """Let compiled functions get the values of these named tuples of arrays as one."""
    for bundle in bundles:
        typeof_impl.register(bundle)(_type_of_bundle)


@register_pass(mutates_CFG=False, analysis_only=False)
class _UnsignedIndices(FunctionPass):  # type: ignore[misc]
    """Take every integer index of an array as unsigned, so that -1 is not the last element.

    The test for that cost a kernel an eighth of its time (H8; a fifth with preemptions) and kept
    loops from becoming vector instructions. In bounds-checked code negative indices are errors.
    """

    _name = "unsigned_indices"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for node, signature in list(state.calltypes.items()):
            if isinstance(node, ir.SetItem) or (isinstance(node, ir.Expr) and node.op == "getitem"):
                array, index, *value = signature.args
                if isinstance(array, types.Array) and isinstance(index, types.Integer):
                    del state.calltypes[node]  # what is set cannot be set again
                    args = (array, types.uint64, *value)
                    state.calltypes[node] = signature.replace(args=args)
        return True


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that only compiled functions call: simplified, but not assembled.

    numba optimises and assembles every function together with all that it calls, so the inner ones
    again on each level. Here that is done once, for the kernel: 41 s of compiling instead of 93.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Lower a function to a part of others."""

    _name = "part_lowering"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        descriptor = lowered.fndesc
        name = descriptor.qualname
        module = descriptor.lookup_module()
        # numba finds the code by this handle; it is never called, as its machine code (0) is none.
        handle = make_function(module, name, name, 0, lowered.env, (state.library,))
        state["cr"] = lowered._replace(cfunc=handle)
        state.targetctx.insert_user_function(handle, descriptor, [state.library])
        return True


class _Compiler(CompilerBase):  # type: ignore[misc]
    """numba's usual passes, and that one once the types are known."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_UnsignedIndices, NopythonTypeInference)
        passes.finalize()
        return [passes]


class _PartCompiler(_Compiler):
    """The same for a function that becomes a part of others."""

    def define_pipelines(self) -> list[Any]:
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_PartLowering, NativeLowering)
        passes.passes = [item for item in passes.passes if item[0] is not NativeLowering]
        passes.finalize()
        return [passes]


# error_model="numpy": a division does not test for zero (no division by a swept zero is possible).
# No fastmath: results must not depend on the compiler's choice of order.
# _nrt=False: no reference counts. The caller owns every array for the whole call, and the counts
# that numba adds for each array argument of each inlined leaf took 98 % of the time (measured: H8,
# 5000 blocks: 3,300 us with, 120 us without). Such code cannot allocate, which a kernel must not.
_OPTIONS = {"error_model": "numpy", "_nrt": False}
_INNER = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

kernel = numba.njit(cache=True, nogil=True, pipeline_class=_Compiler, **_OPTIONS)
"""Compile and cache an entry, which Python calls; it does not hold the GIL."""


def _plain(kind: Any) -> Any:
    """Return the type that an argument of this type is passed as."""
    kind = unliteral(kind)
    return types.int64 if kind == types.int32 else kind


def _inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that only compiled functions call.

    numba would compile it again for each literal that it gets, and for 32 bits as for 64.
    """
    compiled = numba.njit(**_INNER, **_OPTIONS, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        found = compiled(function)
        if not numba.config.DISABLE_JIT:
            ask = found.get_call_template
            found.get_call_template = lambda args, kws: ask(tuple(map(_plain, args)), kws)
        return found

    return decorate


part = _inner()
"""A function of its own that kernels call: a rarely taken path, or one called at many places."""

leaf = _inner(forceinline=True)
"""A small function that LLVM inlines into the kernels that call it.

Inlining on numba's level (``inline="always"``) is no faster and compiles 2.6 times as long.
"""
