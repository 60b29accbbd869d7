"""Sparse tensors are created, decomposed, coalesced and rejected as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

PLACES = [[0, 1, 1, 0], [2, 0, 0, 2]]
VALUES = [1.0, 2.0, 3.0, 4.0]
DENSE = [[0.0, 0.0, 5.0], [5.0, 0.0, 0.0]]


def sample(**options: Any) -> fd.Tensor:
    return fd.sparse_coo_tensor(PLACES, VALUES, (2, 3), **options)


def test_a_sparse_tensor_says_what_it_is() -> None:
    s = sample()
    assert s.is_sparse and s.layout is fd.sparse_coo and s.layout is not fd.strided
    assert not fd.zeros(2).is_sparse and fd.zeros(2).layout is fd.strided
    assert (tuple(s.shape), s._nnz(), s.sparse_dim(), s.dense_dim()) == ((2, 3), 4, 2, 0)
    assert s.stride() == (0, 0) and not s.is_contiguous() and s.numel() == 6


def test_entries_of_one_place_mean_their_sum() -> None:
    s = sample()
    assert s.to_dense().tolist() == DENSE
    whole = s.coalesce()
    assert not s.is_coalesced() and whole.is_coalesced()
    assert whole.indices().tolist() == [[0, 1], [2, 0]] and whole.values().tolist() == [5.0, 5.0]
    assert s._indices().tolist() == PLACES and s._values().tolist() == VALUES


def test_values_may_have_axes_of_their_own() -> None:
    s = fd.sparse_coo_tensor([[0, 2, 0]], np.arange(6.0).reshape(3, 2), (4, 2))
    assert (s.sparse_dim(), s.dense_dim()) == (1, 1)
    assert s.to_dense().tolist() == [[4, 6], [0, 0], [2, 3], [0, 0]]
    assert s.coalesce().values().tolist() == [[4, 6], [2, 3]]


@pytest.mark.parametrize("axes", [None, 1, 2])
def test_to_sparse_and_back(axes: int | None) -> None:
    x = fd.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 3.0]])
    s = x.to_sparse() if axes is None else x.to_sparse(axes)
    assert s._nnz() == (2 if axes == 1 else 3) and s.is_coalesced()
    assert s.to_dense().tolist() == x.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_empty_and_scalar_tensors_go_to_sparse_and_back(shape: tuple[int, ...]) -> None:
    x = fd.zeros(shape) + 2
    assert x.to_sparse().coalesce().to_dense().tolist() == x.tolist()


def test_a_size_alone_is_all_zeros() -> None:
    s = fd.sparse_coo_tensor(size=(2, 3))
    assert s._nnz() == 0 and s.is_coalesced() and not s.to_dense().any()
    assert tuple(fd.sparse_coo_tensor([[0, 1], [1, 4]], [1, 2]).shape) == (2, 5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (([[0, 1]], [1.0]), "indices and values must have same nnz, but got nnz from indices: 2"),
        (([0, 1], [1.0, 2.0]), "indices must be sparse_dim x nnz"),
        (([[0]], [1.0], (2, 3)), "'len(size) == sparse_dim + dense_dim' is not satisfied"),
        (([[2]], [1.0], (2,)), "size is inconsistent with indices: for dim 0, size is 2 but"),
        (([[-1]], [1.0], (2,)), "found negative index -1 for dim 0"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        fd.sparse_coo_tensor(*given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda s: s.indices(), RuntimeError, "Cannot get indices on an uncoalesced tensor"),
        (lambda s: s.values(), RuntimeError, "Cannot get values on an uncoalesced tensor"),
        (lambda s: fd.zeros(2).coalesce(), RuntimeError, "coalesce expected sparse coordinate"),
        (lambda s: fd.zeros(2).values(), RuntimeError, "values expected sparse tensor layout"),
        (lambda s: s.exp(), NotImplementedError, "Could not run 'aten::exp' with arguments from"),
        (lambda s: s > 0, NotImplementedError, "Could not run 'aten::gt' with arguments from"),
        (lambda s: s.softmax(1), NotImplementedError, "Could not run 'aten::softmax'"),
        (lambda s: s.mean(), NotImplementedError, "Could not run 'aten::mean'"),
        (lambda s: s.max(), NotImplementedError, "Could not run 'aten::max"),
        (lambda s: s.reshape(6), RuntimeError, "reshape is not implemented for sparse tensors"),
        (lambda s: s.tolist(), TypeError, "can't convert Sparse layout tensor to numpy."),
        (lambda s: s[0:1], NotImplementedError, "Could not run 'aten::index with"),
        (lambda s: s + fd.zeros(2, 3), RuntimeError, "add(sparse, dense) is not supported. Use"),
        (lambda s: s / fd.ones(2, 3), RuntimeError, "Sparse division requires a scalar"),
        (lambda s: fd.zeros(2, 3).mul_(s), NotImplementedError, "Could not run 'aten::copy_'"),
        (lambda s: fd.zeros(2, 3).copy_(s), RuntimeError, "copy_() between dense and sparse"),
        (lambda s: fd.where(fd.ones(2, 3) > 0, s, s), NotImplementedError, "Could not run"),
        (lambda s: fd.cat([s, fd.ones(2, 3)]), RuntimeError, "Concatenating sparse tensors, but a"),
    ],
)
def test_what_sparse_tensors_are_not_for_is_refused(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        call(sample())
    assert str(caught.value).startswith(text)


def test_it_prints_as_pytorch_prints_it() -> None:
    assert repr(sample()) == (
        "tensor(indices=tensor([[0, 1, 1, 0],\n"
        "                       [2, 0, 0, 2]]),\n"
        "       values=tensor([1., 2., 3., 4.]),\n"
        "       size=(2, 3), nnz=4, layout=fastdist.sparse_coo)"
    )
    assert repr(fd.sparse_coo_tensor(size=(2, 3), dtype=fd.float64).requires_grad_()) == (
        "tensor(indices=tensor([], size=(2, 0)),\n"
        "       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, dtype=fastdist.float64, layout=fastdist.sparse_coo,\n"
        "       requires_grad=True)"
    )


def test_the_gradient_of_values_is_the_gradient_at_their_places() -> None:
    v = fd.tensor(VALUES, requires_grad=True)
    s = fd.sparse_coo_tensor(PLACES, v, (2, 3))
    (s.to_dense() * fd.arange(6.0).reshape(2, 3)).sum().backward()
    assert v.grad is not None and v.grad.tolist() == [2.0, 3.0, 3.0, 2.0]
    assert type(s.grad_fn.next_functions[0][0]).__name__ == "AccumulateGrad"


@pytest.mark.parametrize(
    "total",
    [
        lambda s: (s.to_dense() * 2).sum(),
        lambda s: (s.coalesce().values() * 2).sum(),
        lambda s: (s.coalesce() * 2).to_dense().sum(),
        lambda s: fd.sparse.sum(s, 1).to_dense().sum() * 2,
        lambda s: fd.sparse.sum(s) * 2,
    ],
)
def test_the_gradient_of_a_sparse_leaf_is_sparse(total: Any) -> None:
    s = sample().requires_grad_()
    total(s).backward()
    assert s.grad.is_sparse
    np.testing.assert_array_equal(s.grad.to_dense().numpy(), 2 * (np.array(DENSE) != 0))


def test_to_sparse_hands_gradients_on() -> None:
    x = fd.tensor([[0.0, 2.0], [3.0, 0.0]], requires_grad=True)
    (x.to_sparse() * 3).to_dense().sum().backward()
    # The gradient of to_dense has values only at the stored entries.
    assert x.grad.tolist() == [[0.0, 3.0], [3.0, 0.0]]


def test_second_derivatives_pass_through_values() -> None:
    v = fd.tensor(VALUES, requires_grad=True)
    y = fd.sparse_coo_tensor(PLACES, v**3, (2, 3)).to_dense().sum()
    (g,) = fd.autograd.grad(y, v, create_graph=True)
    (gg,) = fd.autograd.grad(g.sum(), v)
    assert gg.tolist() == [6 * one for one in VALUES]


@pytest.mark.parametrize("shape", [(300,), (200_000,), (3, 70_000), (1 << 31, 1 << 31)])
def test_many_entries_are_added_up_place_by_place(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    n = 9000
    places = np.stack([random.choice(random.integers(0, most, 3000), n) for most in shape])
    values = random.integers(-4, 5, n).astype(np.float64)
    found = fd.sparse_coo_tensor(places, fd.tensor(values), shape).coalesce()
    wanted, number = np.unique(places, axis=1, return_inverse=True)
    np.testing.assert_array_equal(found.indices().numpy(), wanted)
    sums = np.zeros(wanted.shape[1])
    np.add.at(sums, number.reshape(-1), values)
    np.testing.assert_array_equal(found.values().numpy(), sums)


@pytest.mark.parametrize("name", ["_indices", "_values", "_nnz"])
def test_a_dense_tensor_says_that_it_holds_no_coordinates(name: str) -> None:
    words = rf"^Could not run 'aten::{name}' with arguments from the 'CPU' backend: a dense tensor"
    with pytest.raises(NotImplementedError, match=words):
        getattr(fd.ones(2), name)()
