"""The cross entropy of a linear layer's outputs: its decomposition, and rejected arguments."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist import nn


@pytest.mark.parametrize("more", [(), (2, 3)])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_it_is_the_cross_entropy_of_the_linear_outputs(
    more: tuple[int, ...], reduction: str
) -> None:
    fd.manual_seed(0)
    loss = nn.LinearCrossEntropyLoss(
        4, 5, out_features=more, bias=True, reduction=reduction, label_smoothing=0.1
    )
    assert list(loss.state_dict()) == ["linear.weight", "linear.bias"]
    x = fd.randn(6, 4)
    logits = loss.linear(x).reshape(6, 5, *more)
    for target in (fd.randint(0, 5, (6, *more)), fd.randn(6, 5, *more).softmax(1)):
        expected = F.cross_entropy(logits, target, reduction=reduction, label_smoothing=0.1)
        assert fd.allclose(loss(x, target), expected)


def test_it_has_derivatives_of_second_order() -> None:
    x, w, b = (fd.randn(*shape, dtype=fd.float64) for shape in ((3, 2), (4, 2), (4,)))
    target = fd.tensor([0, 3, -100])

    def loss(*given: Any) -> Any:
        return F.linear_cross_entropy(given[0], given[1], target, linear_bias=given[2])

    inputs = tuple([one.requires_grad_() for one in (x, w, b)])
    assert fd.autograd.gradcheck(loss, inputs) and fd.autograd.gradgradcheck(loss, inputs)


@pytest.mark.parametrize(
    ("x", "w", "given", "text"),
    [
        ((1, 2, 3), (4, 3), {}, "expected input with dimensionality 1 or 2, got 3"),
        ((2, 3), (3,), {}, "expected linear_weight with dimensionality at least 2, got 1"),
        ((2, 3), (4, 2), {}, "expected equal input and linear_weight last dimensions"),
        ((2, 3), (4, 3), {"linear_bias": fd.ones(3)}, "expected linear_bias shape"),
        ((3,), (4, 2, 3), {}, "requires batched input"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(x: Any, w: Any, given: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        F.linear_cross_entropy(fd.ones(x), fd.ones(w), fd.tensor([0, 1]), **given)


def test_pieces_and_wrong_weights_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="options ask for logits in pieces"):
        nn.LinearCrossEntropyLoss(2, 2, options=object())(fd.ones(1, 2), fd.tensor([0]))
    with pytest.raises(RuntimeError, match="expected weight shape to be"):
        nn.LinearCrossEntropyLoss(2, 2, weight=fd.ones(3))
    with pytest.raises(RuntimeError, match="expected label_smoothing to be in range"):
        nn.LinearCrossEntropyLoss(2, 2, label_smoothing=2.0)
    with pytest.raises(RuntimeError, match="ignore_index cannot be specified when target"):
        nn.LinearCrossEntropyLoss(2, 2, ignore_index=0)(fd.ones(1, 2), fd.ones(1, 2))
