"""Elementwise activation functions.

If an activation has a kink, its partial selects g or 0 by `where(..., g, T(0))`, because 0 * inf is
NaN. `where` also differentiates the branch that is not selected. If an exp in that branch could
overflow, `where` selects the exp's argument: otherwise the second derivative would be 0 * inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.dtypes import WORDS, DType, float64, float_limits
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...dispatch.op import OPS
from ...dispatch.pointwise import pointwise
from ...dispatch.target import GivenOut
from ...tensor.tensor import Tensor
from ..pointwise.clamp import clamp
from ..pointwise.comparison import ge, lt
from ..pointwise.masked import where
from ..refusals import floating_only, no_bool, no_bool_operand, require_floating_inputs

# e is exp(-|input|). At 0, `where` selects one of two branches. With either branch, the formulas
# that use e below are the same smooth function, so derivatives of all orders are correct at 0.
_DECAY = "e = exp(where(input < T(0), input, -input)); "
_SIGMOID_SLOPE = _DECAY + "e / ((T(1) + e) * (T(1) + e))"


@pointwise(
    "maximum(input, T(0))",
    ["where(out <= T(0), T(0), g)"],
    dtype="number",
    homes="function method inplace activation activation_",
    piecewise=True,
)
def relu(input: Tensor) -> Tensor:
    """Return the larger of 0 and each element; the gradient at 0 is 0.

    Raises  RuntimeError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN stays NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """


relu.refusal(no_bool_operand("Boolean inputs not supported for relu"))


@pointwise(
    "sigmoid(input)",
    ["out * (T(1) - out)"],
    tails=[_SIGMOID_SLOPE],
    dtype="floating",
    takes_complex=True,
    homes="function method inplace functional",
)
def sigmoid(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)) for each element x.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """


@pointwise(
    "sigmoid(input)", [_SIGMOID_SLOPE], dtype="floating", homes="nowhere", known_as="sigmoid"
)
def logistic(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-input)); its derivatives are precise even where |input| is large."""


@pointwise(
    "where(input < T(0), input, T(0)) - log1p(exp(-abs(input)))",
    ["sigmoid(-input)"],
    dtype="floating",
    homes="functional",
    known_as="log_sigmoid",
    out="same",
)
def logsigmoid(input: Tensor) -> Tensor:
    """Return log(sigmoid(input)) without underflow.

    Args:
        input: A floating-point tensor of any shape.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.logsigmoid(torch.tensor([0.0]))
        tensor([-0.6931])
    """


logsigmoid.refusal(floating_only("log_sigmoid_cpu"))


@pointwise(
    "log(input / (T(1) - input))",
    ["where(abs(input - T(0.5)) <= T(0.5), g / (input * (T(1) - input)), T(nan))"],
    dtype="floating",
    homes="nowhere",
    known_as="logit",
)
def log_odds(input: Tensor) -> Tensor:
    """Return log(input / (1 - input))."""


@pointwise(
    "where(input <= threshold, value, input)",
    ["where(input <= threshold, T(0), g)"],
    dtype="first",
    homes="function activation activation_",
    held="value",
    piecewise=True,
)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """Return `input` where it is above `threshold`, and `value` elsewhere."""


@pointwise(
    "minimum(maximum(input, min_val), max_val)",
    ["where(logical_and(input > min_val, input < max_val), g, T(0))"],
    dtype="number",
    homes="activation activation_",
    held="min_val max_val",
    piecewise=True,
)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return input clamped to the range from min_val to max_val."""


hardtanh.refusal(no_bool("hardtanh"))


@pointwise(
    "minimum(maximum(input, T(0)), T(6))",
    ["where(logical_and(input > T(0), input < T(6)), g, T(0))"],
    dtype="number",
    homes="activation",
    node="hardtanh",
    piecewise=True,
)
def relu6(input: Tensor) -> Tensor:
    """Return input clamped to the range from 0 to 6."""


@pointwise(
    "where(input > T(0), input, input * negative_slope)",
    ["where(input > T(0), g, g * negative_slope)"],
    dtype="number",
    homes="activation activation_",
    piecewise=True,
)
def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return input where it is positive, and negative_slope * input elsewhere."""


leaky_relu.refusal(floating_only("leaky_relu_cpu"))


@pointwise(
    "where(input > T(0), input, weight * input)",
    ["where(input > T(0), g, g * weight)", "where(input > T(0), T(0), g * input)"],
    dtype="number",
    homes="nowhere",
    known_as="_prelu_kernel",
    piecewise=True,
)
def prelu_kernel(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, and weight * input elsewhere."""


@pointwise(
    "where(input <= T(0), expm1(input) * alpha, input)",
    ["where(input > T(0), g, g * (alpha * exp(where(input > T(0), T(0), input))))"],
    dtype="number",
    homes="activation activation_",
    factors="alpha",
)
def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input) - 1) elsewhere."""


elu.refusal(floating_only("elu_cpu"))


@pointwise(
    "where(input <= T(0), expm1(input) * T(1.7580993408473766), input * T(1.0507009873554805))",
    [
        (
            "low = exp(where(input > T(0), T(0), input)); "
            "where(input > T(0), g * T(1.0507009873554805), g * (T(1.7580993408473766) * low))"
        ),
    ],
    dtype="number",
    homes="function activation activation_",
    node="elu",
)
def selu(input: Tensor) -> Tensor:
    """Return elu(input), scaled so that the results of layers keep mean 0 and variance 1."""


selu.refusal(floating_only("elu_cpu"))


@pointwise(
    "where(input <= T(0), expm1(input / alpha) * alpha, input)",
    ["where(input > T(0), g, g * exp(where(input > T(0), T(0), input) / alpha))"],
    dtype="number",
    homes="function activation activation_",
    factors="alpha",
)
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input / alpha) - 1) elsewhere."""


celu.refusal(floating_only("elu_cpu"))


_CDF = "p = T(0.5) * (T(1) + erf(input * T(0.7071067811865476))); "


@pointwise(
    "input * (T(0.5) * (T(1) + erf(input * T(0.7071067811865476))))",
    [_CDF + "p + input * (T(0.3989422804014327) * exp(T(-0.5) * (input * input)))"],
    dtype="number",
    homes="nowhere",
    known_as="gelu",
)
def gelu_exact(input: Tensor) -> Tensor:
    """Return input times the probability that a standard normal number is smaller than input."""


# This formula with erfc is precise for small probabilities too, whereas 1 + erf(...) is 0 for
# input below -9. erfc takes longer than erf, so gelu uses `gelu_exact_tails` in float64 only.
_LOWER = "p = T(0.5) * erfc(input * T(-0.7071067811865476)); "


@pointwise(
    "input * (T(0.5) * erfc(input * T(-0.7071067811865476)))",
    [_LOWER + "p + input * (T(0.3989422804014327) * exp(T(-0.5) * (input * input)))"],
    dtype="number",
    homes="nowhere",
    known_as="gelu",
)
def gelu_exact_tails(input: Tensor) -> Tensor:
    """Return the same as gelu_exact, precise even where the probability is tiny."""


_TANH = "t = tanh(T(0.7978845608028654) * (input + T(0.044715) * (input * input * input))); "


@pointwise(
    _TANH + "T(0.5) * input * (T(1) + t)",
    [
        _TANH + "T(0.5) * (T(1) + t) + T(0.5) * input * ((T(1) - t * t)"
        " * (T(0.7978845608028654) * (T(1) + T(0.134145) * (input * input))))"
    ],
    dtype="number",
    homes="nowhere",
    known_as="gelu",
)
def gelu_tanh(input: Tensor) -> Tensor:
    """Return gelu with the normal distribution approximated by tanh."""


# (1 + tanh(v)) / 2 is sigmoid(2 * v), and u is 2 * v, where v is the argument of tanh in `_TANH`.
_TWICE = "u = T(1.5957691216057308) * (input + T(0.044715) * (input * input * input)); "


@pointwise(
    _TWICE + "input * sigmoid(u)",
    [
        _TWICE + "sigmoid(u) * (T(1) + input * sigmoid(-u)"
        " * (T(1.5957691216057308) * (T(1) + T(0.134145) * (input * input))))"
    ],
    dtype="number",
    homes="nowhere",
    known_as="gelu",
)
def gelu_tanh_tails(input: Tensor) -> Tensor:
    """Return the same as gelu_tanh, for float64, precise even where the probability is tiny."""


@pointwise(
    "input / (T(1) + exp(-input))",
    ["s = sigmoid(input); s * (T(1) + input * (T(1) - s))"],
    tails=["sigmoid(input) * (T(1) + input * sigmoid(-input))"],
    dtype="number",
    homes="activation",
)
def silu(input: Tensor) -> Tensor:
    """Return input * sigmoid(input).

    Raises  NotImplementedError if input is neither floating-point nor complex

    Args:
        input: A floating-point or complex tensor of any shape.

    Example:
        >>> F.silu(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7311])
    """


silu.refusal(floating_only("silu_cpu"))


_SOFT = (
    "low = where(input > T(20), T(0), input); "
    "t = tanh(where(input > T(20), input, log1p(exp(low)))); "
)


# t is tanh(softplus(input)), and input has the factor (1 - t**2) * sigmoid(input), in terms of e.
_MISH_SLOPE = (
    _DECAY + "low = input < T(0); d = where(low, T(2) + T(2) * e + e * e, "
    "T(1) + T(2) * e + T(2) * e * e); "
    "t = where(low, e * (T(2) + e) / d, T(1) - T(2) * e * e / d); "
    "t + input * (T(4) * e * (T(1) + e) * where(low, T(1), e) / (d * d))"
)


@pointwise(
    "input * tanh(log1p(exp(input)))",
    [_SOFT + "t + input * (sigmoid(input) * (T(1) - t * t))"],
    tails=[_MISH_SLOPE],
    dtype="number",
    homes="activation",
)
def mish(input: Tensor) -> Tensor:
    """Return input * tanh(softplus(input))."""


mish.refusal(floating_only("mish_cpu"))


@pointwise(
    "where(input * beta > threshold, input, log1p(exp(input * beta)) / beta)",
    ["where(input * beta > threshold, g, g * sigmoid(input * beta))"],
    dtype="number",
    homes="functional",
)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, or input itself where beta * input > threshold.

    Raises  NotImplementedError if input is not floating-point

    Args:
        input: A floating-point tensor of any shape.
        beta: The steepness of the bend at 0; the larger, the closer to relu.
        threshold: The value of beta * input above which input itself is returned.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.softplus(torch.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """


softplus.refusal(floating_only("softplus_cpu"))


@pointwise(
    "input / (T(1) + abs(input))",
    ["g / (T(1) + abs(input)) / (T(1) + abs(input))"],
    dtype="floating",
    homes="functional",
    node="div",
)
def softsign(input: Tensor) -> Tensor:
    """Return input / (1 + |input|), a cheap alternative to tanh."""


@pointwise(
    "input - tanh(input)",
    ["t = tanh(input); t * t"],
    dtype="floating",
    takes_complex=True,
    homes="functional",
    node="sub",
)
def tanhshrink(input: Tensor) -> Tensor:
    """Return input - tanh(input)."""


@pointwise(
    "input * minimum(maximum(input + T(3), T(0)), T(6)) / T(6)",
    [
        "where(input <= T(-3), T(0), where(input >= T(3), g, g * (input / T(3) + T(0.5))))",
    ],
    dtype="number",
    homes="activation",
)
def hardswish(input: Tensor) -> Tensor:
    """Return input * relu6(input + 3) / 6."""


hardswish.refusal(floating_only("hardswish_cpu"))


@pointwise(
    "minimum(maximum(input + T(3), T(0)), T(6)) / T(6)",
    ["where(logical_and(input > T(-3), input < T(3)), g * T(1 / 6), T(0))"],
    dtype="number",
    homes="activation",
    piecewise=True,
)
def hardsigmoid(input: Tensor) -> Tensor:
    """Return relu6(input + 3) / 6."""


hardsigmoid.refusal(floating_only("hardsigmoid_cpu"))


@pointwise(
    "where(logical_and(input >= -lambd, input <= lambd), T(0), input)",
    ["where(logical_or(input > lambd, input < -lambd), g, T(0))"],
    dtype="number",
    homes="function method functional",
    held="lambd",
    piecewise=True,
)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return input, with elements in [-lambd, lambd] set to 0."""


hardshrink.refusal(floating_only("hardshrink_cpu"))


@pointwise(
    "where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * T(0)))",
    ["where(logical_or(input > lambd, input < -lambd), g, T(0))"],
    dtype="number",
    homes="functional",
    held="lambd",
    piecewise=True,
)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return input moved towards 0 by lambd, with elements in [-lambd, lambd] set to 0."""


softshrink.refusal(floating_only("softshrink_check"))


@softshrink.refusal
def _(dtypes: Sequence[DType], operands: Sequence[Any]) -> None:
    most = float(float_limits(dtypes[0]).max)
    for lambd in operands[1:]:  # no item if lambd has its default
        if not 0 <= lambd <= most:
            word = WORDS[dtypes[0]]
            raise RuntimeError(
                f"lambda must be in range [0, {most:g}] for input dtype {word}, but found {lambd}"
            )


gelu_exact.refusal(floating_only("GeluKernelImpl"))
gelu_tanh.refusal(floating_only("GeluKernelImpl"))
gelu_exact_tails.refusal(floating_only("GeluKernelImpl"))
gelu_tanh_tails.refusal(floating_only("GeluKernelImpl"))


@composite(homes="function method inplace", known_as="")
def logit(input: Tensor, eps: float | None = None, *, out: GivenOut = None) -> Tensor:
    """Return log(input / (1 - input)). If eps is given, input is clamped to eps ... 1 - eps first.
    If eps is above 1/2, that range is empty: then input below eps becomes eps, and all other input
    becomes 1 - eps.
    """
    if eps is not None and eps > 0.5:
        choose, low = where, lt(input, eps)
        high = ge(input, eps)
        input = choose(low, eps, choose(high, 1 - eps, input))  # NaN is kept
    elif eps is not None:
        input = clamp(input, eps, 1 - eps)
    return log_odds.public(input, out=out)


@composite(homes="functional", known_as="")
def gelu(input: Tensor, approximate: str = "none", *, out: GivenOut = None) -> Tensor:
    """Return input times the probability that a standard normal number is smaller than input.

    With approximate="tanh", that probability is approximated by a formula with tanh.

    Args:
        input: A floating-point tensor of any shape.
        approximate: "none", or "tanh" for a cheaper formula.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.gelu(torch.tensor([-1.0, 1.0]))
        tensor([-0.1587,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    name = "gelu_exact" if approximate == "none" else "gelu_tanh"
    if input._layout.dtype is float64:
        name += "_tails"
    return OPS[name].public(input, out=out)  # type: ignore[no-any-return]


@composite(homes="function method functional")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, and weight * input elsewhere. weight is one number, or one
    number for each channel.
    """
    shape = input._layout.shape
    if len(weight._layout.shape) > 1:
        raise ShapeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
            f"{len(weight._layout.shape)}"
        )
    if weight._layout.numel != 1:
        channels = shape[1] if len(shape) > 1 else 1
        if weight._layout.numel != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight._layout.numel} and channel size = {channels}."
            )
        weight = weight.reshape((1, channels) + (1,) * (len(shape) - 2))
    elif weight._layout.shape:
        weight = weight.reshape(())
    if input._layout.dtype is not weight._layout.dtype:
        raise DTypeError(
            f"prelu: Type promoting not supported. Got {WORDS[input._layout.dtype]} and "
            f"{WORDS[weight._layout.dtype]}: cast one with .to()"
        )
    require_floating_inputs("prelu_cpu", input)
    return prelu_kernel(input, weight)
