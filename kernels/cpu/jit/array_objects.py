"""Refusing other objects where a compiled loop is about to read an array's address."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# Note [Addresses of arrays alone] A loop that takes id(array) reads the address of the memory from
# the object, whatever the object is: a float there would be read at an address of its choice. So
# each place that takes an id first compares the type, which costs 15 ns an array in Python and 6 in
# compiled code, where the shortest calls have it (Python 3.11, AMD EPYC, Zen 4). The type is that
# of type(x), since `x.__class__` may say anything.
ARRAY = np.ndarray

# Note [Reading array objects]
# NumPy's ABI fixes an array object as: header, data, nd, dimensions, strides; CPython's tuple ends
# in its items. id() is the address in CPython, the only Python that Numba runs on. The arrays are
# arguments of the caller, so they live until the launch returns, and nobody resizes them. That they
# are arrays is checked first: see Note [Addresses of arrays alone].
HEADER: Final = object.__basicsize__
ITEMS: Final = tuple.__basicsize__

# Results of iteration.run other than 0.
BAD_SHAPE: Final = 1
OVERLAP: Final = 2


def plain(operand: Any) -> Any:
    """Return an array of a derived class as one of NumPy's class.

    Raises  TypeError unless it is an array of NumPy
    """
    require_arrays(operand)
    return np.asarray(operand)


def gapless(*operands: Any) -> Any:
    """Yield operands in C order, each itself if it lies so.

    Raises  TypeError unless all are arrays of NumPy
    """
    for operand in operands:
        if type(operand) is not ARRAY:
            require_arrays(operand)
    return map(np.ascontiguousarray, operands)


def require_arrays(*operands: object) -> None:
    """Raise unless all operands are arrays of NumPy, or of a class derived from them.

    Raises  TypeError
    """
    for operand in operands:
        if type(operand) is not ARRAY and not issubclass(type(operand), ARRAY):
            raise TypeError(
                f"a compiled loop reads the memory of NumPy's arrays, and was given a "
                f"{type(operand).__name__}: something has replaced the array of a tensor"
            )
