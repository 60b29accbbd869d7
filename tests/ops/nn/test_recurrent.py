"""One op for a whole sequence gives the results and gradients of separate ops for each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import grad
from fastdist.ops.nn.recurrent import CELLS, _walk_by_ops, walk_sequence

HIDDEN = 5


def operands(cell: str, batch_sizes: tuple[int, ...], dtype: Any = fd.float64) -> list[Any]:
    """Return gates, hx, cx, weight and bias; cx is None for cells other than the LSTM."""
    random = np.random.default_rng(0)
    width = CELLS[cell].gates * HIDDEN
    batch = max(batch_sizes)
    shapes = [
        (sum(batch_sizes), width),
        (batch, HIDDEN),
        (batch, HIDDEN),
        (width, HIDDEN),
        (width,),
    ]
    made: list[Any] = [
        fd.tensor(random.standard_normal(shape), dtype=dtype, requires_grad=True)
        for shape in shapes
    ]
    if cell != "lstm":
        made[2] = None
    return made


def measured(results: Any) -> fd.Tensor:
    return sum((x * x.cos()).sum() for x in results if x is not None)


def derivatives(results: Any, inputs: list[Any]) -> list[np.ndarray]:
    """Return a number computed from the results, its gradients, and second gradients."""
    total = measured(results)
    first = grad(total, inputs, create_graph=True)
    second = grad(measured(first), inputs)
    return [x.detach().numpy() for x in (total, *first, *second)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch_sizes", [(3, 3, 3), (3, 2, 2, 1), (1,)])
def test_one_op_for_all_steps_gives_what_ops_give_step_by_step(
    cell: str, reverse: bool, batch_sizes: tuple[int, ...]
) -> None:
    given = operands(cell, batch_sizes)
    inputs = [one for one in given if one is not None]
    ours = walk_sequence(*given, None, cell, batch_sizes, reverse)
    expected = _walk_by_ops(*given, None, (cell, batch_sizes, reverse))
    quick = [g.numpy() for g in grad(measured(ours), inputs, retain_graph=True)]
    found, wanted = derivatives(ours, inputs), derivatives(expected, inputs)
    for a, b in zip([*found, *quick], [*wanted, *wanted[1 : 1 + len(inputs)]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def test_a_gradient_alone_walks_back_in_one_op() -> None:
    given = operands("gru", (2, 2))
    rows, last, _ = walk_sequence(*given, None, "gru", (2, 2), reverse=False)
    assert rows.grad_fn is last.grad_fn and rows.grad_fn.name() == "MkldnnRnnLayerBackward0"
    accumulate = "torch::autograd::AccumulateGrad"
    assert {node.name() for node, _ in rows.grad_fn.next_functions if node} == {accumulate}


def test_gradients_are_made_for_what_asks_for_them_alone() -> None:
    given = operands("lstm", (2, 2))
    for one in (given[0], given[2]):
        one.requires_grad_(False)
    measured(walk_sequence(*given, None, "lstm", (2, 2), reverse=False)).backward()
    assert [one.grad is not None for one in given] == [False, True, False, True, True]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cell", CELLS)
def test_forward_mode_over_reverse_mode_is_the_second_derivative(cell: str) -> None:
    gates, *rest = operands(cell, (2, 1))
    direction = fd.tensor(np.random.default_rng(1).standard_normal(gates.shape))

    def slope(gates: Any) -> Any:
        results = walk_sequence(gates, *rest, None, cell, (2, 1), reverse=False)
        return grad(measured(results), [gates], create_graph=True)[0]

    with fd.autograd.forward_ad.dual_level():
        dual = fd.autograd.forward_ad.make_dual(gates, direction)
        tangent = fd.autograd.forward_ad.unpack_dual(slope(dual)).tangent.detach().numpy()
    step = 1e-6
    with fd.no_grad():
        ahead, behind = gates + step * direction, gates - step * direction
    ahead, behind = slope(ahead.requires_grad_()), slope(behind.requires_grad_())
    expected = ((ahead - behind) / (2 * step)).detach().numpy()
    np.testing.assert_allclose(tangent, expected, rtol=1e-5, atol=1e-7)


def test_float16_computes_in_float32() -> None:
    wide = operands("lstm", (3, 3, 3))
    halves = operands("lstm", (3, 3, 3), fd.float16)
    found = walk_sequence(*halves, None, "lstm", (3, 3, 3), reverse=False)
    expected = walk_sequence(*wide, None, "lstm", (3, 3, 3), reverse=False)
    assert found[0].dtype is fd.float16
    np.testing.assert_allclose(found[0].detach().numpy(), expected[0].detach().numpy(), atol=4e-3)
    inputs = grad(measured(found), halves)
    assert {one.dtype for one in inputs} == {fd.float16}
    for one, other in zip(inputs, grad(measured(expected), wide), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0.05, atol=0.05)


def test_relu_cells_keep_nan() -> None:
    given = operands("relu", (1,))
    with fd.no_grad():
        given[0][0, 0] = float("nan")
    found = walk_sequence(*given, None, "relu", (1,), reverse=False)[0]
    assert np.isnan(found.detach().numpy()[0, 0])


def test_cells_say_which_size_does_not_fit() -> None:
    w = [fd.ones(9, 2), fd.ones(9, 3)]
    with pytest.raises(RuntimeError, match=r"^input has inconsistent input_size: got 5 expected 2"):
        fd.gru_cell(fd.ones(4, 5), fd.ones(4, 3), *w)
    with pytest.raises(
        RuntimeError, match=r"^Input batch size 4 doesn't match hidden0 batch size 3"
    ):
        fd.gru_cell(fd.ones(4, 2), fd.ones(3, 3), *w)
    with pytest.raises(RuntimeError, match=r"^hidden0 has inconsistent hidden_size: got 4, expect"):
        fd.gru_cell(fd.ones(4, 2), fd.ones(4, 4), *w)


@pytest.mark.parametrize("cell", CELLS)
def test_long_sequences_give_what_their_halves_give_one_after_the_other(cell: str) -> None:
    given = operands(cell, (2,) * 40)
    gates, *rest = given
    whole, h, _ = walk_sequence(*given, None, cell, (2,) * 40, reverse=False)
    state, found = rest[:2], []
    for part in gates.chunk(4):
        rows, *state = walk_sequence(part, *state, *rest[2:], None, cell, (2,) * 10, reverse=False)
        found.append(rows)
    np.testing.assert_allclose(whole.detach().numpy(), fd.cat(found).detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(h.detach().numpy(), state[0].detach().numpy(), rtol=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cell", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [1, 3, 20])
@pytest.mark.parametrize("is_turned", [False, True])
def test_wide_layers_walk_as_in_float64(cell: str, steps: int, is_turned: bool) -> None:
    layer = getattr(fd.nn, cell)(128, 128)
    if is_turned:  # the weight is then a transposed view
        weight = layer.weight_hh_l0
        weight.data = weight.data.t().contiguous().t()
    x = fd.randn(steps, 20, 128)
    found = layer(x)[0]
    found.sum().backward()
    slope = layer.weight_hh_l0.grad.double()
    layer.double().zero_grad()
    exact = layer(x.double())[0]
    exact.sum().backward()
    fd.testing.assert_close(found.double(), exact, rtol=0, atol=1e-5)
    fd.testing.assert_close(slope, layer.weight_hh_l0.grad, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_complex_layers_walk_sequences_and_are_differentiated(kind: str) -> None:
    layer = getattr(fd.nn, kind)(2, 3, num_layers=2, bidirectional=True, dtype=fd.complex128)
    x = fd.randn(4, 2, 2, dtype=fd.complex128, requires_grad=True)
    found, _ = layer(x)
    packed = fd.nn.utils.rnn.pack_padded_sequence(x, [4, 3])
    padded, lengths = fd.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
    assert found.dtype is fd.complex128 and lengths.tolist() == [4, 3]
    fd.testing.assert_close(padded[:, 0], layer(x[:, :1])[0][:, 0])
    assert fd.autograd.gradcheck(lambda x: layer(x)[0].abs().sum(), (x,))
    (found.abs() ** 2).sum().backward()
    assert all(
        one.grad is not None and one.grad.dtype is fd.complex128 for one in layer.parameters()
    )


@pytest.mark.one_in(5)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("operand", "axis"), [(0, 1), (2, 0), (2, 1), (3, 0), (3, 1), (4, 0)])
@pytest.mark.parametrize("more", [-1, 1, 40])
def test_shapes_that_do_not_belong_to_the_hidden_size_are_refused(
    cell: str, operand: int, axis: int, more: int
) -> None:
    given = operands(cell, (2, 1))
    if given[operand] is None:
        return
    shape = list(given[operand].shape)
    shape[axis] += more
    given[operand] = fd.ones(*[max(n, 0) for n in shape], dtype=fd.float64)
    with pytest.raises(RuntimeError, match=f"{cell}: .* has shape .*a hidden size of 5 takes"):
        walk_sequence(*given, None, cell, (2, 1), False)


@pytest.mark.parametrize("sizes", [(3,), (1, 2), (2, 0, 1), (2, 2, -1), (2, 2), (2,), (4, -1)])
def test_steps_that_do_not_fall_or_do_not_take_all_rows_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="batch_sizes must be positive, fall from at most 2"):
        walk_sequence(*operands("lstm", (2, 1)), None, "lstm", sizes, False)


@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"])
@pytest.mark.parametrize("module", [fd.nn.LSTM, fd.nn.GRU, fd.nn.RNN])
def test_parameters_replaced_by_others_of_other_shapes_are_refused(module: Any, name: str) -> None:
    layer = module(3, 4)
    getattr(layer, name).data = fd.ones(*[n + 5 for n in getattr(layer, name).shape])
    with pytest.raises(RuntimeError):
        layer(fd.ones(5, 2, 3))
