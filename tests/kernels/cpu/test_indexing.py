"""Rows added at places, by the compiled loop and by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cpu import indexing


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64], ids=lambda one: one.__name__)
@pytest.mark.parametrize("places", [np.int64, np.int32], ids=["long", "int"])
@pytest.mark.parametrize("shape", [(3000, 2), (400, 3, 5)], ids=str)
def test_many_rows_are_added_one_after_the_other(
    shape: tuple[int, ...], places: type, dtype: type
) -> None:
    rng = np.random.default_rng(0)
    x, src = ((9 * rng.standard_normal((n, *shape[1:]))).astype(dtype) for n in (7, shape[0]))
    index = rng.integers(0, 7, shape[0]).astype(places)
    expected, out = x.copy(), np.empty((*x.shape[:-1], 2 * x.shape[-1]), dtype)[..., ::2]
    np.add.at(expected, index, src)
    indexing.add(x, index, src, out, 0, np.asarray(1, dtype))
    np.testing.assert_array_equal(out, expected)
    turned = np.asfortranarray(src)
    indexing.add(x, index, turned, out, 0, np.asarray(1, dtype))
    np.testing.assert_array_equal(out, expected)


def test_many_rows_refuse_a_place_that_is_not_there() -> None:
    x, src = np.zeros((3, 64)), np.ones((100, 64))
    index = np.full(100, 3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        indexing.add(x, index, src, np.empty_like(x), 0, np.asarray(1.0))
