"""The NumPy model, compared with finite differences of its loss and with the values to learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fastdist.examples import numpy_mlp


def test_gradients_equal_differences_of_the_loss() -> None:
    generator = np.random.default_rng(1)
    layers = _layers(generator, 5, 4, 3)
    images, labels = generator.normal(size=(6, 5)), generator.integers(0, 3, 6)
    _, gradients = numpy_mlp.loss_and_gradients(layers, images, labels)
    for layer, gradient in zip(layers, gradients, strict=True):
        for parameter, g in zip(layer, gradient, strict=True):
            for index in np.ndindex(parameter.shape):
                expected = _difference(layers, parameter, index, images, labels)
                assert abs(g[index] - expected) < 1e-8


def test_cross_entropy_survives_large_logits() -> None:
    layers = [numpy_mlp.Layer(np.eye(2) * 1e4, np.zeros(2))]
    loss, _ = numpy_mlp.loss_and_gradients(layers, np.eye(2), np.array([0, 0]))
    assert loss == 5000.0


def _layers(generator: np.random.Generator, *sizes: int) -> list[numpy_mlp.Layer]:
    return [
        numpy_mlp.Layer(generator.normal(size=(outputs, inputs)), generator.normal(size=outputs))
        for inputs, outputs in pairwise(sizes)
    ]


def _difference(
    layers: list[numpy_mlp.Layer],
    parameter: numpy_mlp.Array,
    index: tuple[int, ...],
    images: numpy_mlp.Array,
    labels: NDArray[np.int64],
) -> float:
    before = parameter[index]
    losses = []
    for step in (1e-6, -1e-6):
        parameter[index] = before + step
        losses.append(numpy_mlp.loss_and_gradients(layers, images, labels)[0])
    parameter[index] = before
    return (losses[0] - losses[1]) / 2e-6
