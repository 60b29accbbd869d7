"""The axis order of memory without gaps ignores the strides of axes of size 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fastdist.core.dense_order import dense_order, undone


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 3), (5,), ()])
def test_every_permutation_of_packed_memory_is_found(shape: tuple[int, ...]) -> None:
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for axes in itertools.permutations(range(len(shape))):
        array = whole.transpose(axes)
        order = dense_order(array.shape, array.strides, array.itemsize)
        if array.flags.c_contiguous:
            assert order is None
            continue
        assert order is not None and array.transpose(order).flags.c_contiguous
        back = array.transpose(order).transpose(undone(order))
        assert back.shape == array.shape and (back == array).all()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4)[:, ::2],
        np.arange(12).reshape(3, 4).T[::-1],
        np.broadcast_to(np.arange(3), (2, 3)),
        np.arange(12).reshape(3, 4)[:, :3].T,
        np.lib.stride_tricks.as_strided(np.arange(9), (3, 3), (8, 8)),
    ],
)
def test_memory_with_gaps_or_that_is_walked_twice_has_none(array: np.ndarray) -> None:  # type: ignore[type-arg]
    assert dense_order(array.shape, array.strides, array.itemsize) is None
