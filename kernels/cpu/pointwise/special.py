"""Special functions that NumPy does not have, of one number, in Python or compiled with Numba.

Small pointwise kernels call the Python functions once for each number. Large kernels use the same
source, compiled. Both compute in float64 and round once.
"""

from __future__ import annotations

import math

# Bernoulli numbers B2 ... B12, for the asymptotic series of digamma and polygamma.
_B2, _B4, _B6, _B8, _B10, _B12 = 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730
_STIRLING = (_B12 / 12, _B10 / 10, _B8 / 8, _B6 / 6, _B4 / 4, _B2 / 2)
_EULER_MACLAURIN = (_B2 / 2, _B4 / 24, _B6 / 720, _B8 / 40320, _B10 / 3628800, _B12 / 479001600)
# polygamma(k, root) / k!, k = 14 ... 1, at the positive root of digamma.
_ABOUT_ROOT = (
    -0.003369801655439328,
    0.004926781395729853,
    -0.007204534386356869,
    0.010538791616612175,
    -0.01542476590494896,
    0.022597648232218104,
    -0.03316112647484736,
    0.04880428816414311,
    -0.07219956125645471,
    0.10782405069126237,
    -0.16394270544240652,
    0.258499760955651,
    -0.4427631689835921,
    0.9676722454476212,
)
_GILES_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_GILES_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def lgamma(x: float) -> float:
    """Return log |gamma(x)|; inf at 0, -1, -2 ... and at both infinities."""
    if x == -math.inf or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    # Above this limit the result overflows float64, and math.lgamma raises OverflowError.
    if x > 2.55e305:
        return math.inf
    return math.lgamma(x)


def digamma(x: float) -> float:
    """Return the derivative of lgamma; -inf at 0.0, inf at -0.0, NaN at -1, -2 ...

    Source  recurrence up to 10 and Stirling's series (Abramowitz and Stegun 6.3.5, 6.3.18), with
            reflection below 0 (6.3.7)
    """
    if x == 0.0:
        return math.copysign(math.inf, -x)
    reflected = 0.0
    if x < 0.0:
        if x == -math.inf or x == math.floor(x):
            return math.nan
        # The angle is computed from the distance to the nearest integer, because this distance is
        # exact. pi * x would lose the relevant digits, and x - floor(x) would lose the digits of an
        # x just below an integer.
        reflected = -math.pi / math.tan(math.pi * (x - math.floor(x + 0.5)))
        x = 1.0 - x
    # Near the positive root, cancellation makes the recurrence inaccurate, but not the series about
    # the root. The root is stored in two parts, so that the distance from the root is exact.
    if abs(x - 1.4616321449683622) < 0.1:
        t = (x - 1.4616321449683622) - 9.549995429965697e-17
        return t * _polynomial(t, _ABOUT_ROOT) + reflected
    shifted = 0.0
    while x < 10.0:
        shifted -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    return math.log(x) - 0.5 / x - y * _polynomial(y, _STIRLING) + shifted + reflected


def _polynomial(x: float, coefficients: tuple[float, ...]) -> float:
    total = 0.0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def polygamma(n: float, x: float) -> float:
    """Return the n-th derivative of digamma, n = 0, 1, 2 ...

    Source  (-1)^(n+1) n! zeta(n + 1, x), with Hurwitz's zeta by the Euler-Maclaurin formula
    """
    if n == 0.0:
        return digamma(x)
    if not 0.0 < n < 170.0 or n != math.floor(n) or x != x:
        return math.nan
    sign = 1.0 if n % 2.0 == 1.0 else -1.0
    if x == -math.inf:
        return math.nan
    s, scale = n + 1.0, sign * math.gamma(n + 1.0)
    if x > 0.0:
        return scale * _hurwitz_zeta(s, x)
    fraction = x - math.floor(x)
    if fraction == 0.0:
        return sign * math.inf
    # For negative x, use the sum over all integers, which depends only on the fraction of x, and
    # subtract the terms on the other side of x: then the number of iterations does not depend on x.
    missing = _hurwitz_zeta(s, math.ceil(x) - x) - _hurwitz_zeta(s, 1.0 - x)
    return scale * (_hurwitz_zeta(s, fraction) + sign * missing)


def _hurwitz_zeta(s: float, q: float) -> float:
    """Return the sum over k >= 0 of 1 / (q + k)^s, for q >= 0."""
    if q == math.inf:
        return 0.0
    # Python's pow raises OverflowError where C's pow returns inf.
    if q == 0.0 or -s * math.log(q) > 709.0:
        return math.inf
    total, term = 0.0, 1.0
    while q < 20.0 + s and term > 1e-18 * total:
        term = math.pow(q, -s)
        total += term
        q += 1.0
    factor = math.pow(q, -s)
    total += factor * (q / (s - 1.0) + 0.5)
    factor /= q
    k = 0.0
    for coefficient in _EULER_MACLAURIN:
        factor *= s + k
        total += factor * coefficient
        factor *= (s + k + 1.0) / (q * q)
        k += 2.0
    return total


def erfinv(x: float) -> float:
    """Return y with erf(y) = x; infinities at -1 and 1, NaN beyond.

    Source  Giles 2010, "Approximating the erfinv function", as a start value, then Halley steps
    """
    if not -1.0 < x < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    w = -math.log((1.0 - x) * (1.0 + x))
    if w < 5.0:
        y = _polynomial(w - 2.5, _GILES_CENTRE)
    elif w < 16.0:
        y = _polynomial(math.sqrt(w) - 3.0, _GILES_TAIL)
    else:
        # Start from erfc(y) ~ exp(-y * y) / (y * sqrt(pi)), because Giles' float32 fit ends here.
        y = math.sqrt(w + math.log(2.0) - 0.5 * math.log(math.pi * w))
    y = y * x if w < 16.0 else math.copysign(y, x)
    for _ in range(2):
        # For |x| near 1, erf is close to 1, so erfc is used, which keeps the residual's digits.
        if abs(x) < 0.5:
            residual = math.erf(y) - x
        else:
            residual = math.copysign(1.0, x) * ((1.0 - abs(x)) - math.erfc(abs(y)))
        step = residual / (1.1283791670955126 * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return y


def zeta(s: float, q: float) -> float:
    """Return Hurwitz's zeta, the sum over k >= 0 of 1 / (q + k)^s. It is inf at s = 1 and at q = 0,
    -1, -2 ... It is NaN for s below 1, and for other negative q if s is not an integer.
    """
    if s == 1.0:
        return math.inf
    if not s > 1.0 or q != q or q == -math.inf:
        return math.nan
    if s == math.inf:
        return 0.0 if q > 1.0 else 1.0 if q == 1.0 else math.inf if q >= 0.0 else math.nan
    if q > 0.0:
        return _hurwitz_zeta(s, q)
    fraction = q - math.floor(q)
    if fraction == 0.0:
        return math.inf
    if s != math.floor(s):
        return math.nan
    # As in polygamma: the sum over all integers, minus the terms on the other side of q.
    sign = 1.0 if s % 2.0 == 0.0 else -1.0
    missing = _hurwitz_zeta(s, math.ceil(q) - q) - _hurwitz_zeta(s, 1.0 - q)
    return _hurwitz_zeta(s, fraction) + sign * missing


def erfcx(x: float) -> float:
    """Return exp(x * x) * erfc(x), which does not underflow."""
    if x < -26.62873571375149:
        return math.inf
    if x < 0.0:
        return 2.0 * math.exp(x * x) - erfcx_positive(-x)
    return erfcx_positive(x)


def erfcx_positive(x: float) -> float:
    """Return erfcx for x >= 0: as a product for x < 10, and else by its asymptotic series."""
    if x < 10.0:
        # exp would multiply the relative rounding error of x * x by x * x, so x * x is split into
        # two parts.
        high = math.floor(x * 1024.0) / 1024.0
        return math.exp(high * high) * math.exp((x - high) * (x + high)) * math.erfc(x)
    y = 0.5 / x / x
    term, total = 1.0, 1.0
    for k in range(1, 13):
        term *= -(2.0 * k - 1.0) * y
        total += term
    return 0.5641895835477563 / x * total


def ndtri(p: float) -> float:
    """Return the quantile of the standard normal distribution for the probability p.

    Source  erfinv in the middle; Newton steps on the logarithm of the probability in the tails
    """
    if not 0.0 < p < 1.0:
        return math.inf if p == 1.0 else -math.inf if p == 0.0 else math.nan
    if 0.02 <= p <= 0.98:
        return 1.4142135623730951 * erfinv(2.0 * p - 1.0)
    chance = p if p < 0.5 else 1.0 - p
    target = math.log(chance)
    t = math.sqrt(-target)
    for _ in range(8):
        scaled = erfcx_positive(t)
        error = math.log(0.5 * scaled) - t * t - target
        t += error * scaled * 0.886226925452758
    return math.copysign(1.4142135623730951 * t, p - 0.5)


def i0e(x: float) -> float:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 0.

    Source  the power series up to |x| = 20, and the asymptotic series above 20 (Abramowitz and
            Stegun 9.6.10 and 9.7.1)
    """
    return bessel_ie(0.0, abs(x))


def i1e(x: float) -> float:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 1."""
    return math.copysign(bessel_ie(1.0, abs(x)), x)


def bessel_ie(order: float, x: float) -> float:
    """Return exp(-x) I(x), x >= 0, for I, the modified Bessel function of the first kind of order 0
    or 1.
    """
    if x != x or x == math.inf:
        return x if x != x else 0.0
    term, total, k = 1.0, 1.0, 1.0
    if x <= 20.0:
        y = 0.25 * x * x
        while term > 1e-17 * total:
            term *= y / (k * (k + order))
            total += term
            k += 1.0
        return math.exp(-x) * total * (0.5 * x if order > 0.0 else 1.0)
    while abs(term) > 1e-17 and k < 40.0:
        odd = 2.0 * k - 1.0
        term *= (odd * odd - 4.0 * order * order) / (8.0 * x * k)
        total += term
        k += 1.0
    return total * 0.3989422804014327 / math.sqrt(x)


def igamma(a: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function P(a, x); NaN for a or x below 0."""
    if not (a >= 0.0 and x >= 0.0) or (a == 0.0 and x == 0.0):
        return math.nan
    if a == 0.0 or (x == math.inf and a < math.inf):
        return 1.0
    if a == math.inf:
        return math.nan if x == math.inf else 0.0
    if x == 0.0:
        return 0.0
    if a > 1e7:
        return _large_gamma(a, x, -1.0)
    if x < a + 1.0:
        return gamma_density(a, x) * _lower_series(a, x)
    return 1.0 - gamma_density(a, x) * a / x * _upper_fraction(a, x)


def igammac(a: float, x: float) -> float:
    """Return the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    if not (a >= 0.0 and x >= 0.0) or (a == 0.0 and x == 0.0):
        return math.nan
    if a == 0.0 or (x == math.inf and a < math.inf):
        return 0.0
    if a == math.inf:
        return math.nan if x == math.inf else 1.0
    if x == 0.0:
        return 1.0
    if a > 1e7:
        return _large_gamma(a, x, 1.0)
    if x < a + 1.0:
        return 1.0 - gamma_density(a, x) * _lower_series(a, x)
    return gamma_density(a, x) * a / x * _upper_fraction(a, x)


def gamma_density(a: float, x: float) -> float:
    """Return x^a exp(-x) / gamma(a + 1)."""
    if a < 20.0:
        return math.exp(a * math.log(x) - x - lgamma(a + 1.0))
    # The density is computed from the distance x - a, because log gamma would lose digits here.
    d = (x - a) / a
    if d == -1.0:
        return 0.0
    y = 1.0 / (a * a)
    tail = (1.0 / 12.0 - y * (1.0 / 360.0 - y / 1260.0)) / a
    return math.exp(a * (math.log1p(d) - d) - tail) / math.sqrt(6.283185307179586 * a)


def _large_gamma(a: float, x: float, side: float) -> float:
    """Return Q(a, x) for side 1, or P(a, x) for side -1, by the first terms of Temme's
    expansion.
    """
    d = (x - a) / a
    if d == -1.0:
        return 0.5 + 0.5 * side
    eta = math.copysign(math.sqrt(2.0 * abs(d - math.log1p(d))), d)
    slope = 1.0 / d - 1.0 / eta if abs(d) > 1e-3 else -1.0 / 3.0 + d / 12.0
    rest = math.exp(-0.5 * a * eta * eta) / math.sqrt(6.283185307179586 * a) * slope
    return 0.5 * math.erfc(side * eta * math.sqrt(0.5 * a)) + side * rest


def _lower_series(a: float, x: float) -> float:
    term, total, k = 1.0, 1.0, 1.0
    while term > 1e-17 * total and k < 100000.0:
        term *= x / (a + k)
        total += term
        k += 1.0
    return total


def _upper_fraction(a: float, x: float) -> float:
    """Return the upper incomplete gamma function of (a, x) divided by x^(a - 1) exp(-x), for x >= a
    + 1, by Lentz's method.
    """
    b = x - a + 1.0
    c, d = 1e300, 1.0 / b
    h, step, k = d, 0.0, 1.0
    while abs(step - 1.0) > 1e-16 and k < 100000.0:
        part = k * (a - k)
        b += 2.0
        d = 1.0 / (part * d + b)
        c = b + part / c
        step = d * c
        h *= step
        k += 1.0
    return h * x


def gamma_slope(a: float, x: float) -> float:
    """Return dx / da at constant P(a, x): the gradient of a gamma-distributed number x by its shape
    a.

    Source  -(dP / da) / (dP / dx), with the derivative of P's series; for a > 10,000, Wilson and
            Hilferty's cube root formula; for x far above a, the derivative of Q's continued
            fraction
    """
    if not (a > 0.0 and x >= 0.0) or x == math.inf:
        return math.nan
    if x == 0.0:
        return 0.0
    if a > 10000.0:
        t = math.pow(x / a, 1.0 / 3.0)
        n = t - 1.0 + 1.0 / (9.0 * a)
        return t * t * t + t * t * (1.0 / (3.0 * a) - 1.5 * n)
    if x > 1.5 * a + 10.0:
        # The fraction changes little with a, so the error of this finite difference is small.
        h = 1e-5 * (1.0 + a)
        change = (_upper_fraction(a + h, x) - _upper_fraction(a - h, x)) / (2.0 * h)
        return (math.log(x) - digamma(a)) * _upper_fraction(a, x) + change
    logarithm, slope = math.log(x), digamma(a + 1.0)
    factor, total, k = 1.0, logarithm - slope, 1.0
    weight = 1.0
    while factor > 1e-17 * weight and k < 100000.0:
        factor *= x / (a + k)
        slope += 1.0 / (a + k)
        weight += factor
        total += factor * (logarithm - slope)
        k += 1.0
    return -x / a * total


# The functions that vector_math compiles with Numba; a function follows the functions that it
# calls.
COMPILED = (
    *(lgamma, _polynomial, digamma, _hurwitz_zeta, polygamma, erfinv, zeta),
    *(erfcx_positive, erfcx, ndtri, bessel_ie, i0e, i1e),
    *(gamma_density, _large_gamma, _lower_series, _upper_fraction, igamma, igammac, gamma_slope),
)
