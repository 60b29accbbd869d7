"""The cross entropy of a linear layer's outputs as one function."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...dispatch.composite import COMPOSITES, composite
from ...tensor.tensor import Tensor
from .cross_entropy import NO_CLASS


@composite(homes="functional", known_as="")
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return cross_entropy(linear(input, linear_weight, linear_bias), target).

    Shape   input (N, F) or (F,); linear_weight (C, ..., F), linear_bias (C, ...); target has a
            shape that cross_entropy supports for logits (N, C, ...)
    Raises  NotImplementedError if `options` are given, which divide the logits into chunks: here,
            all logits are computed in one step
    """
    if options is not None:
        raise NotImplementedError(
            "linear_cross_entropy: options ask for logits in pieces, and they are made at once "
            "here; leave options out"
        )
    given: Any = input
    sizes = _logits_shape(given, linear_weight, linear_bias)
    if ignore_index is not None and target._layout.shape == sizes:
        raise ShapeError("ignore_index cannot be specified when target contains probabilities")
    matrix: Any = linear_weight
    logits = given @ matrix.reshape(-1, given._layout.shape[-1]).T
    if linear_bias is not None:
        bias: Any = linear_bias
        logits = logits + bias.reshape(-1)
    found: Tensor = COMPOSITES["cross_entropy"].call(
        logits.reshape(sizes),
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=NO_CLASS if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
    return found


def _logits_shape(
    input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None
) -> tuple[int, ...]:
    """Return the shape of the logits; raise an error if the three shapes do not fit together."""
    shape, of_weight = input._layout.shape, linear_weight._layout.shape
    if len(shape) not in (1, 2):
        raise ShapeError(f"expected input with dimensionality 1 or 2, got {len(shape)}")
    if len(of_weight) < 2:
        raise ShapeError(
            f"expected linear_weight with dimensionality at least 2, got {len(of_weight)}"
        )
    if shape[-1] != of_weight[-1]:
        raise ShapeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{shape[-1]} and {of_weight[-1]}, respectively"
        )
    outputs = of_weight[:-1]
    if linear_bias is not None and linear_bias._layout.shape != outputs:
        raise ShapeError(
            f"expected linear_bias shape {outputs}, got {tuple(linear_bias._layout.shape)}"
        )
    if len(outputs) > 1 and len(shape) == 1:
        raise ShapeError(
            f"K-dimensional loss defined by linear_weight shape {of_weight} requires batched "
            f"input, (N, {shape[-1]}), got unbatched input with shape {shape}"
        )
    return (*shape[:-1], *outputs)
