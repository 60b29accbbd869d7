"""Parts and concatenations of sparse tensors equal those of the same dense tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd

PLACES = [[0, 2, 0, 2], [1, 0, 1, 3]]


def flat(requires_grad: bool = False) -> fd.Tensor:
    values = fd.tensor([1.0, 2.0, 3.5, -1.0])
    return fd.sparse_coo_tensor(PLACES, values, (3, 4), requires_grad=requires_grad)


def hybrid(requires_grad: bool = False) -> fd.Tensor:
    values = fd.arange(8.0).reshape(4, 2)
    return fd.sparse_coo_tensor(PLACES, values, (3, 4, 2), requires_grad=requires_grad)


CALLS: list[Any] = [
    lambda x: x[0],
    lambda x: x[-1],
    lambda x: x[..., 1],
    lambda x: x[2, 0],
    lambda x: x[:, 1],
    lambda x: x[1],
    lambda x: x.select(1, 3),
    lambda x: x.unbind(0)[2],
    lambda x: x.unbind(1)[1],
    lambda x: x.index_select(0, fd.tensor([2, 0, 2])),
    lambda x: x.index_select(1, fd.tensor([1, 1, 0])),
    lambda x: x.index_select(-1, fd.tensor([1, 0])),
    lambda x: x.index_select(0, fd.tensor([], dtype=fd.int64)),
    lambda x: fd.cat([x, x * 2]),
    lambda x: fd.cat([x, x, x], 1),
    lambda x: fd.stack([x, -x]),
    lambda x: fd.vstack([x, x]),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("make", [flat, hybrid])
@pytest.mark.parametrize("call", CALLS)
def test_parts_are_those_of_the_dense_tensor(make: Any, call: Any) -> None:
    found, expected = call(make()), call(make().to_dense())
    assert tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_array_equal(found.to_dense().numpy(), expected.numpy())


@pytest.mark.one_in(4)
@pytest.mark.parametrize("make", [flat, hybrid])
@pytest.mark.parametrize("call", CALLS)
def test_gradients_are_those_of_the_dense_tensor(make: Any, call: Any) -> None:
    found = []
    for sparse in (False, True):
        x = make(requires_grad=True)
        (call(x if sparse else x.to_dense()).to_dense() ** 2).sum().backward()
        assert x.grad is not None
        found.append(x.grad.to_dense().numpy())
    np.testing.assert_array_equal(*found)


def test_a_loop_walks_over_rows() -> None:
    assert [row.to_dense().tolist() for row in flat()] == flat().to_dense().tolist()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        (lambda x: x[1:2], NotImplementedError, "aten::index with"),
        (lambda x: x.index_select(0, fd.tensor([3])), IndexError, "outside of dimension 0"),
        (lambda x: fd.cat([x, x.to_dense()]), RuntimeError, "Concatenating sparse tensors, but a"),
        (lambda x: fd.cat([x, x], 2), IndexError, "Dimension out of range"),
        (lambda x: fd.cat([x, flat().t()]), RuntimeError, "All tensors must have the same shape"),
        (lambda x: x.__setitem__(0, 1.0), TypeError, "Cannot assign to a sparse tensor"),
    ],
)
def test_what_is_not_there_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(flat())
