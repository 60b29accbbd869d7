"""Type checks of arrays before a compiled loop reads the address of an array's memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# Note [Addresses of arrays alone] A loop that gets id(array) reads the address of the memory from
# the object, whatever the object is: from a float it would read an arbitrary address. So code that
# passes an id first compares the type. That costs 15 ns an array in Python, and 6 in compiled code,
# which the shortest calls use (Python 3.11, AMD EPYC, Zen 4). The check uses type(x), because
# `x.__class__` can be overridden.
ARRAY = np.ndarray

# Note [Reading array objects]
# NumPy's ABI fixes the start of an array object: header, data, nd, dimensions, strides. CPython's
# tuple ends with its items. In CPython, the only implementation that Numba supports, id() is the
# address of the object. The arrays are arguments of the caller, so they live until the launch
# returns, and no other code resizes them. Their types are checked first: see Note [Addresses of
# arrays alone].
HEADER: Final = object.__basicsize__
ITEMS: Final = tuple.__basicsize__

# Results of iteration.run that mean an error.
BAD_SHAPE: Final = 1
OVERLAP: Final = 2


def plain(operand: Any) -> Any:
    """Return `operand`, an array of np.ndarray or of a subclass, as an np.ndarray without a copy.

    Raises  TypeError unless `operand` is a NumPy array
    """
    require_arrays(operand)
    return np.asarray(operand)


def gapless(*operands: Any) -> Any:
    """Return an iterator of the operands in C order; an operand in another order is copied.

    Raises  TypeError unless all operands are NumPy arrays
    """
    for operand in operands:
        if type(operand) is not ARRAY:
            require_arrays(operand)
    return map(np.ascontiguousarray, operands)


def require_arrays(*operands: object) -> None:
    """Require that all operands are arrays of np.ndarray or of a subclass.

    Raises  TypeError for any other operand
    """
    for operand in operands:
        if type(operand) is not ARRAY and not issubclass(type(operand), ARRAY):
            raise TypeError(
                f"a compiled loop reads the memory of NumPy's arrays, and was given a "
                f"{type(operand).__name__}: something has replaced the array of a tensor"
            )
