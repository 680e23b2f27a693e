"""To ask for memory ahead is a hint: it changes nothing and reaches nothing it should not."""

import numba
import numpy as np
import pytest

from kvsweep._ahead import LINE, ask_for
from kvsweep.records import REQUEST


@numba.njit
def _ask(array, place):
    ask_for(array, place)
    return array.size


@pytest.mark.parametrize("place", [0, 2, 3, -1, 10**12, -(10**12)])
@pytest.mark.parametrize("kind", [np.int8, np.int64, REQUEST])
def test_any_place_may_be_asked_for(kind, place):
    array = np.zeros(3, kind)
    before = array.copy()
    assert _ask(array, place) == 3
    assert ask_for(array, place) is None  # not compiled
    np.testing.assert_array_equal(array, before)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_all_lines_of_an_element_are_asked_for():
    asked = {}
    for kind in (np.dtype(np.int8), REQUEST):
        compiled = numba.njit(_ask.py_func)
        compiled(np.zeros(3, kind), 0)
        (code,) = compiled.inspect_llvm().values()
        asked[kind] = code.count("call void @llvm.prefetch")
    assert asked == {np.dtype(np.int8): 1, REQUEST: -(-REQUEST.itemsize // LINE)}
