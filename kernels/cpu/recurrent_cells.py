"""What a recurrent cell does between two products, compiled: gates, states and their gradients.

Each loop goes over short rows with few streams at a time: LLVM widens a loop only where it can ask
in a handful of comparisons whether what is written overlaps what is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np

from .compiler import compiled, entry_point
from .machine import LOAD, STORE
from .vector_math import functions

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]

# forward(gates, product, saved, h, c) changes h and c; backward(g, saved, before, dh, dc, d_gates,
# d_product) leaves in dh what does not pass through the product. All are matrices in C order with a
# row for each member of the batch; those without c are given h and dh for it.


@functools.cache
def forward_of(name: str, dtype: str) -> Run:
    """Return the step of "lstm", "gru", "tanh" or "relu", compiled for float32 or float64."""
    return entry_point(_made(name, dtype)[0], (getattr(numba, dtype)[:, ::1],) * 5)


@functools.cache
def backward_of(name: str, dtype: str) -> Run:
    """Return that of its gradient."""
    return entry_point(_made(name, dtype)[1], (getattr(numba, dtype)[:, ::1],) * 7)


@functools.cache
def _made(name: str, dtype: str) -> tuple[Any, Any]:
    return _MAKERS[name](dtype)


def _lstm(dtype: str) -> tuple[Any, Any]:
    sigmoid, tanh = functions(dtype)["sigmoid"], functions(dtype)["tanh"]
    one = np.dtype(dtype).type(1)

    load, store, size = LOAD[dtype], STORE[dtype], np.dtype(dtype).itemsize

    @compiled()
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = h.shape
        step, most = n * size, 4 * n * size
        # Of addresses, since Numba takes its time for each part of an array.
        x, y, kept = gates.ctypes.data, product.ctypes.data, saved.ctypes.data
        state, output = c.ctypes.data, h.ctypes.data
        for _ in range(rows):
            g, o, before = kept + 2 * step, kept + 3 * step, kept + most
            bent = before + step
            for k in range(2 * n):
                store(kept, k, sigmoid(load(x, k) + load(y, k)))
            for k in range(2 * n, 3 * n):
                store(kept, k, tanh(load(x, k) + load(y, k)))
            for k in range(3 * n, 4 * n):
                store(kept, k, sigmoid(load(x, k) + load(y, k)))
            for k in range(n):
                store(before, k, load(state, k))
            for k in range(n):
                new = load(kept, n + k) * load(state, k) + load(kept, k) * load(g, k)
                store(state, k, new)
            for k in range(n):
                store(bent, k, tanh(load(state, k)))
            for k in range(n):
                store(output, k, load(o, k) * load(bent, k))
            x, y, kept = x + most, y + most, kept + most + 2 * step
            state, output = state + step, output + step

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
