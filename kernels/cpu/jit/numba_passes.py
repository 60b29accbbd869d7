"""Numba's compiler passes for kernels: only passes that have an effect on kernels, each once.

Because Numba supports any function, it looks for features that kernels do not use, and at each `+`
of two integers it tries dozens of templates again.
"""

# Note [Less of a compiler] On one core of an AMD EPYC (Zen 4) eleven first calls (add, sum, pools,
# batch norm, an LSTM, a convolution, Adam ...) took 6.8 s with an empty cache, and now take 6.1.
# Python code takes half of this time; a tenth of the Python calls resolved operators on numbers. A
# twentieth of the time went into passes without effect: kernels contain no closures
# (InlineClosureLikes), and no expressions over whole NumPy arrays (NopythonRewrites). LLVM's passes
# over each function, and its first passes over the module, prune reference counts, which the
# optimizing passes prune again.

from __future__ import annotations

import functools
import operator
from typing import Any, Final

from numba.core import codegen, compiler, typed_passes, types
from numba.core.compiler_machinery import register_pass
from numba.core.typing import context as typing_context

# Typed as Any, because different versions of Numba annotate different parts.
_Library: Any = codegen.JITCodeLibrary
_Lowering: Any = typed_passes.NativeLowering
_Compiler: Any = compiler.CompilerBase
_builder: Any = compiler.DefaultPassBuilder
_registered: Any = register_pass
_types: Any = types
_Context: Any = typing_context.Context

_NEEDLESS: Final = ("InlineClosureLikes", "InlineOverloads", "NopythonRewrites")


def passes_with(state: Any, lowering: Any) -> Any:
    """Return the passes of Numba's njit that kernels need, with `lowering` as the lowering pass."""
    passes = _builder.define_nopython_pipeline(state)
    passes.passes = [
        (lowering if each is _Lowering else each, why)
        for each, why in passes.passes
        if each.__name__ not in _NEEDLESS
    ]
    passes.finalize()
    return passes


class KernelLibrary(_Library):  # type: ignore[misc]
    """Code that LLVM optimizes once, as a whole; Numba would first optimize each function."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        made = self._codegen._module_pass_manager()
        # An older Numba uses LLVM's legacy pass manager, without a builder.
        passes, *builder = made if isinstance(made, tuple) else (made,)
        passes.run(self._final_module, *builder)


@_registered(mutates_CFG=True, analysis_only=False)
class _KernelLowering(_Lowering):  # type: ignore[misc]
    _name = "kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do the same as Numba's pass, with KernelLibrary if this version of Numba supports it."""
        maker = state.targetctx.codegen()
        # An older Numba uses LLVM's legacy pass manager, for which these savings were not measured.
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
# Operator and number types -> Numba's signature of the operation.
_signatures: Final[dict[Any, Any]] = {}


class _Typing(_Context):  # type: ignore[misc]
    """Numba's typing context, with a cache of the signatures of operators on numbers.

    Note    if one operand is a literal and the other is not, the signature is that of the literal's
            type; Numba evaluates operations on two literals at compile time
    """

    def __init__(self, of: Any) -> None:
        self.__dict__ = of.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call; the signatures of operators on numbers are cached."""
        # Numba calls this with the operator or with its type. The type object can change when Numba
        # learns more about it, and is only valid in the context that resolved it.
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


# Return the same _Typing for each call with a context, because Numba caches by context what it has
# resolved.
_typing_like: Final = functools.cache(_Typing)


class PassesOfKernels(_Compiler):  # type: ignore[misc]
    """Base of the compilers for kernels; a subclass defines the passes."""

    def __init__(self, typing_context: Any, *rest: Any) -> None:
        super().__init__(_typing_like(typing_context), *rest)


class KernelCompiler(PassesOfKernels):
    """The compiler of a kernel: an njit function that Python or C calls."""

    def define_pipelines(self) -> list[Any]:
        return [passes_with(self.state, _KernelLowering)]
