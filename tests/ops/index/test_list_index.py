"""A list in brackets is a tuple where PyTorch treats it as one, and an index tensor otherwise."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd

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


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_vmap_takes_a_list_for_a_tuple_too() -> None:
    assert fd.equal(fd.vmap(lambda x: x[[slice(None), 0]])(X), X[:, :, 0])
