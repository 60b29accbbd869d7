"""The compiled loops over rows: each row is read while it lies in cache.

Sums are taken in float64, also those of float32, so that their rounding does not grow with their
length; `reassoc` lets LLVM take several terms at a time. One thread does it, so results repeat.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np

from . import machine
from .compiler import compiled, entry_point
from .vector_math import functions

_SUMS: Final = {"reassoc", "contract"}
# Held while Numba compiles or loads.
_lock = threading.Lock()


def loop(name: str, dtype: str) -> Callable[..., Any]:
    """Return the loop of a name for float32 or float64, over matrices in C order."""
    found = _found.get((name, dtype))
    if found is None:
        with _lock:
            found = _found[name, dtype] = _loop(name, dtype)
    return found


_found: dict[tuple[str, str], Callable[..., Any]] = {}


@functools.cache
def _loop(name: str, dtype: str) -> Callable[..., Any]:
    number = getattr(numba, dtype)
    matrix, row, totals = number[:, ::1], number[::1], numba.float64[::1]
    signatures = {
        "softmax": (matrix,) * 2,
        "softmax_gradient": (matrix,) * 3,
        "layer_norm": (matrix, row, row, matrix, matrix, matrix, numba.float64),
        "layer_norm_by_input": (matrix, matrix, row, matrix, matrix, matrix),
        "layer_norm_by_weight": (*(matrix,) * 4, totals),
        "columns": (matrix, totals),
        "add_rows": (matrix, numba.int64[::1], matrix),
    }
    made = _SIMPLE[name] if name in _SIMPLE else _MAKERS[name](dtype)
    return entry_point(made, signatures[name])


@compiled(inline=True, fastmath=_SUMS)
def _sum(row: Any) -> Any:
    total = 0.0
    for j in range(len(row)):
        total += row[j]
    return total


@compiled(inline=True, fastmath=_SUMS)
def _sum_of_products(x: Any, y: Any) -> Any:
    total = 0.0
    for j in range(len(x)):
        total += np.float64(x[j]) * np.float64(y[j])
    return total


@compiled()
def _add_rows(out: Any, index: Any, x: Any) -> None:
    for i in range(len(index)):
        to, row = out[index[i]], x[i]
        for j in range(len(to)):
            to[j] += row[j]


@compiled()
def _columns(g: Any, total: Any) -> None:
    for i in range(g.shape[0]):
        row = g[i]
        for j in range(len(total)):
            total[j] += row[j]


def _softmax(dtype: str) -> Any:
    exp = functions(dtype)["exp"]
    is_32 = dtype == "float32"
    number, integer = (np.float32, np.int32) if is_32 else (np.float64, np.int64)
    bits_of = machine.bits_of_float32 if is_32 else machine.bits_of_float64
    of_bits = machine.float32_of_bits if is_32 else machine.float64_of_bits
    sign, one = integer(31 if is_32 else 63), number(1)
    rest, least = integer(np.iinfo(integer).max), integer(np.iinfo(integer).min)

    @compiled(inline=True)
    def as_integer(bits: Any) -> Any:
        """Return bits so that whole numbers are ordered as the numbers are; its own inverse."""
        return integer(bits ^ integer(integer(bits >> sign) & rest))

    @compiled()
    def softmax(x: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            row, to = x[i], out[i]
            # Of whole numbers LLVM takes the greatest of many at a time, and NaN has its place.
            highest = least
            for j in range(len(row)):
                highest = max(highest, as_integer(bits_of(row[j])))
            top = of_bits(as_integer(highest))
            for j in range(len(row)):
                to[j] = exp(row[j] - top)
            share = number(one / _sum(to))
            for j in range(len(row)):
                to[j] *= share

    return softmax


def _softmax_gradient(dtype: str) -> Any:
    number = np.dtype(dtype).type

    @compiled()
    def softmax_gradient(g: Any, out: Any, found: Any) -> None:
        for i in range(g.shape[0]):
            given, share, to = g[i], out[i], found[i]
            even = number(_sum_of_products(given, share))
            for j in range(len(to)):
                to[j] = (given[j] - even) * share[j]

    return softmax_gradient


def _layer_norm(dtype: str) -> Any:
    number, one = np.dtype(dtype).type, np.dtype(dtype).type(1)

    @compiled(fastmath={"contract"})
    def layer_norm(
        x: Any, weight: Any, bias: Any, out: Any, mean: Any, deviation: Any, eps: Any
    ) -> None:
        n = x.shape[1]
        for i in range(x.shape[0]):
            row, to = x[i], out[i]
            centre = number(_sum(row) / n)
            for j in range(n):
                to[j] = row[j] - centre
            spread = number(np.sqrt(_sum_of_products(to, to) / n + eps))
            mean[i, 0], deviation[i, 0] = centre, spread
            scale = one / spread
            for j in range(n):
                to[j] = to[j] * scale * weight[j] + bias[j]

    return layer_norm


def _layer_norm_by_input(dtype: str) -> Any:
    number, one = np.dtype(dtype).type, np.dtype(dtype).type(1)

    @compiled(fastmath={"contract"})
    def layer_norm_by_input(
        g: Any, x: Any, weight: Any, mean: Any, deviation: Any, out: Any
    ) -> None:
        n = x.shape[1]
        normal, scaled = np.empty(n, x.dtype), np.empty(n, x.dtype)
        for i in range(x.shape[0]):
            given, row, to = g[i], x[i], out[i]
            centre, scale = mean[i, 0], one / deviation[i, 0]
            for j in range(n):
                normal[j] = (row[j] - centre) * scale
            for j in range(n):
                scaled[j] = given[j] * weight[j]
            along = number(_sum_of_products(scaled, normal) / n)
            even = number(_sum(scaled) / n)
            for j in range(n):
                to[j] = (scaled[j] - even - normal[j] * along) * scale

    return layer_norm_by_input


def _layer_norm_by_weight(dtype: str) -> Any:
    one = np.dtype(dtype).type(1)

    @compiled()
    def layer_norm_by_weight(g: Any, x: Any, mean: Any, deviation: Any, total: Any) -> None:
        for i in range(x.shape[0]):
            given, row = g[i], x[i]
            centre, scale = mean[i, 0], one / deviation[i, 0]
            for j in range(len(total)):
                total[j] += given[j] * ((row[j] - centre) * scale)

    return layer_norm_by_weight


_SIMPLE: Final[dict[str, Any]] = {"add_rows": _add_rows, "columns": _columns}
_MAKERS: Final[dict[str, Callable[[str], Any]]] = {
    "softmax": _softmax,
    "softmax_gradient": _softmax_gradient,
    "layer_norm": _layer_norm,
    "layer_norm_by_input": _layer_norm_by_input,
    "layer_norm_by_weight": _layer_norm_by_weight,
}
