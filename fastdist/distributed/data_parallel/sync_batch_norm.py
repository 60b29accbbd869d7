"""Batch normalisation over the batches of all members of a group."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd.function import Function
from ...core.device import CPU
from ...core.dtypes import float32, promote
from ...graph.modes import no_grad
from ...tensor.tensor import Tensor, from_array
from ..process_group.arrays import flat
from ..process_group.group import ProcessGroup
from ..process_group.options import AllgatherOptions, AllreduceOptions


def sync_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None],
    eps: float,
    momentum: float,
    group: ProcessGroup,
) -> Tensor:
    """Normalise each channel of `input` to mean 0 and variance 1 over the batches of all members.

    Args:
        input: A batch of shape (N, C, ...); N may differ between members, and be 0.
        weight: A factor per channel, of shape (C,).
        bias: A summand per channel, of shape (C,).
        running: The running mean and the running variance, which are updated; None if not kept.
        eps: Added to the variance.
        momentum: The weight of the new mean and variance in the running values.
        group: The group; all members must call.
    """
    channels = input.shape[1]
    with no_grad():
        mean, variance, total = _moments(input.detach(), channels, group)
        _move(running, mean, variance, total, momentum)
    found: Tensor = _Normalise.apply(input, weight, bias, mean, variance, total, eps, group)
    return found


def _moments(x: Any, channels: int, group: ProcessGroup) -> tuple[Any, Any, int]:
    """Return each channel's mean and variance over all batches, and the number of its elements."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    count = x.numel() // channels
    wide = x.to(promote(x.dtype, float32))
    mean = wide.mean(axes) if count else wide.new_zeros(channels)
    squares = (wide - _across(mean, x.ndim)).square().sum(axes)
    own = np.concatenate([flat(mean), flat(squares), np.asarray([count])]).astype(np.float64)
    rows = from_array(np.empty((group.size(), own.size)), CPU)
    options = AllgatherOptions(asyncOp=False)
    group._for_objects()._allgather_base(rows, from_array(own, CPU), options)
    # Every member sums in the order of ranks, so that the results are bitwise equal on all members.
    means, sums, counts = np.split(rows._array, [channels, 2 * channels], axis=1)
    total = int(counts.sum())
    joined = (means * counts).sum(0) / max(total, 1)
    spread = (sums + counts * (means - joined) ** 2).sum(0) / max(total, 1)
    as_input = {"dtype": wide.dtype, "device": x.device}
    return from_array(joined, CPU).to(**as_input), from_array(spread, CPU).to(**as_input), total


def _move(running: tuple[Any, Any], mean: Any, variance: Any, total: int, by: float) -> None:
    running_mean, running_variance = running
    if running_mean is None or not total:
        return
    running_mean.mul_(1 - by).add_(mean * by)
    unbiased = variance * (total / (total - 1)) if total > 1 else variance
    running_variance.mul_(1 - by).add_(unbiased * by)


def _across(numbers: Any, ndim: int) -> Any:
    """Return `numbers`, one per channel, in a shape that broadcasts over a batch."""
    return numbers.reshape((1, -1) + (1,) * (ndim - 2))


class _Normalise(Function):
    """Normalises with a given mean and variance, which depend on the inputs of all members."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Any,
        weight: Any,
        bias: Any,
        mean: Any,
        variance: Any,
        total: int,
        eps: float,
        group: ProcessGroup,
    ) -> Any:
        """Return (input - mean) / sqrt(variance + eps) * weight + bias."""
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, inverse)
        ctx.total, ctx.group, ctx.has_bias = total, group, bias is not None
        out = (input - _across(mean, input.ndim)) * _across(inverse, input.ndim)
        if weight is not None:
            out = out * _across(weight, input.ndim)
        if bias is not None:
            out = out + _across(bias, input.ndim)
        return out.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients; the gradient of the input needs sums over all members."""
        (grad,) = grad_outputs
        input, weight, mean, inverse = ctx.saved_tensors
        axes = [axis for axis in range(input.ndim) if axis != 1]
        centred = (input - _across(mean, input.ndim)) * _across(inverse, input.ndim)
        sum_grad = grad.sum(axes)
        sum_product = (grad * centred).sum(axes)
        sums = from_array(np.stack([flat(sum_grad.detach()), flat(sum_product.detach())]), CPU)
        ctx.group._for_objects().allreduce([sums], AllreduceOptions(asyncOp=False))
        means = (sums.to(grad.device) / max(ctx.total, 1)).to(grad.dtype)
        scale = inverse if weight is None else inverse * weight
        inner = grad - _across(means[0], grad.ndim) - centred * _across(means[1], grad.ndim)
        grad_input = (inner * _across(scale, grad.ndim)).to(input.dtype)
        grad_weight = None if weight is None else sum_product.to(weight.dtype)
        grad_bias = sum_grad if ctx.has_bias else None
        return grad_input, grad_weight, grad_bias, None, None, None, None, None
