"""In-place ops on results, views and bases: gradients and errors."""

from __future__ import annotations

import gc
from collections.abc import Callable
from weakref import ref

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import grad, gradcheck, gradgradcheck


def matrix() -> Tensor:
    values = np.random.default_rng(3).standard_normal((3, 3))
    return fd.tensor(values, requires_grad=True)


def on_result(x: Tensor) -> Tensor:
    return (x * 2.0).mul_(x).tanh_()


def on_view(x: Tensor) -> Tensor:
    y = x * 1.0
    y[1:].mul_(x[:2])
    return y


def on_view_of_a_view(x: Tensor) -> Tensor:
    y = x * 1.0
    y.t()[0].tanh_()
    return y * y


def on_view_read_by_another_view(x: Tensor) -> Tensor:
    y = x * 1.0
    other = y.view(9)
    y[0].exp_()
    return other * x.view(9)


def on_base_read_by_a_view(x: Tensor) -> Tensor:
    y = x * 1.0
    row = y[1]
    y.sigmoid_()
    return row * x[0]


def twice_in_a_row(x: Tensor) -> Tensor:
    y = x * 1.0
    y[0].mul_(3.0)
    y[:, 0].tanh_()
    return y


def into_a_constant(x: Tensor) -> Tensor:
    y = fd.zeros(3, 3, dtype=fd.float64)
    y[1].copy_(x[2])
    y[0].add_(x[1])
    return y * y


def by_itself(x: Tensor) -> Tensor:
    y = x * 1.0
    return y.mul_(y)


def on_product_of_matrix_and_vector(x: Tensor) -> Tensor:
    y = x @ x[0]
    y.tanh_()
    return y * x @ y


PROGRAMS: list[Callable[[Tensor], Tensor]] = [
    on_result,
    on_view,
    on_view_of_a_view,
    on_view_read_by_another_view,
    on_base_read_by_a_view,
    twice_in_a_row,
    into_a_constant,
    by_itself,
    on_product_of_matrix_and_vector,
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_derivatives_of_programs_with_in_place_ops(program: Callable[[Tensor], Tensor]) -> None:
    assert gradcheck(program, matrix(), check_forward_ad=True)
    assert gradgradcheck(program, matrix(), check_fwd_over_rev=True)


def test_history_of_a_base_names_the_change_of_its_view() -> None:
    y = matrix() * 1.0
    row = y[0]
    row.mul_(2.0)
    assert (y.grad_fn.name(), row.grad_fn.name()) == ("CopySlices", "SelectBackward0")
    assert row._base is y and row.output_nr == 0


def test_constant_that_a_gradient_was_written_into_requires_grad() -> None:
    y = fd.zeros(3, dtype=fd.float64)
    row = y[0:1]
    y.add_(matrix()[0])
    assert (y.requires_grad, row.requires_grad, y.is_leaf) == (True, True, False)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            lambda x: x.add_(1.0),
            r"^a leaf Variable that requires grad is being used in an in-place",
        ),
        (lambda x: x[0].add_(1.0), r"^a view of a leaf Variable that requires grad is being used"),
    ],
)
def test_leaf_that_requires_grad_is_not_changed(
    change: Callable[[Tensor], Tensor], error: str
) -> None:
    x = matrix()
    before = x.tolist()
    with pytest.raises(RuntimeError, match=error):
        change(x)
    assert x.tolist() == before and x._version == 0


def test_leaf_may_be_changed_without_recording() -> None:
    x = matrix()
    with fd.no_grad():
        x[0].fill_(1.0)
    assert x[0].tolist() == [1.0] * 3 and x.is_leaf


def test_view_made_without_recording_is_not_changed_with() -> None:
    y = matrix() * 1.0
    with fd.no_grad():
        row = y[0]
    with pytest.raises(RuntimeError, match=r"^A view was created in no_grad mode and is being mod"):
        row.add_(1.0)


def test_change_of_a_view_is_noticed_by_who_saved_the_base() -> None:
    y = matrix() * 1.0
    z = y * y
    y[0].add_(1.0)
    with pytest.raises(
        RuntimeError, match=r"^one of the variables needed for gradient computation"
    ):
        z.sum().backward()


def test_change_of_a_detached_tensor_is_noticed_as_well() -> None:
    y = matrix() * 1.0
    z = y * y
    y.detach().add_(1.0)
    with pytest.raises(
        RuntimeError, match=r"^one of the variables needed for gradient computation"
    ):
        z.sum().backward()


def test_change_of_what_nobody_saved_is_harmless() -> None:
    x = matrix()
    y = x + 1.0
    y.add_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 3


def test_in_place_op_must_not_grow_its_tensor() -> None:
    with pytest.raises(RuntimeError, match=r"^output with shape \[3\] doesn't match the broadcast"):
        fd.zeros(3).add_(fd.zeros(2, 3))


def test_in_place_op_must_not_lose_a_kind_of_number() -> None:
    with pytest.raises(
        RuntimeError, match=r"^result type float32 can't be cast to the desired out"
    ):
        fd.zeros(3, dtype=fd.int64).add_(0.5)


def test_graph_of_a_changed_view_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        y = matrix() * 1.0
        y[0].tanh_()
        watched = ref(y.grad_fn)
        del y
        assert watched() is None
    finally:
        gc.enable()


def test_second_pass_through_a_changed_view_frees_the_graph() -> None:
    x = matrix()
    y = on_product_of_matrix_and_vector(x).sum()
    (g,) = grad(y, x, create_graph=True)
    g.sum().backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        g.sum().backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_part_of_an_expanded_view_that_repeats_nothing_is_changed_with_its_gradient(
    create_graph: bool,
) -> None:
    x = fd.arange(4.0).view(2, 2).requires_grad_()
    v = fd.ones(2, requires_grad=True)
    base = x * 1
    wide = base.expand(3, 2, 2)
    wide[0].mul_(5)
    wide[2, 1] = v
    found = grad(
        (wide * fd.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(), (x, v), None, None, create_graph
    )
    assert base.tolist() == [[0.0, 5.0], [1.0, 1.0]]
    assert [g.tolist() for g in found] == [[[15.0, 30.0], [0.0, 0.0]], [9.0, 12.0]]
