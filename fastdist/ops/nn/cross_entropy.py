"""The negative log likelihood, and the cross entropy, which is composed from it."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.device import CPU
from ...core.dtypes import WORDS, float64, int64, uint8
from ...core.errors import DTypeError, ShapeError
from ...core.short_repr import short_text
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import composite
from ...dispatch.op import PLAIN, Op
from ...dispatch.structured import Plan, structured
from ...graph.modes import may_be_differentiated, modes, tls
from ...interpreters.batched_tensor import Batched, levels, value_at
from ...tensor.layout import Layout, Shape
from ...tensor.tensor import Tensor
from ..reduce.row_slopes import may_fuse
from ..refusals import require_floating_inputs
from .softmax import (
    less_mean,
    log_softmax,
    log_softmax_gradient,
    log_softmax_tangent,
    softmax,
)

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
# A value for ignore_index that is not the index of any class.
NO_CLASS = -100


def reduction_code(reduction: str) -> int:
    """Return the code of a reduction.

    Raises  ValueError for an unknown reduction
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"{short_text(reduction)} is not a valid value for reduction")
    return REDUCTIONS[reduction]


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that PyTorch's deprecated arguments specify, or else `reduction`.

    Raises  ValueError for an unknown reduction, before any other argument is checked
    """
    if size_average is None and reduce is None:
        reduction_code(reduction)
        return reduction
    averages = size_average is None or bool(size_average)
    said = "none" if reduce is not None and not reduce else "mean" if averages else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{said}' instead.",
        stacklevel=4,
    )
    return said


@structured("nn.loss.nll", fresh=True, homes="nowhere", known_as="nll_loss_forward", piecewise=True)
def nll_kernel(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: int
) -> tuple[Tensor, Tensor]:
    """Return the negative log likelihood of the target classes, and the sum of their weights."""


@nll_kernel.names_node
def _(node: Any) -> str:
    is_of_images = len(node.naming_route.layouts[0].shape) > 2
    return "nll_loss2d_forward" if is_of_images else "nll_loss_forward"


@nll_kernel.plan
def _(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: int
) -> Plan:
    layout = input._layout
    shape = target._layout.shape if reduction == 0 else ()
    numbers = (ignore_index, reduction)
    return Plan(shape, layout.dtype, numbers, extra_outputs=(((), layout.dtype),))


@nll_kernel.batches
def _(op: Op, operands: tuple[Any, ...], attributes: tuple[Any, ...], level: int) -> Any:
    (input, target, weight), (ignore_index, reduction) = operands, attributes
    axis = 0 if len(input._layout.shape) == 1 else 1
    counts = target != ignore_index
    places = target.masked_fill(~counts, 0)
    weights = counts.to(input.dtype)
    if weight is not None:
        weights = weights * weight[places.reshape(-1)].reshape(places.shape)
    losses = -input.gather(axis, places.unsqueeze(axis)).squeeze(axis) * weights
    total = weights.sum()
    result = losses if reduction == 0 else losses.sum()
    size = levels.sizes[level - 1]
    found = (result / total if reduction == 1 else result, total)
    return tuple([value_at(one, level, size=size) for one in found])


@nll_kernel.vjp("input")
def _(
    g: Tensor,
    target: Tensor,
    weight: Tensor,
    input_layout: Layout,
    ignore_index: int,
    reduction: int,
    others: tuple[Tensor, ...],
) -> Any:
    total = others[0]
    return nll_gradient(g, target, weight, total, input_layout.shape, ignore_index, reduction)


@nll_kernel.jvp
def _(
    input_t: Any, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: int
) -> Any:
    return nll_kernel(input_t, target, weight, ignore_index, reduction)[0]


@structured(
    "nn.loss.nll_gradient", linear=True, fresh=True, homes="nowhere", known_as="nll_loss_backward"
)
def nll_gradient(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total: Tensor,
    shape: Shape,
    ignore_index: int,
    reduction: int,
) -> Tensor:
    """Return the gradient of nll_kernel with respect to its input. The parameter `input` is the
    gradient of nll_kernel's result.
    """


@nll_gradient.plan
def _(
    input: Tensor,
    target: Tensor,
    weight: Tensor,
    total: Tensor,
    shape: Any,
    ignore_index: int,
    reduction: int,
) -> Plan:
    return Plan(shape, input._layout.dtype, (ignore_index, reduction))


@nll_gradient.vjp("input")
def _(g: Tensor, target: Tensor, weight: Tensor, ignore_index: int, reduction: int) -> Any:
    return nll_kernel(g, target, weight, ignore_index, reduction)[0]


def _require_target(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    shape, found = input._layout.shape, target._layout.shape
    if target._layout.dtype not in (int64, uint8):
        raise DTypeError(
            f"expected target dtype to be Long or Byte, but got {WORDS[target._layout.dtype]}: "
            "it holds numbers of classes; cast it with .long()"
        )
    if not shape:
        raise ShapeError("nll_loss: input needs an axis of classes, got a 0-d tensor")
    if len(shape) > 1 and found[:1] != shape[:1]:
        raise ShapeError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({found[0] if found else 1})."
        )
    wanted = () if len(shape) == 1 else (shape[0], *shape[2:])
    if found != wanted:
        raise ShapeError(f"Expected target size {list(wanted)}, got {list(found)}")
    if weight is not None and weight._layout.dtype is not input._layout.dtype:
        raise DTypeError(
            f"expected scalar type {WORDS[input._layout.dtype]} but found "
            f"{WORDS[weight._layout.dtype]}: weight is of input's dtype; cast it with .to()"
        )
    classes = shape[1] if len(shape) > 1 else shape[0]
    if weight is not None and weight._layout.shape != (classes,):
        raise ShapeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight._layout.shape)}"
        )


@composite(homes="functional")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log likelihood of target's classes; input holds log probabilities.

    Shape   (N, C, ...), (N, ...) -> (), or (N, ...) for reduction "none"
    """
    if len(input._layout.shape) == 1 and target._layout.shape == (1,):
        target = target.reshape(())
    _require_target(input, target, weight)
    require_floating_inputs("nll_loss_out_frame", input)
    code = reduction_code(reduction_of(size_average, reduce, reduction))
    return nll_kernel(input, target, weight, ignore_index, code)[0]


@structured(
    "nn.cross_entropy.rows",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="nll_loss_forward",
)
def cross_entropy_rows(
    input: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cross entropy between rows of logits and their classes. Further results are
    exp(logits), with each row multiplied by a separate factor, and the sum of each such row.
    """


@cross_entropy_rows.plan
def _(input: Tensor, target: Tensor, reduction: int) -> Plan:
    layout = input._layout
    shape = () if reduction else target._layout.shape
    extra = ((layout.shape, layout.dtype), (layout.shape[:1], layout.dtype))
    return Plan(shape, layout.dtype, (reduction,), extra_outputs=extra)


@cross_entropy_rows.vjp("input")
def _(g: Tensor, input: Tensor, target: Tensor, reduction: int, others: tuple[Tensor, ...]) -> Any:
    is_wide = input._layout.dtype is float64 and input._layout.device is not CPU
    if tls.grad and may_fuse(input, g):
        return cross_entropy_slope.public(g, input, target, *others, reduction)
    if may_be_differentiated() or is_wide:
        # A gradient that is recorded is differentiated itself, so it must be computed from input.
        # In float64 on a GPU, the gradient kernel would lose precision, because it subtracts
        # shares from 1: see Note [Slopes of rows with one large share].
        likely: Any = log_softmax(input, 1)
        total = input.new_full((), float(len(target)))
        shape = input._layout.shape
        part: Any = nll_gradient(g, target, None, total, shape, NO_CLASS, reduction)
        return log_softmax_gradient(part, likely, 1)
    return cross_entropy_rows_gradient.public(g, target, *others, reduction)


@cross_entropy_rows.jvp
def _(input_t: Tensor | None, input: Tensor, target: Tensor, reduction: int) -> Any:
    likely: Any = log_softmax(input, 1)
    tangent = log_softmax_tangent(input_t, likely, 1)
    return nll_kernel(tangent, target, None, NO_CLASS, reduction)[0]


@structured(
    "nn.cross_entropy.losses",
    fresh=True,
    homes="nowhere",
    known_as="nll_loss_forward",
    differentiable=False,
)
def cross_entropy_losses(input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Return only the first result of cross_entropy_rows. This op is faster than that op, and has
    no derivatives.
    """


@cross_entropy_losses.plan
def _(input: Tensor, target: Tensor, reduction: int) -> Plan:
    return Plan(() if reduction else target._layout.shape, input._layout.dtype, (reduction,))


@structured("nn.cross_entropy.slope", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="nll_loss_backward")  # fmt: skip
def cross_entropy_slope(
    grad: Tensor, input: Tensor, target: Tensor, weights: Tensor, totals: Tensor, reduction: int
) -> Tensor:
    """Return the gradient of cross_entropy_rows with respect to its input. This op is itself
    differentiable.
    """


@cross_entropy_slope.plan
def _(
    grad: Tensor, input: Tensor, target: Tensor, weights: Tensor, totals: Tensor, reduction: int
) -> Plan:
    return Plan(input._layout.shape, input._layout.dtype, (reduction,))


@cross_entropy_slope.vjp("grad", "input")
def _(
    g: Tensor,
    grad: Tensor,
    input: Tensor,
    target: Tensor,
    weights: Tensor,
    totals: Tensor,
    reduction: int,
) -> Any:
    shares = softmax(input, 1)
    away = less_mean(g, shares, 1)
    scale = 1.0 / len(target) if reduction == 1 else 1.0
    by_row = away.gather(1, target.reshape(-1, 1)).reshape(-1) * -scale
    given = grad if reduction else grad.reshape(-1, 1)
    return by_row.sum() if reduction else by_row, away * shares * given * scale


@structured(
    "nn.cross_entropy.rows_gradient",
    linear=True,
    fresh=True,
    homes="nowhere",
    known_as="nll_loss_backward",
    differentiable=False,
)
def cross_entropy_rows_gradient(
    input: Tensor, target: Tensor, weights: Tensor, totals: Tensor, reduction: int
) -> Tensor:
    """Return the gradient of cross_entropy_rows with respect to its input. The parameter `input` is
    the gradient of that op's result. This op is never recorded.
    """


@cross_entropy_rows_gradient.plan
def _(input: Tensor, target: Tensor, weights: Tensor, totals: Tensor, reduction: int) -> Plan:
    return Plan(weights._layout.shape, weights._layout.dtype, (reduction,))


def _are_rows_of_classes(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> bool:
    """Return whether the ops for rows and classes apply: `input` is a matrix in C order, without
    class weights, and no target is invalid or ignored.
    """
    layout, found = input._layout, target._layout
    if weight is not None or not layout.ordinary or len(layout.shape) != 2:
        return False
    if input.__class__ is Batched or target.__class__ is Batched:
        return False
    classes = target._array
    if found.dtype is not int64 or found.shape != layout.shape[:1] or found.device is not CPU:
        return False
    if not layout.numel:
        return False
    n = layout.shape[1]
    if 0 <= ignore_index < n:
        return False
    # These calls take a quarter of the time of ndarray.min and max, which call Python functions.
    low, high = classes.item(classes.argmin()), classes.item(classes.argmax())
    return bool(low >= 0 and high < n)


def _cross_entropy_of_rows(
    input: Any = None, target: Any = None, *others: Any, **named: Any
) -> Any:
    """Return the mean cross entropy between a few rows of logits and their classes, or NOT_TAKEN
    for other calls. This path is for the most frequent call. It takes a third less time, because
    the kernel checks the classes.
    """
    if others or named or input.__class__ not in PLAIN or target.__class__ not in PLAIN:
        return NOT_TAKEN
    layout, found = input._layout, target._layout
    if (
        found.dtype is not int64
        or found.device is not CPU
        or not 0 < found.numel <= _FEW_ROWS
        or len(layout.shape) != 2
        or found.shape != layout.shape[:1]
        or not layout.ordinary
        or not layout.numel
    ):
        return NOT_TAKEN
    try:
        if input._edge is None or not tls.grad:
            return cross_entropy_losses(input, target, 1)
        return cross_entropy_rows(input, target, 1)[0]
    except IndexError:
        return NOT_TAKEN  # a class that is ignored or does not exist


# The largest number of rows for which the kernel checks the classes. With more rows, it is cheaper
# to check the classes first than to run a kernel that may fail.
_FEW_ROWS = 128


@composite(homes="functional", known_as="cross_entropy_loss", quick=_cross_entropy_of_rows)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy between logits and targets, which are classes or probabilities.

    Shape   (N, C, ...), with targets (N, ...) or (N, C, ...), -> (), or (N, ...) for reduction
            "none"
    Raises  IndexError if a target is not a class; RuntimeError if the shapes do not fit, or input
            is not floating-point

    Args:
        input: The unnormalized logits, one for each class.
        target: The index of the class, in int64, or the probability of each class.
        weight: A weight for each class, of shape (C,); all 1 if None.
        size_average: Deprecated; None: see reduction.
        ignore_index: A class; targets of this class do not contribute to the loss.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        label_smoothing: The share of the target that is distributed over all classes, 0 to 1.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> F.cross_entropy(logits, torch.tensor([0, 1]))
        tensor(0.2201)
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if label_smoothing == 0.0 and _are_rows_of_classes(input, target, weight, ignore_index):
        code = reduction_code(reduction)
        # This condition replaces a call of is_differentiated, and takes a tenth of the time. The
        # two agree except for batches.
        if input.__class__ in modes.plain and (input._edge is None or not tls.grad):
            return cross_entropy_losses(input, target, code)
        return cross_entropy_rows(input, target, code)[0]
    axis = 0 if len(input._layout.shape) == 1 else 1
    likely: Any = log_softmax(input, axis)
    if target._layout.dtype.is_floating_point:
        if ignore_index >= 0:
            raise RuntimeError(
                f"ignore_index is not supported for floating point target: it is {ignore_index}, "
                "and the target holds probabilities; cast indices of classes with .long()"
            )
        return _of_probabilities(likely, target, weight, reduction, label_smoothing, axis)
    loss = nll_loss(likely, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0.0:
        return loss
    return _smoothed(loss, likely, target, weight, ignore_index, reduction, label_smoothing, axis)


def _along_classes(weight: Tensor, likely: Tensor, axis: int) -> Any:
    shape = [1] * len(likely._layout.shape)
    shape[axis] = likely._layout.shape[axis]
    return weight.reshape(shape)


def _of_probabilities(
    likely: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    smoothing: float,
    axis: int,
) -> Tensor:
    if target._layout.shape != likely._layout.shape:
        raise ShapeError(
            f"input and target of probabilities must have one shape, got {likely._layout.shape} "
            "and "
            f"{target._layout.shape}; a {target._layout.dtype.name} target holds probabilities: "
            "cast "
            "indices of classes with .long()"
        )
    classes = likely._layout.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    product = likely * target
    if weight is not None:
        product = product * _along_classes(weight, likely, axis)
    code = reduction_code(reduction)
    if code == 0:
        return -product.sum(axis)
    samples = likely._layout.numel // max(classes, 1)  # 0 without samples or classes: mean is NaN
    return -product.sum() / samples if code == 1 else -product.sum()


def _smoothed(
    loss: Tensor,
    likely: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float,
    axis: int,
) -> Tensor:
    weighted = likely if weight is None else likely * _along_classes(weight, likely, axis)
    ignored = target == ignore_index
    even = (-weighted.sum(axis)).masked_fill(ignored, 0.0)
    code = reduction_code(reduction)
    if code:
        even = even.sum()
    if code == 1:
        if weight is None:
            counted = (~ignored).sum().to(likely.dtype)
        else:
            chosen = weight.index_select(0, target.masked_fill(ignored, 0).reshape(-1))
            counted = chosen.masked_fill(ignored.reshape(-1), 0.0).sum()
        even = even / counted
    share = smoothing / max(likely._layout.shape[axis], 1)
    return loss * (1 - smoothing) + even * share
