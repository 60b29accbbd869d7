"""Margin losses, which are small if scores or distances differ by at least a margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dtypes import WORDS, int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...tensor.axes import DimError, normalize_axis
from ...tensor.tensor import Tensor
from ..index.searchsorted import find_outside
from ..pointwise.masked import where
from ..pointwise.min_max import minimum
from ..refusals import as_dtype_of
from ..saved_indices import keep_version
from .activation import logsigmoid, relu
from .cross_entropy import reduction_code, reduction_of
from .losses import reduced
from .similarity import pairwise_distance


@composite(homes="functional")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return input where target is 1, and max(0, margin - input) where target is -1."""
    reduction = reduction_of(size_average, reduce, reduction)
    x: Any = input
    lacks = (margin - x).clamp_min(0)
    losses = lacks.masked_fill(target == 1, 0) + x.masked_fill(target == -1, 0)
    return reduced(losses, reduction)


@composite(homes="functional")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, -target * (input1 - input2) + margin)."""
    reduction = reduction_of(size_average, reduce, reduction)
    shapes = [one._layout.shape for one in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {shapes[0]}, input2: {shapes[1]}, target: {shapes[2]}"
        )
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composite(homes="functional", node="soft_margin_loss")
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return log(1 + exp(-target * input)), without overflow."""
    reduction = reduction_of(size_average, reduce, reduction)
    losses = as_dtype_of(input, -logsigmoid(target * input))
    if losses._layout.shape != input._layout.shape:
        raise ShapeError(
            f"output with shape {list(input._layout.shape)} doesn't match the broadcast shape "
            f"{list(losses._layout.shape)}: target has shape {target._layout.shape}"
        )
    return reduced(losses, reduction)


@composite(homes="functional", known_as="")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor | float,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean, over the classes, of the binary cross entropies between logits and targets.

    Shape   (..., C) -> (), or (...) for reduction "none"
    """
    reduction = reduction_of(size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    axes = len(input._layout.shape)
    if not axes:
        raise DimError("Dimension specified as -1 but tensor has no dimensions: give it classes")
    return reduced(losses.mean(normalize_axis("mean", axes - 1, axes)), reduction)


@composite(homes="functional", node="multi_margin_loss")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum of max(0, margin - a + b)**p, divided by the number of classes, where a is the
    score of the target class and b is the score of each other class.

    Shape   (N, C), (N,) or (C,), () -> (), or the shape of target for reduction "none"
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and len(weight._layout.shape) != 1:
        raise ValueError("weight must be one-dimensional")
    _require_long(target)
    rows, chosen = _rows(input), target.reshape(-1)
    n, classes = rows._layout.shape
    if chosen._layout.shape != (n,) or len(target._layout.shape) > 1:
        raise ShapeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples, {n}, got {target._layout.shape}"
        )
    if (wrong := find_outside(target, 0, classes - 1)) is not None:
        raise ShapeError(f"target out of range: got {wrong}, there are {classes} classes")
    chosen = chosen.unsqueeze(1)
    lacks: Any = relu(margin - rows.gather(1, chosen) + rows)
    lacks = lacks * lacks if p == 2 else lacks
    if weight is not None:
        lacks = lacks * weight.gather(0, chosen.reshape(-1)).unsqueeze(1)
    losses = lacks.scatter(1, chosen, 0.0).sum(1) / classes
    return reduced(losses.reshape(target._layout.shape), reduction)


def _require_long(target: Tensor) -> None:
    if target._layout.dtype is not int64:
        raise DTypeError(
            f"expected scalar type Long but found {WORDS[target._layout.dtype]}: target holds "
            "numbers of classes; cast it with .long()"
        )


def _rows(input: Tensor) -> Any:
    """Return input as a matrix. A vector becomes one row, and a 0-d tensor one row with one class.

    Raises  ShapeError if input has more than two axes or no classes
    """
    shape = input._layout.shape
    if not shape:
        return input.reshape(1, 1)
    if len(shape) > 2 or not shape[-1]:
        raise ShapeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(shape)}"
        )
    return input if len(shape) == 2 else input.unsqueeze(0)


@composite(homes="functional", node="multilabel_margin_loss")
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum of max(0, 1 - a + b), divided by the number of classes. The sum is over all
    pairs of a score a of a target class and a score b of a class that is not a target.

    Shape   (N, C), (N, C) or (C,), (C,) -> (), or (N,) for reduction "none". The targets of a row
            are the numbers before the first -1 of the row
    Raises  RuntimeError if target is on the CPU and has a number that is neither a class nor -1
    """
    reduction = reduction_of(size_average, reduce, reduction)
    rows = _rows(input)
    if target._layout.shape != input._layout.shape:
        raise ShapeError(
            f"inconsistent target size: {list(target._layout.shape)} for input of size: "
            f"{list(input._layout.shape)}"
        )
    _require_long(target)
    # As in PyTorch, numbers after a row's first -1 are not used, but they are checked as well.
    classes = rows._layout.shape[1]
    if (wrong := find_outside(target, -1, classes - 1)) is not None:
        raise ShapeError(
            f"argument #2 'target' is out of range: got {wrong}, there are {classes} classes, and "
            "-1 ends a row's"
        )
    wanted = target.reshape(rows._layout.shape)
    counts = (wanted < 0).cumsum(1) == 0
    chosen = wanted.masked_fill(~counts, 0)
    others = counts.new_zeros(counts._layout.shape, dtype=chosen.dtype)
    others = others.scatter_add(1, chosen, counts.to(chosen.dtype)) == 0
    lacks: Any = relu(1 - rows.gather(1, chosen).unsqueeze(2) + rows.unsqueeze(1))
    pairs = counts.unsqueeze(2).logical_and(others.unsqueeze(1))
    losses = lacks.masked_fill(~pairs, 0.0).sum((1, 2)) / rows._layout.shape[1]
    found = reduced(losses.reshape(input._layout.shape[:-1]), reduction)
    return keep_version(found, target)


@composite(homes="functional")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - c where target is 1, and max(0, c - margin) where target is -1. c is the cosine of
    the angle between the inputs.

    Shape   (N, D), (N, D), (N,) or (D,), (D,), () -> (), or the shape of target for reduction
            "none"
    """
    reduction = reduction_of(size_average, reduce, reduction)
    axes, shapes = len(target._layout.shape), [input1._layout.shape, input2._layout.shape]
    if axes > 1:
        raise ShapeError(
            "0D or 1D target tensor expected, multi-target not supported: got "
            f"{target._layout.shape}"
        )
    if any(len(shape) != axes + 1 for shape in shapes):
        raise ShapeError(
            f"{axes}D target tensor expects {axes + 1}D input tensors, but found inputs with sizes "
            f"{list(shapes[0])} and {list(shapes[1])}."
        )
    squares = [(one * one).sum(-1) + 1e-12 for one in (input1, input2)]
    cosine = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    zero = cosine.new_zeros(())
    alike: Any = where(target == 1, 1 - cosine, zero)
    unlike: Any = where(target == -1, (cosine - margin).clamp_min(0), zero)
    return reduced(alike + unlike, reduction)


def _triplet(
    distance: Callable[[Any, Any], Any],
    triplet: tuple[Any, Any, Any],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    """Return max(0, margin + distance(anchor, positive) - distance(anchor, negative))."""
    reduction_code(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    anchor, positive, negative = triplet
    axes = [len(one._layout.shape) for one in triplet]
    if len(set(axes)) > 1:
        raise ShapeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {axes[0]}D, positive {axes[1]}D, and negative {axes[2]}D "
            "inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)


@composite(homes="functional")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin + distance(anchor, positive) - distance(anchor, negative)). With `swap`,
    distance(positive, negative) replaces the last distance where it is smaller.

    Source  Balntas et al. 2016, "Learning local feature descriptors with triplets"
    """
    reduction = reduction_of(size_average, reduce, reduction)

    def distance(x: Tensor, y: Tensor) -> Any:
        return pairwise_distance(x, y, p, eps)

    return _triplet(distance, (anchor, positive, negative), margin, swap, reduction)


@composite(homes="functional", known_as="")
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return triplet_margin_loss with the given distance function, or with pairwise_distance."""
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(distance, (anchor, positive, negative), margin, swap, reduction)
