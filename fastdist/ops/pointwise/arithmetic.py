"""Elementwise sums, products, quotients and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import DType, bool_
from ...core.errors import DTypeError
from ...dispatch.composite import composite
from ...dispatch.node_writer import OpNode
from ...dispatch.pointwise import REFUSED, ZERO, pointwise
from ...tensor.constants import require_held
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..refusals import floating_only, no_bool, no_bool_operand

_RATIO = "where(input == T(0), T(0), g * (out / input))"


@pointwise(
    "input + alpha * other",
    ["T(1)", "alpha"],
    numbers="everywhere",
    takes_complex=True,
    held="alpha",
    factors="alpha",
)
def add(input: Tensor, other: Tensor, *, alpha: complex = 1) -> Tensor:
    """Return input + alpha * other.

    Shape   (...), (...) -> broadcast
    Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
            nor a number

    Args:
        input: The first summand, a tensor of any dtype or a number. Integers wrap around: 255 + 1
            is 0 in uint8.
        other: The second summand, a tensor or a number.
        alpha: The number by which `other` is multiplied.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.add(torch.tensor([1.0, 2.0]), 1, alpha=10)
        tensor([11., 12.])
    """


@pointwise(
    "input - alpha * other",
    ["T(1)", "-alpha"],
    dtype="number",
    numbers="everywhere",
    takes_complex=True,
    held="alpha",
    factors="alpha",
)
def sub(input: Tensor, other: Tensor, *, alpha: complex = 1) -> Tensor:
    """Return input - alpha * other.

    Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
            the shapes do not broadcast

    Args:
        input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
        other: The subtrahend, a tensor or a number.
        alpha: The number by which `other` is multiplied.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
        tensor([1, 2])
    """


_DIFFERENCE = no_bool_operand("Subtraction, the `-` operator, with {} is not supported")
sub.refusal(_DIFFERENCE)


@sub.names_node
def _(node: OpNode) -> str:
    """Return the name of the Node: "rsub.1" for `1 - x`, which PyTorch computes by rsub, else
    "sub".
    """
    return "rsub.1" if node.has_number("input") else "sub"


@pointwise(
    "other - alpha * input",
    ["-alpha", "T(1)"],
    dtype="number",
    numbers="not first",
    takes_complex=True,
    homes="function",
    held="alpha",
    factors="alpha",
)
def rsub(input: Tensor, other: Tensor, *, alpha: complex = 1) -> Tensor:
    """Return other - alpha * input."""


rsub.refusal(_DIFFERENCE)


@pointwise(
    "input * other",
    ["other", "input"],
    numbers="everywhere",
    takes_complex=True,
    exact="input other",
    scaled_by="input other",
)
def mul(input: Tensor, other: Tensor) -> Tensor:
    """Return input * other.

    Shape   (...), (...) -> broadcast
    Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
            nor a number

    Args:
        input: The left factor: a tensor of any dtype or a number. Integers wrap around.
        other: The right factor: a tensor or a number.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
        tensor([3., 6.])
    """


@pointwise(
    "input / other",
    ["reciprocal(other)", "-(g * ((input / other) / other))"],
    dtype="floating",
    numbers="everywhere",
    takes_complex=True,
    exact="input other",
    scaled_by="other",
)
def div(input: Tensor, other: Tensor) -> Tensor:
    """Return input / other; integers are converted to the default dtype."""


@div.names_node
def _(node: OpNode) -> str:
    """Return the name of the Node: "mul" for `1 / x` (in PyTorch 1 * x.reciprocal()), or "div"."""
    return "mul" if node.has_number("input") else "div"


@pointwise(
    "floor_divide(input, other)",
    [REFUSED, REFUSED],
    dtype="number",
    numbers="everywhere",
    exact="other",
    scaled_by="other",
)
def floor_divide(input: Tensor, other: Tensor | complex) -> Tensor:
    """Return input / other rounded down.

    Raises  RuntimeError if an integer is divided by 0, and in a backward pass
    """


@pointwise(
    "floor_divide(input, other)",
    [ZERO, ZERO],
    dtype="number",
    homes="nowhere",
    known_as="div",
    node="div.2",
    exact="other",
    scaled_by="other",
)
def floored_divide(input: Tensor, other: Tensor) -> Tensor:
    """Return the step function floor_divide(input, other), with gradients of 0."""


@pointwise(
    "trunc(input / other)",
    [ZERO, ZERO],
    dtype="number",
    homes="nowhere",
    known_as="div",
    node="div.2",
    exact="other",
    scaled_by="other",
)
def trunc_divide(input: Tensor, other: Tensor) -> Tensor:
    """Return input / other rounded towards 0, for floating tensors."""


@pointwise("remainder(input, other)", ["T(1)", "-(g * floor_divide(input, other))"], dtype="number")
def remainder(input: Tensor, other: Tensor) -> Tensor:
    """Return input - floor(input / other) * other; its sign is that of `other`, as in Python."""


@remainder.names_node
def _(node: OpNode) -> str:
    return "remainder" if node.has_number("other") else "remainder.1"


@pointwise(
    "fmod(input, other)",
    ["T(1)", "-(g * trunc(input / other))"],
    dtype="number",
    numbers="not first",
)
def fmod(input: Tensor, other: Tensor) -> Tensor:
    """Return input - trunc(input / other) * other; its sign is the sign of `input`, as in C."""


@fmod.names_node
def _(node: OpNode) -> str:
    return "fmod" if node.has_number("other") else "fmod.1"


@pointwise(
    "pow(input, exponent)",
    [
        # Where the exponent is 0, the base is replaced by 1. Otherwise the second derivative at a
        # base of 0 would be NaN.
        (
            "base = where(exponent == T(0), T(1), input); "
            "where(exponent == T(0), T(0), g * (exponent * pow(base, exponent - T(1))))"
        ),
        # The derivative is 0 if the base is 0 and the result is finite. The test does not use
        # `exponent >= 0`, because complex exponents have no order.
        "where(logical_and(input == T(0), isfinite(out)), T(0), g * (out * log(input)))",
    ],
    takes_complex=True,
    exact="input exponent",
)
def pow(input: Tensor | complex, exponent: Tensor | complex) -> Tensor:
    """Return input to the power of exponent.

    Raises  RuntimeError if an integer is raised to a negative integer that is a Python number;
            RuntimeError if the shapes do not broadcast

    Args:
        input: The base: a tensor or a number.
        exponent: A tensor or a number.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and exponent.

    Example:
        >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
        tensor([1., 4., 9.])
    """


@pow.refusal
def _(dtypes: Sequence[DType], operands: Sequence[Any]) -> None:
    # Only an exponent outside the range of the dtype is refused. A base outside the range wraps
    # around in an integer dtype, and becomes inf in a floating dtype.
    exponent = operands[1]
    if isinstance(exponent, Tensor):
        return
    met = result_dtype(operands)
    if met.numpy.kind in "iu" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if met.is_half or not met.may_have_gradient:
        require_held(exponent, met)


@pow.names_node
def _(node: OpNode) -> str:
    if node.has_number("exponent"):
        return "pow"
    return "pow.2" if node.has_number("input") else "pow.1"


@pointwise("neg(input)", ["T(-1)"], dtype="number", takes_complex=True)
def neg(input: Tensor) -> Tensor:
    """Return each element with the opposite sign.

    Raises  RuntimeError if input is bool

    Args:
        input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
            uint8.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.neg(torch.tensor([1, -2]))
        tensor([-1,  2])
    """


neg.refusal(no_bool_operand("Negation, the `-` operator, on {} is not supported"))


@pointwise("abs(input)", ["sign(input)"])
def abs(input: Tensor) -> Tensor:
    """Return the absolute value of each element; the gradient at 0 is 0.

    Raises  NotImplementedError if input is bool

    Args:
        input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
            unchanged.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape. For complex input, the tensor is real.

    Example:
        >>> torch.abs(torch.tensor([-1.5, 2.0]))
        tensor([1.5000, 2.0000])
    """


abs.refusal(no_bool("abs_cpu"))


@pointwise("sign(input)", [ZERO])
def sign(input: Tensor) -> Tensor:
    """Return the sign of each element as -1, 0 or 1; the gradient is 0.

    Raises  NotImplementedError if input is complex (use sgn)

    Args:
        input: A real tensor of any dtype. The sign of NaN is 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
        tensor([-1.,  0.,  1.])
    """


@pointwise("copysign(input, other)", [_RATIO, ZERO], dtype="floating", numbers="not first")
def copysign(input: Tensor, other: Tensor) -> Tensor:
    """Return input with the signs of `other`, including the signs of zeros and NaNs."""


@pointwise("reciprocal(input)", ["-(out * out)"], dtype="floating", takes_complex=True)
def reciprocal(input: Tensor) -> Tensor:
    """Return 1 divided by each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for 0 is inf, and for -0 it is -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
        tensor([0.5000, 0.2500])
    """


@pointwise("square(input)", ["T(2) * input"], dtype="counted", takes_complex=True, node="pow")
def square(input: Tensor) -> Tensor:
    """Return the square of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Squares of integers that are too large wrap around.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape and dtype; bool gives int64.

    Example:
        >>> torch.square(torch.tensor([1.0, -3.0]))
        tensor([1., 9.])
    """


@pointwise("sqrt(input)", ["g / (T(2) * out)"], dtype="floating", takes_complex=True)
def sqrt(input: Tensor) -> Tensor:
    """Return the square root of each element; NaN below 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a root, negative real
            numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sqrt(torch.tensor([4.0, 2.0]))
        tensor([2.0000, 1.4142])
    """


@pointwise("rsqrt(input)", ["T(-0.5) * (out * out * out)"], dtype="floating", takes_complex=True)
def rsqrt(input: Tensor) -> Tensor:
    """Return 1 divided by the square root of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is inf at 0, and NaN for negative real
            numbers.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.rsqrt(torch.tensor([4.0, 1.0]))
        tensor([0.5000, 1.0000])
    """


@pointwise("hypot(input, other)", ["input / out", "other / out"], dtype="number", numbers="nowhere")
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """Return sqrt(input**2 + other**2) without intermediate overflow.

    Raises  RuntimeError for integers
    """


hypot.refusal(floating_only("hypot_cpu"))


@pointwise(
    "input + value * tensor1 * tensor2",
    ["T(1)", "value * tensor2", "value * tensor1"],
    numbers="nowhere",
    takes_complex=True,
    factors="value",
)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: complex = 1) -> Tensor:
    """Return input + value * tensor1 * tensor2.

    Raises  RuntimeError if all operands are bool
    """


@addcmul.refusal
def _(dtypes: Sequence[DType]) -> str | None:
    bools = set(dtypes) == {bool_}
    return "\"addcmul_cpu_out\" not implemented for 'Bool': cast one of them." if bools else None


@pointwise(
    "input + value * (tensor1 / tensor2)",
    ["T(1)", "value / tensor2", "-(g * (value * ((tensor1 / tensor2) / tensor2)))"],
    numbers="nowhere",
    takes_complex=True,
    factors="value",
)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: complex = 1) -> Tensor:
    """Return input + value * (tensor1 / tensor2).

    Raises  RuntimeError if tensor1 and tensor2 are integers
    """


@addcdiv.refusal
def _(dtypes: Sequence[DType]) -> str | None:
    if any(dtype.may_have_gradient for dtype in dtypes[1:]):
        return None
    return (
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
        "will perform a true division of tensor1 and tensor2. Write (input + value * "
        "fastdist.trunc(tensor1 / tensor2)).to(input.dtype), or cast to floating."
    )


@pointwise("input * T(pi / 180)", ["T(pi / 180)"], dtype="floating")
def deg2rad(input: Tensor) -> Tensor:
    """Convert angles from degrees to radians."""


@pointwise("input * T(180 / pi)", ["T(180 / pi)"], dtype="floating")
def rad2deg(input: Tensor) -> Tensor:
    """Convert angles from radians to degrees."""


@composite()
def positive(input: Tensor) -> Tensor:
    """Return input itself.

    Raises  RuntimeError for bool
    """
    if input._layout.dtype is bool_:
        raise DTypeError("The `+` operator, on a bool tensor is not supported.")
    return input
