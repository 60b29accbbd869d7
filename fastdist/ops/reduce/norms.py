"""Variances, standard deviations and norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.dtypes import DType
from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import COMPOSITES, composite
from ...dispatch.pointwise import ZERO, pointwise
from ...dispatch.structured import Plan, structured
from ...dispatch.target import GivenOut, store_in_out
from ...graph.modes import may_be_differentiated, tls
from ...tensor.axes import Axes, Dims, normalize_axes, normalize_axis
from ...tensor.constants import number_of
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor
from ..pointwise.arithmetic import pow as power
from ..pointwise.arithmetic import square
from ..pointwise.clamp import clamp_above
from ..pointwise.masked import where as where_op
from .norm_quotients import (
    may_bend,
    note_product,
    noted_quotient,
    noting_quotients,
    quotient_at_zero,
)
from .reductions import reducing_plan, require_floating, restore_axes, variance
from .row_slopes import euclidean_slope, length_of_rows
from .slopes_at_zero import has_zeros


def _correction(unbiased: bool, correction: float | None) -> float:
    if correction is None:
        return 1.0 if unbiased else 0
    # Return the int 0 for 0.0 and -0.0, because a Route is not cached for a float zero.
    return float(correction) or 0


@composite(known_as="")
def var(
    input: Tensor,
    dim: int | tuple[int, ...] | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: GivenOut = None,
) -> Tensor:
    """Return the variance over dim: the sum of squared deviations divided by (number of elements -
    correction).

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The result for one element is NaN, unless
            correction is 0.
        dim: The axis or axes; all if None.
        unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
        keepdim: Whether the reduced axes stay, with length 1.
        correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
        >>> torch.var(torch.tensor([1.0, 3.0]), correction=0)
        tensor(1.)
    """
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    number = _correction(unbiased, correction)
    if input._layout.dtype.is_complex:
        found: Any = sum(variance(part, dim, number, keepdim) for part in _parts(input))
        return store_in_out("var", out, found, (input,), "cast")
    return variance.public(input, dim, number, keepdim, out=out)


@structured(
    "reduce.reductions.std", fresh=True, homes="nowhere", known_as="std", has_out=True, out="cast"
)
def deviation(input: Tensor, dim: Axes, correction: float, keepdim: bool) -> Tensor:
    """Return the square root of the variance over dim."""


@deviation.plan
def _(input: Tensor, dim: Dims, correction: float, keepdim: bool) -> Plan:
    dtype = require_floating("std and var", input)
    return reducing_plan("std", input, dim, keepdim, dtype, (float(correction),))


def _slope(input: Tensor, out: Tensor | None, dim: Dims, correction: float, keepdim: bool) -> Any:
    """Return d out / d input; 0 where all deviations are 0, as in PyTorch."""
    layout = input._layout
    dims = normalize_axes("std", dim, layout.shape)
    n = math.prod(layout.shape[axis] for axis in dims)
    left = max(n - correction, 0.0)
    whole = restore_axes(out, layout, dim, keepdim)
    # Zeros are replaced before the division. Otherwise a second derivative would be 0 * infinity.
    inverse = 1.0 / whole.masked_fill(whole == 0, math.inf)
    return (input - input.mean(dims, True)) * inverse * (1.0 / left if left else math.inf)


def _deviating(input: Tensor, dims: tuple[int, ...], correction: float) -> Any:
    """Return the derivative of the standard deviation, multiplied by the standard deviation."""
    left = math.prod(input._layout.shape[axis] for axis in dims) - correction
    return (input - input.mean(dims, True)) * (1.0 / left if left > 0 else math.inf)


@deviation.vjp("input")
def _(g: Tensor, input: Tensor, out: Tensor, dim: Dims, correction: float, keepdim: bool) -> Any:
    layout = input._layout
    slope = restore_axes(g, layout, dim, keepdim) * _slope(input, out, dim, correction, keepdim)
    if not may_bend(out):
        return slope
    quotient = restore_axes(quotient_at_zero(g, out), layout, dim, keepdim)
    dims = normalize_axes("std", dim, layout.shape)
    at_zero = product_at_zero(quotient, _deviating(input, dims, correction))
    return where_op(restore_axes(out, layout, dim, keepdim) == 0, at_zero, slope)


@deviation.jvp
def _(
    input: Tensor, input_t: Tensor, out: Tensor, dim: Dims, correction: float, keepdim: bool
) -> Any:
    dims = normalize_axes("std", dim, input._layout.shape)
    parts = input_t * _slope(input, out, dim, correction, keepdim)
    if not has_zeros(out._array, out._layout):
        return parts.sum(dims, keepdim)
    whole, deviating = (
        restore_axes(out, input._layout, dim, keepdim),
        _deviating(input, dims, correction),
    )
    at_zero = norm_tangent(input_t, deviating, whole)
    found = where_op(whole == 0, at_zero, parts).sum(dims, keepdim)
    note_product(found, out, (input_t * deviating).sum(dims, keepdim))
    return found


@composite(known_as="")
def std(
    input: Tensor,
    dim: int | tuple[int, ...] | bool | None = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: GivenOut = None,
) -> Tensor:
    """Return the standard deviation over dim, the square root of the variance; see var.

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The result for one element is NaN, unless
            correction is 0.
        dim: The axis or axes; all if None.
        unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
        keepdim: Whether the reduced axes stay, with length 1.
        correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.std(torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """
    if isinstance(dim, bool):
        unbiased, dim = dim, None
    number = _correction(unbiased, correction)
    if input._layout.dtype.is_complex:
        parts = [deviation(part, dim, number, keepdim) for part in _parts(input)]
        # A norm combines the deviations of both parts: its gradient at 0 is defined as 0.
        found = vector_norm(COMPOSITES["stack"].call(parts), 2.0, 0)
        return store_in_out("std", out, found, (input,), "cast")
    return deviation.public(input, dim, number, keepdim, out=out)


def _parts(input: Tensor) -> tuple[Any, Any]:
    return input.real, input.imag


def sized(input: Tensor, dtype: DType | None = None) -> Any:
    """Return a real tensor with the same norms as input: input itself, or the absolute values if
    input is complex. If dtype is given, input is cast to dtype first.
    """
    if not input._layout.dtype.is_complex:
        return input if dtype is None else input.to(dtype)
    return (input if dtype is None else input.to(dtype)).abs()


@structured(
    "reduce.reductions.norm",
    kernel_gradients=True,
    fresh=True,
    homes="nowhere",
    known_as="linalg_vector_norm",
    has_out=True,
)
def vector_norm(
    input: Tensor,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Return (sum of |x|**ord)**(1/ord) over dim. For ord inf this is the maximum of |x|, and for
    ord -inf the minimum.
    """


@vector_norm.plan
def _(input: Tensor, ord: float, dim: Dims, keepdim: bool, dtype: DType | None) -> Plan:
    given = dtype or require_floating("linalg.vector_norm: Expected a floating point; norms", input)
    if not input._layout.numel and (ord < 0 or ord == math.inf):
        _require_elements(input._layout.shape, ord, dim)
    return reducing_plan("norm", input, dim, keepdim, given, (float(ord),), compute=given)


def _require_elements(shape: tuple[int, ...], ord: float, dim: Dims) -> None:
    """Raise ShapeError if a reduced axis is empty: a maximum or minimum would have no elements."""
    for axis in normalize_axes("norm", dim, shape):
        if shape[axis] == 0:
            where = "an empty tensor" if dim in (None, ()) else f"the dimension {axis}"
            raise ShapeError(
                f"linalg.vector_norm cannot compute the {ord} norm on {where} because the "
                f"operation does not have an identity, and {shape} is empty"
            )


def _direction(input: Tensor, out: Tensor, ord: float) -> Any:
    """Return d norm / d input. `out` is the norm, with reduced axes kept as axes of length 1."""
    if ord == 0:
        return input.sign() * 0.0  # the sign of NaN is 0
    if ord == 1:
        return input.sign()
    size = input.abs()
    if math.isinf(ord):
        # Elements whose absolute value equals the norm, and all NaNs, share the gradient.
        mask = (size == out).logical_or(size.isnan()).to(input.dtype)
        shared = mask.sum(_ones_of(input, out), True) if out._layout.shape else mask.sum()
        return input.sign() * (mask / shared)
    if ord < 2:
        part = (input.sign() * size.pow(ord - 1)).masked_fill(input == 0, 0.0)
    else:
        # Zeros are replaced before the power, as in _power_quotient.
        is_zero = input == 0
        part = input * size.masked_fill(is_zero, 1.0).pow(ord - 2).masked_fill(is_zero, 0.0)
    slope = out.masked_fill(out == 0, math.inf).pow(1 - ord) if ord > 1 else out.pow(1 - ord)
    return part * slope.masked_fill(out == 0, 0.0)


def _ones_of(input: Tensor, out: Tensor) -> tuple[int, ...]:
    pairs = zip(input._layout.shape, out._layout.shape, strict=True)
    return tuple(i for i, (n, m) in enumerate(pairs) if m == 1 or n != m)


@vector_norm.vjp("input")
def _(
    g: Tensor,
    input: Tensor,
    out: Tensor,
    ord: float,
    dim: Dims,
    keepdim: bool,
    input_layout: Layout,
) -> Any:
    if ord == 2:
        quotient = noted_quotient(g, out)
        if quotient is not None:
            return restore_axes(quotient, input_layout, dim, keepdim) * input
        if tls.grad:
            length = length_of_rows("norm", input, dim, g, out)
            if length is not None and not may_bend(out):
                return euclidean_slope(g, out, input, length)
    whole = restore_axes(out, input_layout, dim, keepdim)
    if ord == 2:
        slope = norm_slope(restore_axes(g, input_layout, dim, keepdim), input, whole)
        if not may_bend(out):
            return slope
        quotient = restore_axes(quotient_at_zero(g, out), input_layout, dim, keepdim)
        at_zero = product_at_zero(quotient, input)
        return where_op(whole == 0, at_zero, slope)
    g = restore_axes(g, input_layout, dim, keepdim)
    slope = g * _direction(input, whole, float(ord))
    if _is_flat(ord) or not may_be_differentiated():
        return slope
    return slope + rough_zero(input, whole)


def _is_flat(ord: float) -> bool:
    """Return whether the derivatives of a norm of this order are piecewise constant."""
    return ord in (0, 1) or math.isinf(ord)


@vector_norm.jvp
def _(input: Tensor, input_t: Tensor, out: Tensor, ord: float, dim: Dims, keepdim: bool) -> Any:
    whole = restore_axes(out, input._layout, dim, keepdim)
    dims = normalize_axes("norm", dim, input._layout.shape)
    if ord != 2:
        parts = input_t * _direction(input, whole, float(ord))
        return (parts if _is_flat(ord) else parts + rough_zero(input, whole)).sum(dims, keepdim)
    found = norm_tangent(input_t, input, whole).sum(dims, keepdim)
    note_product(found, out, (input_t * input).sum(dims, keepdim))
    return found


# A norm has no derivatives at 0. The first derivative is set to 0, as in PyTorch. The second is set
# to NaN, because 0 would be wrong for functions such as the square of a norm (norm_quotients.py).
# It is set to 0 for g = 0, because NaN would spread to derivatives in other directions.
_NONE = "where(g == T(0), T(0), T(nan))"
_SLOPE = "where(size == T(0), T(0), input * other / size)"
_SLOPE_BY_INPUT = "where(size == T(0), T(0), g * other / size)"
_SLOPE_BY_SIZE = "where(size == T(0), T(0), -(g * input / size) * (other / size))"


@pointwise(
    _SLOPE,
    [_SLOPE_BY_INPUT, f"where(size == T(0), {_NONE}, g * input / size)", _SLOPE_BY_SIZE],
    homes="nowhere",
    known_as="linalg_vector_norm",
    node="linalg_vector_norm_backward",
)
def norm_slope(input: Tensor, other: Tensor, size: Tensor) -> Tensor:
    """Return input * other / size, the gradient of `other` if its norm has the gradient `input`."""


@pointwise(
    _SLOPE,
    [
        _SLOPE_BY_INPUT,
        # At size 0, the gradient is NaN unless g and input are 0: it may be 0 times infinity.
        (
            "where(size == T(0), where(logical_and(g == T(0), input == T(0)), T(0), T(nan)), "
            "g * input / size)"
        ),
        _SLOPE_BY_SIZE,
    ],
    homes="nowhere",
    known_as="linalg_vector_norm",
    node="linalg_vector_norm_backward",
)
def norm_tangent(input: Tensor, other: Tensor, size: Tensor) -> Tensor:
    """Return input * other / size. The sum is the tangent of `size` for the tangent `input`."""


@pointwise(
    "where(logical_or(input == T(0), other == T(0)), T(0), T(0))",
    [f"where(other == T(0), {_NONE}, T(0))", ZERO],
    homes="nowhere",
    known_as="linalg_vector_norm",
    node="linalg_vector_norm_backward",
)
def rough_zero(input: Tensor, other: Tensor) -> Tensor:
    """Return zeros whose derivative is NaN where `other` is 0."""


@pointwise(
    "where(input == input, input * other, T(0))",
    [
        "where(abs(g) < T(inf), g * other, T(0))",
        f"where(input == input, g * input, {_NONE})",
    ],
    homes="nowhere",
    known_as="linalg_vector_norm",
    node="linalg_vector_norm_backward",
)
def product_at_zero(input: Tensor, other: Tensor) -> Tensor:
    """Return the product of a quotient and zeros. Where the quotient is NaN, the derivative of the
    product is NaN, too.
    """


@pointwise(
    "where(input <= T(0), T(0), sqrt(where(input <= T(0), T(1), input)))",
    ["where(logical_or(input <= T(0), out == T(0)), T(0), g / (T(2) * out))"],
    homes="nowhere",
    known_as="sqrt",
)
def distance_root(input: Tensor) -> Tensor:
    """Return the square root of a squared distance. Rounding may have made the input negative; then
    the result is 0. The derivative at 0 is 0, as for a norm.
    """


_ROOT_SLOPE = "where(other <= T(0), T(0), input / (T(2) * sqrt(where(other <= T(0), T(1), other))))"


def _partials_of_root_slope(at_zero: str) -> list[str]:
    """Return the partials of _ROOT_SLOPE. They are `at_zero` where `other` is not positive."""
    return [
        f"where(other <= T(0), {at_zero}, g / (T(2) * sqrt(where(other <= T(0), T(1), other))))",
        (
            "low = other <= T(0); size = where(low, T(1), other); "
            f"where(low, {at_zero}, T(-0.25) * g * input / (sqrt(size) * size))"
        ),
    ]


@pointwise(
    _ROOT_SLOPE,
    _partials_of_root_slope("T(0)"),
    homes="nowhere",
    known_as="sqrt",
    node="sqrt_backward",
)
def root_slope(input: Tensor, other: Tensor) -> Tensor:
    """Return input / (2 * sqrt(other)), or 0 where `other` is not positive."""


@pointwise(
    _ROOT_SLOPE,
    _partials_of_root_slope("T(nan)"),
    homes="nowhere",
    known_as="sqrt",
    node="sqrt_backward",
)
def root_tangent(input: Tensor, other: Tensor) -> Tensor:
    """Return input / (2 * sqrt(other)), or 0 where `other` is not positive. There the derivatives
    are NaN: `input`, the tangent of a squared distance, does not determine them.
    """


def _root_tangent(input: Tensor, out: Any, g: Any) -> Any:
    found = root_tangent(g, input)
    note_product(found, out, g * 0.5)
    return found


def _power_quotient(input: Tensor, exponent: float, out: Tensor | None, g: Tensor) -> Any:
    """Return the gradient of a power of a norm divided by the norm; None for exponents below 2."""
    number = number_of(exponent) if isinstance(exponent, Tensor) else exponent
    if number is None or not number >= 2:
        return None
    if number == 2:
        return g * 2
    # Zeros are replaced before the power, whose derivative at 0 is infinite for exponents below 3.
    is_zero = input == 0
    share = number * input.masked_fill(is_zero, 1.0) ** (number - 2)
    return g * share.masked_fill(is_zero, 0.0)


def _clamp_quotient(input: Tensor, bound: Any, out: Tensor | None, g: Tensor) -> Any:
    """Return the gradient of a norm that is clamped from below, divided by the norm, or None."""
    least = number_of(bound) if isinstance(bound, Tensor) else bound
    if least is None or not least > 0:
        return None
    return where_op(input >= least, g / clamp_above(input, float(least)), 0.0)


distance_root.derives = lambda made: lambda input, out, g: root_slope(g, input)
distance_root.pushes = _root_tangent
square.derives = lambda made: noting_quotients(made, lambda input, out, g: g * 2)
power.derives = lambda made: noting_quotients(made, _power_quotient)
clamp_above.derives = lambda made: noting_quotients(made, _clamp_quotient)


@composite()
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Axes = None,
    keepdim: bool = False,
    out: GivenOut = None,
    dtype: DType | None = None,
) -> Tensor:
    """Return the vector norm of order p over dim. "fro" means order 2, and "nuc" the sum of the
    singular values of a matrix.

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The norm of no elements is 0.
        p: The order: a number, inf, "fro" or "nuc".
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.
        dtype: The dtype to compute in; None means the dtype of input.

    Example:
        >>> torch.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if p == "nuc":
        axes = range(len(input._layout.shape)) if dim is None else dim
        return COMPOSITES["linalg.matrix_norm"].call(  # type: ignore[no-any-return]
            input, "nuc", axes, keepdim, dtype=dtype, out=out
        )
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f'norm: p is a number, "fro" or "nuc", got {short_repr(p)}')
    order = 2 if p is None or isinstance(p, str) else p
    if input._layout.dtype.is_complex:
        input, dtype = sized(input, dtype), None
    result = vector_norm(input, order, dim, keepdim, dtype=dtype)
    return store_in_out("norm", out, result, (input,))


def _with_mean(name: str, spread: Callable[..., Tensor]) -> None:
    """Declare the function `name`, which returns the result of `spread` and the mean."""

    def both(
        input: Tensor,
        dim: int | tuple[int, ...] | bool | None = None,
        unbiased: bool = True,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        found = spread(input, dim, unbiased, keepdim, correction=correction)
        return found, input.mean(None if isinstance(dim, bool) else dim, keepdim)

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"Return {spread.__name__} and the mean over dim."
    composite(homes="function", node=name)(both)


_with_mean("std_mean", std)
_with_mean("var_mean", var)


@composite(node="dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Return the norm of order p of input - other."""
    return (input - other).norm(p)


@composite(homes="function method inplace", out="same", node="renorm", memory="apart")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return input, where each slice along dim with a norm of order p above maxnorm is scaled down
    to the norm maxnorm.
    """
    shape = input._layout.shape
    if len(shape) < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {len(shape)} dimensions")
    if not p > 0:
        raise ShapeError(f"renorm: non-positive norm not supported, got {p}")
    if maxnorm < 0:
        raise ShapeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    axis = normalize_axis("renorm", dim, len(shape))
    others = tuple(i for i in range(len(shape)) if i != axis)
    size: Any = vector_norm(
        input.abs() if input._layout.dtype.is_complex else input, p, others, True
    )
    factor = where_op(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return input * factor
