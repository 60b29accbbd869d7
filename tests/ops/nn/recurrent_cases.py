"""Sample calls of recurrent layers and cells, with NumPy references."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from tests.ops.cases import case

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_step(x: Array, h: Array, c: Array, w: Array, u: Array, b: Array, d: Array) -> Any:
    i, f, g, o = np.split(x @ w.T + b + h @ u.T + d, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x: Array, h: Array, w: Array, u: Array, b: Array, d: Array) -> Array:
    (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(x @ w.T + b, 3, -1), np.split(h @ u.T + d, 3, -1)
    z = sigmoid(x_z + h_z)
    return (1 - z) * np.tanh(x_n + sigmoid(x_r + h_r) * h_n) + z * h


def elman_step(activate: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda x, h, w, u, b, d: activate(x @ w.T + b + h @ u.T + d)


def both_ways(step: Callable[..., Array], x: Array, h: Array, *weights: Array) -> Array:
    """Return a bidirectional layer's outputs and last states, concatenated as one vector."""
    found, last = [], []
    for direction in (0, 1):
        mine, outputs = h[direction], []
        for t in range(len(x))[:: -1 if direction else 1]:
            mine = step(x[t], mine, *weights[4 * direction : 4 * direction + 4])
            outputs.append(mine)
        found.append(np.stack(outputs[:: -1 if direction else 1]))
        last.append(mine)
    return np.concatenate([np.concatenate(found, -1).ravel(), np.stack(last).ravel()])


def in_one_row(parts: Any) -> fd.Tensor:
    return fd.cat([part.reshape(-1) for part in parts])


def lstm_of_numpy(x: Array, h: Array, c: Array, *layers: Array) -> Array:
    """Return the outputs and the last states of two layers, concatenated as one vector."""
    last = []
    for layer in (0, 1):
        mine, state, outputs = h[layer], c[layer], []
        for row in x:
            mine, state = lstm_step(row, mine, state, *layers[4 * layer : 4 * layer + 4])
            outputs.append(mine)
        x = np.stack(outputs)
        last.append((mine, state))
    return np.concatenate([x.ravel(), *[one.ravel() for kind in zip(*last) for one in kind]])


def shapes_of(gates: int, inputs: int = 3, hidden: int = 2) -> tuple[tuple[int, ...], ...]:
    return (gates * hidden, inputs), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)


def layers_case(name: str, gates: int, step: Callable[..., Array], low: float = -1.5) -> list[Any]:
    function = getattr(fd, name)
    return [
        case(
            lambda x, h, *w: in_one_row(function(x, h, w, True, 1, 0.0, False, True, False)),
            lambda x, h, *w: both_ways(step, x, h, *w),
            *((3, 2, 3), (2, 2, 2), *shapes_of(gates), *shapes_of(gates)),
            low=low,
            high=1.5,
            tolerance=2e-5,
        )
    ]


def cell_case(name: str, gates: int, step: Callable[..., Array], low: float = -1.5) -> list[Any]:
    return [case(getattr(fd, name), step, (2, 3), (2, 2), *shapes_of(gates), low=low, high=1.5)]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


CASES = {
    "lstm": [
        case(
            lambda x, h, c, *w: in_one_row(
                fd.lstm(x, (h, c), w, True, 2, 0.0, False, False, False)
            ),
            lstm_of_numpy,
            *((3, 2, 3), (2, 2, 2), (2, 2, 2), *shapes_of(4), *shapes_of(4, inputs=2)),
            low=-1.5,
            high=1.5,
        )
    ],
    "gru": layers_case("gru", 3, gru_step),
    "rnn_tanh": layers_case("rnn_tanh", 1, elman_step(np.tanh)),
    # Inputs are positive, since finite differences are wrong at the kink of relu.
    "rnn_relu": layers_case("rnn_relu", 1, elman_step(relu), low=0.1),
    "lstm_cell": [
        case(
            lambda x, h, c, *w: in_one_row(fd.lstm_cell(x, (h, c), *w)),
            lambda *given: np.concatenate([one.ravel() for one in lstm_step(*given)]),
            *((2, 3), (2, 2), (2, 2), *shapes_of(4)),
            low=-1.5,
            high=1.5,
        )
    ],
    "gru_cell": cell_case("gru_cell", 3, gru_step),
    "rnn_tanh_cell": cell_case("rnn_tanh_cell", 1, elman_step(np.tanh)),
    "rnn_relu_cell": cell_case("rnn_relu_cell", 1, elman_step(relu), low=0.1),
}
COVERED_BY = {"recurrent_sequence": "lstm", "recurrent_sequence_gradient": "lstm"}
