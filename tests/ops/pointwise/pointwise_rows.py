"""The rows of pointwise ops: the domain of the samples, and the reference.

Domains are open intervals without kinks and poles; `torch_results.json` has the values at those.
References use NumPy in float64, `math` for one number at a time, or SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.special

Domain = tuple[float, float]
Array = Any
ANY: Domain = (-3.0, 3.0)
POSITIVE: Domain = (0.2, 3.0)
NEGATIVE: Domain = (-3.0, -0.2)
UNIT: Domain = (0.05, 0.95)
INSIDE: Domain = (-0.9, 0.9)
BEYOND: Domain = (1.1, 3.0)
FOURTH: Domain = (4.1, 4.9)  # degrees of polynomials, which are truncated to 4


class Row(NamedTuple):
    """One op of the table; `call` is the public function, if its name is not the op's name."""

    name: str
    domains: tuple[Domain, ...]
    reference: Callable[..., Array]
    call: str = ""
    numbers: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    functional: bool = False
    # Relative tolerance of values in float32; a row with a higher tolerance states the reason.
    tolerance: float = 2e-6
    differentiable: bool = True

    @property
    def public(self) -> str:
        return self.call or self.name


def by_number(function: Callable[..., float]) -> Callable[..., Array]:
    return np.vectorize(function, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normal_cdf(x: Array) -> Array:
    return 0.5 * by_number(math.erfc)(-x / math.sqrt(2))


def softplus(x: Array, beta: float = 1.0) -> Array:
    return np.log1p(np.exp(x * beta)) / beta


def digamma(x: Array, h: float = 1e-3) -> Array:
    """Return the derivative of lgamma by fourth-order differences, which are exact to 1e-10."""
    f = by_number(math.lgamma)
    return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)


def trigamma(n: int, x: Array) -> Array:
    """Return polygamma(1, x) as a series whose tail is the Euler-Maclaurin formula."""
    assert n == 1
    total = sum(1 / (x + k) ** 2 for k in range(200))
    y = x + 200
    return total + 1 / y + 1 / (2 * y**2) + 1 / (6 * y**3)


def bessel_i1(x: Array) -> Array:
    """Return the mean of exp(x cos t) cos t over a circle, by the trapezoidal rule."""
    t = np.arange(200) * (2 * np.pi / 200)
    return np.mean(np.exp(x[..., None] * np.cos(t)) * np.cos(t), -1)


def hurwitz(s: float, q: float) -> float:
    return sum((q + k) ** -s for k in range(100))


def lower_gamma(a: float, x: float) -> float:
    terms = [x**k / math.gamma(a + k + 1) for k in range(60)]
    return x**a * math.exp(-x) * math.fsum(terms)


@by_number
def slope(a: float, x: float) -> float:
    """Return dx/da on a curve where lower_gamma(a, x) is constant, by differences."""
    h = 1e-5
    moved = lower_gamma(a + h, x) - lower_gamma(a - h, x)
    return -moved / (2 * h) / (x ** (a - 1) * math.exp(-x) / math.gamma(a))


def of_degree(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of x and n that truncates the degree n and calls `function(n, x)`."""
    return lambda x, n: function(np.trunc(n).astype(np.int64), x)


def chebyshev_v(n: Array, x: Array) -> Array:
    return scipy.special.eval_chebyu(n, x) - scipy.special.eval_chebyu(n - 1, x)


def chebyshev_w(n: Array, x: Array) -> Array:
    return scipy.special.eval_chebyu(n, x) + scipy.special.eval_chebyu(n - 1, x)


_CHEBYSHEV = {
    "chebyshev_polynomial_t": of_degree(scipy.special.eval_chebyt),
    "chebyshev_polynomial_u": of_degree(scipy.special.eval_chebyu),
    "chebyshev_polynomial_v": of_degree(chebyshev_v),
    "chebyshev_polynomial_w": of_degree(chebyshev_w),
}
POLYNOMIALS = {
    **_CHEBYSHEV,
    **{f"shifted_{name}": lambda x, n, f=f: f(2 * x - 1, n) for name, f in _CHEBYSHEV.items()},
    "hermite_polynomial_h": of_degree(scipy.special.eval_hermite),
    "hermite_polynomial_he": of_degree(scipy.special.eval_hermitenorm),
    "laguerre_polynomial_l": of_degree(scipy.special.eval_laguerre),
    "legendre_polynomial_p": of_degree(scipy.special.eval_legendre),
}


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


UNARY = [
    Row("neg", (ANY,), np.negative),
    Row("abs", (POSITIVE,), np.abs),
    Row("conj", (ANY,), np.conj),
    Row("sign", (NEGATIVE,), np.sign),
    Row("angle", (NEGATIVE,), np.angle),
    Row("reciprocal", (POSITIVE,), np.reciprocal),
    Row("square", (ANY,), np.square),
    Row("sqrt", (POSITIVE,), np.sqrt),
    Row("rsqrt", (POSITIVE,), lambda x: 1 / np.sqrt(x)),
    Row("deg2rad", (ANY,), np.deg2rad),
    Row("rad2deg", (ANY,), np.rad2deg),
    Row("floor", ((0.1, 0.9),), np.floor),
    Row("ceil", ((0.1, 0.9),), np.ceil),
    Row("round", ((0.6, 1.4),), np.round),
    Row("trunc", ((-0.9, -0.1),), np.trunc),
    Row("frac", ((1.1, 1.9),), lambda x: x - np.trunc(x)),
    Row("exp", (ANY,), np.exp),
    Row("exp2", (ANY,), np.exp2),
    Row("expm1", (ANY,), np.expm1),
    Row("log", (POSITIVE,), np.log),
    Row("log2", (POSITIVE,), np.log2),
    Row("log10", (POSITIVE,), np.log10),
    Row("log1p", (POSITIVE,), np.log1p),
    Row("sin", (ANY,), np.sin),
    Row("cos", (ANY,), np.cos),
    Row("tan", ((-1.2, 1.2),), np.tan),
    Row("asin", (INSIDE,), np.arcsin),
    Row("acos", (INSIDE,), np.arccos),
    Row("atan", (ANY,), np.arctan),
    Row("sinh", (ANY,), np.sinh),
    Row("cosh", (ANY,), np.cosh),
    Row("tanh", (ANY,), np.tanh),
    Row("asinh", (ANY,), np.arcsinh),
    Row("acosh", ((1.2, 3.0),), np.arccosh),
    Row("atanh", (INSIDE,), np.arctanh),
    Row("sinc", ((0.2, 0.9),), np.sinc),
    Row("erf", (ANY,), by_number(math.erf)),
    Row("erfc", (ANY,), by_number(math.erfc)),
    Row("erfinv", (INSIDE,), by_number(lambda x: _inverse(math.erf, x))),
    Row("lgamma", (POSITIVE,), by_number(math.lgamma), tolerance=1e-5),  # its zeros are 1 and 2
    Row("digamma", (POSITIVE,), digamma, tolerance=1e-5),  # a zero near 1.46
    Row("polygamma", (POSITIVE,), lambda x, n: trigamma(n, x), numbers={"n": 1}),
    Row("relu", (POSITIVE,), lambda x: np.maximum(x, 0)),
    Row("sigmoid", (ANY,), sigmoid),
    Row("logsigmoid", (POSITIVE,), lambda x: np.log(sigmoid(x)), functional=True),
    Row(
        "log_odds", (UNIT,), lambda x: np.log(x / (1 - x)), call="logit", tolerance=1e-5
    ),  # a zero at 1/2
    Row(
        "threshold",
        (POSITIVE,),
        lambda x, threshold, value: np.where(x > 0.1, x, 9.0),
        numbers={"threshold": 0.1, "value": 9.0},
    ),
    Row("hardtanh", (INSIDE,), lambda x: np.clip(x, -1, 1), functional=True),
    Row("relu6", (POSITIVE,), lambda x: np.clip(x, 0, 6), functional=True),
    Row("leaky_relu", (NEGATIVE,), lambda x: 0.01 * x, functional=True),
    Row("elu", (NEGATIVE,), np.expm1, functional=True),
    Row("selu", (NEGATIVE,), lambda x: 1.0507009873554805 * 1.6732632423543772 * np.expm1(x)),
    Row("celu", (NEGATIVE,), lambda x, alpha: alpha * np.expm1(x / alpha), numbers={"alpha": 1.5}),
    Row(
        "gelu_exact",
        (ANY,),
        lambda x: x * normal_cdf(x),
        call="gelu",
        functional=True,
        tolerance=2e-5,
    ),  # 1 + erf cancels on the left, as in PyTorch
    Row(
        "gelu_tanh",
        (ANY,),
        lambda x, approximate: gelu_tanh(x),
        call="gelu",
        functional=True,
        numbers={"approximate": "tanh"},
        tolerance=1e-4,
    ),  # 1 + tanh cancels on the left
    Row("silu", (ANY,), lambda x: x * sigmoid(x), functional=True),
    Row("mish", (ANY,), lambda x: x * np.tanh(softplus(x)), functional=True),
    Row("softplus", (ANY,), softplus, functional=True, tolerance=4e-6),
    Row("softsign", (POSITIVE,), lambda x: x / (1 + x), functional=True),
    Row(
        "tanhshrink", (POSITIVE,), lambda x: x - np.tanh(x), functional=True, tolerance=1e-4
    ),  # cancels near 0
    Row("hardswish", ((-2.5, 2.5),), lambda x: x * (x + 3) / 6, functional=True, tolerance=1e-5),
    Row("hardsigmoid", ((-2.5, 2.5),), lambda x: (x + 3) / 6, functional=True),
    Row("hardshrink", ((0.6, 2.0),), lambda x: x),
    Row("softshrink", ((0.6, 2.0),), lambda x: x - 0.5, functional=True, tolerance=1e-5),
    Row("clamp_between", (ANY,), np.clip, call="clamp", numbers={"min": -5.0, "max": 2.9999}),
    Row(
        "clamp_above",
        (ANY,),
        lambda x, min: np.maximum(min, x),
        call="clamp",
        numbers={"min": -4.0},
    ),
    Row(
        "clamp_below",
        (POSITIVE,),
        lambda x, max: np.minimum(max, x),
        call="clamp",
        numbers={"max": 0.1},
    ),
    Row("replace_nonfinite", (ANY,), lambda x: x, call="nan_to_num"),
    Row("isnan", (ANY,), np.isnan, differentiable=False),
    Row("isinf", (ANY,), np.isinf, differentiable=False),
    Row("isfinite", (ANY,), np.isfinite, differentiable=False),
    Row("isposinf", (ANY,), np.isposinf, differentiable=False),
    Row("isneginf", (ANY,), np.isneginf, differentiable=False),
    Row("signbit", (ANY,), np.signbit, differentiable=False),
    Row("logical_not", (ANY,), np.logical_not, differentiable=False),
]
BINARY = [
    Row("add", (ANY, ANY), np.add, tolerance=1e-5),  # cancels
    Row("sub", (ANY, ANY), np.subtract, tolerance=1e-5),
    Row("rsub", (ANY, ANY), lambda x, y: y - x, tolerance=1e-5),
    Row("mul", (ANY, ANY), np.multiply),
    Row("div", (ANY, POSITIVE), np.divide),
    Row("floor_divide", ((1.1, 1.9), (0.95, 1.05)), np.floor_divide, differentiable=False),
    Row(
        "floored_divide",
        ((1.1, 1.9), (0.95, 1.05)),
        lambda x, y, rounding_mode: np.floor_divide(x, y),
        call="div",
        numbers={"rounding_mode": "floor"},
    ),
    Row(
        "trunc_divide",
        ((-1.9, -1.1), (0.95, 1.05)),
        lambda x, y, rounding_mode: np.trunc(x / y),
        call="div",
        numbers={"rounding_mode": "trunc"},
    ),
    Row("remainder", ((1.2, 1.9), (0.95, 1.05)), np.remainder, tolerance=1e-5),
    Row("fmod", ((-1.9, -1.2), (0.95, 1.05)), np.fmod, tolerance=1e-5),
    Row("pow", (POSITIVE, ANY), np.power, tolerance=5e-6),
    Row("copysign", (POSITIVE, NEGATIVE), np.copysign),
    Row("hypot", (ANY, POSITIVE), np.hypot),
    Row("atan2", (ANY, POSITIVE), np.arctan2),
    Row("logaddexp", (ANY, ANY), np.logaddexp, tolerance=1e-5),
    Row("logaddexp2", (ANY, ANY), np.logaddexp2, tolerance=1e-5),
    Row("xlogy", (POSITIVE, POSITIVE), lambda x, y: x * np.log(y), tolerance=1e-5),
    Row("maximum", (POSITIVE, NEGATIVE), np.maximum),
    Row("minimum", (POSITIVE, NEGATIVE), np.minimum),
    Row("fmax", (POSITIVE, NEGATIVE), np.fmax),
    Row("fmin", (POSITIVE, NEGATIVE), np.fmin),
    Row("clamp_above_tensor", (NEGATIVE, POSITIVE), np.maximum, call="clamp_min"),
    Row("clamp_below_tensor", (POSITIVE, NEGATIVE), np.minimum, call="clamp_max"),
    Row("prelu_kernel", (NEGATIVE, ANY), lambda x, w: w * x, call="prelu_kernel"),
    Row("heaviside", (ANY, ANY), np.heaviside, differentiable=False),
    Row("nextafter", (ANY, ANY), np.nextafter),
    *(
        Row(name, (ANY, ANY), getattr(np, theirs), differentiable=False)
        for name, theirs in {
            "eq": "equal",
            "ne": "not_equal",
            "lt": "less",
            "le": "less_equal",
            "gt": "greater",
            "ge": "greater_equal",
            "logical_and": "logical_and",
            "logical_or": "logical_or",
            "logical_xor": "logical_xor",
        }.items()
    ),
]
NONE = {"reduction": "none"}
LOSSES = [
    Row(
        "squared_difference",
        (ANY, ANY),
        lambda x, y, reduction: (x - y) ** 2,
        call="mse_loss",
        numbers=NONE,
        functional=True,
        tolerance=1e-4,
    ),  # cancels
    Row(
        "absolute_difference",
        (POSITIVE, NEGATIVE),
        lambda x, y, reduction: np.abs(x - y),
        call="l1_loss",
        numbers=NONE,
        functional=True,
    ),
    Row(
        "smooth_difference",
        (POSITIVE, (-3.0, -1.5)),
        lambda x, y, reduction: x - y - 0.5,
        call="smooth_l1_loss",
        numbers=NONE,
        functional=True,
    ),
    Row(
        "huber_difference",
        (POSITIVE, (-3.0, -1.5)),
        lambda x, y, reduction: x - y - 0.5,
        call="huber_loss",
        numbers=NONE,
        functional=True,
    ),
    Row(
        "logit_entropy",
        (ANY, UNIT),
        lambda x, y, reduction: softplus(x) - x * y,
        call="binary_cross_entropy_with_logits",
        numbers=NONE,
        functional=True,
        tolerance=1e-5,
    ),
    Row(
        "binary_entropy",
        (UNIT, UNIT),
        lambda x, y, reduction: -y * np.log(x) - (1 - y) * np.log(1 - x),
        call="binary_cross_entropy",
        numbers=NONE,
        functional=True,
        tolerance=1e-5,
    ),
]
TERNARY = [
    Row(
        "addcmul",
        (ANY, ANY, ANY),
        lambda x, a, b, value: x + value * a * b,
        numbers={"value": 0.7},
        tolerance=1e-4,
    ),  # cancels
    Row(
        "addcdiv",
        (ANY, ANY, POSITIVE),
        lambda x, a, b, value: x + value * a / b,
        numbers={"value": 0.7},
        tolerance=1e-4,
    ),
    Row("lerp", (ANY, ANY, (0.6, 0.9)), lambda a, b, w: a + w * (b - a), tolerance=1e-4),
]
SPECIAL = [
    Row("i0", (ANY,), np.i0),
    Row("i0e", (ANY,), lambda x: np.i0(x) * np.exp(-np.abs(x))),
    Row("i1", (ANY,), bessel_i1),
    Row("i1e", (ANY,), lambda x: bessel_i1(x) * np.exp(-np.abs(x))),
    Row("bessel_j0", (ANY,), scipy.special.j0),
    Row("bessel_j1", (ANY,), scipy.special.j1),
    Row("bessel_y0", (POSITIVE,), scipy.special.y0, tolerance=1e-5),  # a zero at 0.89
    Row("bessel_y1", (POSITIVE,), scipy.special.y1, tolerance=1e-5),
    Row("modified_bessel_k0", (POSITIVE,), scipy.special.k0),
    Row("modified_bessel_k1", (POSITIVE,), scipy.special.k1),
    Row("scaled_modified_bessel_k0", (POSITIVE,), scipy.special.k0e),
    Row("scaled_modified_bessel_k1", (POSITIVE,), scipy.special.k1e),
    Row("spherical_bessel_j0", (ANY,), lambda x: np.sinc(x / np.pi), tolerance=1e-5),
    Row("airy_ai", (POSITIVE,), lambda x: scipy.special.airy(x)[0], differentiable=False),
    *[
        Row(name, (BEYOND, FOURTH), reference, differentiable=False)
        for name, reference in POLYNOMIALS.items()
    ],
    Row("erfcx", (ANY,), lambda x: np.exp(x * x) * by_number(math.erfc)(x), tolerance=1e-5),
    Row("ndtr", (ANY,), normal_cdf, tolerance=1e-5),
    Row("ndtri", (UNIT,), by_number(lambda p: _inverse(normal_cdf, p)), tolerance=1e-5),
    Row("log_ndtr", (ANY,), lambda x: np.log(normal_cdf(x)), tolerance=1e-5),
    Row("entr", (POSITIVE,), lambda x: -x * np.log(x), tolerance=1e-5),  # a zero at 1
    Row("xlog1py", (ANY, POSITIVE), lambda x, y: x * np.log1p(y)),
    # The reference sums a hundred terms; the remainder is below the tolerance.
    Row(
        "zeta", ((9.0, 11.0), (1.0, 3.0)), by_number(hurwitz), differentiable=False, tolerance=1e-5
    ),
    Row("igamma", (POSITIVE, POSITIVE), by_number(lower_gamma), differentiable=False),
    Row(
        "igammac",
        (POSITIVE, POSITIVE),
        by_number(lambda a, x: 1 - lower_gamma(a, x)),
        differentiable=False,
        tolerance=1e-5,
    ),
    # Their derivatives are computed in other ways than the values: see test_special.py.
    Row("gamma_slope", (POSITIVE, POSITIVE), slope, differentiable=False, tolerance=1e-5),
    Row("valued", (POSITIVE, POSITIVE), lambda x, y: y + 0 * x, differentiable=False),
    Row("gamma_of", (POSITIVE, POSITIVE), lambda a, x: x + 0 * a, differentiable=False),
    Row("log_gamma_of", (POSITIVE, POSITIVE), lambda a, x: x + 0 * a, differentiable=False),
    Row("logistic", (ANY,), lambda x: 1 / (1 + np.exp(-x))),
    Row("gelu_exact_tails", (ANY,), lambda x: x * normal_cdf(x)),
    Row("gelu_tanh_tails", (ANY,), gelu_tanh),
    # Parts of norms; test_norms_at_zero.py tests their values at 0.
    Row("distance_root", (POSITIVE,), np.sqrt),
    Row("root_slope", (ANY, POSITIVE), lambda g, x: g / (2 * np.sqrt(x))),
    Row("root_tangent", (ANY, POSITIVE), lambda t, x: t / (2 * np.sqrt(x))),
    Row("product_at_zero", (ANY, ANY), lambda q, x: q * x),
    Row("norm_slope", (ANY, ANY, POSITIVE), lambda g, x, n: g * x / n),
    Row("norm_tangent", (ANY, ANY, POSITIVE), lambda t, x, n: t * x / n),
    Row("rough_zero", (ANY, POSITIVE), lambda x, n: 0 * x + 0 * n),
]
ROWS = {row.name: row for row in (*UNARY, *BINARY, *LOSSES, *TERNARY, *SPECIAL)}

# Integer ops; torch_results.json has their values for each integer dtype.
INTEGER_ROWS = {
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_not",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "gcd",
}
# Ops with a condition; test_selection.py has their samples.
CONDITION_ROWS = {"where", "masked_fill"}


def _inverse(function: Callable[[float], float], y: float) -> float:
    low, high = -4.0, 4.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < y else (low, middle)
    return (low + high) / 2
