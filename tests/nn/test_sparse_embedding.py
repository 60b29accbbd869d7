"""Embedding tables with sparse gradients of the used rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.nn import functional as F
from fastdist.nn.utils import clip_grad_norm_

INDEX = fd.tensor([1, 4, 1])


def table(**options: Any) -> nn.Embedding:
    made = nn.Embedding(6, 2, **options)
    with fd.no_grad():
        made.weight.copy_(fd.arange(12.0).reshape(6, 2) / 7)
    return made


def test_the_gradient_holds_the_rows_that_were_looked_up() -> None:
    e = table(sparse=True)
    (e(INDEX) ** 2).sum().backward()
    g = e.weight.grad
    assert g.is_sparse and g._indices().tolist() == [[1, 4, 1]] and not g.is_coalesced()
    np.testing.assert_allclose(g._values().numpy(), 2 * e.weight.detach()[INDEX].numpy())
    assert tuple(g.shape) == (6, 2) and (g.sparse_dim(), g.dense_dim()) == (1, 1)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"max_norm": 0.5}])
@pytest.mark.parametrize("index", [INDEX, INDEX.reshape(3, 1), INDEX[:0]])
def test_it_is_the_gradient_of_a_dense_table(options: Any, index: fd.Tensor) -> None:
    found = []
    for sparse in (False, True):
        e = table(sparse=sparse, **options)
        (e(index) ** 2).sum().backward()
        found.append(e.weight.grad.to_dense().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_gradients_of_several_uses_are_joined() -> None:
    e = table(sparse=True)
    (e(INDEX).sum() + e(fd.tensor([[2], [1]])).sum()).backward()
    held = e.weight.grad
    e(fd.tensor([0])).sum().backward()
    assert e.weight.grad is held and held._nnz() == 6
    assert held.to_dense()[:, 0].tolist() == [1, 3, 1, 0, 1, 0]


@pytest.mark.parametrize("dense_first", [True, False])
def test_a_dense_gradient_and_a_sparse_one_are_a_dense_one(dense_first: bool) -> None:
    e = table(sparse=True)
    uses = [e.weight.sum, lambda: e(INDEX).sum()]
    for use in uses if dense_first else reversed(uses):
        use().backward()
    assert not e.weight.grad.is_sparse and e.weight.grad[:, 0].tolist() == [1, 3, 1, 1, 2, 1]
    e.zero_grad()
    (e.weight.sum() + e(INDEX).sum()).backward()
    assert e.weight.grad[:, 0].tolist() == [1, 3, 1, 1, 2, 1]


def test_a_result_in_the_place_of_a_table_gets_a_dense_gradient() -> None:
    w = fd.ones(4, 2, requires_grad=True)
    F.embedding(fd.tensor([1, 1]), w * 3, sparse=True).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[0, 0], [6, 6], [0, 0], [0, 0]]


def test_hooks_and_grad_see_the_sparse_gradient() -> None:
    e, seen = table(sparse=True), []
    e.weight.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    (g,) = fd.autograd.grad(e(INDEX).sum(), e.weight)
    assert seen == [True] and g.is_sparse and g.to_dense()[1].tolist() == [4.0, 4.0]


def test_the_gradient_has_a_gradient() -> None:
    e = table(sparse=True)
    (g,) = fd.autograd.grad((e(INDEX) ** 3).sum(), e.weight, create_graph=True)
    (gg,) = fd.autograd.grad(g.to_dense().sum(), e.weight)
    expected = 6 * e.weight.detach().numpy()
    np.testing.assert_allclose(gg.to_dense()[4].numpy(), expected[4], rtol=1e-6)
    np.testing.assert_allclose(gg.to_dense()[1].numpy(), 2 * expected[1], rtol=1e-6)


def test_the_frequency_does_not_scale_a_sparse_gradient() -> None:
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        table(sparse=True, scale_grad_by_freq=True)(INDEX).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags_have_sparse_gradients(mode: str, padding: int | None) -> None:
    found = []
    for sparse in (False, True):
        w = (fd.arange(12.0).reshape(6, 2) / 7).requires_grad_()
        out = F.embedding_bag(
            fd.tensor([1, 2, 1, 5]), w, fd.tensor([0, 3]), mode=mode, sparse=sparse,
            padding_idx=padding,
        )  # fmt: skip
        (out**2).sum().backward()
        assert w.grad is not None and w.grad.is_sparse == sparse
        found.append(w.grad.to_dense().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_clipping_scales_the_entries() -> None:
    e = table(sparse=True)
    e(INDEX).sum().backward()
    norm = clip_grad_norm_(e.parameters(), 1.0)
    assert norm.item() == pytest.approx(np.sqrt(4 + 4 + 1 + 1))
    np.testing.assert_allclose(e.weight.grad.to_dense().norm().item(), 1.0, rtol=1e-5)


def test_zeros_in_the_place_of_a_gradient_have_no_entries() -> None:
    e = table(sparse=True)
    e(INDEX).sum().backward()
    e.zero_grad(set_to_none=False)
    assert e.weight.grad.is_sparse and e.weight.grad._nnz() == 0


LOOK_UPS: dict[str, Any] = {
    "rows": lambda i, w, sparse: F.embedding(i, w, padding_idx=1, sparse=sparse),
    "a row": lambda i, w, sparse: F.embedding(i[0], w, sparse=sparse),
    "bags": lambda i, w, sparse: F.embedding_bag(i[None], w, sparse=sparse),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("look_up", LOOK_UPS.values(), ids=LOOK_UPS)
def test_a_batch_of_look_ups_in_one_table_has_a_sparse_gradient(look_up: Any) -> None:
    index, found = fd.tensor([[0, 1, 1], [4, 3, 0]]), []
    for sparse in (False, True):
        w = (fd.arange(10.0).reshape(5, 2) / 7).requires_grad_()
        rows = fd.vmap(lambda i, w=w, sparse=sparse: look_up(i, w, sparse))(index)
        (rows**2).sum().backward()
        assert w.grad is not None and w.grad.is_sparse == sparse
        found.append((rows.detach().numpy(), w.grad.to_dense().numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
