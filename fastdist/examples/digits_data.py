"""The 1,797 handwritten digits, shuffled once and for all, with a fifth held out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CREDIT = "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, CC BY 4.0"
PIXELS = 64
CLASSES = 10


class Digits(NamedTuple):
    """Images as rows of 64 numbers from 0 to 1 (float64), labels from 0 to 9 (int64)."""

    train_images: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float64]
    test_labels: NDArray[np.int64]


def load_digits(seed: int = 0) -> Digits:
    """Read, shuffle and split the digits: the same four arrays for the same seed, everywhere."""
    with as_file(files(__package__) / "digits.npz") as path, np.load(path) as stored:
        images = stored["images"].reshape(-1, PIXELS).astype(np.float64) / 16.0
        labels = stored["labels"].astype(np.int64)
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(labels))
    images, labels = images[order], labels[order]
    held_out = len(labels) // 5
    return Digits(
        train_images=images[held_out:],
        train_labels=labels[held_out:],
        test_images=images[:held_out],
        test_labels=labels[:held_out],
    )


def batches(count: int, batch_size: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the indices of one epoch's batches, shuffled by seed; the last may be smaller."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(count)
    for start in range(0, count, batch_size):
        yield order[start : start + batch_size]
