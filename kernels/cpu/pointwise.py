"""Pointwise kernels of the CPU: one scalar body, and which side computes it.

NumPy computes up to SMALL_LIMIT elements, Numba beyond. The choice looks at size, dtype and body,
never at what happens to be compiled, so that a result does not depend on what ran before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fastdist.core.scalar import Body

from .numpy_pointwise import into_function, small_function

Array = Any

SMALL_LIMIT: Final = 4096
_HALF: Final = np.dtype(np.float16)


class PointwiseKernel:
    """One body on the CPU. Get it from kernel_for, which makes it once.

    Thread  any, several at once
    Note    `small(*arrays)` is the NumPy side with a fresh result, for the eager path
    """

    __slots__ = ("_into", "_one_step", "small")

    def __init__(self, body: Body) -> None:
        self.small: Callable[..., Array] = small_function(body)
        self._into = into_function(body)
        self._one_step = isinstance(self.small, np.ufunc)

    def run(self, arrays: Sequence[Array], out: Array) -> None:
        """Write the body of arrays, which broadcast to out, into out."""
        if not self._one_step:
            arrays = [a.astype(np.float32) if a.dtype == _HALF else a for a in arrays]
        self._into(out, *arrays)


def kernel_for(body: Body) -> PointwiseKernel:
    """Return the kernel of a body, the same one each time."""
    kernel: PointwiseKernel | None = body.readings.get("cpu")
    # setdefault: two threads may be here at once, and both must leave with the same kernel.
    return kernel or body.readings.setdefault("cpu", PointwiseKernel(body))
