"""Parts of compiled functions: typed and lowered, but no machine code is made of them alone.

Numba makes every function that another one calls ready to be called from Python as well: it is
optimised, compiled and loaded separately, before its code is optimised again inside its caller.
That was half of the compile time of kernels with many small functions.
"""

from __future__ import annotations

from typing import Any, Final

from numba.core import typed_passes
from numba.core.compiler_machinery import register_pass

from .numba_passes import KernelLibrary, PassesOfKernels, passes_with

# Untyped on purpose: which parts of Numba carry types changes from version to version.
_Lowering: Any = typed_passes.NativeLowering
_registered: Any = register_pass


class _PartLibrary(KernelLibrary):
    """Code that is only to be linked into other code, which is then optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_registered(mutates_CFG=True, analysis_only=False)
class _PartLowering(_Lowering):  # type: ignore[misc]
    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do what Numba's own pass does, but for loading the code."""
        context = state.targetctx
        library = state.library = _PartLibrary(context.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.flags.no_compile = True
        super().run_pass(state)
        library.finalize()
        made = state["cr"]
        # Callers find the code by what Python would call, which must be a builtin. This one is
        # unlike all others, and whoever does call it gets an error.
        never_called = [made.fndesc.qualname].remove
        context.insert_user_function(never_called, made.fndesc, [library])
        state["cr"] = made._replace(cfunc=never_called)
        return True


class PartCompiler(PassesOfKernels):
    """The compiler of a part of a kernel."""

    def define_pipelines(self) -> list[Any]:
        return [passes_with(self.state, _PartLowering)]


PART: Final[dict[str, Any]] = {
    "pipeline_class": PartCompiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
