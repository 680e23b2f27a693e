"""Ask for memory that will be read soon, so that nothing waits for it then.

Lanes take turns at megabytes of inputs: what a lane reads for the first time is in no cache, and to
wait for it takes as long as hundreds of instructions. Processors guess what comes next in order,
but not where something begins.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

LINE = 64
"""Bytes that are loaded together, of most processors."""


def ask_for(array, place):
    """Begin to load an element of an array, of any place: what is not there is not loaded.

    A hint: nothing changes that a program could see, and where nothing is compiled nothing is done.
    """


@overload(ask_for)
def _ask_for(array, place):
    size = array.dtype.bitwidth // 8

    def compiled(array, place):
        address = array.ctypes.data + place * size
        for line in range(0, size, LINE):
            _prefetch(address + line)

    return compiled


@intrinsic
def _prefetch(typing: Any, address: Any) -> Any:
    """Begin to load what is at an address into the nearest cache."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(32)
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        name = "llvm.prefetch.p0i8"
        known = builder.module.globals
        function = known[name] if name in known else ir.Function(builder.module, kind, name)
        read, near, data = number(0), number(3), number(1)  # LLVM's Language Reference
        builder.call(function, [builder.inttoptr(args[0], pointer), read, near, data])
        return context.get_dummy_value()

    return types.void(types.uintp), emit
