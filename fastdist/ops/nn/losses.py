"""Elementwise losses of two tensors, with a reduction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...core.caller_warning import warn_caller
from ...core.device import CPU
from ...core.dtypes import WORDS, DType, bool_
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pointwise import pointwise
from ...interpreters.batched_tensor import unbatched
from ...interpreters.sparse_rules import is_sparse
from ...tensor.tensor import Tensor
from ..pointwise.transcendental import xlogy
from ..refusals import as_dtype_of, floating_only, require_floating_inputs
from ..shape.rearranging import broadcast_tensors
from .activation import logsigmoid
from .cross_entropy import REDUCTIONS, reduction_code, reduction_of


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Return `losses` unchanged, the mean of `losses`, or the sum of `losses`."""
    code = reduction_code(reduction)
    if code == 0:
        return losses
    return losses.mean() if code == 1 else losses.sum()


def _weighted(losses: Tensor, weight: Tensor, input: Tensor) -> Any:
    """Return losses * weight. The weight must have the shape of input."""
    if weight._layout.shape != input._layout.shape:
        raise ShapeError(
            "Weights and input must have the same size. They have the shapes "
            f"{weight._layout.shape} and {input._layout.shape}"
        )
    return losses * weight


def _mean_by_weight(losses: Tensor, weight: Any, input: Tensor, reduction: str) -> Tensor:
    """Return `losses` multiplied by `weight` and reduced; "mean" gives the weighted mean."""
    if weight is None:
        return reduced(losses, reduction)
    losses = _weighted(losses, weight, input)
    if reduction_code(reduction) == REDUCTIONS["mean"]:
        return losses.sum() / weight.sum()  # type: ignore[no-any-return]
    return reduced(losses, reduction)


@pointwise(
    "d = input - target; d * d",
    ["g * (T(2) * (input - target))", "g * (T(2) * (target - input))"],
    dtype="number",
    homes="nowhere",
    known_as="mse_loss",
)
def squared_difference(input: Tensor, target: Tensor) -> Tensor:
    """Return (input - target)**2."""


squared_difference.refusal(floating_only("mse_cpu"))


@pointwise(
    "abs(input - target)",
    ["g * sign(input - target)", "g * sign(target - input)"],
    dtype="number",
    homes="nowhere",
    known_as="l1_loss",
    node="abs",
)
def absolute_difference(input: Tensor, target: Tensor) -> Tensor:
    """Return |input - target|."""


@absolute_difference.refusal
def _(dtypes: Sequence[DType]) -> str | None:
    if bool_ not in dtypes:
        return None
    return (
        "Subtraction, the `-` operator, with a bool tensor is not supported: cast it with .float()."
    )


@pointwise(
    "d = abs(input - target); where(d < beta, T(0.5) * d * d / beta, d - T(0.5) * beta)",
    [
        "d = input - target; g * where(abs(d) >= beta, sign(d), d / beta)",
        "d = target - input; g * where(abs(d) >= beta, sign(d), d / beta)",
    ],
    dtype="number",
    homes="nowhere",
    known_as="smooth_l1_loss",
)
def smooth_difference(input: Tensor, target: Tensor, beta: float) -> Tensor:
    """Return a loss that is quadratic if |input - target| is below beta, and
    |input - target| - beta / 2 otherwise.
    """


smooth_difference.refusal(floating_only("smooth_l1_cpu"))


@pointwise(
    "d = abs(input - target); where(d <= delta, T(0.5) * d * d, delta * (d - T(0.5) * delta))",
    [
        "d = input - target; g * where(abs(d) >= delta, delta * sign(d), d)",
        "d = target - input; g * where(abs(d) >= delta, delta * sign(d), d)",
    ],
    dtype="number",
    homes="nowhere",
    known_as="huber_loss",
)
def huber_difference(input: Tensor, target: Tensor, delta: float) -> Tensor:
    """Return a loss that is quadratic if |input - target| is at most delta, and linear with slope
    delta otherwise.
    """


huber_difference.refusal(floating_only("huber_cpu"))


@pointwise(
    # log1p is added last, so that its precision is kept if the other two terms cancel.
    "(T(1) - target) * input + maximum(-input, T(0)) + log1p(exp(-abs(input)))",
    ["sigmoid(input) - target", "-input"],
    # sigmoid(input) - target, computed as (1 - target) * s + target * (s - 1), s = sigmoid(input).
    tails=[
        (
            "inside = abs(target - T(0.5)) <= T(0.5); t = where(inside, target, T(0)); "
            "where(inside, (T(1) - t) * sigmoid(input) - t * sigmoid(-input), "
            "sigmoid(input) - target)"
        ),
        "-input",
    ],
    dtype="number",
    homes="nowhere",
    known_as="binary_cross_entropy_with_logits",
)
def logit_entropy(input: Tensor, target: Tensor) -> Tensor:
    """Return the binary cross entropy, where input holds logits."""


@pointwise(
    "-(target * maximum(log(input), T(-100)) + (T(1) - target) * maximum(log1p(-input), T(-100)))",
    [
        "g * ((input - target) / maximum((T(1) - input) * input, T(1e-12)))",
        "log1p(-input) - log(input)",
    ],
    dtype="number",
    homes="nowhere",
    known_as="binary_cross_entropy",
)
def binary_entropy(input: Tensor, target: Tensor) -> Tensor:
    """Return the binary cross entropy of probabilities, with logarithms clamped at -100."""


def _compared(name: str, input: Tensor, target: Tensor, *numbers: Any) -> Any:
    return OPS[name](input, target, *numbers)


def _as_one_size(input: Tensor, target: Tensor) -> tuple[Any, ...]:
    """Return both tensors broadcast to one shape. If the shapes differ, warn the caller of the loss
    function. After broadcasting, a 0-d target affects type promotion like a tensor with axes.
    """
    both = isinstance(input, Tensor) and isinstance(target, Tensor)
    if not both or input._layout.shape == target._layout.shape:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=4,
    )
    return broadcast_tensors(input, target)


@composite(homes="functional")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the squared differences of input and target, or the mean or sum of these squares.

    Note    with `weight`, the mean is the weighted mean
    Raises  RuntimeError if the shapes do not broadcast, or an argument is complex

    Args:
        input: A floating-point tensor. The mean of no elements is NaN.
        target: A tensor of the shape of input; other shapes broadcast, with a warning.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        weight: A weight for each element; all 1 if None.

    Example:
        >>> F.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    both = _as_one_size(input, target)
    losses = _compared("squared_difference", *both)
    return _mean_by_weight(losses, weight, input, reduction)


@composite(homes="functional")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Return the absolute differences of input and target, or the mean or sum of these differences.

    Note    with `weight`, the mean is the weighted mean

    Args:
        input: A tensor of any shape.
        target: A tensor of the shape of input.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        weight: A weight for each element; all 1 if None.

    Example:
        >>> F.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    both = _as_one_size(input, target)
    losses = _compared("absolute_difference", *both)
    return _mean_by_weight(losses, weight, input, reduction)


@composite(homes="functional")
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the same as l1_loss, but quadratic for differences whose magnitude is below beta."""
    reduction = reduction_of(size_average, reduce, reduction)
    both = _as_one_size(input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return reduced(_compared("absolute_difference", *both), reduction)
    return reduced(_compared("smooth_difference", *both, beta), reduction)


@composite(homes="functional")
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Return a loss that is quadratic if |input - target| is at most delta, and linear otherwise.

    Note    even with `weight`, the mean divides by the number of elements, as in PyTorch
    """
    both = _as_one_size(input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    losses = as_dtype_of(input, _compared("huber_difference", *both, delta))
    return reduced(losses if weight is None else _weighted(losses, weight, input), reduction)


@composite(homes="functional")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy of the probabilities `input` and `target`, both in 0 ... 1."""
    reduction = reduction_of(size_average, reduce, reduction)
    _require_same(input, target)
    _require_probabilities(input, target)
    losses = _compared("binary_entropy", input, target)
    return reduced(_broadcast_weight(losses, weight, input), reduction)


@composite(homes="functional")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return binary_cross_entropy of sigmoid(input), without underflow.

    Args:
        input: The logits of 1, a floating-point tensor of any shape.
        target: The probability of 1, of the shape of input.
        weight: A weight for each element; all 1 if None.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        pos_weight: The weight of targets that are 1, for each class.

    Example:
        >>> F.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    _require_same(input, target)
    require_floating_inputs("log_sigmoid_cpu", input)
    as_dtype_of(target, input)  # PyTorch allocates the result in the dtype of target
    if pos_weight is None:
        losses = _compared("logit_entropy", input, target)
    else:
        # pos_weight is a factor of only one of the two terms, the term for targets that are 1.
        losses = (target - 1) * logsigmoid(-input) - pos_weight * target * logsigmoid(input)
    return reduced(_broadcast_weight(losses, weight, input), reduction)


def _broadcast_weight(losses: Tensor, weight: Any, input: Tensor) -> Any:
    """Return losses, multiplied by weight if it is given.

    Raises  ShapeError if the product has more elements than input, because weight broadcasts
    """
    if weight is not None:
        losses = losses * weight
        if is_sparse(losses):
            losses = losses.to_dense()  # PyTorch multiplies in place, so the result is dense
    shape, found = input._layout.shape, losses._layout.shape
    if shape != found:
        raise ShapeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(found)}: "
            "weight and pos_weight may have no more elements along any axis than the input"
        )
    return losses


def _require_probabilities(input: Tensor, target: Tensor) -> None:
    require_floating_inputs("binary_cross_entropy", input)
    found, wanted = target._layout.dtype, input._layout.dtype
    if found is not wanted:
        raise DTypeError(
            f"Found dtype {WORDS[found]} but expected {WORDS[wanted]}: cast target with "
            f".to(fastdist.{wanted.name})"
        )
    for name, given, hint in (
        ("input", input, "give it a sigmoid's result, or use binary_cross_entropy_with_logits"),
        ("target", target, "it holds probabilities"),
    ):
        given = unbatched(given)
        if given._layout.numel == 0 or given.is_meta:
            continue
        if given._layout.device is CPU and not given._layout.is_sparse:
            # These calls take a quarter of the time of ndarray.min and max, which call Python
            # functions. argmin and argmax return the index of a NaN if there is one.
            values = given._array
            low, high = values.item(values.argmin()), values.item(values.argmax())
        else:
            low, high = given.detach().min().item(), given.detach().max().item()
        if not (low >= 0 and high <= 1):
            raise ShapeError(f"all elements of {name} should be between 0 and 1: {hint}")


def _require_same(input: Tensor, target: Tensor) -> None:
    if input._layout.shape != target._layout.shape:
        raise ShapeError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )


@composite(homes="functional")
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return target * (log(target) - input), where input holds log probabilities."""
    if reduction == "mean" and size_average is None and reduce is None:
        warn_caller(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    if not (input._layout.dtype.is_floating_point and target._layout.dtype.is_floating_point):
        raise DTypeError(
            "kl_div: Integral inputs not supported.: input is "
            f"{input._layout.dtype.name}, target {target._layout.dtype.name}; cast with .float()"
        )
    by_batch = reduction == "batchmean"
    reduction = reduction_of(size_average, reduce, "sum" if by_batch else reduction)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = xlogy(target, target) - target * input
    loss = reduced(losses, reduction)
    shape = input._layout.shape
    return loss / shape[0] if by_batch and shape else loss  # NaN if there are no samples
