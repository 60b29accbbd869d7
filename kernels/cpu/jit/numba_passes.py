"""Numba's passes for kernels: only those that change them, and each once.

Numba serves any function: it looks for features that kernels do not use, and tries dozens of
templates to find the `+` of two integers, at each `+` again.
"""

# Note [Less of a compiler] On one core of an AMD EPYC (Zen 4) eleven first calls (add, sum, pools,
# batch norm, an LSTM, a convolution, Adam ...) took 6.8 s with an empty cache, and take 6.1. Half
# of that is Python's; a tenth of its calls resolved operators of numbers. A twentieth of the time
# went into passes that change nothing here: kernels contain no closures (InlineClosureLikes), nor
# the NumPy expressions over whole arrays that NopythonRewrites looks for. LLVM's passes over each
# function, and its first ones over the module, prune reference counts before the optimising passes,
# which prune them again.

from __future__ import annotations

import functools
import operator
from typing import Any, Final

from numba.core import codegen, compiler, typed_passes, types
from numba.core.compiler_machinery import register_pass
from numba.core.typing import context as typing_context

# Untyped on purpose: which parts of Numba carry types changes from version to version.
_Library: Any = codegen.JITCodeLibrary
_Lowering: Any = typed_passes.NativeLowering
_Compiler: Any = compiler.CompilerBase
_builder: Any = compiler.DefaultPassBuilder
_registered: Any = register_pass
_types: Any = types
_Context: Any = typing_context.Context

_NEEDLESS: Final = ("InlineClosureLikes", "InlineOverloads", "NopythonRewrites")


def passes_with(state: Any, lowering: Any) -> Any:
    """Return Numba's passes for njit, those that kernels need, with their own lowering."""
    passes = _builder.define_nopython_pipeline(state)
    passes.passes = [
        (lowering if each is _Lowering else each, why)
        for each, why in passes.passes
        if each.__name__ not in _NEEDLESS
    ]
    passes.finalize()
    return passes


class KernelLibrary(_Library):  # type: ignore[misc]
    """Code that LLVM optimises as a whole, and once: not function by function before."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        made = self._codegen._module_pass_manager()
        # An older Numba has LLVM's former pass manager, without a builder.
        passes, *builder = made if isinstance(made, tuple) else (made,)
        passes.run(self._final_module, *builder)


@_registered(mutates_CFG=True, analysis_only=False)
class _KernelLowering(_Lowering):  # type: ignore[misc]
    _name = "kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do what Numba's own pass does, with a library of ours where Numba has what it takes."""
        maker = state.targetctx.codegen()
        # An older Numba has LLVM's former pass manager, which all this was not measured with.
        if hasattr(maker, "_pass_builder"):
            state.library = KernelLibrary(maker, state.func_id.func_qualname)
            state.library.enable_object_caching()
        return bool(super().run_pass(state))


_NUMBERS: Final = (_types.Integer, _types.Float, _types.Boolean)
_OPERATORS: Final = frozenset(
    getattr(operator, name)
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_"),
        *("xor", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "invert", "iadd", "isub"),
        *("imul", "itruediv", "ifloordiv", "imod", "ilshift", "irshift", "iand", "ior", "ixor"),
    )
)
# By operator and the numbers' types: how Numba says that they are operated on.
_signatures: Final[dict[Any, Any]] = {}


class _Typing(_Context):  # type: ignore[misc]
    """Numba's own context, with a cache of the signatures of operators of numbers.

    Note    a number whose value is known counts as any of its type next to one whose value is not;
            two known values are compared by Numba while it compiles
    """

    def __init__(self, of: Any) -> None:
        self.__dict__ = of.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call, that of an operator between numbers as it was found
        first.
        """
        # Numba asks by the operator or by its type, which is another where it has learnt more of it
        # and knows how to do what it resolved itself.
        kind = func if isinstance(func, _types.BaseFunction) else self._lookup_global(func)
        is_operator = getattr(kind, "typing_key", None) in _OPERATORS
        plain = tuple([_types.unliteral(one) for one in args]) if is_operator else ()
        if kws or not any(map(operator.is_, plain, args)):
            return super().resolve_function_type(func, args, kws)
        found = _signatures.get((kind, plain))
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            by_kind = found is not None and found.args == plain
            if by_kind and all(isinstance(one, _NUMBERS) for one in plain):
                _signatures[kind, plain] = found
        return found


# One: Numba keeps what it has resolved by context.
_typing_like: Final = functools.cache(_Typing)


class PassesOfKernels(_Compiler):  # type: ignore[misc]
    """The compiler of our functions; a subclass gives the passes."""

    def __init__(self, typing_context: Any, *rest: Any) -> None:
        super().__init__(_typing_like(typing_context), *rest)


class KernelCompiler(PassesOfKernels):
    """The compiler of a kernel: an njit function that Python or C calls."""

    def define_pipelines(self) -> list[Any]:
        return [passes_with(self.state, _KernelLowering)]
