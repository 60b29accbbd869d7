"""Ops on float8 tensors: a few ops compute in float32 and round, all other ops raise an error.

PyTorch has float8 kernels for copies, casts and a handful of ops. fastdist supports the same ops.
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

# The kernel names in PyTorch's errors, for ops whose kernel is not named as the op plus "_cpu".
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
# Pointwise ops that PyTorch has for float8 operands; each function says for which float8 dtypes.
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
    """Return the error for an op that would compute in `dtype`, a float8 dtype or complex32."""
    kernel, wide = _KERNELS.get(name, f"{name}_cpu"), "float32"
    if dtype is complex32:
        wide = "complex64"
    return NoKernelError(
        f"\"{kernel}\" not implemented for '{WORDS[dtype]}': cast with .to(fastdist.{wide}) "
        f"first, and the result with .to(fastdist.{dtype.name})"
    )


def computed_in_float32(name: str, dtype: DType, operands: Sequence[Any]) -> bool:
    """Return whether a pointwise op is computed in a wider dtype. `dtype`, to which the operands
    promote, is a float8 dtype or complex32.
    """
    if dtype is complex32:
        return name in _COMPUTED_IN_COMPLEX64
    takes = _COMPUTED.get(name)
    if takes is None or not takes(dtype):
        return False
    # PyTorch has no kernel that multiplies a float8 tensor by a number.
    return name != "mul" or all(isinstance(o, Tensor) for o in operands)


def by_float32(name: str, dtype: DType, *operands: Any) -> Tensor:
    """Compute an op in float32 for float8 operands, or in complex64 for complex32 operands, and
    round the result to `dtype`.
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
