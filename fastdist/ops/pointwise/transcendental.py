"""Elementwise exponentials, logarithms, trigonometric and special functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import DType
from ...core.short_repr import short_repr
from ...dispatch.pointwise import pointwise
from ...tensor.tensor import Tensor
from ..refusals import floating_only


@pointwise("exp(input)", ["out"], dtype="floating", takes_complex=True)
def exp(input: Tensor) -> Tensor:
    """Return e to the power of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: The exponents, of any shape and dtype. exp(-inf) is 0, and results that are too large
            are inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.exp(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """


@pointwise("exp2(input)", ["out * T(0.6931471805599453)"], dtype="floating", takes_complex=True)
def exp2(input: Tensor) -> Tensor:
    """Return 2 to the power of each element."""


@pointwise(
    "expm1(input)", ["out + T(1)"], tails=["exp(input)"], dtype="floating", takes_complex=True
)
def expm1(input: Tensor) -> Tensor:
    """Return exp(input) - 1, precise near 0."""


@pointwise("log(input)", ["g / input"], dtype="floating", takes_complex=True)
def log(input: Tensor) -> Tensor:
    """Return the natural logarithm of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log(torch.tensor([1.0, 2.0, 0.0]))
        tensor([0.0000, 0.6931,   -inf])
    """


@pointwise(
    "log2(input)", ["g / (input * T(0.6931471805599453))"], dtype="floating", takes_complex=True
)
def log2(input: Tensor) -> Tensor:
    """Return the logarithm to base 2 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log2(torch.tensor([8.0, 1.0]))
        tensor([3., 0.])
    """


@pointwise(
    "log10(input)", ["g / (input * T(2.302585092994046))"], dtype="floating", takes_complex=True
)
def log10(input: Tensor) -> Tensor:
    """Return the logarithm to base 10 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log10(torch.tensor([100.0]))
        tensor([2.])
    """


@pointwise("log1p(input)", ["g / (input + T(1))"], dtype="floating", takes_complex=True)
def log1p(input: Tensor) -> Tensor:
    """Return the natural logarithm of 1 plus each element, precise near 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log1p(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """


@pointwise(
    "d = abs(input - other); m = maximum(input, other); "
    "where(logical_and(isinf(input), input == other), input, m + log1p(exp(-d)))",
    ["g / (T(1) + exp(other - input))", "g / (T(1) + exp(input - other))"],
    tails=["sigmoid(input - other)", "sigmoid(other - input)"],
    dtype="number",
    numbers="nowhere",
    homes="function method",
)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """Return log(exp(input) + exp(other)) without overflow."""


logaddexp.refusal(floating_only("logaddexp_cpu"))


@pointwise(
    "d = abs(input - other); m = maximum(input, other); "
    "where(logical_and(isinf(input), input == other), input, "
    "m + log1p(exp2(-d)) * T(1.4426950408889634))",
    ["g / (T(1) + exp2(other - input))", "g / (T(1) + exp2(input - other))"],
    tails=[
        "sigmoid((input - other) * T(0.6931471805599453))",
        "sigmoid((other - input) * T(0.6931471805599453))",
    ],
    dtype="number",
    numbers="nowhere",
    homes="function method",
)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Return log2(2**input + 2**other) without overflow."""


logaddexp2.refusal(floating_only("logaddexp2_cpu"))


@pointwise(
    "where(isnan(other), other, where(input == T(0), T(0), input * log(other)))",
    [
        # For a gradient g of 0, the result is 0 even where the logarithm is not finite.
        (
            "where(logical_or(logical_and(logical_or(input == T(0), g == T(0)), other <= T(0)), "
            "logical_and(g == T(0), other == T(inf))), T(0), g * log(other))"
        ),
        "g * (input / other)",
    ],
    dtype="floating",
    exact="input other",
)
def xlogy(input: Tensor, other: Tensor) -> Tensor:
    """Return input * log(other), or 0 where input is 0 and other is not NaN."""


@xlogy.names_node
def _(node: Any) -> str:
    if node.has_number("other"):
        return "xlogy.2"
    return "xlogy.1" if node.has_number("input") else "xlogy"


@pointwise("sin(input)", ["cos(input)"], dtype="floating", takes_complex=True)
def sin(input: Tensor) -> Tensor:
    """Return the sine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sin(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8415])
    """


@pointwise("cos(input)", ["-sin(input)"], dtype="floating", takes_complex=True)
def cos(input: Tensor) -> Tensor:
    """Return the cosine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.cos(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5403])
    """


@pointwise("tan(input)", ["T(1) + out * out"], dtype="floating", takes_complex=True)
def tan(input: Tensor) -> Tensor:
    """Return the tangent of each element; the elements are angles in radians.

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.tan(torch.tensor([0.0]))
        tensor([0.])
    """


@pointwise(
    "asin(input)",
    ["rsqrt(T(1) - input * input)"],
    tails=["rsqrt((T(1) - input) * (T(1) + input))"],
    dtype="floating",
    takes_complex=True,
)
def asin(input: Tensor) -> Tensor:
    """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""


@pointwise(
    "acos(input)",
    ["-rsqrt(T(1) - input * input)"],
    tails=["-rsqrt((T(1) - input) * (T(1) + input))"],
    dtype="floating",
    takes_complex=True,
)
def acos(input: Tensor) -> Tensor:
    """Return the arc cosine of each element: the angle in radians, from 0 to pi.

    Args:
        input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0]))
        tensor([0.0000, 1.5708])
    """


@pointwise("atan(input)", ["g / (input * input + T(1))"], dtype="floating", takes_complex=True)
def atan(input: Tensor) -> Tensor:
    """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""


@pointwise(
    "atan2(input, other)",
    [
        "s = input * input + other * other; where(s == T(0), T(0), g * (other * reciprocal(s)))",
        "s = input * input + other * other; where(s == T(0), T(0), g * (-input * reciprocal(s)))",
    ],
    dtype="floating",
    numbers="nowhere",
)
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """Return the angle in radians, from -pi to pi, of the point (other, input).

    Args:
        input: The y coordinates of the points.
        other: The x coordinates of the points; a tensor that broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.7854])
    """


@pointwise("sinh(input)", ["cosh(input)"], dtype="floating", takes_complex=True)
def sinh(input: Tensor) -> Tensor:
    """Return the hyperbolic sine of each element."""


@pointwise("cosh(input)", ["sinh(input)"], dtype="floating", takes_complex=True)
def cosh(input: Tensor) -> Tensor:
    """Return the hyperbolic cosine of each element."""


@pointwise(
    "tanh(input)",
    ["T(1) - out * out"],
    # The derivative is 1 / cosh**2. This expression avoids cosh**2, which would overflow.
    tails=[
        "e = exp(where(input < T(0), input, -input) * T(2)); T(4) * e / ((T(1) + e) * (T(1) + e))"
    ],
    dtype="floating",
    takes_complex=True,
    homes="function method inplace functional",
)
def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.tanh(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """


@pointwise("asinh(input)", ["rsqrt(input * input + T(1))"], dtype="floating", takes_complex=True)
def asinh(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic sine of each element."""


@pointwise(
    "acosh(input)",
    # The derivative is a product of two reciprocal roots. The reciprocal root of the product would
    # have the wrong sign for complex numbers with a negative real part.
    ["rsqrt(input - T(1)) * rsqrt(input + T(1))"],
    dtype="floating",
    takes_complex=True,
)
def acosh(input: Tensor) -> Tensor:
    """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""


@pointwise(
    "atanh(input)",
    ["g / (T(1) - input * input)"],
    tails=["g / ((T(1) - input) * (T(1) + input))"],
    dtype="floating",
    takes_complex=True,
)
def atanh(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic tangent of each element."""


@pointwise(
    "where(input == T(0), T(1), sin(T(pi) * input) / (T(pi) * input))",
    [
        # Near 0 the derivative is a series, because cos(p) - sin(p) / p loses precision there.
        (
            "p = T(pi) * input; near = abs(p) < T(0.3); "
            "low = where(near, p, T(0)); high = where(near, T(1), p); s = low * low; "
            "g * (T(pi) * where(near, low * (T(-1 / 3) + s * (T(1 / 30) + s * (T(-1 / 840)"
            " + s * (T(1 / 45360) - s * T(1 / 3991680))))), (cos(high) - sin(high) / high) / high))"
        ),
    ],
    dtype="floating",
    takes_complex=True,
)
def sinc(input: Tensor) -> Tensor:
    """Return sin(pi * input) / (pi * input), and 1 at 0."""


@pointwise("erf(input)", ["T(2 / pi ** 0.5) * exp(-(input * input))"], dtype="floating")
def erf(input: Tensor) -> Tensor:
    """Return the error function of each element."""


@pointwise("erfc(input)", ["T(-2 / pi ** 0.5) * exp(-(input * input))"], dtype="floating")
def erfc(input: Tensor) -> Tensor:
    """Return 1 - erf(input), precise even where erf is nearly 1."""


@pointwise("erfinv(input)", ["T(0.5 * pi ** 0.5) * exp(out * out)"], dtype="floating")
def erfinv(input: Tensor) -> Tensor:
    """Return the inverse error function of each element."""


@pointwise("lgamma(input)", ["digamma(input)"], dtype="floating")
def lgamma(input: Tensor) -> Tensor:
    """Return the logarithm of the absolute value of gamma(input)."""


@pointwise("digamma(input)", ["polygamma(T(1), input)"], dtype="floating")
def digamma(input: Tensor) -> Tensor:
    """Return the derivative of lgamma."""


@pointwise(
    "polygamma(n, input)", ["polygamma(n + T(1), input)"], dtype="floating", homes="function"
)
def polygamma(n: int, input: Tensor) -> Tensor:
    """Return the n-th derivative of digamma.

    Raises  RuntimeError for n < 0
    """


@polygamma.refusal
def _(dtypes: Sequence[DType], operands: Sequence[Any]) -> None:
    order = operands[1] if len(operands) > 1 else 0
    if order < 0:
        raise RuntimeError(
            f"polygamma(n, x) does not support negative n, got n={short_repr(order)}."
        )
