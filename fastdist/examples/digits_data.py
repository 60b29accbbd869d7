"""The 1,797 handwritten digits, shuffled with a fixed seed, with a fifth held out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import fastdist
from fastdist import Tensor
from fastdist.data import DataLoader, TensorDataset

CREDIT = "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, CC BY 4.0"
PIXELS = 64
CLASSES = 10


class Digits(NamedTuple):
    """Images as rows of 64 numbers from 0 to 1 (float64), with labels from 0 to 9 (int64)."""

    training: TensorDataset
    held_out: TensorDataset


def load_digits(seed: int = 0) -> Digits:
    """Read, shuffle and split the digits; the result depends on the seed alone."""
    # Each row has the pixels and the label of an image. Reading an .npz would import 0.6 MB of
    # modules.
    stored = np.load(Path(__file__).with_name("digits.npy"))
    images, labels = stored[:, :PIXELS], stored[:, PIXELS]
    order = fastdist.randperm(len(labels), generator=fastdist.Generator().manual_seed(seed)).numpy()
    held_out, training = order[: len(order) // 5], order[len(order) // 5 :]
    return Digits(
        *(
            TensorDataset(
                fastdist.from_numpy(images[rows] / 16.0),
                fastdist.from_numpy(labels[rows].astype(np.int64)),
            )
            for rows in (training, held_out)
        )
    )


def as_images(examples: TensorDataset) -> tuple[Tensor, Tensor]:
    """Return images of 1 x 8 x 8 numbers (float32), and their labels."""
    pixels, labels = examples.tensors
    return pixels.float().view(-1, 1, 8, 8), labels


def batches(examples: TensorDataset, batch_size: int, seed: int) -> DataLoader[tuple[Tensor, ...]]:
    """Return a loader of batches in an order given by the seed; the last batch may be smaller."""
    generator = fastdist.Generator().manual_seed(seed)
    return DataLoader(examples, batch_size, shuffle=True, generator=generator)
