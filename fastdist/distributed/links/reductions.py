"""Sums and other element-wise reductions of arrays, in a given order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Note [Order and rounding of sums]
# The arrays of one machine's members are added first, in the order of the members' ranks. The
# sums of the machines are added next. The sums of two machines are added in the order of the
# machines. With more machines, large arrays are summed around a ring, and small ones by pairs of
# leaders, as tree.py describes. Each part of the result is either computed by one member and
# copied to the others, or computed by every member from the same numbers in the same order. So
# all members get bitwise equal results in every run.
# Floating-point types with fewer bits than float32 are added in float32. The sum of each machine is
# rounded once, and the total is rounded once for each machine that is added to it. Other types are
# added without conversion. Integers wrap around. For bool, sum is "or" and product is "and". min
# and max give NaN if any value is NaN.

_UFUNCS: Final[dict[str, Callable[..., Any]]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
_ORDERS: Final = ("min", "max")
_BITS: Final = ("band", "bor", "bxor")


def require_reducible(op: str, dtype: np.dtype[Any]) -> None:
    """Check that a reduction is defined for a dtype.

    Raises  ValueError for an unknown reduction; TypeError if the dtype does not support it
    """
    if op not in _UFUNCS:
        raise ValueError(f"reduction is {op!r}; known: {', '.join(_UFUNCS)}")
    if op in _ORDERS and dtype.kind == "c":
        raise TypeError(f"{op} of {dtype}: complex numbers have no order; reduce their parts")
    if op in _BITS and dtype.kind not in "iub":
        raise TypeError(f"{op} of {dtype}: only integers and bool have bits to combine")


def combine(op: str, arrays: Sequence[NDArray[Any]], out: NDArray[Any]) -> None:
    """Reduce `arrays` in their order, and write the result to `out`, which may be the first one."""
    first, *others = arrays
    ufunc = _UFUNCS[op]
    if not others:
        if out is not first:
            out[...] = first
    elif _is_short_float(out.dtype):
        result = first.astype(np.float32)
        for array in others:
            ufunc(result, array.astype(np.float32), out=result)
        out[...] = result.astype(out.dtype)
    else:
        ufunc(first, others[0], out=out)
        for array in others[1:]:
            ufunc(out, array, out=out)


def _is_short_float(dtype: np.dtype[Any]) -> bool:
    # The dtypes of package ml_dtypes have the kind "V" or "f".
    return (
        dtype.itemsize < 4
        and dtype.kind not in "iub"
        and not dtype.name.startswith(("int", "uint"))
    )
