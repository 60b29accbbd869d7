"""Ops on float8 tensors: a few compute in float32 and round, the others raise an error.

PyTorch has float8 kernels for moves, casts and a handful of ops. The same ops run here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.dtypes import (
    WORDS,
    DType,
    complex32,
    complex64,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
)
from ..core.errors import NoKernelError
from ..tensor.tensor import Tensor
from .op import OPS

# Ops whose kernel name in PyTorch's errors is not the op's name followed by "_cpu".
_KERNELS: Final = {
    **{name: f"{name}_vml_cpu" for name in ("exp", "floor", "round", "sqrt")},
    **{name: name for name in ("bmm", "dot", "isfinite", "isinf", "masked_fill", "pow")},
    "rand": "check_uniform_bounds",
    "randn": "normal_kernel_cpu",
    "add": "add_stub",
    "sub": "add_stub",
    "prod": "prod_out_cpu",
    "softmax": "softmax_kernel_impl",
}
# Pointwise ops that PyTorch has for float8 operands, and for which float8 types.
_COMPUTED: Final[dict[str, Callable[[DType], bool]]] = {
    **dict.fromkeys(("eq", "isnan", "mul", "ne", "where"), lambda dtype: True),
    "abs": lambda dtype: dtype is not float8_e8m0fnu,
    "isinf": lambda dtype: dtype is float8_e5m2,
    "isfinite": lambda dtype: dtype in (float8_e5m2, float8_e8m0fnu, float32),
}
# Pointwise ops that PyTorch has for complex32.
_COMPUTED_IN_COMPLEX64: Final = frozenset(
    {"abs", "add", "conj", "eq", "isnan", "mul", "ne", "neg", "sub", "where"}
)


def no_float8_kernel(name: str, dtype: DType) -> NoKernelError:
    """Return the error for an op that would compute in a float8 type."""
    kernel, wide = _KERNELS.get(name, f"{name}_cpu"), "float32"
    if dtype is complex32:
        wide = "complex64"
    return NoKernelError(
        f"\"{kernel}\" not implemented for '{WORDS[dtype]}': cast with .to(fastdist.{wide}) "
        f"first, and the result with .to(fastdist.{dtype.name})"
    )


def computed_in_float32(name: str, dtype: DType, operands: Sequence[Any]) -> bool:
    """Return whether a pointwise op whose operands promote to dtype, a float8 type or complex32, is
    computed in a wider dtype.
    """
    if dtype is complex32:
        return name in _COMPUTED_IN_COMPLEX64
    takes = _COMPUTED.get(name)
    if takes is None or not takes(dtype):
        return False
    # PyTorch has no kernel for a float8 tensor times a number either.
    return name != "mul" or all(isinstance(o, Tensor) for o in operands)


def by_float32(name: str, dtype: DType, *operands: Any) -> Tensor:
    """Compute an op on float8 operands in float32, or on complex32 operands in complex64, and
    round.
    """
    cast = OPS["cast"].public
    between = complex64 if dtype is complex32 else float32
    wide = [
        cast(o, between) if isinstance(o, Tensor) and o._layout.dtype.is_float8 else o
        for o in operands
    ]
    found: Tensor = OPS[name].public(*wide)
    if dtype is complex32 and not found._layout.dtype.is_complex:
        return cast(found, float16) if found._layout.dtype.is_floating_point else found
    return cast(found, dtype) if found._layout.dtype.may_have_gradient else found
