"""The digits that are shipped, and how they are split."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.examples import digits_data


def test_load_digits_holds_out_a_fifth() -> None:
    digits = digits_data.load_digits()
    assert digits.train_images.shape == (1438, 64)
    assert digits.test_images.shape == (359, 64)


def test_load_digits_scales_pixels_to_one() -> None:
    digits = digits_data.load_digits()
    assert digits.train_images.min() == 0.0
    assert digits.train_images.max() == 1.0


def test_load_digits_has_every_class_in_both_parts() -> None:
    digits = digits_data.load_digits()
    counts = np.bincount(digits.train_labels) + np.bincount(digits.test_labels)
    # The counts of the data set as published.
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(digits.test_labels).min() > 20


def test_load_digits_is_the_same_each_time() -> None:
    one, other = digits_data.load_digits(7), digits_data.load_digits(7)
    assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def test_load_digits_shuffles_by_its_seed() -> None:
    one, other = digits_data.load_digits(1), digits_data.load_digits(2)
    assert not np.array_equal(one.test_labels, other.test_labels)


@pytest.mark.parametrize("batch_size", [1, 7, 10, 64])
def test_batches_visit_each_example_once(batch_size: int) -> None:
    seen = np.concatenate(list(digits_data.batches(50, batch_size, seed=3)))
    assert sorted(seen.tolist()) == list(range(50))
