"""CTC against the sum over all ways in which a text may lie in time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.nn import functional as F
from tests.ops.differences import check_first_order, check_second_order, generator

TEXTS, TIMES = [[1, 2], [2, 2], [1], []], [4, 5, 3, 2]


def chance(likely: np.ndarray, text: list[int], blank: int = 0) -> float:
    """Return the chance of a text by going through all sequences of classes."""
    total = 0.0
    for path in itertools.product(range(likely.shape[1]), repeat=len(likely)):
        if [c for c, _ in itertools.groupby(path) if c != blank] == text:
            total += math.exp(sum(likely[t, c] for t, c in enumerate(path)))
    return total


@pytest.fixture
def likely() -> fd.Tensor:
    logits = np.random.default_rng(0).standard_normal((5, 4, 3))
    return fd.tensor(logits).log_softmax(2)


def padded() -> fd.Tensor:
    return fd.tensor([[*text, 0, 0, 0][:3] for text in TEXTS])


@pytest.mark.parametrize("layout", ["padded", "in a row"])
def test_the_loss_is_that_of_all_ways(likely: fd.Tensor, layout: str) -> None:
    targets = padded() if layout == "padded" else fd.tensor([c for text in TEXTS for c in text])
    lengths = tuple(map(len, TEXTS))
    found = F.ctc_loss(likely, targets, TIMES, lengths, reduction="none").numpy()
    values = likely.numpy()
    expected = [-math.log(chance(values[:time, i], text))
                for i, (time, text) in enumerate(zip(TIMES, TEXTS, strict=True))]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    mean = F.ctc_loss(likely, targets, fd.tensor(TIMES), fd.tensor(lengths)).item()
    each = [loss / max(n, 1) for loss, n in zip(expected, lengths, strict=True)]
    assert mean == pytest.approx(np.mean(each))
    total = F.ctc_loss(likely, targets, TIMES, lengths, reduction="sum").item()
    assert total == pytest.approx(sum(expected))


def test_derivatives_are_those_of_differences() -> None:
    lengths = tuple(map(len, TEXTS))

    def loss(logits: fd.Tensor) -> Any:
        return F.ctc_loss(logits.log_softmax(2), padded(), TIMES, lengths)

    arrays = [np.random.default_rng(1).standard_normal((5, 4, 3))]
    check_first_order(loss, arrays, generator("ctc"))
    check_second_order(loss, arrays, generator("ctc twice"))


def test_another_class_may_be_the_blank(likely: fd.Tensor) -> None:
    found = F.ctc_loss(likely[:, 0], fd.tensor([0, 1]), 5, 2, blank=2, reduction="none")
    assert found.shape == () and found.item() == pytest.approx(
        -math.log(chance(likely.numpy()[:, 0], [0, 1], 2))
    )


def test_a_text_that_does_not_fit_is_infinite_or_nothing() -> None:
    logits = fd.zeros(2, 1, 3, requires_grad=True)
    likely, text = logits.log_softmax(2), fd.tensor([[1, 1]])
    assert F.ctc_loss(likely, text, [2], [2]).item() == math.inf
    loss = F.ctc_loss(likely, text, [2], [2], zero_infinity=True)
    loss.backward()
    assert loss.item() == 0.0 and logits.grad.count_nonzero().item() == 0


def test_a_device_computes_what_the_cpu_does(likely: fd.Tensor) -> None:
    lengths = tuple(map(len, TEXTS))
    found = F.ctc_loss(likely.to("sim:0"), padded().to("sim:0"), TIMES, lengths)
    assert str(found.device) == "sim:0"
    expected = F.ctc_loss(likely, padded(), TIMES, lengths).item()
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([[1, 2]] * 4, TIMES[:2], [2] * 4, 0), "input_lengths must be of size batch_size"),
        (([[1, 2]] * 4, TIMES, [2], 0), "target_lengths must be of size batch_size"),
        (
            ([[1, 2]] * 4, [9] * 4, [2] * 4, 0),
            "Expected input_lengths to have value at most 5",
        ),
        (([[1, 2]] * 4, TIMES, [3] * 4, 0), "Expected tensor to have size at least 3 at dim"),
        (([1, 2], TIMES, [3] * 4, 0), "hold fewer classes than target_lengths ask for"),
        (([[1, 7]] * 4, TIMES, [2] * 4, 0), "targets are in 0 ... 2, got"),
        (([[1, 2]] * 4, TIMES, [2] * 4, 3), "blank must be in label range"),
    ],
)
def test_what_does_not_fit_is_told(likely: fd.Tensor, given: Any, message: str) -> None:
    targets, times, lengths, blank = given
    with pytest.raises(RuntimeError, match=message):
        F.ctc_loss(likely, fd.tensor(targets), times, lengths, blank)
