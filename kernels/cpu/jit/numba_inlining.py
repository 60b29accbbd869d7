"""Compiles helper functions of kernels: typed and lowered, but without separate machine code.

If a compiled function calls another one, Numba makes the other callable from Python as well: Numba
optimizes, compiles and loads the called function separately, and then optimizes it again inside its
caller. This took half of the time to compile kernels with many small functions.
"""

from __future__ import annotations

from typing import Any, Final

from numba.core import typed_passes
from numba.core.compiler_machinery import register_pass

from .numba_passes import KernelLibrary, PassesOfKernels, passes_with

# Typed as Any, because different versions of Numba annotate different parts.
_Lowering: Any = typed_passes.NativeLowering
_registered: Any = register_pass


class _PartLibrary(KernelLibrary):
    """Code that is only linked into other code; LLVM optimizes the linked code as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_registered(mutates_CFG=True, analysis_only=False)
class _PartLowering(_Lowering):  # type: ignore[misc]
    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do the same as Numba's pass, without loading the code."""
        context = state.targetctx
        library = state.library = _PartLibrary(context.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.flags.no_compile = True
        super().run_pass(state)
        library.finalize()
        made = state["cr"]
        # Numba looks up the code of a called function by the object that Python would call. This
        # object must be a builtin. Each function gets a distinct builtin, which would raise an
        # error.
        never_called = [made.fndesc.qualname].remove
        context.insert_user_function(never_called, made.fndesc, [library])
        state["cr"] = made._replace(cfunc=never_called)
        return True


class PartCompiler(PassesOfKernels):
    """The compiler of a helper function of a kernel."""

    def define_pipelines(self) -> list[Any]:
        return [passes_with(self.state, _PartLowering)]


PART: Final[dict[str, Any]] = {
    "pipeline_class": PartCompiler,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
