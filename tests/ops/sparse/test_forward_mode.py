"""Forward mode through sparse tensors, and forward derivatives of gradients of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.autograd.forward_ad as fwAD
from fastdist.nn import functional as F

PLACES = [[0, 2, 0], [1, 0, 1]]
OTHER_PLACES = [[2, 1, 0], [0, 1, 1]]
DENSE = fd.arange(6.0, dtype=fd.float64).reshape(3, 2) / 3


def entries(values: Any, places: Any = PLACES) -> fd.Tensor:
    return fd.sparse_coo_tensor(places, values, (3, 3))


CALLS: list[Any] = [
    lambda s: s.to_dense(),
    lambda s: (-s).to_dense() ** 2,
    lambda s: (s * 3 - s / 4).to_dense() ** 3,
    lambda s: fd.add(s, s.coalesce(), alpha=2).to_dense() ** 2,
    lambda s: (fd.ones(3, 3, dtype=fd.float64) + s) ** 2,
    lambda s: fd.sparse.mm(s, DENSE) ** 2,
    lambda s: (s @ DENSE).sin(),
    lambda s: (DENSE.t() @ s).sin(),
    lambda s: (s @ s).to_dense() ** 2,
    lambda s: s.sum() ** 2,
    lambda s: fd.sparse.sum(s, 0).to_dense() ** 2,
    lambda s: s.t().to_dense().exp(),
    lambda s: s.unsqueeze(1).to_dense().exp(),
    lambda s: s.coalesce().values() ** 2,
    lambda s: s.sin().to_dense(),
    lambda s: (s * s).to_dense(),
    lambda s: (s * fd.arange(9.0, dtype=fd.float64).reshape(3, 3)).to_dense() ** 2,
    lambda s: s[0].to_dense() ** 2,
    lambda s: fd.cat([s, s * 2]).to_dense() ** 2,
    lambda s: s.to(fd.float32).to(fd.float64).to_dense(),
    lambda s: s.to_dense().to_sparse().coalesce().values() ** 2,
    lambda s: fd.eye(3, dtype=fd.float64).sparse_mask(s).to_dense() + s.clone().to_dense() ** 2,
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("call", CALLS)
def test_tangents_are_differences(call: Any) -> None:
    values = fd.tensor([0.5, 2.0, 3.5], dtype=fd.float64)
    towards = fd.tensor([1.0, -2.0, 0.25], dtype=fd.float64)
    with fwAD.dual_level():
        of_values = call(entries(fwAD.make_dual(values, towards)))
        of_whole = call(fwAD.make_dual(entries(values), entries(towards)))
        found = [fwAD.unpack_dual(one).tangent.numpy() for one in (of_values, of_whole)]
    step = 1e-4
    ends = [call(entries(values + sign * step * towards)).numpy() for sign in (1, -1)]
    # One of the calls casts to float32, so the difference has few exact digits.
    for one in found:
        np.testing.assert_allclose(one, (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-3)


def test_a_tangent_may_have_other_places() -> None:
    values = fd.tensor([0.5, 2.0, 3.5], dtype=fd.float64)
    towards = entries(values, OTHER_PLACES)
    with fwAD.dual_level():
        dual = fwAD.make_dual(entries(values).coalesce(), towards)
        assert fwAD.unpack_dual(dual.values()).tangent.tolist() == [3.5, 0.5]
        whole = fwAD.unpack_dual(dual.to_dense()).tangent
        assert fd.equal(whole, towards.to_dense())
        product = fwAD.unpack_dual(dual @ DENSE).tangent
        assert fd.allclose(product, towards.to_dense() @ DENSE)


def test_dense_factors_have_tangents() -> None:
    s = entries(fd.tensor([0.5, 2.0, 3.5], dtype=fd.float64))
    with fwAD.dual_level():
        dual = fwAD.make_dual(DENSE, DENSE + 1)
        found = fwAD.unpack_dual(fd.sparse.mm(s, dual)).tangent
    assert fd.allclose(found, s.to_dense() @ (DENSE + 1))


@pytest.mark.parametrize("look_up", ["embedding", "bag"])
def test_the_gradient_of_a_table_is_sparse_and_has_a_sparse_tangent(look_up: str) -> None:
    found = []
    for sparse in (False, True):
        w = fd.arange(10.0, dtype=fd.float64).reshape(5, 2)
        rows = fd.tensor([1, 4, 1])
        with fwAD.dual_level():
            dual = fwAD.make_dual(w, fd.ones(5, 2, dtype=fd.float64)).requires_grad_()
            if look_up == "bag":
                out = F.embedding_bag(rows, dual, fd.tensor([0, 2]), mode="sum", sparse=sparse)
            else:
                out = F.embedding(rows, dual, sparse=sparse)
            (g,) = fd.autograd.grad((out**3).sum(), dual)
            primal, tangent = fwAD.unpack_dual(g)
            assert primal.is_sparse == sparse and tangent.is_sparse == sparse
            found.append([primal.to_dense().numpy(), tangent.to_dense().numpy()])
    np.testing.assert_allclose(found[0], found[1])


def test_the_divisor_of_a_sparse_tensor_has_a_gradient() -> None:
    by = fd.tensor(4.0, dtype=fd.float64, requires_grad=True)
    (entries(fd.tensor([0.5, 2.0, 3.5], dtype=fd.float64)) / by).to_dense().sum().backward()
    assert by.grad is not None and by.grad.item() == pytest.approx(-6 / 16)
