"""The fast path for writes at an index: results, versions, and calls that use the general path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from tests.properties import in_one_test

ROWS = np.array([2, 0, -1])
MASK = np.arange(12).reshape(4, 3) % 3 == 1
WRITES: list[tuple[Any, Any]] = [
    (1, 2.5),
    (-1, 3),
    ((1, 2), 4.0),
    ((slice(None), 1), -1.0),
    ((Ellipsis, 0), 5),
    ((None, 2), 6.0),
    (slice(1, 3), 7.0),
    (MASK, 8.0),
    (ROWS, np.ones(3)),
    (ROWS, np.arange(9.0).reshape(3, 3)),
]


@in_one_test("place", range(len(WRITES)))
def test_a_write_is_numpys(place: int) -> None:
    index, value = WRITES[place]
    expected = np.arange(12.0).reshape(4, 3)
    x = fastdist.tensor(expected)
    expected[index] = value
    ours = [fastdist.tensor(one) if isinstance(one, np.ndarray) else one for one in (index, value)]
    x[ours[0]] = ours[1]
    assert x.tolist() == expected.tolist()
    assert x._version == 1


@pytest.mark.parametrize(
    ("index", "value", "words"),
    [
        (7, 1.0, "index 7 is out of bounds for dimension 0 with size 4"),
        ((0, 0, 0), 1.0, "too many indices"),
        (fastdist.tensor([9]), fastdist.ones(3, dtype=fastdist.float64), "out of bounds"),
    ],
)
def test_a_wrong_index_writes_nothing(index: Any, value: Any, words: str) -> None:
    x = fastdist.zeros(4, 3, dtype=fastdist.float64)
    with pytest.raises(IndexError, match=words):
        x[index] = value
    assert not x.any()


def test_a_leaf_refuses_and_a_result_records() -> None:
    leaf = fastdist.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 2.0
    made = leaf * 1.0
    made[0] = 2.0
    made.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0.0, 1.0, 1.0]


def test_numbers_that_a_dtype_does_not_hold_are_left_to_the_general_write() -> None:
    x = fastdist.zeros(2, dtype=fastdist.int64)
    x[0] = 2.9
    assert x.tolist() == [2, 0]
    small = fastdist.zeros(2, dtype=fastdist.int8)
    with pytest.raises(RuntimeError, match="overflow"):
        small[0] = 300


def test_a_mask_over_the_same_memory_is_read_before_it_is_written() -> None:
    x = fastdist.tensor([True, False])
    x[x] = False
    assert x.tolist() == [False, False]


@pytest.mark.parametrize("is_alias", [False, True])
def test_rows_that_are_written_to_are_read_before(is_alias: bool) -> None:
    held = np.arange(8.0)
    x, places = fastdist.from_numpy(held), fastdist.arange(7, -1, -1)
    x[places] = fastdist.from_numpy(held) if is_alias else x
    assert x.tolist() == [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    n = fastdist.arange(4).flip(0)
    n[n] = fastdist.from_numpy(n.numpy())
    assert n.tolist() == [0, 1, 2, 3]
