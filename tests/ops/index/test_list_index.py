"""A list in brackets is a tuple where PyTorch treats it as one, and an index tensor otherwise."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.ops.index.index_entries import from_list

X = fd.arange(24.0).reshape(2, 3, 4)
TUPLES: list[Any] = [
    [slice(None), 0],
    [fd.tensor([0, 1]), 1],
    [None, 0],
    [..., 0],
    [[0, 1], [1, 2]],
    [[0, 1]],
    [fd.tensor(0)],
    [0, [1, 2]],
]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("index", TUPLES, ids=str)
def test_a_list_with_a_sequence_or_a_slice_is_a_tuple(index: Any) -> None:
    assert fd.equal(X[index], X[tuple(index)])
    written, wanted = X.clone(), X.clone()
    written[index] = -1.0
    wanted[tuple(index)] = -1.0
    assert fd.equal(written, wanted)


@pytest.mark.parametrize("index", [[0, 1, 1], [True, False], [], [[0, 1]] * 32])
def test_any_other_list_names_places(index: Any) -> None:
    assert fd.equal(X[index], X[fd.tensor(index, dtype=None if index else fd.int64)])


def test_a_list_of_integers_becomes_an_index_tensor_unless_one_is_too_large() -> None:
    assert from_list([1, 0]).tolist() == [1, 0] and from_list([1, 0]).dtype is fd.int64
    for index in ([1 << 63], [1 << 70], [True, 0], [0, 1.5]):
        assert from_list(index) is index
    for index in ([2], [-3], [1 << 40], [1 << 63], [1 << 70]):
        with pytest.raises(IndexError):
            X[index]


def test_a_list_of_positions_passes_its_gradient_back() -> None:
    x = fd.ones(3, 2, requires_grad=True)
    found = x[[2, 0, 2]]
    assert found.grad_fn.name() == "IndexBackward0"
    found.sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0], [2, 2]]


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_vmap_takes_a_list_for_a_tuple_too() -> None:
    assert fd.equal(fd.vmap(lambda x: x[[slice(None), 0]])(X), X[:, :, 0])
