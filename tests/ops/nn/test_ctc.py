"""CTC loss against the sum over all alignments of the target."""

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
    """Return the probability of a target: the sum over all class sequences that reduce to it."""
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


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_the_gradient_of_ops_is_that_of_the_kernel(zero_infinity: bool) -> None:
    likely = fd.randn(5, 4, 3).log_softmax(2).requires_grad_()
    given = likely, fd.tensor([[1, 1, 1], *padded().tolist()[1:]]), [4, 5, 0, 2], [3, 2, 1, 0]
    loss = F.ctc_loss(*given, reduction="sum", zero_infinity=zero_infinity)
    plain, again = (
        fd.autograd.grad(loss, likely, retain_graph=True, create_graph=create_graph)[0]
        for create_graph in (False, True)
    )
    assert again.requires_grad and plain[:4, 0].isnan().all().item() != zero_infinity
    np.testing.assert_allclose(again.detach().numpy(), plain.numpy(), atol=1e-6)


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


def test_one_that_does_not_fit_leaves_the_others_alone() -> None:
    logits = fd.zeros(2, 2, 3, requires_grad=True)
    likely, texts = logits.log_softmax(2), fd.tensor([[1, 1], [1, 0]])
    losses = F.ctc_loss(likely, texts, [2, 1], [2, 1], reduction="none")
    losses.sum().backward()
    assert losses.tolist() == [math.inf, pytest.approx(math.log(3))]
    assert logits.grad[:, 0].isnan().all().item()
    given = [[1 / 3, -2 / 3, 1 / 3], [0, 0, 0]]
    np.testing.assert_allclose(logits.grad[:, 1].numpy(), given, atol=1e-6)


def test_a_class_that_never_comes_has_no_slope() -> None:
    likely = fd.tensor([[[0.5, 0.5, 0.0]], [[0.2, 0.8, 0.0]]]).log().requires_grad_()
    loss = F.ctc_loss(likely, fd.tensor([[1]]), [2], [1])
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(0.9))
    assert likely.grad[:, 0, 2].tolist() == [0.0, 0.0]


def test_long_sequences_keep_the_digits_of_float32() -> None:
    logits = np.random.default_rng(2).standard_normal((1000, 1, 10))
    given = []
    for dtype in (fd.float32, fd.float64):
        x = fd.tensor(logits, dtype=dtype, requires_grad=True)
        F.ctc_loss(x.log_softmax(2), fd.ones(1, 300, dtype=fd.int64), [1000], [300]).backward()
        given.append(x.grad.numpy())
    np.testing.assert_allclose(*given, atol=1e-6)


def test_a_device_computes_what_the_cpu_does(likely: fd.Tensor) -> None:
    lengths = tuple(map(len, TEXTS))
    found = F.ctc_loss(likely.to("sim:0"), padded().to("sim:0"), TIMES, lengths)
    assert str(found.device) == "sim:0"
    expected = F.ctc_loss(likely, padded(), TIMES, lengths).item()
    assert found.item() == pytest.approx(expected)


def test_nothing_is_no_sequence() -> None:
    for shape in ((0, 2, 3), (4, 0, 3)):
        with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
            F.ctc_loss(fd.zeros(shape), fd.ones(shape[1], 1, dtype=fd.int64), [], [])


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
        (([1, 2], TIMES, [3] * 4, 0), "Expected tensor to have size 12 at dimension 0"),
        # The op checks all targets, because kernels on other devices do not check them.
        (([[1, 7]] * 4, TIMES, [2] * 4, 0), r"targets are in 0 \.\.\. 2, got \[1, 7\]"),
        (([[1, -1]] * 4, TIMES, [2] * 4, 0), r"targets are in 0 \.\.\. 2, got \[1, -1\]"),
        (([[1, 2]] * 4, TIMES, [2] * 4, 3), "blank must be in label range"),
        (([1, 2, 1], TIMES, [1, 1, 0, 0], 0), "Expected tensor to have size 2 at dimension 0"),
    ],
)
def test_what_does_not_fit_is_told(likely: fd.Tensor, given: Any, message: str) -> None:
    targets, times, lengths, blank = given
    with pytest.raises(RuntimeError, match=message):
        F.ctc_loss(likely, fd.tensor(targets), times, lengths, blank)
