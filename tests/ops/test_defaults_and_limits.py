"""Default arguments, and values at the limits of what functions accept, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as torch
from fastdist.nn import functional as F
from fastdist.tensor.tensor import Tensor

INF = math.inf
ONES = torch.ones(2)
DIVIDED, DIVISORS = torch.tensor([7.0, -7.0, -7.0, 7.0]), torch.tensor([2.0, 2.0, -2.0, -2.0])

VALUES: dict[str, tuple[Callable[[], Tensor], Any]] = {
    "hardsigmoid": (
        lambda: F.hardsigmoid(torch.tensor([-4.0, 0.0, 4.0, 50.0])),
        [0.0, 0.5, 1.0, 1.0],
    ),
    # Quotients far from 1, which differ from products.
    "div towards 0": (lambda: DIVIDED.div(DIVISORS, rounding_mode="trunc"), [3, -3, 3, -3]),
    "div downwards": (lambda: DIVIDED.div(DIVISORS, rounding_mode="floor"), [3, -4, 3, -4]),
    "floor_divide": (lambda: DIVIDED.floor_divide(DIVISORS), [3, -4, 3, -4]),
    "remainder": (lambda: DIVIDED.remainder(DIVISORS), [1, 1, -1, -1]),
    "fmod": (lambda: DIVIDED.fmod(DIVISORS), [1, -1, -1, 1]),
    "block_diag of blocks that are not square": (
        lambda: torch.block_diag(torch.ones(1, 3), torch.ones(2, 1), torch.tensor(5.0)),
        [[1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 5]],
    ),
    "isclose to infinity": (
        lambda: torch.isclose(torch.tensor([1.0, -INF, INF]), torch.tensor([INF, INF, INF])),
        [False, False, True],
    ),
    "cosine_embedding_loss without a margin": (
        lambda: F.cosine_embedding_loss(
            torch.tensor([[1.0, 0.0], [1.0, 0.0]]),
            torch.tensor([[3.0, 4.0], [-1.0, 0.0]]),
            torch.tensor([-1, -1]),
            reduction="sum",
        ),
        pytest.approx(0.6),
    ),
    "diagonal_scatter": (
        lambda: torch.diagonal_scatter(torch.zeros(2, 2), ONES),
        [[1, 0], [0, 1]],
    ),
    "tril_indices without rows": (lambda: torch.tril_indices(0, 3), [[], []]),
    "triu_indices without columns": (lambda: torch.triu_indices(2, 0), [[], []]),
    "split into unequal parts": (lambda: torch.arange(5).split(2)[2], [4]),
    "sum_to_size of one axis": (lambda: torch.ones(2, 3).sum_to_size(3), [2, 2, 2]),
    "dropout2d of all channels": (
        lambda: F.dropout2d(torch.ones(1, 2, 1, 1), 1.0),
        [[[[0]], [[0]]]],
    ),
    "dropout2d in evaluation": (
        lambda: F.dropout2d(torch.ones(1, 2, 1, 1), 1.0, training=False),
        [[[[1]], [[1]]]],
    ),
    "interpolate to one element": (
        lambda: F.interpolate(
            torch.tensor([[[1.0, 2.0, 4.0]]]), size=1, mode="linear", align_corners=True
        ),
        [[[1.0]]],
    ),
    "scatter of an empty index": (
        lambda: torch.zeros(1, 2).scatter(0, torch.zeros(0, 2, dtype=torch.int64), 1.0),
        [[0, 0]],
    ),
    "median of an even number, and NaN": (
        lambda: torch.tensor([[4.0, 1.0, 3.0, 2.0], [1.0, 2.0, math.nan, 0.0]]).nanmedian(1)[0],
        [2.0, 1.0],
    ),
    "unique_consecutive": (
        lambda: torch.unique_consecutive(torch.tensor([1, 1, 2]), return_counts=True)[1],
        [2, 1],
    ),
    "resize_ by a Size": (lambda: torch.ones(4).resize_(torch.Size([2, 2])), [[1, 1], [1, 1]]),
}

REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "narrow": (lambda: ONES.narrow(0, 1, -1), RuntimeError, "length must be non-negative"),
    "cdist": (
        lambda: torch.cdist(ONES[None], ONES[None], p=-0.5),
        RuntimeError,
        "non-negative p values",
    ),
    "one_hot": (
        lambda: F.one_hot(torch.tensor([-1, 2])),
        RuntimeError,
        "Class values must be non-negative",
    ),
    "one_hot of nothing": (
        lambda: F.one_hot(torch.zeros(0, dtype=torch.int64)),
        RuntimeError,
        "Can not infer total number of classes from empty tensor",
    ),
    "tensorinv": (
        lambda: torch.linalg.tensorinv(torch.eye(2), ind=0),
        RuntimeError,
        "strictly positive integer for 'ind', but got 0",
    ),
    "lstsq": (
        lambda: torch.linalg.lstsq(torch.eye(2), torch.eye(2), driver="x"),
        RuntimeError,
        "parameter `driver` should be one of",
    ),
    "solve": (
        lambda: torch.linalg.solve(torch.eye(2), torch.tensor(1.0)),
        RuntimeError,
        "B must have at least 2 dimensions",
    ),
    "stft": (
        lambda: torch.stft(torch.ones(8), 0, return_complex=True, window=torch.ones(0)),
        RuntimeError,
        "n_fft=0",
    ),
    "conv_transpose1d": (
        lambda: F.conv_transpose1d(torch.ones(1, 1, 3), torch.ones(1, 1, 3), output_padding=-1),
        RuntimeError,
        "negative output_padding is not supported",
    ),
    "max_unpool1d": (
        lambda: F.max_unpool1d(torch.tensor([[[1.0]]]), torch.tensor([[[9]]]), 2),
        RuntimeError,
        "invalid max index: 9",
    ),
    "avg_pool2d": (
        lambda: F.avg_pool2d(torch.ones(1, 1, 2, 2), 0),
        RuntimeError,
        "stride should not be zero",
    ),
    "interpolate": (
        lambda: F.interpolate(torch.ones(1, 1, 2, 2), size=(0, 2)),
        RuntimeError,
        r"but got input \(H: 2, W: 2\) output \(H: 0, W: 2\)",
    ),
    "to two dtypes": (lambda: ONES.to(torch.int32, torch.int64), TypeError, "two values of dtype"),
    "to two devices": (lambda: ONES.to("cpu", device="cpu"), TypeError, "two values of device"),
    "to a tensor's dtype and another": (
        lambda: ONES.to(ONES, dtype=torch.int32),
        TypeError,
        "two values of dtype",
    ),
    "to a flag before a tensor": (lambda: ONES.to(True, ONES), TypeError, "Tensor to match first"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_function_returns_what_pytorch_s_returns(name: str) -> None:
    call, expected = VALUES[name]
    assert call().tolist() == expected


@pytest.mark.parametrize("name", REFUSED)
def test_a_function_refuses_what_pytorch_s_refuses(name: str) -> None:
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()
