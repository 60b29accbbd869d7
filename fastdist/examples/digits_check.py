"""Checks that the model has learned, and that its gradients equal those of a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fastdist
from fastdist import Tensor, nn, optim
from fastdist.data import DataLoader, TensorDataset
from fastdist.examples import numpy_mlp
from fastdist.nn import functional

Arrays = Sequence[NDArray[np.float64]]
Batches = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Comparison:
    """Compares the distributed model with the same model in one process, and with NumPy."""

    gradients: Arrays
    one_process_gradients: Arrays
    numpy_gradients: Arrays
    loss: float
    one_process_loss: float

    @property
    def from_one_process(self) -> float:
        """The largest difference from the gradients of one process, at the first step."""
        return largest_difference(self.gradients, self.one_process_gradients)

    @property
    def from_numpy(self) -> float:
        """The largest difference from the gradients that NumPy computes, at the first step."""
        return largest_difference(self.gradients, self.numpy_gradients)

    @property
    def of_loss(self) -> float:
        """The difference between the losses after the first epoch."""
        return abs(self.loss - self.one_process_loss)


def largest_difference(some: Arrays, others: Arrays) -> float:
    """Return the largest difference between two lists of arrays of equal shapes."""
    return max(float(np.abs(x - y).max()) for x, y in zip(some, others, strict=True))


def evaluate(predict: Callable[[Tensor], Tensor], held_out: TensorDataset) -> tuple[float, float]:
    """Return loss and accuracy of a model on held-out digits.

    Batches are small, so that no op is large enough for a compiled kernel: the compilation of a
    kernel would take longer than the whole training.
    """
    outputs = [predict(images) for images, _ in DataLoader(held_out, batch_size=32)]
    logits, labels = fastdist.cat(outputs), held_out.tensors[1]
    loss = functional.cross_entropy(logits, labels)
    return loss.item(), (logits.argmax(dim=1) == labels).double().mean().item()


def compare_with_one_process(
    layers: nn.Sequential,
    first_epoch: Batches,
    held_out: TensorDataset,
    lr: float,
    gradients: Sequence[Tensor],
    loss: float,
) -> Comparison:
    """Train the layers for one epoch in this process, and compare with the distributed training.

    `gradients` are the gradients of the distributed model at the first step, and `loss` is its loss
    after one epoch.
    """
    optimizer = optim.SGD(layers.parameters(), lr=lr)
    numpy_gradients: list[NDArray[np.float64]] = []
    own_gradients: list[NDArray[np.float64]] = []
    for images, labels in first_epoch:
        optimizer.zero_grad()
        if not numpy_gradients:
            _, by_layer = numpy_mlp.loss_and_gradients(
                _as_numpy(layers), images.numpy(), labels.numpy()
            )
            numpy_gradients = [g for layer in by_layer for g in layer]
        functional.cross_entropy(layers(images), labels).backward()
        if not own_gradients:
            own_gradients = [
                p.grad.numpy().copy() for p in layers.parameters() if p.grad is not None
            ]
        optimizer.step()
    with fastdist.no_grad():
        one_process_loss, _ = evaluate(layers, held_out)
    return Comparison(
        gradients=[g.numpy() for g in gradients],
        one_process_gradients=own_gradients,
        numpy_gradients=numpy_gradients,
        loss=loss,
        one_process_loss=one_process_loss,
    )


def _as_numpy(layers: nn.Sequential) -> list[numpy_mlp.Layer]:
    return [
        numpy_mlp.Layer(layer.weight.detach().numpy(), layer.bias.detach().numpy())
        for layer in layers
        if isinstance(layer, nn.Linear) and layer.bias is not None
    ]
