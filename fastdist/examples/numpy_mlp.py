"""A multi-layer perceptron with its gradients written out in NumPy, to compare fastdist with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Layer(NamedTuple):
    """The parameters of y = x W^T + b, or their gradients; weight is (outputs, inputs)."""

    weight: Array
    bias: Array


def loss_and_gradients(
    layers: Sequence[Layer], images: Array, labels: NDArray[np.int64]
) -> tuple[float, list[Layer]]:
    """Return the mean cross-entropy of a batch, and its gradients by each layer's parameters."""
    activations = _activations(layers, images)
    loss, g = _cross_entropy(activations[-1], labels)
    gradients = []
    for layer, x in zip(reversed(layers), reversed(activations[:-1]), strict=True):
        gradients.append(Layer(g.T @ x, g.sum(axis=0)))
        # x is the output of ReLU: where it is zero, the gradient is zero.
        g = np.where(x > 0.0, g @ layer.weight, 0.0)
    return loss, gradients[::-1]


def _activations(layers: Sequence[Layer], images: Array) -> list[Array]:
    activations = [images]
    for layer in layers[:-1]:
        activations.append(np.maximum(activations[-1] @ layer.weight.T + layer.bias, 0.0))
    activations.append(activations[-1] @ layers[-1].weight.T + layers[-1].bias)
    return activations


def _cross_entropy(logits: Array, labels: NDArray[np.int64]) -> tuple[float, Array]:
    rows = np.arange(len(labels))
    # Subtract the largest logit first, so that exp cannot overflow.
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    loss = float((log_sum - shifted[rows, labels]).mean())
    g = np.exp(shifted - log_sum[:, None])
    g[rows, labels] -= 1.0
    return loss, g / len(labels)
