"""Recurrent layers, which may be stacked or bidirectional, and recurrent cells, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import ShapeError
from ...dispatch.composite import composite
from ...dispatch.declaration import recorded_as
from ...tensor.tensor import Tensor
from ..linalg.products import linear
from ..shape.joining import cat, stack
from ..shape.splitting import unbind
from .dropout import dropout as thin_out
from .recurrent import walk_sequence

Pair = tuple[Tensor, Tensor]


@composite(homes="function")
def lstm(data: Tensor, *given: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs, the last h and the last c of LSTM layers.

    `given` is (hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first). For
    packed rows, `given` is (batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional).
    """
    found, h, c = _layers("lstm", data, given, is_packed=isinstance(given[0], Tensor))
    return found, h, c


@composite(homes="function")
def gru(data: Tensor, *given: object) -> Pair:
    """Return the outputs and the last h of GRU layers. See lstm for `given`."""
    return _layers("gru", data, given, is_packed=isinstance(given[1], Tensor))[:2]


@composite(homes="function")
def rnn_tanh(data: Tensor, *given: object) -> Pair:
    """Return the outputs and the last h of layers of tanh cells. See lstm for `given`."""
    return _layers("tanh", data, given, is_packed=isinstance(given[1], Tensor))[:2]


@composite(homes="function")
def rnn_relu(data: Tensor, *given: object) -> Pair:
    """Return the outputs and the last h of layers of relu cells. See lstm for `given`."""
    return _layers("relu", data, given, is_packed=isinstance(given[1], Tensor))[:2]


def _layers(cell: str, data: Tensor, given: tuple[Any, ...], *, is_packed: bool) -> tuple[Any, ...]:
    if is_packed:
        sizes, hx, *rest = given
        return _packed_layers(cell, data, tuple(sizes.tolist()), hx, *rest)
    *rest, batch_first = given
    if len(data._layout.shape) != 3:
        raise ShapeError(
            f"{cell}: Expected input to be 3D (steps, batch, features), got {data.dim()}D"
        )
    if batch_first:
        data = data.transpose(0, 1)
    time, batch = data._layout.shape[:2]
    if not time:
        raise ShapeError("Expected sequence length to be larger than 0 in RNN")
    rows = data.reshape(time * batch, data._layout.shape[2])
    found, h, c = _packed_layers(cell, rows, (batch,) * time, *rest)
    found = found.reshape(time, batch, found._layout.shape[1])
    for one in (h, c) if cell == "lstm" else (h,):
        recorded_as("StackBackward0", one, ())
    if batch_first:
        return found.transpose(0, 1), h, c
    # The name of the last op that PyTorch runs: for bidirectional layers, for other LSTM layers,
    # and for all other layers.
    word = "Cat" if rest[-1] else "MkldnnRnnLayer" if cell == "lstm" else "Stack"
    return recorded_as(f"{word}Backward0", found, ()), h, c


def _packed_layers(
    cell: str,
    rows: Tensor,
    batch_sizes: tuple[int, ...],
    hx: Any,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    hs, cs = (hx, None) if isinstance(hx, Tensor) else hx
    first_h = unbind(hs)
    first_c = [None] * len(first_h) if cs is None else unbind(cs)
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    last_h, last_c = [], []
    for layer in range(num_layers):
        made = []
        for direction in range(directions):
            i = layer * directions + direction
            weights = _by_role(params[i * each : (i + 1) * each], has_biases)
            found, h, c = _walk(
                cell, rows, first_h[i], first_c[i], weights, batch_sizes, direction == 1
            )
            made.append(found)
            last_h.append(h)
            last_c.append(c)
        rows = cat(made, 1) if bidirectional else made[0]
        if dropout and train and layer + 1 < num_layers:
            rows = thin_out(rows, dropout)
    return rows, _stacked(last_h), None if cs is None else _stacked(last_c)


def _stacked(states: list[Any]) -> Any:
    return states[0].unsqueeze(0) if len(states) == 1 else stack(states)


def _by_role(params: Sequence[Any], has_biases: bool) -> tuple[Any, ...]:
    """Return w_ih, w_hh, b_ih, b_hh and the projection, with None for absent parameters."""
    w_ih, w_hh, *rest = params
    b_ih, b_hh = rest[:2] if has_biases else (None, None)
    projection = rest[2 if has_biases else 0 :]
    return w_ih, w_hh, b_ih, b_hh, projection[0] if projection else None


def _walk(
    cell: str,
    rows: Tensor,
    h: Tensor,
    c: Any,
    weights: tuple[Any, ...],
    batch_sizes: tuple[int, ...],
    reverse: bool,
) -> tuple[Any, Any, Any]:
    """Run one layer in one direction. One matrix product multiplies the inputs of all steps."""
    w_ih, w_hh, b_ih, b_hh, projection = weights
    if cell != "gru" and b_ih is not None:
        # Except in a GRU, both biases are added to the same gates. So their sum is added once,
        # together with rows @ w_ih.T.
        b_ih, b_hh = b_ih + b_hh, None
    gates = linear(rows, w_ih, b_ih)
    return walk_sequence(gates, h, c, w_hh, b_hh, projection, cell, batch_sizes, reverse)


@composite(homes="function")
def lstm_cell(
    input: Tensor,
    hx: Any,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Pair:
    """Return h and c after one step of an LSTM cell; hx is (h, c).

    Shape   (batch, n), ((batch, hidden), (batch, hidden)) -> ((batch, hidden), (batch, hidden))
    """
    h, c = hx
    _require_cell_shapes(input, h, w_ih, w_hh, "0")
    _require_cell_shapes(input, c, w_ih, w_hh, "1")
    _, h, c = _walk_cell("lstm", input, h, c, (w_ih, w_hh, b_ih, b_hh, None))
    return recorded_as("MulBackward0", h, ()), c


@composite(homes="function", node="add")
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return h after one step of a GRU cell."""
    _require_cell_shapes(input, hx, w_ih, w_hh, "0")
    found: Tensor = _walk_cell("gru", input, hx, None, (w_ih, w_hh, b_ih, b_hh, None))[1]
    return found


@composite(homes="function", node="tanh")
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
    _require_cell_shapes(input, hx, w_ih, w_hh, "0")
    found: Tensor = _walk_cell("tanh", input, hx, None, (w_ih, w_hh, b_ih, b_hh, None))[1]
    return found


@composite(homes="function", node="relu")
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Return relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
    _require_cell_shapes(input, hx, w_ih, w_hh, "0")
    found: Tensor = _walk_cell("relu", input, hx, None, (w_ih, w_hh, b_ih, b_hh, None))[1]
    return found


def _walk_cell(
    cell: str, input: Tensor, h: Tensor, c: Tensor | None, weights: tuple[Any, ...]
) -> tuple[Any, ...]:
    return _walk(cell, input, h, c, weights, (input._layout.shape[0],), reverse=False)


def _require_cell_shapes(input: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, label: str) -> None:
    given, state = input._layout.shape, h._layout.shape
    if len(given) != 2 or len(state) != 2:
        raise ShapeError(
            f"cell: Expected input and hidden{label} to be 2D (batch, features), got {len(given)}D "
            f"and {len(state)}D"
        )
    expected, hidden = w_ih._layout.shape[1], w_hh._layout.shape[1]
    if given[1] != expected:
        raise ShapeError(f"input has inconsistent input_size: got {given[1]} expected {expected}")
    if given[0] != state[0]:
        raise ShapeError(
            f"Input batch size {given[0]} doesn't match hidden{label} batch size {state[0]}"
        )
    if state[1] != hidden:
        raise ShapeError(
            f"hidden{label} has inconsistent hidden_size: got {state[1]}, expected {hidden}"
        )
