"""In-place ops that change a tensor's shape or detach it."""

from __future__ import annotations

import pytest

import fastdist as fd


def test_shapes_change_in_place() -> None:
    x = fd.arange(6.0).reshape(2, 3).clone()
    assert x.t_() is x and x.shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.transpose_(0, 1).shape == (3, 1, 2)
    assert x.squeeze_().shape == (3, 2)
    assert x.swapaxes_(0, 1).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert x._version == 5


def test_gradients_pass_through_a_result_that_was_turned_in_place() -> None:
    w = fd.ones(2, 3, requires_grad=True)
    y = w * 2
    y.t_().unsqueeze_(0)
    (y * fd.arange(6.0).reshape(3, 2)).sum().backward()
    assert w.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_a_leaf_is_turned_in_no_grad_only() -> None:
    w = fd.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        w.t_()
    with fd.no_grad():
        w.t_()
    (w * fd.arange(6.0).reshape(3, 2)).sum().backward()
    assert w.grad.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_a_view_turned_in_place_still_writes_into_its_base() -> None:
    leaf = fd.zeros(4, 4, requires_grad=True)
    base = leaf * 1
    rows = base[0:2]
    rows.t_()
    rows.mul_(fd.tensor([2.0, 3.0]))
    base.sum().backward()
    assert leaf.grad[:, 0].tolist() == [2.0, 3.0, 1.0, 1.0]


def test_views_of_a_leaf_that_is_turned_in_no_grad_reach_its_new_shape() -> None:
    w = fd.ones(2, 3, requires_grad=True)
    row = w[1]
    with fd.no_grad():
        silent = w[0]
        w.t_()
        silent.mul_(2)
    (row * fd.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert w.grad.tolist() == [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]
    assert w.tolist() == [[2.0, 1.0]] * 3 and not silent.requires_grad


def test_turning_to_and_fro_leaves_short_steps_to_views() -> None:
    base = fd.ones(2, 3, requires_grad=True) * 2
    row = base[0]
    for _ in range(20):
        base.t_().unsqueeze_(0).squeeze_(0)
    assert row._extra is not None and row._extra.replay is not None
    assert len(row._extra.replay) == 1


def test_a_view_that_was_made_a_leaf_is_turned() -> None:
    x = fd.arange(6.0).reshape(2, 3)
    part = x[:, :2]
    part.requires_grad_()
    of_part = part[0]
    with fd.no_grad():
        part.t_()
    (part * fd.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    of_part.sum().backward()
    assert part.grad.tolist() == [[2.0, 2.0], [4.0, 4.0]]


def test_strides_that_reach_other_elements_are_refused_under_a_view() -> None:
    x = fd.zeros(2, 3)
    row = x[0]
    with pytest.raises(RuntimeError, match=r"as_strided_: a view of this tensor is in use"):
        x.as_strided_((2,), (1,))
    x.as_strided_((3, 2), (1, 3))
    row.fill_(1.0)
    assert x.tolist() == [[1.0, 0.0]] * 3
    del row
    assert x.as_strided_((2,), (1,)).shape == (2,)


def test_what_was_saved_before_a_turn_is_not_used() -> None:
    x = fd.ones(2, 2)
    y = fd.ones(2, 2, requires_grad=True) * x
    x.t_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_detach_in_place_makes_a_leaf() -> None:
    w = fd.ones(2, requires_grad=True)
    y = w * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    assert not w.detach_().requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (fd.ones(4, requires_grad=True) * 2)[0:2].detach_()
