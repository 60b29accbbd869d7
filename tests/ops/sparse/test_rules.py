"""Arithmetic, sums and moves of sparse tensors give the results of the same dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

DENSE = np.array([[0.0, 1.0, 2.0], [-3.0, 0.0, 4.0]])


def sparse(seed: int = 0) -> fd.Tensor:
    random = np.random.default_rng(seed)
    places = np.stack([random.integers(0, 2, 7), random.integers(0, 3, 7)])
    return fd.sparse_coo_tensor(places, fd.tensor(random.integers(-4, 5, 7) * 1.0), (2, 3))


CALLS: list[Any] = [
    lambda s, t: s + s,
    lambda s, t: s + t,
    lambda s, t: s - t,
    lambda s, t: fd.add(s, t, alpha=3),
    lambda s, t: -s,
    lambda s, t: s * 2,
    lambda s, t: 2 * s,
    lambda s, t: s / 4,
    lambda s, t: s * t,
    lambda s, t: s * fd.tensor(DENSE, dtype=fd.float32),
    lambda s, t: s * fd.tensor(3.0),
    lambda s, t: fd.tensor(DENSE, dtype=fd.float32) + s,
    lambda s, t: fd.tensor(DENSE, dtype=fd.float32) - s,
    lambda s, t: s.t(),
    lambda s, t: s.T + t.t(),
    lambda s, t: s.transpose(0, 1),
    lambda s, t: s.permute(1, 0),
    lambda s, t: s.unsqueeze(1),
    lambda s, t: s.abs(),
    lambda s, t: s.sign(),
    lambda s, t: s.relu(),
    lambda s, t: s**2,
    lambda s, t: s.sum(),
    lambda s, t: s.sum(0),
    lambda s, t: s.sum(1),
    lambda s, t: s.sum((0, 1)),
    lambda s, t: s.sum(1, keepdim=True),
    lambda s, t: s.double(),
    lambda s, t: s.to(fd.int64),
    lambda s, t: s.clone(),
    lambda s, t: s.detach(),
    lambda s, t: s.norm(),
    lambda s, t: s.to("cpu"),
]


def dense_of(x: fd.Tensor) -> fd.Tensor:
    return x.to_dense()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_values_and_gradients_are_those_of_dense_tensors(number: int) -> None:
    call = CALLS[number]
    results, gradients = [], []
    for as_dense in (False, True):
        s, t = sparse(0).coalesce().requires_grad_(), sparse(1).coalesce()
        made = call(s.to_dense(), t.to_dense()) if as_dense else call(s, t)
        results.append(dense_of(made.detach()).numpy())
        if made.requires_grad:
            weights = fd.arange(float(made.numel())).reshape(made.shape).to(made.dtype)
            (dense_of(made) * weights).sum().backward()
            gradients.append(s.grad.to_dense() * (s.detach().to_dense() != 0))
    assert results[0].dtype == results[1].dtype
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
    if gradients:
        np.testing.assert_allclose(gradients[0].numpy(), gradients[1].numpy(), rtol=1e-6)


def test_sums_keep_all_entries_until_they_are_coalesced() -> None:
    s, t = sparse(0), sparse(1)
    assert (s + t)._nnz() == 14 and not (s + t).is_coalesced()
    assert (s.coalesce() + t.coalesce()).is_coalesced()


def test_integers_meet_floats_as_dense_ones_do() -> None:
    whole = fd.sparse_coo_tensor([[0], [1]], [2], (2, 2))
    found = fd.eye(2) + whole
    assert found.dtype is fd.float32 and found.tolist() == [[1, 2], [0, 1]]


def test_a_dense_tensor_grows_in_place_by_entries() -> None:
    table = fd.zeros(4, 2)
    entries = fd.sparse_coo_tensor([[1, 3, 1]], np.ones((3, 2), np.float32), (4, 2))
    version = table._version
    table.add_(entries, alpha=-2)
    table += entries
    assert table.tolist() == [[0, 0], [-2, -2], [0, 0], [-1, -1]] and table._version == version + 2


def test_sparse_tensors_change_in_place() -> None:
    s = sparse(0)
    before = s.to_dense().numpy().copy()
    s.mul_(2).add_(s)
    np.testing.assert_array_equal(s.to_dense().numpy(), 4 * before)
    assert s.zero_()._nnz() == 0


def test_sparse_tensors_of_a_device_are_dense_ones_there() -> None:
    s, t = sparse(0).to("sim"), sparse(1).to("sim")
    assert str(s.device).startswith("sim")
    found = (fd.ones(2, 3, device="sim") + s * 2 + t).cpu()
    expected = 1 + 2 * sparse(0).to_dense() + sparse(1).to_dense()
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    np.testing.assert_array_equal(s.coalesce().cpu().to_dense().numpy(), sparse(0).to_dense())


def test_what_a_gradient_reads_may_not_change_before_it() -> None:
    rows, w = fd.tensor([0, 1]), fd.ones(2, 3, requires_grad=True)
    found = fd.nn.functional.embedding(rows, w, sparse=True).sum()
    rows.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.backward()
    dense = fd.ones(3, 2, dtype=fd.float64)
    product = fd.sparse.mm(sparse().requires_grad_(), dense).sum()
    dense.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_one_number_can_be_taken_out() -> None:
    one = fd.sparse_coo_tensor([[0, 0]], fd.tensor([1.5, 2.0]), (1,))
    assert one.item() == float(one) == 3.5 and bool(one) and not bool(one * 0)


def test_gradients_of_several_workers_can_be_averaged() -> None:
    parts = [sparse(seed) for seed in range(3)]
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    total /= 3
    assert total.is_sparse
    expected = np.mean([part.to_dense().numpy() for part in parts], 0)
    np.testing.assert_allclose(total.to_dense().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["binary_cross_entropy", "binary_cross_entropy_with_logits"])
def test_losses_weighed_by_a_sparse_tensor_are_dense(name: str) -> None:
    weight = sparse()
    given = fd.full(tuple(weight.shape), 0.25)
    loss = getattr(fd.nn.functional, name)
    found = loss(given, given, weight, reduction="none")
    assert not found.is_sparse
    expected = loss(given, given, weight.to_dense(), reduction="none")
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
