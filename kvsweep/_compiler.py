"""How numba compiles the kernel: its passes and code libraries, changed where they cost too much.

All of it is about cost, none about what compiled code means, but for one thing: a negative index is
an error. It builds on what numba keeps to itself, so a new numba may need changes here.
"""

import hashlib
from typing import Any

from numba._dynfunc import make_function
from numba.core import ir, types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models, register_default
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.types.misc import unliteral
from numba.extending import typeof_impl

from ._cache import EntryCode, SealedFile, Turn


def _digest(*names: str) -> str:
    return hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]


def _symbol(name: str, kinds: Any, *, abi_tags: Any = (), uid: Any = None) -> str:
    """Return the name of a function's code, a digest of its types in it.

    numba writes them out: 20,000 letters wherever a function that gets a bundle is called, and a
    tenth of the time of lowering. (Without `uid`: equal names are equal functions.)
    """
    return f"{name}.{_digest(*abi_tags, *(kind.name for kind in kinds))}"


class _Bundle(types.NamedTuple):  # type: ignore[misc, name-defined]
    """The type of a named tuple of arrays that is passed on as one value.

    numba passes each of the seven numbers of each array by itself, and most functions get fifty
    arrays: taking them apart and together again was a third of the time of compiling.
    """

    def __init__(self, kinds: Any, cls: type) -> None:
        super().__init__(kinds, cls)
        self.name: str = f"{cls.__name__}.{_digest(*(kind.name for kind in kinds))}"

    @property
    def key(self) -> str:
        """What types are compared by; numba would hash the types of all arrays each time."""
        return self.name


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
    Before that it need not be good, only small: a tenth less again.
    """

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
        passes.add_pass_after(_UnsignedIndices, NopythonTypeInference)
        passes.add_pass_after(self.lowering, NativeLowering)
        passes.passes = [item for item in passes.passes if item[0] is not NativeLowering]
        passes.finalize()
        return [passes]


class KernelCompiler(_Compiler):
    """Compiles an entry, which Python calls."""

    lowering = _EntryLowering


class PartCompiler(_Compiler):
    """Compiles a function that becomes a part of others."""

    lowering = _PartLowering


class EntryCache(FunctionCache):  # type: ignore[misc]
    """The cache of an entry, from which it is loaded without all that numba needs to compile.

    What is damaged is compiled anew, and by one process at a time.
    """

    _impl_class = EntryCode

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = SealedFile(self._cache_path, self._impl.filename_base, stamp)
        self._turn = Turn()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code of a signature; what numba prepares (0.2 s) waits until it must compile."""
        found = self._load(sig, target_context)
        if found is None:
            self._turn.wait(self._cache_path)
            found = self._load(sig, target_context)  # another process may have compiled it
            if found is None:
                target_context.refresh()
            else:
                self._turn.end()
        return found

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return self._load_overload(sig, target_context)
        except Exception:  # whole, but not what this numba makes code of
            self._cache_file.discard()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code of a signature, and let other processes have it."""
        try:
            super().save_overload(sig, data)
        finally:
            self._turn.end()


def plain(kind: Any) -> Any:
    """Return the type that an argument of this type is passed as."""
    kind = unliteral(kind)
    return types.int64 if kind == types.int32 else kind
