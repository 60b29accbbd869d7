"""Views and copies of the order in which memory is walked."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist


def test_squeeze_to_no_axes_is_a_view() -> None:
    x = fastdist.tensor([1.0])
    x.squeeze().add_(1)
    assert x.squeeze()._array.__class__ is np.ndarray
    assert x.tolist() == [2.0]


def test_dot_product_of_vectors_is_an_array() -> None:
    x = fastdist.tensor([1.0, 2.0])
    assert (x @ x)._array.__class__ is np.ndarray


def test_clone_and_to_keep_the_order_in_which_memory_is_walked() -> None:
    x = fastdist.ones(2, 3).t()
    assert x.clone().stride() == x.to(fastdist.float64).stride() == (1, 3)


def test_contiguous_copies_in_c_order() -> None:
    assert fastdist.ones(2, 3).t().contiguous().stride() == (2, 1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_refuses_integers(name: str) -> None:
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        getattr(fastdist.tensor([1, 2]), name)(0)


def test_sizes_and_a_dtype_are_given_by_name_as_well() -> None:
    x = fastdist.arange(4.0)
    assert x.view(size=(2, 2)).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert x.view(dtype=fastdist.int32).tolist() == x.view(fastdist.int32).tolist()
    with pytest.raises(TypeError, match="sizes must be integers"):
        x.view(4, dtype=fastdist.int32)
