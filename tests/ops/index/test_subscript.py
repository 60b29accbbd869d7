"""Indexing by `x[...]` with each kind of valid index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.torch_function import NOT_TAKEN
from fastdist.ops.index.few_nonzero import nonzero_of_few
from tests.properties import in_one_test

x = fastdist.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "index",
    [
        (Ellipsis, fastdist.tensor([False, True])),
        (fastdist.tensor([True, False, False]),),
        (0, fastdist.tensor([True, True, False, False])),
        (None, slice(None), fastdist.tensor([[True, False]])),
    ],
)
def test_a_mask_must_be_as_long_as_its_axes(index: tuple[Any, ...]) -> None:
    with pytest.raises(IndexError, match=r"The shape of the mask .* does not match the shape of"):
        x[index]
    with pytest.raises(IndexError, match=r"The shape of the mask .* does not match the shape of"):
        x.clone()[index] = 1


def test_masks_find_their_axes_beside_integers_new_axes_and_ellipses() -> None:
    mask = fastdist.tensor([True, False, True])
    assert x[0, mask].shape == (2, 4)
    assert x[None, ..., mask, 1:].shape == (1, 2, 2, 3)
    assert x[fastdist.tensor([False, True])][:, mask].tolist() == [
        [x[1, 0].tolist(), x[1, 2].tolist()]
    ]


def test_integers_slices_new_axes_and_an_ellipsis_give_numpys_views() -> None:
    array = x.numpy()
    for index in (
        (0, slice(1, None), -1),
        (Ellipsis, slice(None, 2)),
        (slice(None, None, 2), None, 1),
        (None, Ellipsis, 3),
        (slice(-1, None), slice(5, 9)),
        (1, 2, 3),
        (),
    ):
        view = x[index]
        assert view.tolist() == array[index].tolist()
        assert np.shares_memory(view.numpy(), array) or not view.numel()
    assert x[True, 0].shape == (1, 3, 4)
    assert x[:, fastdist.tensor(1) :].tolist() == array[:, 1:].tolist()


@pytest.mark.parametrize("step", [-1, 0])
def test_a_step_that_is_not_positive_is_refused(step: int) -> None:
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[0, ::step]


def test_a_second_ellipsis_takes_nothing() -> None:
    assert x[..., ...].tolist() == x.tolist()


def test_indices_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(IndexError, match="shape mismatch: indexing tensors could not be broadcast"):
        x[[0, 1], [0, 1, 2]]


def test_one_element_of_another_dtype_may_be_assigned_to_a_mask() -> None:
    y = fastdist.zeros(3)
    y[fastdist.tensor([False, True, True])] = fastdist.tensor([2.5], dtype=fastdist.float64)
    assert y.tolist() == [0.0, 2.5, 2.5]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(fastdist.int64, float("nan")), (fastdist.uint8, 300), (fastdist.float32, 1e300)],
)
def test_a_number_that_the_dtype_cannot_hold_is_refused(dtype: Any, value: float) -> None:
    y = fastdist.zeros(2, dtype=dtype)
    with pytest.raises(RuntimeError, match=r"value cannot be converted to type"):
        y[0] = value
    with pytest.raises(RuntimeError, match=r"value cannot be converted to type"):
        y.fill_(value)


@in_one_test(
    "dtype",
    [fastdist.bool, fastdist.float32, fastdist.bfloat16, fastdist.complex64, fastdist.int16],
)
def test_nonzero_of_few_elements_is_that_of_many(dtype: fastdist.dtype) -> None:
    numbers = fastdist.arange(24).reshape(2, 3, 4) % 5 - 1
    for few in (numbers, numbers[0, 0], numbers[:0], numbers.permute(2, 0, 1), numbers * 0):
        found, wanted = few.to(dtype).nonzero(), np.argwhere(few.numpy().astype(bool))
        assert found.dtype is fastdist.int64 and np.array_equal(found, wanted)
        columns = few.to(dtype).nonzero(as_tuple=True)
        assert np.array_equal(np.stack([one.numpy() for one in columns], 1), wanted)
    assert [len(fastdist.tensor(one).nonzero(as_tuple=True)[0]) for one in (3, 0)] == [1, 0]
    assert (
        fastdist.tensor(3).nonzero().shape == (1, 0)
        and nonzero_of_few(fastdist.tensor(3)) is NOT_TAKEN
    )
    found = (numbers > 0).nonzero()
    assert found.stride() == (1, len(found)) and nonzero_of_few(numbers) is not NOT_TAKEN
