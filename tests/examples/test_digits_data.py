"""The bundled digits, and their split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.data import TensorDataset
from fastdist.examples.digits_data import batches, load_digits


def _images(examples: TensorDataset) -> Any:
    return examples.tensors[0].numpy()


def _labels(examples: TensorDataset) -> Any:
    return examples.tensors[1].numpy()


def test_load_digits_holds_out_a_fifth() -> None:
    digits = load_digits()
    assert _images(digits.training).shape == (1438, 64)
    assert _images(digits.held_out).shape == (359, 64)


def test_load_digits_scales_pixels_to_one() -> None:
    images = _images(load_digits().training)
    assert (images.min(), images.max(), images.dtype) == (0.0, 1.0, np.float64)


def test_load_digits_has_every_class_in_both_parts() -> None:
    training, held_out = (np.bincount(_labels(part)) for part in load_digits())
    # The number of examples of each digit in the published data set.
    expected = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (training + held_out).tolist() == expected
    assert held_out.min() > 20


def test_load_digits_is_the_same_each_time() -> None:
    one, other = load_digits(7), load_digits(7)
    for mine, yours in zip(one, other, strict=True):
        assert np.array_equal(_images(mine), _images(yours))
        assert np.array_equal(_labels(mine), _labels(yours))


def test_load_digits_shuffles_by_its_seed() -> None:
    one, other = load_digits(1), load_digits(2)
    assert not np.array_equal(_labels(one.held_out), _labels(other.held_out))


@pytest.mark.parametrize("batch_size", [1, 7, 10, 64])
def test_batches_visit_each_example_once_in_the_order_of_the_seed(batch_size: int) -> None:
    examples = TensorDataset(fastdist.arange(50), fastdist.arange(50))

    def seen(seed: int) -> list[int]:
        return [n for _, labels in batches(examples, batch_size, seed) for n in labels.tolist()]

    assert sorted(seen(3)) == list(range(50))
    assert seen(3) == seen(3) != seen(4)
