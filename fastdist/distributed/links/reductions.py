"""Sums and other element-wise reductions of arrays, in a given order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Note [Order and rounding of sums]
# Members of one machine are summed in the order of their ranks, then the machines. Two machines
# are summed in their order. With more machines, large arrays are summed around a ring, and
# small ones in the pairs of tree.py. Each part of the result is computed by one member and
# copied to the others, or by all members from the same numbers in the same order. So all
# members get bitwise equal results in every run.
# Types with fewer bits than float32 are added in float32. The result is rounded once for each
# machine, and once for each machine that is added to the sum. Other types are added without
# conversion. Integers wrap around. For bool, sum is "or" and product is "and". min and max give
# NaN if any value is NaN.

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

    Raises  ValueError for an unknown reduction; TypeError if it is not defined for the dtype
    """
    if op not in _UFUNCS:
        raise ValueError(f"reduction is {op!r}; known: {', '.join(_UFUNCS)}")
    if op in _ORDERS and dtype.kind == "c":
        raise TypeError(f"{op} of {dtype}: complex numbers have no order; reduce their parts")
    if op in _BITS and dtype.kind not in "iub":
        raise TypeError(f"{op} of {dtype}: only integers and bool have bits to combine")


def combine(op: str, arrays: Sequence[NDArray[Any]], out: NDArray[Any]) -> None:
    """Write the reduction of arrays, in their order, into out, which may be the first array."""
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
    # Types of ml_dtypes have kind V or f.
    return (
        dtype.itemsize < 4
        and dtype.kind not in "iub"
        and not dtype.name.startswith(("int", "uint"))
    )
