"""Repeated joins of tensors use the short path of cat and stack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd


def tensors(grad: bool = False) -> list[Any]:
    values = np.random.default_rng(0).standard_normal((3, 2, 3)).astype(np.float32)
    return [fd.tensor(one, requires_grad=grad) for one in values]


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["cat", "stack"])
def test_later_calls_give_what_the_first_gave(name: str, dim: int) -> None:
    join, given = getattr(fd, name), tensors(True)
    theirs = np.concatenate if name == "cat" else np.stack
    expected = theirs([one.detach().numpy() for one in given], dim)
    for _ in range(3):
        out = join(given, dim)
        np.testing.assert_array_equal(out.detach().numpy(), expected)
        assert out.is_contiguous() and out.detach().numpy().flags.c_contiguous
        out.backward(fd.tensor(expected))
    for one in given:
        np.testing.assert_allclose(one.grad.numpy(), 3 * one.detach().numpy(), rtol=1e-6)


def test_results_are_copies_in_c_order_of_any_inputs() -> None:
    a, b, _ = tensors()
    for _ in range(3):
        out = fd.cat((a.t(), b.t()), 1)
        assert out.numpy().flags.c_contiguous and out.stride() == (4, 1)
    out.zero_()
    assert bool((a != 0).all())


@pytest.mark.parametrize("columns", [4, 600], ids=["few", "many"])
def test_tensors_with_gaps_are_joined_again_and_again(columns: int) -> None:
    x = fd.rand(20, 2 * columns, requires_grad=True)
    left, right = x[:, :columns], x[:, columns:]
    expected = np.concatenate([x.detach().numpy()[:, columns:], x.detach().numpy()[:, :columns]], 1)
    for _ in range(3):
        out = fd.cat((right, left), -1)
        assert out.is_contiguous() and np.array_equal(out.detach().numpy(), expected)
        (slope,) = fd.autograd.grad(out, x, out.detach())
        assert fd.equal(slope, x.detach())
    channels = fd.rand(2, 3, 4, 5).to(memory_format=fd.channels_last)
    for _ in range(2):
        assert fd.cat((channels, channels), 1).is_contiguous(memory_format=fd.channels_last)


def test_what_was_joined_once_does_not_let_mistakes_pass() -> None:
    a, b, _ = tensors()
    for _ in range(2):
        fd.cat((a, b), 1)
        with pytest.raises(TypeError):
            fd.cat((a, b), True)
        with pytest.raises(IndexError):
            fd.cat((a, b), 2)
        with pytest.raises(RuntimeError):
            fd.cat((a, b[:1]), 1)


def test_dtypes_still_meet_and_empty_vectors_still_join() -> None:
    for _ in range(3):
        assert fd.cat((fd.arange(3), fd.ones(2))).dtype is fd.float32
        assert fd.cat((fd.arange(3), fd.arange(2))).dtype is fd.int64
        assert fd.cat((fd.zeros(0), fd.ones(2))).shape == (2,)
        with fd.no_grad():
            assert not fd.cat(tensors(True)).requires_grad
        out = fd.empty(4, 3)
        assert fd.cat(tensors()[:2], out=out) is out


@pytest.mark.parametrize("dim", [0, 1, -2, 7])
def test_cat_joins_vectors_without_elements_along_any_axis(dim: int) -> None:
    x = fd.zeros(0, requires_grad=True)
    found = fd.cat([x, fd.zeros(0)], dim)
    found.sum().backward()
    assert found.shape == (0,) and x.grad is not None and x.grad.shape == (0,)


def test_hstack_of_nothing_is_refused_in_words() -> None:
    with pytest.raises(RuntimeError, match="hstack expects a non-empty TensorList"):
        fd.hstack([])


def test_a_stack_is_one_node_whose_parts_are_differentiable_again() -> None:
    a, b, c = tensors(True)
    for dim in (0, 1, -1):
        out = fd.stack([a, b.detach(), c], dim)
        assert out.grad_fn.name() == "StackBackward0"
        assert [node and node.name() for node, _ in out.grad_fn.next_functions] == [
            "torch::autograd::AccumulateGrad", None, "torch::autograd::AccumulateGrad",
        ]  # fmt: skip
        (first,) = fd.autograd.grad((out**3).sum(), c, create_graph=True)
        (second,) = fd.autograd.grad(first.sum(), c)
        np.testing.assert_allclose(second.numpy(), 6 * c.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joins_without_a_route_are_joined_as_ever(name: str) -> None:
    join = getattr(fd, name)
    a, b, _ = tensors()
    for _ in range(2):
        assert join([a, b], dim=-1).shape == join([a, b], -1).shape
        assert join([a, b.double()]).dtype is fd.float64
        assert join([a.to_sparse(), b.to_sparse()]).to_dense().equal(join([a, b]))
        with pytest.raises(RuntimeError):
            join([])
        with pytest.raises(RuntimeError):
            join([a, b[:, :2]], 0)
        with pytest.raises(TypeError):
            join([a, b], 0, 0)
        with pytest.raises(TypeError):
            join([a, b], True)
    nan = fd.full((), float("nan"))
    assert fd.stack([nan] * 6).isnan().all() and fd.stack([nan], -1).shape == (1,)
