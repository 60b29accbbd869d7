"""Recurrent layers and cells: shapes, names, initial values, errors. Tests of ops check numbers."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn.utils.rnn import pack_sequence, pad_packed_sequence

KINDS = [nn.RNN, nn.GRU, nn.LSTM]
kinds = pytest.mark.parametrize("kind", KINDS)


def first(state: Any) -> fd.Tensor:
    return state[0] if isinstance(state, tuple) else state


def test_weights_are_named_and_shaped_by_layer_and_direction() -> None:
    layer = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    shapes = {name: tuple(value.shape) for name, value in layer.state_dict().items()}
    expected = {}
    for place, inputs in (("l0", 3), ("l0_reverse", 3), ("l1", 4), ("l1_reverse", 4)):
        expected |= {
            f"weight_ih_{place}": (16, inputs),
            f"weight_hh_{place}": (16, 2),
            f"bias_ih_{place}": (16,),
            f"bias_hh_{place}": (16,),
            f"weight_hr_{place}": (2, 4),
        }
    assert list(shapes) == list(expected) and shapes == expected
    assert [len(weights) for weights in layer.all_weights] == [5, 5, 5, 5]


@kinds
def test_weights_begin_evenly_within_one_over_the_root_of_the_hidden_size(kind: Any) -> None:
    for weight in kind(50, 100).parameters():
        values = weight.detach().numpy()
        assert np.abs(values).max() <= 0.1
        assert values.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.15)


@kinds
def test_a_layer_takes_its_batch_first_second_or_not_at_all(kind: Any) -> None:
    layer = kind(3, 4, 2, bidirectional=True)
    x = fd.randn(5, 2, 3)
    expected, state = layer(x)
    assert expected.shape == (5, 2, 8) and first(state).shape == (4, 2, 4)
    layer.batch_first = True
    found, _ = layer(x.transpose(0, 1))
    assert fd.allclose(found.transpose(0, 1), expected)
    alone, alone_state = layer(x[:, 1])
    assert fd.allclose(alone, expected[:, 1]) and first(alone_state).shape == (4, 4)


@kinds
def test_zeros_stand_for_a_state_that_is_not_given(kind: Any) -> None:
    layer, x = kind(3, 4), fd.randn(5, 2, 3)
    zero = fd.zeros(1, 2, 4)
    expected, _ = layer(x, (zero, zero) if kind is nn.LSTM else zero)
    assert fd.equal(layer(x)[0], expected)


@kinds
def test_the_last_state_carries_on_where_it_ended(kind: Any) -> None:
    layer, x = kind(3, 4, 2), fd.randn(6, 2, 3)
    expected, _ = layer(x)
    ahead, state = layer(x[:4])
    rest, _ = layer(x[4:], state)
    assert fd.allclose(fd.cat([ahead, rest]), expected, atol=1e-6)


@kinds
@pytest.mark.parametrize("is_sorted", [True, False])
def test_packed_sequences_give_what_each_gives_alone(kind: Any, is_sorted: bool) -> None:
    layer = kind(3, 4, 2, bidirectional=True)
    lengths = [5, 3, 3, 1] if is_sorted else [3, 1, 5, 3]
    sequences = [fd.randn(length, 3) for length in lengths]
    packed, state = layer(pack_sequence(sequences, enforce_sorted=is_sorted))
    padded, found = pad_packed_sequence(packed)
    assert found.tolist() == lengths
    for i, sequence in enumerate(sequences):
        alone, alone_state = layer(sequence)
        assert fd.allclose(padded[: lengths[i], i], alone, atol=1e-6)
        assert fd.allclose(first(state)[:, i], first(alone_state), atol=1e-6)


def test_dropout_falls_between_layers_in_training_alone() -> None:
    layer, x = nn.GRU(3, 4, 2, dropout=1.0), fd.randn(5, 2, 3)
    blind, _ = layer(fd.randn(5, 2, 3))
    found, _ = layer(x)
    assert fd.equal(found, blind)  # all inputs of the second layer are dropped
    layer.eval()
    assert not fd.allclose(layer(x)[0], blind)


def test_a_projection_makes_outputs_and_h_shorter_than_c() -> None:
    output, (h, c) = nn.LSTM(3, 5, proj_size=2)(fd.randn(4, 2, 3))
    assert (output.shape, h.shape, c.shape) == ((4, 2, 2), (1, 2, 2), (1, 2, 5))


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_a_cell_steps_as_its_layer_does(kind: Any) -> None:
    cell, layer = kind(3, 4), getattr(nn, kind.__name__.removesuffix("Cell"))(3, 4)
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    x, state = fd.randn(3, 2, 3), None
    for step in x:
        state = cell(step, state)
    output, _ = layer(x)
    assert fd.allclose(first(state), output[-1], atol=1e-6)
    assert fd.allclose(first(cell(x[0, 1])), output[0, 1], atol=1e-6)


def test_the_base_of_cells_has_as_many_rows_as_its_steps_have_parts() -> None:
    cell = nn.RNNCellBase(3, 4, bias=False, num_chunks=2)
    assert {name: tuple(value.shape) for name, value in cell.state_dict().items()} == {
        "weight_ih": (8, 3),
        "weight_hh": (8, 4),
    }
    assert cell.bias_ih is None
    assert all(bool((weight.abs() <= 0.5).all()) for weight in cell.parameters())


@kinds
def test_layers_are_copied_pickled_and_shown(kind: Any) -> None:
    layer, x = kind(3, 4, 2, batch_first=True), fd.randn(2, 5, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert fd.equal(other(x)[0], layer(x)[0])
    assert repr(layer) == f"{kind.__name__}(3, 4, num_layers=2, batch_first=True)"
    assert layer.flatten_parameters() is None


def test_dropout_of_one_layer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        nn.RNN(2, 3, dropout=0.5)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.LSTM(2, 3, dropout=1.5), ValueError, "dropout should be a number in range"),
        (lambda: nn.LSTM(2, 3, bias=1), TypeError, "bias should be of type bool, got: int"),
        (lambda: nn.GRU(0, 3), ValueError, "input_size must be greater than zero"),
        (lambda: nn.GRU(2, 3.0), TypeError, "hidden_size should be of type int, got: float"),
        (lambda: nn.LSTM(2, 3, proj_size=3), ValueError, "proj_size has to be smaller"),
        (lambda: nn.GRU(2, 3, proj_size=1), ValueError, "proj_size argument is only supported"),
        (lambda: nn.RNN(2, 3, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'"),
        (lambda: nn.RNNBase("X", 2, 3), ValueError, "Unrecognized RNN mode: X"),
        (lambda: nn.RNN(2, 3)(fd.ones(2)), ValueError, "RNN: Expected input to be 2D or 3D, got"),
        (lambda: nn.GRU(2, 3)(fd.ones(0, 2, 2)), RuntimeError, "Expected sequence length to be"),
        (
            lambda: nn.LSTM(2, 3)(fd.ones(2, 2, 5)),
            RuntimeError,
            r"input.size\(-1\) must be equal to input_size. Expected 2, got 5",
        ),
        (
            lambda: nn.GRU(2, 3)(fd.ones(2, 2, 2).double()),
            ValueError,
            "RNN input dtype .fastdist.float64. does not match weight dtype",
        ),
        (
            lambda: nn.GRU(2, 3)(fd.ones(2, 2, 2), fd.ones(1, 2, 4)),
            RuntimeError,
            r"Expected hidden size \(1, 2, 3\), got \[1, 2, 4\]",
        ),
        (
            lambda: nn.LSTM(2, 3)(fd.ones(2, 2, 2), (fd.ones(1, 2, 3), fd.ones(1, 2, 4))),
            RuntimeError,
            r"Expected hidden\[1\] size \(1, 2, 3\), got \[1, 2, 4\]",
        ),
        (
            lambda: nn.LSTM(2, 3)(fd.ones(2, 2), (fd.ones(1, 2, 3), fd.ones(1, 3))),
            RuntimeError,
            r"For unbatched 2-D input, hx and cx should also be 2-D but got \(3-D, 2-D\) tensors",
        ),
        (lambda: nn.GRUCell(2, 3)(fd.ones(1, 2, 2)), ValueError, "GRUCell: Expected input to be"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        make()


H = fd.ones(1, 1, 2)
PAIR = r"expected hx to be a pair of Tensors \(h, c\), got "
WRONG_STATES: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "a Tensor": (nn.LSTM(2, 2), H, TypeError, f"^LSTM: {PAIR}"),
    "numbers": (nn.LSTM(2, 2), (3, 4), TypeError, rf"^LSTM: {PAIR}\(3, 4\)$"),
    "one state": (nn.LSTM(2, 2), (H,), RuntimeError, "^LSTM: expected hx to be two .* got 1$"),
    "three states": (nn.LSTM(2, 2), (H, H, H), RuntimeError, "got 3$"),
    "a pair": (nn.GRU(2, 2), (H, H), TypeError, "^GRU: expected hx to be a Tensor, got"),
    "a number": (nn.RNN(2, 2), 3, TypeError, "^RNN: expected hx to be a Tensor, got 3$"),
    "a cell": (nn.LSTMCell(2, 2), H[0], TypeError, f"^LSTMCell: {PAIR}"),
    "a number for a cell": (nn.GRUCell(2, 2), 3, TypeError, "^GRUCell: expected hx to be a Te"),
}


@pytest.mark.parametrize("name", WRONG_STATES)
def test_a_state_of_a_wrong_kind_is_refused_by_what_is_expected(name: str) -> None:
    layer, hx, error, text = WRONG_STATES[name]
    with pytest.raises(error, match=text):
        layer(H[0] if isinstance(layer, nn.RNNCellBase) else H, hx)
