"""Softmax of sparse tensors equals softmax of dense tensors with -inf for missing entries."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist as fd
import fastdist.autograd.forward_ad as fwAD

PLACES = [[0, 2, 0, 2, 2], [1, 0, 1, 3, 2]]


def given(hybrid: bool, requires_grad: bool = False) -> fd.Tensor:
    values = fd.arange(10.0, dtype=fd.float64).reshape(5, 2) / 3
    values = values if hybrid else values[:, 0]
    shape = (3, 4, 2) if hybrid else (3, 4)
    return fd.sparse_coo_tensor(PLACES, values, shape, requires_grad=requires_grad)


def with_infinities(x: fd.Tensor) -> fd.Tensor:
    ones = fd.sparse_coo_tensor(x._indices(), fd.ones_like(x._values()), x.shape).to_dense()
    return fd.where(ones > 0, x.to_dense(), fd.tensor(-fd.inf, dtype=fd.float64))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_it_is_the_dense_one_at_the_entries(name: str, hybrid: bool, dim: int) -> None:
    x = given(hybrid)
    found = getattr(fd.sparse, name)(x, dim)
    expected = getattr(with_infinities(x), name)(dim)
    places = tuple(found.indices().numpy())
    np.testing.assert_allclose(found.values().numpy(), expected.numpy()[places], rtol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_its_gradients_and_tangents_are_differences(name: str, hybrid: bool) -> None:
    function = getattr(fd.sparse, name)
    base = given(hybrid).coalesce()
    weights = base.values().cos()

    def loss(values: fd.Tensor) -> fd.Tensor:
        whole = fd.sparse_coo_tensor(base.indices(), values, base.shape, is_coalesced=True)
        return (function(whole, 1).values() * weights).sum()

    values = base.values().clone().requires_grad_()
    (g,) = fd.autograd.grad(loss(values), values)
    towards = fd.ones_like(weights).cumsum(0)
    with fwAD.dual_level():
        dual = fwAD.make_dual(values.detach(), towards)
        tangent = fwAD.unpack_dual(loss(dual)).tangent
    step = 1e-6 * towards
    ends = [loss(values.detach() + sign * step).item() for sign in (1, -1)]
    assert (g * towards).sum().item() == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
    assert tangent.item() == pytest.approx((g * towards).sum().item(), abs=1e-12)


def test_what_it_is_not_for_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="_sparse_softmax"):
        fd.sparse.softmax(fd.ones(2, 2), 0)
    with pytest.raises(TypeError, match="expected a floating dtype, got int64"):
        fd.sparse.softmax(given(False).to(fd.int64), 0)
    with pytest.raises(IndexError):
        fd.sparse.softmax(given(False), 2)


def test_a_line_without_entries_stays_so() -> None:
    empty = fd.sparse_coo_tensor(size=(2, 3))
    assert fd.sparse.softmax(empty, 1)._nnz() == 0
    line = fd.sparse_coo_tensor([[0, 2]], fd.tensor([1.0, 1.0]), (3,))
    assert fd.sparse.softmax(line, 0).to_dense().tolist() == [0.5, 0.0, 0.5]
