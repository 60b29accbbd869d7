"""Recurrent cells (RNN, LSTM, GRU), which compute one step of a sequence."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import DType
from ..core.short_repr import short_repr
from ..ops.create.creation import empty, zeros
from ..ops.nn.recurrent_layers import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import init
from .module import Module


def require_tensor(layer: str, hx: Any) -> None:
    """Raise TypeError unless the state hx of a layer is a Tensor."""
    if not hasattr(hx, "dim"):
        raise TypeError(f"{layer}: expected hx to be a Tensor, got {short_repr(hx)}")


def require_pair(layer: str, hx: Any) -> None:
    """Raise an error unless the state hx of a layer is a pair of Tensors.

    Raises  TypeError for anything but a tuple or list of Tensors; RuntimeError unless there are two
    """
    if not isinstance(hx, tuple | list) or not all(hasattr(one, "dim") for one in hx):
        raise TypeError(
            f"{layer}: expected hx to be a pair of Tensors (h, c), got {short_repr(hx)}"
        )
    if len(hx) != 2:
        raise RuntimeError(f"{layer}: expected hx to be two hidden states (h, c), got {len(hx)}")


class RNNCellBase(Module):
    """Base of recurrent cells; initial weights are uniform in [-b, b], b = 1/sqrt(hidden_size)."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        width = num_chunks * hidden_size
        for name, columns in (("weight_ih", input_size), ("weight_hh", hidden_size)):
            setattr(self, name, Parameter(empty((width, columns), device=device, dtype=dtype)))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(empty(width, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values for all weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _require_axes(self, what: str, one: Tensor) -> None:
        if one.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__}: Expected {what} to be 1D or 2D, got {one.dim()}D instead"
            )

    def _states(self, input: Tensor, states: Any, count: int) -> tuple[Tensor, list[Tensor]]:
        """Return input and the states, each with a batch axis; None becomes `count` zero states."""
        batched = input if input.dim() == 2 else input.unsqueeze(0)
        if states is None:
            shape = (batched.shape[0], self.hidden_size)
            states = [zeros(shape, dtype=input.dtype, device=input.device)] * count
        elif input.dim() == 1:
            states = [one.unsqueeze(0) for one in states]
        return batched, states

    def extra_repr(self) -> str:
        """Return the sizes, and options that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if not self.bias:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """Computes h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    Shape   (batch, input_size) -> (batch, hidden_size), or (input_size) -> (hidden_size)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next h; hx defaults to zeros."""
        self._require_axes("input", input)
        if hx is not None:
            require_tensor(self._get_name(), hx)
            self._require_axes("hidden", hx)
        batched, (h,) = self._states(input, None if hx is None else [hx], 1)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        step = rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell
        found = step(batched, h, *self._weights())
        return found if input.dim() == 2 else found.squeeze(0)


class LSTMCell(RNNCellBase):
    """Computes one step of long short-term memory with the states (h, c).

    Shape   (batch, input_size) -> (batch, hidden_size), or (input_size) -> (hidden_size), both for
            h and for c
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the next h and c; hx defaults to zeros."""
        self._require_axes("input", input)
        if hx is not None:
            require_pair(self._get_name(), hx)
        for i, one in enumerate(() if hx is None else hx):
            self._require_axes(f"hx[{i}]", one)
        batched, states = self._states(input, hx, 2)
        h, c = lstm_cell(batched, states, *self._weights())
        return (h, c) if input.dim() == 2 else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """Computes one step of a gated recurrent unit.

    Shape   (batch, input_size) -> (batch, hidden_size), or (input_size) -> (hidden_size)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next h; hx defaults to zeros."""
        self._require_axes("input", input)
        if hx is not None:
            require_tensor(self._get_name(), hx)
            self._require_axes("hidden", hx)
        batched, (h,) = self._states(input, None if hx is None else [hx], 1)
        found = gru_cell(batched, h, *self._weights())
        return found if input.dim() == 2 else found.squeeze(0)
