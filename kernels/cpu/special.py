"""Special functions of one number, for Python floats and, compiled, for Numba's.

NumPy has none of them. The small side of a pointwise kernel calls them number by number, the large
side compiles the same text; both compute in float64 and round once.
"""

from __future__ import annotations

import math

# Bernoulli numbers B2 ... B12: the tails of digamma and polygamma.
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
    # math.lgamma of Python raises beyond this, where the result leaves float64.
    if x > 2.55e305:
        return math.inf
    return math.lgamma(x)


def digamma(x: float) -> float:
    """Return the derivative of lgamma; at 0 an infinity of the other sign, NaN at -1, -2 ...

    Source  recurrence up to 10 and Stirling's series (Abramowitz and Stegun 6.3.5, 6.3.18), with
            reflection below 0 (6.3.7)
    """
    if x == 0.0:
        return math.copysign(math.inf, -x)
    reflected = 0.0
    if x < 0.0:
        if x == -math.inf or x == math.floor(x):
            return math.nan
        # The angle is taken from the fraction: pi * x loses the digits that decide it.
        reflected = -math.pi / math.tan(math.pi * (x - math.floor(x)))
        x = 1.0 - x
    # Near the one positive root the recurrence cancels; the series about the root does not.
    # The root is held in two parts, so that the distance from it is exact to the last bit.
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

    Source  (-1)^(n+1) n! zeta(n + 1, x), Hurwitz's zeta by the Euler-Maclaurin formula
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
    # The sum over all integers is told from the fraction of x; what stands on the other side of x
    # is taken off, so that no loop is as long as x.
    missing = _hurwitz_zeta(s, math.ceil(x) - x) - _hurwitz_zeta(s, 1.0 - x)
    return scale * (_hurwitz_zeta(s, fraction) + sign * missing)


def _hurwitz_zeta(s: float, q: float) -> float:
    """Return the sum over k >= 0 of 1 / (q + k)^s, for q >= 0."""
    if q == math.inf:
        return 0.0
    # Python's pow raises where C's is inf.
    if q == 0.0 or -s * math.log(q) > 709.0:
        return math.inf
    total = 0.0
    while q < 20.0 + s:
        total += math.pow(q, -s)
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

    Source  Giles 2010, "Approximating the erfinv function", to start with, then Halley steps
    """
    if not -1.0 < x < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    w = -math.log((1.0 - x) * (1.0 + x))
    if w < 5.0:
        y = _polynomial(w - 2.5, _GILES_CENTRE)
    elif w < 16.0:
        y = _polynomial(math.sqrt(w) - 3.0, _GILES_TAIL)
    else:
        # From erfc(y) ~ exp(-y * y) / (y * sqrt(pi)): Giles' float32 fit ends here.
        y = math.sqrt(w + math.log(2.0) - 0.5 * math.log(math.pi * w))
    y = y * x if w < 16.0 else math.copysign(y, x)
    for _ in range(2):
        # erfc keeps the digits of the residual near the ends, where erf is all nines.
        if abs(x) < 0.5:
            residual = math.erf(y) - x
        else:
            residual = math.copysign(1.0, x) * ((1.0 - abs(x)) - math.erfc(abs(y)))
        step = residual / (1.1283791670955126 * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return y


# What vector_math has Numba compile, each after what it calls.
COMPILED = (lgamma, _polynomial, digamma, _hurwitz_zeta, polygamma, erfinv)
