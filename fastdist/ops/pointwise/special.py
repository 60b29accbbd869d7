"""Special functions: modified Bessel, incomplete gamma, normal distribution, zeta."""

from __future__ import annotations

import math

from ...dispatch.composite import composite
from ...dispatch.pointwise import REFUSED, pointwise
from ...tensor.tensor import Tensor
from ..refusals import floating_only
from .transcendental import lgamma


@pointwise("i0e(input) * exp(abs(input))", ["g * i1e(input) * exp(abs(input))"], dtype="floating")
def i0(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""


@pointwise(
    "i0e(input)",
    ["g * (i1e(input) - sign(input) * out)"],
    dtype="floating",
    homes="special",
    known_as="special_i0e",
)
def i0e(input: Tensor) -> Tensor:
    """Return exp(-|input|) * i0(input)."""


@pointwise(
    "i1e(input) * exp(abs(input))",
    [
        (
            "low = abs(input) < T(1e-7); x = where(low, T(1), input); "
            "g * where(low, T(0.5), i0e(x) * exp(abs(x)) - out / x)"
        )
    ],
    dtype="floating",
    homes="special",
    known_as="special_i1",
)
def i1(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1."""


@pointwise(
    "i1e(input)",
    [
        (
            "low = abs(input) < T(1e-7); x = where(low, T(1), input); "
            "g * where(low, T(0.5), i0e(x) - out * (sign(x) + T(1) / x))"
        )
    ],
    dtype="floating",
    homes="special",
    known_as="special_i1e",
)
def i1e(input: Tensor) -> Tensor:
    """Return exp(-|input|) * i1(input)."""


# The derivative 2 * x * erfcx(x) - 2 / sqrt(pi) suffers from cancellation for large x. For x > 10,
# the derivative is computed by its asymptotic series in v = 1 / (2 * x**2). The first omitted term
# of the series is below 1e-16 of the sum.
_ERFCX_SERIES = (
    "T(1) + v * (T(-3) + v * (T(15) + v * (T(-105) + v * (T(945) + v * (T(-10395) + v"
    " * (T(135135) + v * (T(-2027025) + v * (T(34459425) + v * (T(-654729075) + v *"
    " (T(13749310575) + v * (T(-316234143225) + v * (T(7905853580625) + v *"
    " (T(-213458046676875) + v * (T(6190283353629375)))))))))))))))"
)
_ERFCX_SLOPE = (
    "far = input > T(10); low = where(far, T(0), input); high = where(far, input, T(10)); "
    "v = T(0.5) / high / high; "
    f"g * where(far, T(-2 / pi ** 0.5) * v * ({_ERFCX_SERIES}), "
    "T(2) * low * where(far, T(0), out) - T(2 / pi ** 0.5))"
)


@pointwise(
    "erfcx(input)",
    ["g * (T(2) * input * out - T(2 / pi ** 0.5))"],
    tails=[_ERFCX_SLOPE],
    dtype="floating",
    homes="special",
    known_as="special_erfcx",
)
def erfcx(input: Tensor) -> Tensor:
    """Return exp(input**2) * erfc(input), which does not underflow."""


@pointwise(
    "erfc(input * T(-(0.5 ** 0.5))) / T(2)",
    ["g * T((2 * pi) ** -0.5) * exp(input * input / T(-2))"],
    dtype="floating",
    homes="special",
    known_as="special_ndtr",
)
def ndtr(input: Tensor) -> Tensor:
    """Return the probability that a standard normal random number is smaller than input."""


@pointwise(
    "ndtri(input)",
    ["g * T((2 * pi) ** 0.5) * exp(out * out / T(2))"],
    dtype="floating",
    homes="special",
    known_as="special_ndtri",
)
def ndtri(input: Tensor) -> Tensor:
    """Return the inverse of ndtr: the quantile of the standard normal distribution at `input`."""


@pointwise(
    "z = input * T(0.5 ** 0.5); where(input < T(-1), log(erfcx(-z) / T(2)) - z * z, "
    "log1p(erfc(z) / T(-2)))",
    ["g * T((2 / pi) ** 0.5) / erfcx(input * T(-(0.5 ** 0.5)))"],
    # For input > 1 the derivative is computed with erfc instead of erfcx. There the argument of
    # erfcx would be negative, and erfcx overflows if its argument is far below 0.
    tails=[
        (
            "far = input > T(1); low = where(far, T(0), input) * T(-(0.5 ** 0.5)); "
            "high = where(far, input, T(1)); g * T((2 / pi) ** 0.5) * where(far, "
            "exp(high * high * T(-0.5)) / erfc(high * T(-(0.5 ** 0.5))), T(1) / erfcx(low))"
        )
    ],
    dtype="floating",
    homes="special",
    known_as="special_log_ndtr",
)
def log_ndtr(input: Tensor) -> Tensor:
    """Return the logarithm of ndtr(input), precise in the far tail as well."""


@pointwise(
    "x = where(input > T(0), input, T(1)); "
    "where(isnan(input), input, where(input < T(0), T(-inf), -(x * log(x))))",
    ["g * (-log(input) - T(1))"],
    dtype="floating",
    homes="special",
    known_as="special_entr",
)
def entr(input: Tensor) -> Tensor:
    """Return -input * log(input); 0 at 0, and -inf for negative input."""


@pointwise(
    "where(logical_and(input == T(0), logical_not(isnan(other))), T(0), input * log1p(other))",
    [
        "where(logical_and(input == T(0), other <= T(-1)), T(0), g * log1p(other))",
        "g * input / (other + T(1))",
    ],
    dtype="floating",
    homes="special",
    known_as="special_xlog1py",
)
def xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """Return input * log1p(other); 0 where input is 0 and other is not NaN."""


@pointwise(
    "zeta(input, other)",
    [REFUSED, "g * (-input) * zeta(input + T(1), other)"],
    dtype="floating",
    homes="special",
    known_as="special_zeta",
)
def zeta(input: Tensor, other: Tensor) -> Tensor:
    """Return Hurwitz's zeta function: the sum over k >= 0 of 1 / (other + k)**input."""


@pointwise(
    "igamma(input, other)",
    [REFUSED, "g * exp((input - T(1)) * log(other) - other - lgamma(input))"],
    dtype="floating",
    numbers="nowhere",
)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x) for a = input, x = other."""


@pointwise(
    "igammac(input, other)",
    [REFUSED, "-g * exp((input - T(1)) * log(other) - other - lgamma(input))"],
    dtype="floating",
    numbers="nowhere",
)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(a, x) for a = input, x = other."""


igamma.refusal(floating_only("igamma_cpu"))
igammac.refusal(floating_only("igammac_cpu"))


@pointwise("gamma_slope(input, other)", dtype="floating", homes="nowhere", known_as="digamma")
def gamma_slope(input: Tensor, other: Tensor) -> Tensor:
    """Return the derivative of `other`, a gamma-distributed random number, with respect to its
    concentration `input`. The derivative holds for a fixed quantile.
    """


@pointwise(
    "where(isnan(input), input, drawn)",
    ["g * gamma_slope(input, out)", None],
    homes="nowhere",
    known_as="_standard_gamma",
)
def gamma_of(input: Tensor, drawn: Tensor) -> Tensor:
    """Return `drawn`, gamma-distributed random numbers with the concentrations `input`. The
    gradient is the derivative of each number at a fixed quantile.
    """


@pointwise(
    "where(isnan(input), input, drawn)",
    [
        # For numbers x below exp(-36), the distribution function is x ** input / gamma(input + 1)
        # to the precision of float64.
        (
            "small = out < T(-36); log_x = where(small, T(0), out); where(small, "
            "g * ((digamma(input + T(1)) - out) / input), "
            "g * (gamma_slope(input, exp(log_x)) * exp(-log_x)))"
        ),
        None,
    ],
    homes="nowhere",
    known_as="_standard_gamma",
)
def log_gamma_of(input: Tensor, drawn: Tensor) -> Tensor:
    """Return `drawn`, the logarithms of gamma-distributed random numbers with the concentrations
    `input`. The gradient is the gradient of gamma_of divided by the random number. The quotient is
    finite even where the random number underflows.
    """


@composite(homes="function method inplace", out="cast", node="mvlgamma")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    total = p * (p - 1) / 4 * math.log(math.pi)
    terms = [lgamma(input - j / 2) for j in range(p)]
    return sum(terms[1:], terms[0]) + total
