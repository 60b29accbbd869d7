"""Samples become batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import fastdist
from fastdist.data import default_collate


class Sample(NamedTuple):
    image: fastdist.Tensor
    label: int


def test_tensors_and_arrays_are_stacked() -> None:
    assert default_collate([fastdist.ones(2), fastdist.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    batch = default_collate([np.ones(2, np.float32), np.zeros(2, np.float32)])
    assert (batch.shape, batch.dtype) == ((2, 2), fastdist.float32)


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([1, 2], fastdist.int64),
        ([1.0, 2.0], fastdist.float64),
        ([np.float32(1), np.float32(2)], fastdist.float32),
        ([True, False], fastdist.bool),
    ],
)
def test_numbers_become_a_tensor(numbers: list[float], dtype: object) -> None:
    batch = default_collate(numbers)
    assert batch.dtype is dtype
    assert batch.tolist() == [float(n) for n in numbers]


def test_strings_stay_a_list() -> None:
    assert default_collate(["a", "b"]) == ["a", "b"]


def test_tuples_become_lists_of_columns_and_named_ones_stay() -> None:
    columns = default_collate([(fastdist.ones(1), 1), (fastdist.zeros(1), 2)])
    assert isinstance(columns, list)
    assert [column.tolist() for column in columns] == [[[1], [0]], [1, 2]]
    named = default_collate([Sample(fastdist.ones(1), 1), Sample(fastdist.zeros(1), 2)])
    assert isinstance(named, Sample)
    assert named.label.tolist() == [1, 2]


def test_mappings_are_collated_by_key() -> None:
    batch = default_collate([{"x": fastdist.ones(1), "y": {"z": 1}}] * 2)
    assert batch["x"].tolist() == [[1], [1]]
    assert batch["y"]["z"].tolist() == [1, 1]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([fastdist.ones(1), fastdist.ones(2)])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        default_collate([object()])
