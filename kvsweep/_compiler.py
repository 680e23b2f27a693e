"""How numba compiles the kernel: its passes and code libraries, changed where they cost too much.

All of it is about cost, none about what compiled code means, but for one thing: a negative index is
an error. It builds on what numba keeps to itself: where that is not as it is here, `_jit` takes the
decorators of `_plain`.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from llvmlite import ir as llvm
from numba._dynfunc import make_function
from numba.core import cgutils, ir, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types.misc import unliteral
from numba.core.untyped_passes import IRProcessing
from numba.extending import NativeValue, lower_getattr_generic, typeof_impl, unbox

from kvsweep import _cache
from kvsweep._absent import AbsentFields, may_lack
from kvsweep._entry_cache import EntryCache

__all__ = ["kernel", "leaf", "may_lack", "part", "pass_whole"]


_INT = llvm.IntType(32)


def _digest(*names: str) -> str:
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


def _symbol(name: str, kinds: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
    """Return the name of a function's code, a digest of its types in it.

    numba writes them out: 20,000 letters wherever a function that gets a bundle is called, and 7 %
    of the time of compiling. (Without `uid`: equal names are equal functions.)
    """
    return f"{name}.{_digest(*abi_tags, *(kind.name for kind in kinds))}"


class _Bundle(types.NamedTuple):  # type: ignore[misc, name-defined]
    """The type of a named tuple of arrays that is passed on by its place.

    numba passes each of the seven numbers of each array by itself, and most functions get a hundred
    arrays: taking them apart and together again was a third of the time of compiling. As one value
    they were copied by each call that is not inlined, in some 0.1 us.
    """

    def __init__(self, kinds: Any, cls: type) -> None:
        super().__init__(kinds, cls)
        self.name: str = f"{cls.__name__}.{_digest(*(kind.name for kind in kinds))}"

    @property
    def key(self) -> str:
        """What types are compared by; numba would hash the types of all arrays each time."""
        return self.name

    @property
    def whole(self) -> Any:
        """Numba's own type of it, whose value is a structure of all its arrays."""
        return types.NamedTuple(self.types, self.instance_class)  # type: ignore[attr-defined]


@register_default(_Bundle)
class _BundleModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: _Bundle) -> None:
        structure = manager.lookup(kind.whole).get_value_type()
        super().__init__(manager, kind, structure.as_pointer())


@unbox(_Bundle)
def _unbox(kind: _Bundle, value: Any, c: Any) -> Any:
    """Put a bundle into the frame of what Python calls, which is there until all have returned."""
    found = c.unbox(kind.whole, value)
    place = cgutils.alloca_once_value(c.builder, found.value)
    return NativeValue(place, cleanup=found.cleanup, is_error=found.is_error)


@lower_getattr_generic(_Bundle)
def _array_of(context: Any, builder: Any, kind: _Bundle, bundle: Any, name: str) -> Any:
    """Read where an array is and how long. Nothing changes it, which LLVM is told."""
    place = kind.fields.index(name)
    found = context.make_array(kind.types[place])(context, builder)
    members = found._datamodel._fields

    def read(member: str, *more: int) -> Any:
        path = [*map(_INT, (0, place, members.index(member), *more))]
        loaded = builder.load(builder.gep(bundle, path, inbounds=True))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    for member in ("data", "nitems", "itemsize"):
        setattr(found, member, read(member))
    for member in ("shape", "strides"):
        each = [read(member, axis) for axis in range(kind.types[place].ndim)]
        setattr(found, member, cgutils.pack_array(builder, each))
    return found._getvalue()


def _type_of_bundle(value: Any, context: Any) -> _Bundle:
    return _Bundle(tuple(typeof_impl(item, context) for item in value), type(value))


def pass_whole(*bundles: type[tuple[Any, ...]]) -> None:
    """Let compiled functions get these named tuples of arrays by their places."""
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
    Before that it need not be good, only small: 6 % less again.
    """

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if not (function.is_declaration or "alwaysinline" in function.attributes):
                # LLVM would inline whatever has one caller, however large.
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager(opt=1)
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _EntryLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry, optimised once: there are no reference counts to remove before."""

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Lower a function to a part of others."""

    _name = "part_lowering"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.targetctx.mangler = _symbol
        try:
            super().run_pass(state)
        finally:
            del state.targetctx.mangler
        lowered = state["cr"]
        descriptor = lowered.fndesc
        name = descriptor.qualname
        module = descriptor.lookup_module()
        # numba finds the code by this handle; it is never called, as its machine code (0) is none.
        handle = make_function(module, name, name, 0, lowered.env, (state.library,))
        state["cr"] = lowered._replace(cfunc=handle)
        state.targetctx.insert_user_function(handle, descriptor, [state.library])
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _EntryLowering(NativeLowering):  # type: ignore[misc]
    """Lower an entry, whose code can be cached."""

    _name = "entry_lowering"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = _EntryLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        done: bool = super().run_pass(state)
        return done


class _Compiler(CompilerBase):  # type: ignore[misc]
    """numba's usual passes, `_UnsignedIndices` once the types are known, and a way to lower."""

    lowering: type[NativeLowering]

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(AbsentFields, IRProcessing)
        passes.add_pass_after(_UnsignedIndices, NopythonTypeInference)
        passes.add_pass_after(self.lowering, NativeLowering)
        passes.passes = [item for item in passes.passes if item[0] is not NativeLowering]
        passes.finalize()
        return [passes]


class _KernelCompiler(_Compiler):
    """Compiles an entry, which Python calls."""

    lowering = _EntryLowering


class _PartCompiler(_Compiler):
    """Compiles a function that becomes a part of others."""

    lowering = _PartLowering


# error_model="numpy": a division does not test for zero (no division by a swept zero is possible).
# No fastmath: results must not depend on the compiler's choice of order.
# _nrt=False: no reference counts. The caller owns every array for the whole call, and the counts
# that numba adds for each array argument of each inlined leaf took 98 % of the time (measured: H8,
# 5000 blocks: 3,300 us with, 120 us without). Such code cannot allocate, which a kernel must not.
_OPTIONS = {"error_model": "numpy", "_nrt": False}
_INNER = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile and cache an entry, which only Python calls; it does not hold the GIL."""
    found = numba.njit(nogil=True, pipeline_class=_KernelCompiler, **_OPTIONS)(function)
    if _cache.folder:
        with suppress(RuntimeError):  # numba's word for a folder that cannot be written
            found._cache = EntryCache(function)
    return found


def _inner(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of a function that only compiled functions call.

    numba would compile it again for each literal that it gets, and for 32 bits as for 64.
    """
    compiled = numba.njit(**_INNER, **_OPTIONS, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        found = compiled(function)
        if not numba.config.DISABLE_JIT:
            ask = found.get_call_template
            found.get_call_template = lambda args, kws: ask(tuple(map(_passed, args)), kws)
        return found

    return decorate


def _passed(kind: Any) -> Any:
    """Return the type that an argument of this type is passed as."""
    kind = unliteral(kind)
    return types.int64 if kind == types.int32 else kind


# LLVM's passes take longer than in proportion to the size of a function. With all of it in one, of
# 141,000 instructions, the largest entry took 280 s; with the parts that there are, 73 s. To call
# one takes some ns: what is called for each block or token must be a leaf all the same. It must say
# that it is not inlined: numba hands the option of a leaf on to what that calls first.
part = _inner(forceinline=False)
# Inlining on numba's level (`inline="always"`) is no faster and compiles 2.6 times as long.
leaf = _inner(forceinline=True)
