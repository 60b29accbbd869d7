"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import WORDS, DType, float64
from ...core.errors import NoKernelError
from ...dispatch.structured import Plan, structured
from ...graph.modes import may_be_differentiated, tls
from ...tensor.axes import normalize_axis
from ...tensor.tensor import Tensor
from ..pointwise.masked import where
from ..reduce.row_slopes import may_fuse


@structured(
    "nn.softmax.log_softmax", kernel_gradients=True, fresh=True, homes="function method functional"
)
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  NotImplementedError if input is not floating-point, and dtype is None; IndexError if dim
            is out of range

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the exponentials of the result add up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.log_softmax(torch.tensor([1.0, 2.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """


@log_softmax.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    layout = input._layout
    axis = normalize_axis("log_softmax", dim, len(layout.shape))
    compute = _floating("log_softmax", dtype or layout.dtype)
    return Plan(layout.shape, compute, (axis,), compute=compute)


def _floating(name: str, dtype: DType) -> DType:
    if not dtype.is_floating_point:
        raise NoKernelError(
            f'"{name}_lastdim_kernel_impl" not implemented for {WORDS[dtype]!r}: give dtype=, '
            "such as fastdist.float32"
        )
    return dtype


def _cast_first(op: Any) -> Any:
    """Return the function that computes an op on complex numbers. With a real `dtype`, it applies
    the op to the real parts; otherwise it raises an error.
    """

    def complex_decomposition(input: Tensor, dim: int, dtype: DType | None) -> Any:
        if dtype is None or dtype.is_complex:
            raise NoKernelError(
                f'"{op.name}_lastdim_kernel_impl" not implemented for '
                f"{WORDS[dtype or input._layout.dtype]!r}: give dtype=, such as fastdist.float32"
            )
        return op(input.to(dtype), dim)

    return complex_decomposition


log_softmax.complex_decomposition = _cast_first(log_softmax)


# Note [Slopes of rows with one large share]
# The gradient of softmax is p * (g - mean), where mean is the mean of g weighted by the shares p.
# If one share is nearly 1, or if g is equal at all large shares, g - mean loses precision by
# cancellation. Subtracting a constant from g does not change the result. For this reason, the mean
# is subtracted twice: first the mean of g, and then the mean of the differences, to which only the
# small shares contribute.
# In the gradient of log_softmax, a large share p has the factor 1 - p. This factor is computed as
# -expm1(log p), and the gradients of the other elements are summed without the large share's.
# This precise computation takes a few more passes. It is used only where gradients are recorded,
# in forward mode, and in float64 (for rows of an array by row_steps.py and rows.py).


def keeps_tails(x: Any) -> bool:
    """Return whether gradients must be precise even where one share of a row is nearly 1."""
    return may_be_differentiated() or x._layout.dtype is float64


def log_softmax_gradient(g: Tensor, out: Tensor, dim: int) -> Tensor:
    """Return the gradient of log_softmax with respect to its input. `out` is its result."""
    if tls.grad and _is_last(dim, out) and may_fuse(out, g):
        return log_softmax_slope(g, out, dim)
    total = g.sum(dim, keepdim=True)
    if not keeps_tails(out):
        return g - out.exp() * total
    # See Note [Slopes of rows with one large share].
    is_large, share = out.detach() > -0.69, out.exp()
    others = g.masked_fill(is_large, 0.0).sum(dim, keepdim=True)
    large = -(g * out.expm1()) - share * others
    return where(is_large, large, g - share * total)


def _is_last(dim: int, x: Any) -> bool:
    """Return whether x has at least one axis and dim is the last one."""
    ndim = len(x._layout.shape)
    return ndim > 0 and dim in (-1, ndim - 1)


def less_mean(x: Tensor, shares: Tensor, dim: int) -> Tensor:
    """Return x minus the mean of x along `dim`; the mean is weighted by `shares`."""
    if keeps_tails(shares):
        # The mean is detached, because subtracting a constant does not change the result.
        x = x - (x.detach() * shares.detach()).sum(dim, keepdim=True)
    return x - (x * shares).sum(dim, keepdim=True)


def log_softmax_tangent(input_t: Any, out: Tensor, dim: int) -> Tensor:
    """Return the tangent of log_softmax. `out` is the result of log_softmax."""
    return less_mean(input_t, out.exp(), dim)


@log_softmax.vjp("input")
def _(g: Tensor, out: Tensor, dim: int) -> Tensor:
    return log_softmax_gradient(g, out, dim)


@log_softmax.jvp
def _(input_t: Tensor | None, out: Tensor, dim: int) -> Tensor:
    return log_softmax_tangent(input_t, out, dim)


@structured(
    "nn.softmax.softmax", kernel_gradients=True, fresh=True, homes="function method functional"
)
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return exp(input) divided by its sum along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
            and dtype is None

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the result adds up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([0.0900, 0.2447, 0.6652])
    """


@softmax.plan
def _(input: Tensor, dim: int, dtype: DType | None) -> Plan:
    layout = input._layout
    axis = normalize_axis("softmax", dim, len(layout.shape))
    compute = _floating("softmax", dtype or layout.dtype)
    return Plan(layout.shape, compute, (axis,), compute=compute)


softmax.complex_decomposition = _cast_first(softmax)


def _slope(g: Tensor, out: Tensor, dim: int) -> Tensor:
    """Return the product of the Jacobian of softmax and g, which is a gradient or a tangent. The
    Jacobian is symmetric.
    """
    if tls.grad and _is_last(dim, out) and may_fuse(out, g):
        return softmax_slope(g, out, dim)
    return out * less_mean(g, out, dim)


@softmax.vjp("input")
def _(g: Tensor, out: Tensor, dim: int) -> Tensor:
    return _slope(g, out, dim)


@softmax.jvp
def _(input_t: Tensor, out: Tensor, dim: int) -> Tensor:
    return _slope(input_t, out, dim)


# The gradients of softmax and log_softmax, as differentiable ops. Each op records one Node instead
# of eight or more, and one kernel computes the gradients of such an op. Note [Slopes of rows with
# one large share] explains the means that are subtracted from gradients first.
@structured("nn.softmax.softmax_slope", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="_softmax_backward_data")  # fmt: skip
def softmax_slope(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    """Return the gradient of softmax along the last axis. `output` is the result of softmax."""


@structured("nn.softmax.log_softmax_slope", kernel_gradients=True, fresh=True, homes="nowhere",
            known_as="_log_softmax_backward_data")  # fmt: skip
def log_softmax_slope(grad: Tensor, output: Tensor, dim: int) -> Tensor:
    """Return the gradient of log_softmax along the last axis. `output` is log_softmax's result."""


@log_softmax_slope.plan
@softmax_slope.plan
def _(grad: Tensor, output: Tensor, dim: int) -> Plan:
    return Plan(output._layout.shape, output._layout.dtype)


@softmax_slope.vjp("grad", "output")
def _(g: Tensor, grad: Tensor, output: Tensor, dim: int) -> Any:
    # The two means are detached, because subtracting a constant does not change the result.
    along = (g.detach() * output.detach()).sum(dim, keepdim=True)
    even = (grad.detach() * output.detach()).sum(dim, keepdim=True)
    by_output = (g - along) * less_mean(grad, output, dim)
    by_output = by_output - (grad - even) * ((g - along) * output).sum(dim, keepdim=True)
    return _slope(g, output, dim), by_output


@log_softmax_slope.vjp("grad", "output")
def _(g: Tensor, grad: Tensor, output: Tensor, dim: int) -> Any:
    shares = output.exp()
    away = less_mean(g, shares, dim)
    return away, -(away * shares) * grad.sum(dim, keepdim=True)
