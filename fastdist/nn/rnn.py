"""Recurrent layers (RNN, LSTM, GRU): stacked, in one or both directions, over sequences."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

from ..core.caller_warning import warn_caller
from ..core.dtypes import DType
from ..core.short_repr import short_repr
from ..ops.create.creation import empty, zeros
from ..ops.nn.recurrent_layers import gru, lstm, rnn_relu, rnn_tanh
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .rnn_cell import require_pair, require_tensor

if TYPE_CHECKING:
    from .utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_LAYERS: dict[str, Any] = {"LSTM": lstm, "GRU": gru, "RNN_TANH": rnn_tanh, "RNN_RELU": rnn_relu}


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: holds the weights of all layers, and checks inputs.

    Note    initial weights are drawn uniformly from [-b, b], where b is 1/sqrt(hidden_size)
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        _require_sizes(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        if dropout > 0 and num_layers == 1:
            warn_caller(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 2 if bidirectional else 1]:
                shapes = self._shapes(layer)
                names = [f"{role}_l{layer}{suffix}" for role in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        output = self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        width = _GATES[self.mode] * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (width, output * directions if layer else self.input_size),
            "weight_hh": (width, output),
        }
        if self.bias:
            shapes |= {"bias_ih": (width,), "bias_hh": (width,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer in each direction, as a list of lists."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Do nothing: the matrix products here do not need contiguous weights."""

    def reset_parameters(self) -> None:
        """Draw new initial values for all weights."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise ValueError or RuntimeError unless input fits the weights."""
        dtype = self._flat_weights[0].dtype
        if input.dtype is not dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.shape[-1]:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the required shape of the hidden state."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        count = self.num_layers * (2 if self.bidirectional else 1)
        return count, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise RuntimeError unless hx has the expected shape."""
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if input or hidden has a wrong shape."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))
        if hidden.dtype is not input.dtype:
            raise RuntimeError(
                "Input and hidden tensors are not the same dtype, found input tensor with "
                f"{input.dtype} and hidden tensor with {hidden.dtype}"
            )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return the hidden state with the samples of the batch reordered."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the last layer's outputs at each step, and the final states of all layers."""
        if hx is not None:
            self._require_state(hx)
        if not isinstance(input, Tensor) and _is_packed(input):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            kind = "RNN" if self.mode.startswith("RNN") else self.mode
            tail = "D tensor instead" if kind == "RNN" else "D instead"
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}{tail}")
        is_batched = input.dim() == 3
        if not is_batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
        if hx is not None:
            self._require_axes(hx, is_batched)
            if not is_batched:
                hx = _each(hx, lambda one: one.unsqueeze(1))
        else:
            hx = self._first_hidden(input, None)
        self.check_forward_args(input, hx, None)
        output, state = self._run(input, hx, None)
        if is_batched:
            return output, state
        output = output.squeeze(0 if self.batch_first else 1)
        return output, _each(state, lambda one: one.squeeze(1))

    def _forward_packed(self, input: PackedSequence, hx: Any) -> Any:
        from .utils.rnn import PackedSequence

        data, sizes, order, back = input
        hx = self._first_hidden(data, sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, sizes)
        output, state = self._run(data, hx, sizes)
        return PackedSequence(output, sizes, order, back), self.permute_hidden(state, back)

    def _first_hidden(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _require_state(self, hx: Any) -> None:
        require_tensor(self._get_name(), hx)

    def _require_axes(self, hx: Any, is_batched: bool) -> None:
        expected, word = (3, "batched 3-D") if is_batched else (2, "unbatched 2-D")
        if hx.dim() != expected:
            raise RuntimeError(
                f"For {word} input, hx should also be {expected}-D but got {hx.dim()}-D tensor"
            )

    def _run(self, data: Tensor, hx: Any, batch_sizes: Tensor | None) -> tuple[Tensor, Any]:
        settings = self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        layers, weights = _LAYERS[self.mode], self._flat_weights
        if batch_sizes is not None:
            output, *state = layers(data, batch_sizes, hx, weights, *settings)
        else:
            output, *state = layers(data, hx, weights, *settings, self.batch_first)
        return output, state[0] if len(state) == 1 else tuple(state)

    def extra_repr(self) -> str:
        """Return the sizes, and options that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


def _is_packed(input: Any) -> bool:
    from .utils.rnn import PackedSequence  # loaded with nn.utils, which most programs do not use

    return isinstance(input, PackedSequence)


def _each(state: Any, do: Any) -> Any:
    return tuple([do(one) for one in state]) if isinstance(state, tuple) else do(state)


def _require_sizes(
    input_size: Any,
    hidden_size: Any,
    num_layers: Any,
    bias: Any,
    batch_first: Any,
    dropout: Any,
    proj_size: Any,
) -> None:
    if (
        not isinstance(dropout, numbers.Number)
        or isinstance(dropout, bool)
        or not 0 <= dropout <= 1  # type: ignore[operator]
    ):
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
    for name, value in (
        ("input_size", input_size),
        ("hidden_size", hidden_size),
        ("num_layers", num_layers),
    ):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


_NO_PROJECTION = "proj_size argument is only supported for LSTM, not RNN or GRU"


class RNN(RNNBase):
    """Computes h' = tanh(W_ih x + b_ih + W_hh h + b_hh) at each step, or relu instead of tanh.

    Shape   (time, batch, input_size); (batch, time, input_size) with batch_first; or (time,
            input_size) -> the same shape, but the last axis has hidden_size elements, or 2 *
            hidden_size if bidirectional; h is (num_layers, batch, hidden_size), or (2 *
            num_layers, batch, hidden_size) if bidirectional
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        **more: Any,
    ) -> None:
        _require_no_more("RNN", more)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        mode = f"RNN_{nonlinearity.upper()}"
        settings = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__(mode, input_size, hidden_size, *settings, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Gated recurrent units.

    Shape   as for RNN
    Source  Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder"; the reset
            gate is applied after the product with weight_hh, as in cuDNN
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        **more: Any,
    ) -> None:
        _require_no_more("GRU", more)
        settings = num_layers, bias, batch_first, dropout, bidirectional
        super().__init__("GRU", input_size, hidden_size, *settings, device=device, dtype=dtype)


def _require_no_more(name: str, more: dict[str, Any]) -> None:
    if "proj_size" in more:
        raise ValueError(_NO_PROJECTION)
    if more:
        raise TypeError(
            f"{name}: got an unexpected keyword argument {short_repr(next(iter(more)))}"
        )


class LSTM(RNNBase):
    """Long short-term memory; proj_size adds a projection of the output.

    Shape   as for RNN, but if proj_size is set, outputs and h have proj_size elements instead of
            hidden_size; hx is (h, c)
    Source  Hochreiter and Schmidhuber 1997; Sak et al. 2014 for projections
    Raises  ValueError if hidden_size is not positive, dropout is not a probability, or proj_size is
            too large; RuntimeError in a call, if the last axis of the input does not have
            input_size elements

    Args:
        input_size: The number of elements of an input.
        hidden_size: The number of elements of the state.
        num_layers: The number of stacked layers.
        bias: Whether layers add biases.
        batch_first: Whether the batch is the first axis instead of the second.
        dropout: The probability with which outputs between layers are dropped in training.
        bidirectional: Whether a second network reads the sequence backward.
        proj_size: The number of elements of the projected output; no projection if 0.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of the parameters; the default dtype if None.

    Example:
        >>> layer = nn.LSTM(3, 4, batch_first=True)
        >>> output, (h, c) = layer(torch.zeros(2, 5, 3))
        >>> output.shape, h.shape
        (fastdist.Size([2, 5, 4]), fastdist.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        settings = num_layers, bias, batch_first, dropout, bidirectional, proj_size
        super().__init__("LSTM", input_size, hidden_size, *settings, device=device, dtype=dtype)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the required shape of the cell state c."""
        count, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return count, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if input, h or c has a wrong shape."""
        self.check_input(input, batch_sizes)
        expected = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, (one, shape) in enumerate(zip(hidden, expected, strict=True)):
            self.check_hidden_size(one, shape, f"Expected hidden[{i}] size {{}}, got {{}}")
            if one.dtype is not input.dtype:
                raise RuntimeError(
                    "Input and hidden tensors are not the same dtype, found input tensor with "
                    f"{input.dtype} and hidden tensor with {one.dtype}"
                )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return (h, c) with the samples of the batch reordered."""
        if permutation is None:
            return hx
        return tuple([one.index_select(1, permutation) for one in hx])

    def _first_hidden(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shapes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        return tuple([zeros(one, dtype=input.dtype, device=input.device) for one in shapes])

    def _require_state(self, hx: Any) -> None:
        require_pair(self._get_name(), hx)

    def _require_axes(self, hx: Any, is_batched: bool) -> None:
        expected, word = (3, "batched 3-D") if is_batched else (2, "unbatched 2-D")
        if hx[0].dim() != expected or hx[1].dim() != expected:
            raise RuntimeError(
                f"For {word} input, hx and cx should also be {expected}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
