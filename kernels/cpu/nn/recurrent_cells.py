"""The cells of recurrent layers, compiled: the gates, states and gradients between two products.

Each loop goes over short rows with few arrays at a time: LLVM vectorizes a loop only if a handful
of comparisons can show that the output does not overlap the inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np

from ..jit.array_objects import HEADER
from ..jit.compiler import compiled, entry_point
from ..jit.machine import LOAD, STORE, select
from ..pointwise.vector_math import functions

Run = Callable[..., Any]
_get: Final = LOAD["int64"]

# forward(gates, product, saved, h, c) updates h and c. backward(g, saved, before, dh, dc, d_gates,
# d_product) leaves in dh the part of the gradient that does not go through the product. All
# arguments are matrices in C order with a row for each member of the batch. Cells without c get h
# in place of c, and dh in place of dc. Both functions take the ids of arrays, because Numba
# compiles functions of integers faster than functions of arrays. See Note [Reading array objects]
# in array_objects.py.


@functools.cache
def forward_of(name: str, dtype: str) -> Run:
    """Return the forward step of "lstm", "gru", "tanh" or "relu", for float32 or float64."""
    return entry_point(_made(name, dtype)[0], (numba.int64,) * 5)


@functools.cache
def backward_of(name: str, dtype: str) -> Run:
    """Return the backward step, for the names and dtypes of forward_of."""
    return entry_point(_made(name, dtype)[1], (numba.int64,) * 7)


@functools.cache
def _made(name: str, dtype: str) -> tuple[Any, Any]:
    return _MAKERS[name](dtype)


@compiled(inline=True)
def _memory(array: Any) -> Any:
    return _get(array + HEADER, 0)


@compiled(inline=True)
def _shape(array: Any) -> Any:
    lengths = _get(array + HEADER, 2)
    return _get(lengths, 0), _get(lengths, 1)


def _lstm(dtype: str) -> tuple[Any, Any]:
    return _lstm_forward(dtype), _lstm_backward(dtype)


def _lstm_forward(dtype: str) -> Any:
    sigmoid, tanh = functions(dtype)["sigmoid"], functions(dtype)["tanh"]
    load, store, size = LOAD[dtype], STORE[dtype], np.dtype(dtype).itemsize

    @compiled("a step of LSTM")
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = _shape(h)
        step = n * size
        x, y, kept = _memory(gates), _memory(product), _memory(saved)
        state, output = _memory(c), _memory(h)
        for _ in range(rows):
            f, g, o = kept + step, kept + 2 * step, kept + 3 * step
            before, bent = o + step, o + 2 * step
            # One loop computes the sigmoids of the first two gates and of the last one, because
            # each use of sigmoid takes long to compile.
            for first in range(0, 6 * n, 3 * n):
                for k in range(first, select(first == 0, 2 * n, 4 * n)):
                    store(kept, k, sigmoid(load(x, k) + load(y, k)))
            for k in range(n):
                store(g, k, tanh(load(x, 2 * n + k) + load(y, 2 * n + k)))
            for k in range(n):
                store(before, k, load(state, k))
            for k in range(n):
                store(state, k, load(f, k) * load(state, k) + load(kept, k) * load(g, k))
            for k in range(n):
                store(bent, k, tanh(load(state, k)))
            for k in range(n):
                store(output, k, load(o, k) * load(bent, k))
            x, y, kept = x + 4 * step, y + 4 * step, kept + 6 * step
            state, output = state + step, output + step

    return forward


def _lstm_backward(dtype: str) -> Any:
    one = np.dtype(dtype).type(1)
    load, store, size = LOAD[dtype], STORE[dtype], np.dtype(dtype).itemsize

    @compiled("the gradient of a step of LSTM")
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = _shape(dh)
        step = n * size
        given, i, to_i = _memory(g), _memory(saved), _memory(d_gates)
        d_output, d_state = _memory(dh), _memory(dc)
        for _ in range(rows):
            f, u, o, c, bent = i + step, i + 2 * step, i + 3 * step, i + 4 * step, i + 5 * step
            to_f, to_u, to_o = to_i + step, to_i + 2 * step, to_i + 3 * step
            for k in range(n):
                store(d_output, k, load(d_output, k) + load(given, k))
            for k in range(n):
                by = load(d_output, k) * load(bent, k) * load(o, k)
                store(to_o, k, by * (one - load(o, k)))
            for k in range(n):
                by = load(d_output, k) * load(o, k)
                slope = one - load(bent, k) * load(bent, k)
                store(d_state, k, load(d_state, k) + by * slope)
            for k in range(n):
                by = load(d_state, k) * load(u, k) * load(i, k)
                store(to_i, k, by * (one - load(i, k)))
            for k in range(n):
                by = load(d_state, k) * load(c, k) * load(f, k)
                store(to_f, k, by * (one - load(f, k)))
            for k in range(n):
                slope = one - load(u, k) * load(u, k)
                store(to_u, k, load(d_state, k) * load(i, k) * slope)
            for k in range(n):
                store(d_state, k, load(d_state, k) * load(f, k))
            given, i, to_i = given + step, i + 6 * step, to_i + 4 * step
            d_output, d_state = d_output + step, d_state + step

    return backward


def _gru(dtype: str) -> tuple[Any, Any]:
    sigmoid, tanh = functions(dtype)["sigmoid"], functions(dtype)["tanh"]
    one = np.dtype(dtype).type(1)
    load, store, size = LOAD[dtype], STORE[dtype], np.dtype(dtype).itemsize

    @compiled("a step of GRU")
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = _shape(h)
        step = n * size
        x, y, r, output = _memory(gates), _memory(product), _memory(saved), _memory(h)
        for _ in range(rows):
            z, u, by = r + step, r + 2 * step, r + 3 * step
            x_new, y_new = x + 2 * step, y + 2 * step
            for k in range(2 * n):
                store(r, k, sigmoid(load(x, k) + load(y, k)))
            for k in range(n):
                store(by, k, load(y_new, k))
            for k in range(n):
                store(u, k, tanh(load(x_new, k) + load(r, k) * load(y_new, k)))
            for k in range(n):
                new = load(u, k)
                store(output, k, new + load(z, k) * (load(output, k) - new))
            x, y, r, output = x + 3 * step, y + 3 * step, r + 4 * step, output + step

    @compiled("the gradient of a step of GRU")
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = _shape(dh)
        step = n * size
        given, r, h, d = _memory(g), _memory(saved), _memory(before), _memory(dh)
        to, over = _memory(d_gates), _memory(d_product)
        for _ in range(rows):
            z, u, by = r + step, r + 2 * step, r + 3 * step
            to_z, to_u, over_u = to + step, to + 2 * step, over + 2 * step
            for k in range(n):
                store(d, k, load(d, k) + load(given, k))
            for k in range(n):
                slope = one - load(u, k) * load(u, k)
                store(to_u, k, load(d, k) * (one - load(z, k)) * slope)
            for k in range(n):
                change = load(d, k) * (load(h, k) - load(u, k))
                store(to_z, k, change * load(z, k) * (one - load(z, k)))
            for k in range(n):
                change = load(to_u, k) * load(by, k)
                store(to, k, change * load(r, k) * (one - load(r, k)))
            for k in range(n):
                store(over_u, k, load(to_u, k) * load(r, k))
            for k in range(2 * n):
                store(over, k, load(to, k))
            for k in range(n):
                store(d, k, load(d, k) * load(z, k))
            given, r, h, d = given + step, r + 4 * step, h + step, d + step
            to, over = to + 3 * step, over + 3 * step

    return forward, backward


def _elman(dtype: str, activate: Any, slope: Any) -> tuple[Any, Any]:
    """Return both steps of h = activate(gates + product); slope(g, h) is the gradient of activate's
    argument.
    """
    load, store = LOAD[dtype], STORE[dtype]

    @compiled("a step of RNN")
    def forward(gates: Any, product: Any, saved: Any, h: Any, c: Any) -> None:
        rows, n = _shape(h)
        x, y, kept, output = _memory(gates), _memory(product), _memory(saved), _memory(h)
        for k in range(rows * n):
            store(kept, k, activate(load(x, k) + load(y, k)))
        for k in range(rows * n):
            store(output, k, load(kept, k))

    @compiled("the gradient of a step of RNN")
    def backward(
        g: Any, saved: Any, before: Any, dh: Any, dc: Any, d_gates: Any, d_product: Any
    ) -> None:
        rows, n = _shape(dh)
        given, kept, d, to = _memory(g), _memory(saved), _memory(dh), _memory(d_gates)
        for k in range(rows * n):
            store(to, k, slope(load(d, k) + load(given, k), load(kept, k)))

    return forward, backward


def _tanh(dtype: str) -> tuple[Any, Any]:
    one = np.dtype(dtype).type(1)

    @compiled(inline=True)
    def slope(g: Any, y: Any) -> Any:
        return g * (one - y * y)

    return _elman(dtype, functions(dtype)["tanh"], slope)


def _relu(dtype: str) -> tuple[Any, Any]:
    zero = np.dtype(dtype).type(0)

    @compiled(inline=True)
    def activate(x: Any) -> Any:
        # Keeps NaN, because NaN < 0 is false.
        return select(x < zero, zero, x)

    @compiled(inline=True)
    def slope(g: Any, y: Any) -> Any:
        return select(y > zero, g, zero)

    return _elman(dtype, activate, slope)


_MAKERS: Final[dict[str, Callable[[str], tuple[Any, Any]]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "tanh": _tanh,
    "relu": _relu,
}
