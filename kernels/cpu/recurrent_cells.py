"""What a recurrent cell does between two products, compiled: gates, states and their gradients.

Each loop goes over short rows with few streams at a time: LLVM widens a loop only where it can ask
in a handful of comparisons whether what is written overlaps what is read.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numba
import numpy as np

from .compiler import compiled, entry_point
from .vector_math import functions

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]

# Held while Numba compiles or loads.
_lock = threading.Lock()


class Cell(NamedTuple):
    """The compiled steps of one kind of cell in one dtype.

    `forward(gates, product, saved, h, c)` changes h and c; `backward(g, saved, before, dh, dc,
    d_gates, d_product)` leaves in dh what does not pass through the product. All are matrices in C
    order with a row for each member of the batch; those without c are given h and dh for it.
    """

    forward: Run
    backward: Run


def cell_of(name: str, dtype: np.dtype[Any]) -> Cell:
    """Return the steps of "lstm", "gru", "tanh" or "relu" for float32 or float64."""
    with _lock:
        return _cell_of(name, dtype.name)


@functools.cache
def _cell_of(name: str, dtype: str) -> Cell:
    matrix = getattr(numba, dtype)[:, ::1]
    forward, backward = _MAKERS[name](dtype)
    return Cell(entry_point(forward, (matrix,) * 5), entry_point(backward, (matrix,) * 7))


def _lstm(dtype: str) -> tuple[Any, Any]:
    sigmoid, tanh = functions(dtype)["sigmoid"], functions(dtype)["tanh"]
    one = np.dtype(dtype).type(1)

    @compiled()
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = h.shape
        for row in range(rows):
            x, y, kept = gates[row], product[row], saved[row]
            for k in range(2 * n):
                kept[k] = sigmoid(x[k] + y[k])
            i, f, g, o = kept[:n], kept[n : 2 * n], kept[2 * n : 3 * n], kept[3 * n : 4 * n]
            x_g, y_g, x_o, y_o = x[2 * n : 3 * n], y[2 * n : 3 * n], x[3 * n :], y[3 * n :]
            for k in range(n):
                g[k] = tanh(x_g[k] + y_g[k])
            for k in range(n):
                o[k] = sigmoid(x_o[k] + y_o[k])
            before, bent = kept[4 * n : 5 * n], kept[5 * n :]
            state, output = c[row], h[row]
            for k in range(n):
                before[k] = state[k]
            for k in range(n):
                state[k] = f[k] * state[k] + i[k] * g[k]
            for k in range(n):
                bent[k] = tanh(state[k])
            for k in range(n):
                output[k] = o[k] * bent[k]

    @compiled()
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = dh.shape
        for row in range(rows):
            kept, to, d_state, d_output, given = saved[row], d_gates[row], dc[row], dh[row], g[row]
            i, f, u, o = kept[:n], kept[n : 2 * n], kept[2 * n : 3 * n], kept[3 * n : 4 * n]
            c, bent = kept[4 * n : 5 * n], kept[5 * n :]
            to_i, to_f, to_u, to_o = to[:n], to[n : 2 * n], to[2 * n : 3 * n], to[3 * n :]
            for k in range(n):
                d_output[k] += given[k]
            for k in range(n):
                to_o[k] = d_output[k] * bent[k] * o[k] * (one - o[k])
            for k in range(n):
                d_state[k] += d_output[k] * o[k] * (one - bent[k] * bent[k])
            for k in range(n):
                to_i[k] = d_state[k] * u[k] * i[k] * (one - i[k])
            for k in range(n):
                to_f[k] = d_state[k] * c[k] * f[k] * (one - f[k])
            for k in range(n):
                to_u[k] = d_state[k] * i[k] * (one - u[k] * u[k])
            for k in range(n):
                d_state[k] *= f[k]

    return forward, backward


def _gru(dtype: str) -> tuple[Any, Any]:
    sigmoid, tanh = functions(dtype)["sigmoid"], functions(dtype)["tanh"]
    one = np.dtype(dtype).type(1)

    @compiled()
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = h.shape
        for row in range(rows):
            x, y, kept, output = gates[row], product[row], saved[row], h[row]
            for k in range(2 * n):
                kept[k] = sigmoid(x[k] + y[k])
            r, z, u, by = kept[:n], kept[n : 2 * n], kept[2 * n : 3 * n], kept[3 * n :]
            x_new, y_new = x[2 * n :], y[2 * n :]
            for k in range(n):
                by[k] = y_new[k]
            for k in range(n):
                u[k] = tanh(x_new[k] + r[k] * y_new[k])
            for k in range(n):
                output[k] = u[k] + z[k] * (output[k] - u[k])

    @compiled()
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = dh.shape
        for row in range(rows):
            kept, to, over, d, given = saved[row], d_gates[row], d_product[row], dh[row], g[row]
            r, z, u, by = kept[:n], kept[n : 2 * n], kept[2 * n : 3 * n], kept[3 * n :]
            to_r, to_z, to_u = to[:n], to[n : 2 * n], to[2 * n :]
            over_u, h = over[2 * n :], before[row]
            for k in range(n):
                d[k] += given[k]
            for k in range(n):
                to_u[k] = d[k] * (one - z[k]) * (one - u[k] * u[k])
            for k in range(n):
                to_z[k] = d[k] * (h[k] - u[k]) * z[k] * (one - z[k])
            for k in range(n):
                to_r[k] = to_u[k] * by[k] * r[k] * (one - r[k])
            for k in range(n):
                over_u[k] = to_u[k] * r[k]
            for k in range(2 * n):
                over[k] = to[k]
            for k in range(n):
                d[k] *= z[k]

    return forward, backward


def _elman(activate: Any, slope: Any) -> tuple[Any, Any]:
    """Return the steps of h = activate(gates + product); slope is by the value of the result."""

    @compiled()
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = h.shape
        for row in range(rows):
            x, y, kept, output = gates[row], product[row], saved[row], h[row]
            for k in range(n):
                kept[k] = activate(x[k] + y[k])
            for k in range(n):
                output[k] = kept[k]

    @compiled()
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = dh.shape
        for row in range(rows):
            kept, to, d, given = saved[row], d_gates[row], dh[row], g[row]
            for k in range(n):
                to[k] = slope(d[k] + given[k], kept[k])

    return forward, backward


def _tanh(dtype: str) -> tuple[Any, Any]:
    one = np.dtype(dtype).type(1)

    @compiled(inline=True)
    def slope(g: Any, y: Any) -> Any:
        return g * (one - y * y)

    return _elman(functions(dtype)["tanh"], slope)


def _relu(dtype: str) -> tuple[Any, Any]:
    from .machine import select

    zero = np.dtype(dtype).type(0)

    @compiled(inline=True)
    def activate(x: Any) -> Any:
        # So written that NaN stays.
        return select(x < zero, zero, x)

    @compiled(inline=True)
    def slope(g: Any, y: Any) -> Any:
        return select(y > zero, g, zero)

    return _elman(activate, slope)


_MAKERS: Final[dict[str, Callable[[str], tuple[Any, Any]]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": _tanh,
    "relu": _relu,
}
