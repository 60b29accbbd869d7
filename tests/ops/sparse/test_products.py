"""Products with sparse matrices equal products with the same dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd


def sparse(rows: int, columns: int, n: int = 9, seed: int = 0) -> fd.Tensor:
    random = np.random.default_rng(seed)
    places = np.stack([random.integers(0, rows, n), random.integers(0, columns, n)])
    values = fd.tensor(random.integers(-4, 5, n) * 1.0)
    return fd.sparse_coo_tensor(places, values, (rows, columns))


def dense(*shape: int) -> fd.Tensor:
    return fd.tensor(np.random.default_rng(2).integers(-4, 5, shape) * 1.0)


@pytest.mark.parametrize("name", ["mm", "matmul", "spmm", "dsmm", "sparse"])
def test_sparse_times_dense(name: str) -> None:
    product = fd.sparse.mm if name == "sparse" else getattr(fd, name)
    s, d = sparse(4, 5), dense(5, 3)
    np.testing.assert_array_equal(product(s, d).numpy(), (s.to_dense() @ d).numpy())
    np.testing.assert_array_equal((d.t() @ s.t()).numpy(), (d.t() @ s.to_dense().t()).numpy())
    np.testing.assert_array_equal((s @ d.t().contiguous().t()).numpy(), (s.to_dense() @ d).numpy())


def test_vectors_and_sums_with_products() -> None:
    s, v = sparse(4, 5), dense(5)
    np.testing.assert_array_equal((s @ v).numpy(), (s.to_dense() @ v).numpy())
    np.testing.assert_array_equal(s.mv(v).numpy(), (s.to_dense() @ v).numpy())
    expected = 2 * fd.ones(4, 3) + 3 * (s.to_dense() @ dense(5, 3))
    for addmm in (fd.addmm, fd.sparse.addmm):
        found = addmm(fd.ones(4, 3, dtype=fd.float64), s, dense(5, 3), beta=2, alpha=3)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_sparse_times_sparse_is_sparse() -> None:
    s, t = sparse(4, 5), sparse(5, 6, 12, 1)
    found = s @ t
    assert found.is_sparse and found.is_coalesced()
    np.testing.assert_array_equal(found.to_dense().numpy(), (s.to_dense() @ t.to_dense()).numpy())
    assert (s @ fd.sparse_coo_tensor(size=(5, 6), dtype=fd.float64))._nnz() == 0


@pytest.mark.parametrize("by_place", [True, False])
def test_gradients_of_both_factors(by_place: bool) -> None:
    product: Any = fd.sparse.mm if by_place else fd.mm
    s = sparse(4, 5).coalesce().requires_grad_()
    d = dense(5, 3).requires_grad_()
    weights = dense(4, 3)
    (product(s, d) * weights).sum().backward()
    whole = (weights @ d.detach().t()).numpy()
    assert s.grad.is_sparse == by_place
    kept = s.detach().to_dense().numpy() * 0 + 1
    if by_place:
        kept = np.zeros((4, 5))
        kept[tuple(s.detach().indices().numpy())] = 1
    np.testing.assert_array_equal(s.grad.to_dense().numpy(), whole * kept)
    np.testing.assert_array_equal(d.grad.numpy(), (s.detach().to_dense().t() @ weights).numpy())


def test_gradients_reach_the_values_of_two_sparse_factors() -> None:
    v, w = (fd.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(2))
    a = fd.sparse_coo_tensor([[0, 1, 1], [1, 0, 2]], v, (2, 3))
    b = fd.sparse_coo_tensor([[0, 1, 2], [1, 0, 1]], w, (3, 2))
    (a @ b).to_dense().sum().backward()
    assert v.grad is not None and w.grad is not None
    assert v.grad.tolist() == [2.0, 1.0, 3.0] and w.grad.tolist() == [2.0, 1.0, 3.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sparse(4, 5) @ dense(4, 5), "mat1 and mat2 shapes cannot be multiplied (4x5 and"),
        (lambda: sparse(4, 5) @ dense(5, 3).float(), "addmm: Expected mat1 and mat2 to have the"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_a_device_multiplies_as_the_cpu_does() -> None:
    s, d = sparse(4, 5), dense(5, 3)
    found = (s.to("sim") @ d.to("sim")).cpu()
    np.testing.assert_array_equal(found.numpy(), (s @ d).numpy())
    both = (s.to("sim") @ s.t().to("sim")).cpu()
    np.testing.assert_array_equal(both.to_dense().numpy(), (s @ s.t()).to_dense().numpy())


def test_batches_of_sparse_matrices_meet_dense_ones() -> None:
    random = np.random.default_rng(0)
    places = np.stack([random.integers(0, n, 9) for n in (2, 3, 4)])
    found = []
    for sparse in (False, True):
        values = fd.arange(9.0).requires_grad_()
        a = fd.sparse_coo_tensor(places, values, (2, 3, 4))
        b = fd.arange(40.0).reshape(2, 4, 5).requires_grad_()
        product = fd.bmm(a if sparse else a.to_dense(), b)
        (product**2).sum().backward()
        assert values.grad is not None and b.grad is not None
        found.append([product.detach().numpy(), values.grad.numpy(), b.grad.numpy()])
    for dense, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, dense, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"Expected size for first two dimensions of batch2"):
        fd.bmm(fd.ones(2, 3, 4).to_sparse(), fd.ones(2, 3, 5))
