"""Adaptive softmax: class probabilities sum to 1; the loss is the targets' mean log probability."""

from __future__ import annotations

import numpy as np
import pytest

import fastdist
from fastdist import nn


@pytest.fixture
def layer() -> nn.AdaptiveLogSoftmaxWithLoss:
    fastdist.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7, 9], 2.0, dtype=fastdist.float64)


def test_the_output_is_the_target_s_log_probability(layer: nn.AdaptiveLogSoftmaxWithLoss) -> None:
    x, target = fastdist.randn(6, 8).double(), fastdist.tensor([0, 11, 5, 8, 2, 3])
    whole = layer.log_prob(x)
    np.testing.assert_allclose(whole.exp().sum(1).detach().numpy(), 1.0)
    output, loss = layer(x, target)
    expected = whole.gather(1, target.unsqueeze(1)).squeeze(1)
    np.testing.assert_allclose(output.detach().numpy(), expected.detach().numpy())
    assert loss.item() == pytest.approx(-expected.mean().item())
    assert layer.predict(x).tolist() == whole.argmax(1).tolist()


def test_every_layer_that_was_asked_gets_a_gradient(layer: nn.AdaptiveLogSoftmaxWithLoss) -> None:
    layer(fastdist.randn(2, 8).double(), fastdist.tensor([0, 4])).loss.backward()
    asked = [name for name, p in layer.named_parameters() if p.grad is not None]
    assert asked == ["head.weight", "tail.0.0.weight", "tail.0.1.weight"]


def test_one_sample_needs_no_batch(layer: nn.AdaptiveLogSoftmaxWithLoss) -> None:
    x = fastdist.randn(1, 8).double()
    alone, batch = layer(x[0], fastdist.tensor(5)), layer(x, fastdist.tensor([5]))
    assert alone.output.shape == () and alone.output.item() == batch.output.item()


@pytest.mark.parametrize("cutoffs", [[], [3, 2], [0, 3], [3, 12], [3, 3], [2.5]])
def test_cutoffs_are_looked_at(cutoffs: list[int]) -> None:
    with pytest.raises(ValueError, match="cutoffs should be a sequence"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, cutoffs)


def test_targets_that_do_not_fit_are_refused(layer: nn.AdaptiveLogSoftmaxWithLoss) -> None:
    x = fastdist.ones(2, 8).double()
    for target, message in (
        ([0, 12], r"Target values should be in \[0, 11\], but values in range \[0, 12\]"),
        ([0], "Input and target should have the same size in the batch dimension"),
        ([[0], [1]], "0D or 1D target tensor expected, multi-target not supported"),
        (0, "0D target tensor expects 1D input tensors, but found inputs with size"),
    ):
        with pytest.raises(RuntimeError, match=message):
            layer(x, fastdist.tensor(target))
