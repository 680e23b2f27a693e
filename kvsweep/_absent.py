"""Fields that records may lack: a pass of our own among numba's.

How a pass is added numba documents, in its pages for developers ("Customizing the Compiler"). What
this one asks of a function, and changes in it, it does not: the definitions of variables. So
`_compiler` and `_plain` try it out first, and `_plain` does without: 540 s of compiling, not 80.
"""

from typing import Any

from numba.core import ir, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import get_definition, guard
from numba.core.untyped_passes import IRProcessing

_optional: set[str] = set()


def may_lack(*names: str) -> None:
    """Let records that compiled functions get lack fields of these names: those are 0 then."""
    _optional.update(names)


@register_pass(mutates_CFG=False, analysis_only=False)
class AbsentFields(FunctionPass):  # type: ignore[misc]
    """Take a field that the record of an argument may lack, and does, as 0; set nothing there.

    So what hangs on it is gone before types are inferred, as numba drops branches on constants. A
    kernel compiles in half the time where the half that it does not need is behind such fields.
    """

    _name = "absent_fields"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        func_ir = state.func_ir
        changed = False
        for block in func_ir.blocks.values():
            kept = []
            for node in block.body:
                if isinstance(node, ir.SetItem) and _is_absent(state, node.target, node.index):
                    changed = True
                    continue
                if (
                    isinstance(node, ir.Assign)
                    and isinstance(node.value, ir.Expr)
                    and node.value.op == "getitem"
                    and _is_absent(state, node.value.value, node.value.index)
                ):
                    node.value = ir.Const(0, node.loc)
                    func_ir._definitions[node.target.name] = [node.value]
                    changed = True
                kept.append(node)
            block.body[:] = kept
        return changed


def _is_absent(state: Any, record: ir.Var, index: ir.Var) -> bool:
    """Return whether an argument is a record, and lacks a field of this name as it may."""
    found = guard(get_definition, state.func_ir, record)
    name = guard(get_definition, state.func_ir, index)
    if not isinstance(found, ir.Arg) or not isinstance(name, ir.Const):
        return False
    if name.value not in _optional:
        return False
    kind = state.args[found.index]
    return isinstance(kind, types.Record) and name.value not in kind.fields


class Pruning(CompilerBase):  # type: ignore[misc]
    """numba's usual passes, and `AbsentFields`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(AbsentFields, IRProcessing)
        passes.finalize()
        return [passes]
