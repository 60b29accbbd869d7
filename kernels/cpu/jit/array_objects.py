"""Type checks of arrays before a compiled loop reads the address of an array's memory."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

# Note [Addresses of arrays alone] A loop that gets id(array) reads the address of the memory from
# the object, whatever the object is: from a float it would read an arbitrary address. So code that
# passes an id first compares the type. That costs 15 ns an array in Python, and 6 in compiled code,
# which the shortest calls use (Python 3.11, AMD EPYC, Zen 4). The type is type(x), because
# `x.__class__` can be overridden.
ARRAY = np.ndarray

# Note [Reading array objects]
# NumPy's ABI fixes the start of an array object: header, data, nd, dimensions, strides. CPython's
# tuple ends with its items. id() is the address in CPython, the only Python that Numba runs on. The
# arrays are arguments of the caller, so they live until the launch returns, and no other code
# resizes them. Their types are checked first: see Note [Addresses of arrays alone].
HEADER: Final = object.__basicsize__
ITEMS: Final = tuple.__basicsize__

# Results of iteration.run that mean an error.
BAD_SHAPE: Final = 1
OVERLAP: Final = 2


def plain(operand: Any) -> Any:
    """Return an array of a subclass of np.ndarray viewed as np.ndarray.

    Raises  TypeError unless it is a NumPy array
    """
    require_arrays(operand)
    return np.asarray(operand)


def gapless(*operands: Any) -> Any:
    """Yield operands in C order; other operands are copied.

    Raises  TypeError unless all are NumPy arrays
    """
    for operand in operands:
        if type(operand) is not ARRAY:
            require_arrays(operand)
    return map(np.ascontiguousarray, operands)


def require_arrays(*operands: object) -> None:
    """Raise an error unless all operands are NumPy arrays, or of a subclass.

    Raises  TypeError
    """
    for operand in operands:
        if type(operand) is not ARRAY and not issubclass(type(operand), ARRAY):
            raise TypeError(
                f"a compiled loop reads the memory of NumPy's arrays, and was given a "
                f"{type(operand).__name__}: something has replaced the array of a tensor"
            )
