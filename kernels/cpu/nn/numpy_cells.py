"""The cells of recurrent layers in NumPy, used while recurrent_cells is being compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..silence import silent

Array = np.ndarray[Any, Any]


@silent
def _sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def _parts(matrix: Array, n: int) -> list[Array]:
    return [matrix[:, at : at + n] for at in range(0, matrix.shape[1], n)]


@silent
def _lstm(gates: Array, product: Array, saved: Array, h: Array, c: Array) -> None:
    i, f, u, o, before, bent = _parts(saved, h.shape[1])
    to_i, to_f, to_u, to_o = _parts(gates + product, h.shape[1])
    i[:], f[:], o[:] = _sigmoid(to_i), _sigmoid(to_f), _sigmoid(to_o)
    np.tanh(to_u, out=u)
    before[:] = c
    c[:] = f * c + i * u
    np.tanh(c, out=bent)
    np.multiply(o, bent, out=h)


@silent
def _lstm_back(
    g: Array, saved: Array, before: Array, dh: Array, dc: Array, d_gates: Array, d_product: Array
) -> None:
    i, f, u, o, c, bent = _parts(saved, dh.shape[1])
    to_i, to_f, to_u, to_o = _parts(d_gates, dh.shape[1])
    dh += g
    to_o[:] = dh * bent * o * (1 - o)
    dc += dh * o * (1 - bent * bent)
    to_i[:] = dc * u * i * (1 - i)
    to_f[:] = dc * c * f * (1 - f)
    to_u[:] = dc * i * (1 - u * u)
    dc *= f


@silent
def _gru(gates: Array, product: Array, saved: Array, h: Array, c: Array) -> None:
    n = h.shape[1]
    r, z, u, by = _parts(saved, n)
    saved[:, : 2 * n] = _sigmoid(gates[:, : 2 * n] + product[:, : 2 * n])
    by[:] = product[:, 2 * n :]
    u[:] = np.tanh(gates[:, 2 * n :] + r * by)
    h[:] = u + z * (h - u)


@silent
def _gru_back(
    g: Array, saved: Array, before: Array, dh: Array, dc: Array, d_gates: Array, d_product: Array
) -> None:
    n = dh.shape[1]
    r, z, u, by = _parts(saved, n)
    to_r, to_z, to_u = _parts(d_gates, n)
    dh += g
    to_u[:] = dh * (1 - z) * (1 - u * u)
    to_z[:] = dh * (before - u) * z * (1 - z)
    to_r[:] = to_u * by * r * (1 - r)
    d_product[:, : 2 * n] = d_gates[:, : 2 * n]
    d_product[:, 2 * n :] = to_u * r
    dh *= z


@silent
def _tanh(gates: Array, product: Array, saved: Array, h: Array, c: Array) -> None:
    np.tanh(gates + product, out=saved)
    h[:] = saved


@silent
def _tanh_back(
    g: Array, saved: Array, before: Array, dh: Array, dc: Array, d_gates: Array, d_product: Array
) -> None:
    d_gates[:] = (dh + g) * (1 - saved * saved)


@silent
def _relu(gates: Array, product: Array, saved: Array, h: Array, c: Array) -> None:
    np.maximum(gates + product, 0, out=saved)
    h[:] = saved


@silent
def _relu_back(
    g: Array, saved: Array, before: Array, dh: Array, dc: Array, d_gates: Array, d_product: Array
) -> None:
    d_gates[:] = np.where(saved > 0, dh + g, 0)


# The forward and the backward step of each cell. The parameters are those of recurrent_cells, but
# the steps take arrays instead of ids.
FORWARD: Final[dict[str, Callable[..., None]]] = {
    "lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu
}  # fmt: skip
BACKWARD: Final[dict[str, Callable[..., None]]] = {
    "lstm": _lstm_back, "gru": _gru_back, "tanh": _tanh_back, "relu": _relu_back
}  # fmt: skip
