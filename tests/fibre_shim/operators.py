"""CuPy's own array kernels, implemented with the NumPy functions of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fibre_shim.streams import queue


def _on_host(given: Any) -> Any:
    return given.host if isinstance(given, Operators) else given


def computed(
    made: Callable[..., Any], function: Callable[..., Any], *args: Any, **named: Any
) -> Any:
    """Return an array from `made(shape, dtype)`, and fill it with a NumPy function's result.

    The result is computed when all earlier work is done.
    """

    def compute() -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(function(*map(_on_host, args), **named))

    # The result's shape and dtype do not depend on values, so compute them from the current memory.
    like = compute()
    array = made(like.shape, like.dtype)
    queue(lambda: np.copyto(array.host, compute()))
    return array


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args, **named: computed(type(self), function, self, *args, **named)


class Operators:
    """Arithmetic, comparisons and reductions of an array whose `host` is a NumPy view."""

    host: np.ndarray
    __hash__ = None  # type: ignore[assignment]

    __add__ = _method(np.add)
    __sub__ = _method(np.subtract)
    __mul__ = _method(np.multiply)
    __truediv__ = _method(np.true_divide)
    __mod__ = _method(np.remainder)
    __and__ = _method(np.bitwise_and)
    __invert__ = _method(np.invert)
    __neg__ = _method(np.negative)
    __eq__ = _method(np.equal)  # type: ignore[assignment]
    __ne__ = _method(np.not_equal)  # type: ignore[assignment]
    __lt__ = _method(np.less)
    __gt__ = _method(np.greater)
    __rmul__ = _method(lambda x, y: np.multiply(y, x))
    __rsub__ = _method(lambda x, y: np.subtract(y, x))
    __rtruediv__ = _method(lambda x, y: np.true_divide(y, x))
    conj = _method(np.conj)
    copy = _method(np.copy)
    argmax = _method(np.argmax)
    any = _method(np.any)
    all = _method(np.all)
    sum = _method(np.sum)
    prod = _method(np.prod)

    def __len__(self) -> int:
        return len(self.host)
