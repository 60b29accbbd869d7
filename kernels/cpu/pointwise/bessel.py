"""Bessel functions of orders 0 and 1, and Airy's function, of one number, as in special.py.

Source  Abramowitz and Stegun: power series 9.1.10, 9.1.13 and 9.1.11, 9.6.10 and 9.6.11, recurrence
        9.1.27 with the sums 9.1.46, 9.1.88 and 9.1.89, asymptotic series 9.2.5 to 9.2.10, and the
        integral 9.6.24; for Airy's function, equation 10.4.1 and series 10.4.59 and 10.4.60
"""

from __future__ import annotations

import math

_EULER = 0.5772156649015329
_LN_2 = 0.6931471805599453  # log(x / 2) is log(x) - ln 2, because x / 2 may underflow to 0


def bessel_j0(x: float) -> float:
    """Return the Bessel function of the first kind of order 0."""
    return bessel(0.0, abs(x), False)


def bessel_j1(x: float) -> float:
    """Return the Bessel function of the first kind of order 1."""
    return math.copysign(1.0, x) * bessel(1.0, abs(x), False)


def bessel_y0(x: float) -> float:
    """Return the Bessel function of the second kind of order 0; NaN below 0, -inf at 0."""
    return bessel(0.0, x, True)


def bessel_y1(x: float) -> float:
    """Return the Bessel function of the second kind of order 1; NaN below 0, -inf at 0."""
    return bessel(1.0, x, True)


def bessel(order: float, x: float, second: bool) -> float:
    """Return the Bessel function of the first or second kind, of order 0 or 1, for x >= 0."""
    if not x >= 0.0:
        return math.nan
    if x == 0.0 and second:
        return -math.inf
    if x <= 5.0:
        return _bessel_near(order, x, second)
    if x <= 25.0:
        return _bessel_between(order, x, second)
    return 0.0 if x == math.inf else _bessel_far(order, x, second)


def _bessel_near(order: float, x: float, second: bool) -> float:
    """Return the sum of the power series. The second kind also weights its terms by the harmonic
    numbers 1 + 1/2 + ... + 1/k.
    """
    y, k = 0.25 * x * x, 1.0
    term, harmonic = 1.0, -2.0 * _EULER + order
    total, weighed = 1.0, harmonic
    while abs(term) > 1e-18:
        term *= -y / (k * (k + order))
        harmonic += 1.0 / k + 1.0 / (k + order)
        total += term
        weighed += term * harmonic
        k += 1.0
    power = 1.0 if order == 0.0 else 0.5 * x
    first = power * total
    if not second:
        return first
    rest = 0.0 if order == 0.0 else 2.0 / x
    return (2.0 * (math.log(x) - _LN_2) * first - rest - power * weighed) / math.pi


def _bessel_between(order: float, x: float, second: bool) -> float:
    """Return the function by the recurrence from high orders down, in which errors decay."""
    above, here, k = 0.0, 1e-200, 2.0 * math.floor(0.5 * x) + 50.0
    whole, even, odd, one = 0.0, 0.0, 0.0, 0.0
    while k > 0.0:
        # Up to one factor, `here` is the value of the even order k, and `above` that of k + 1.
        half = 0.5 * k
        sign = 1.0 if half % 2.0 == 0.0 else -1.0
        whole += 2.0 * here
        even += sign * here / half
        odd += sign * above * (k + 1.0) / (half * (half + 1.0))
        one = 2.0 * k / x * here - above
        above, here = one, 2.0 * (k - 1.0) / x * one - here
        k -= 2.0
    whole += here
    first = (here if order == 0.0 else one) / whole
    if not second:
        return first
    logarithm = math.log(x) - _LN_2 + _EULER
    if order == 0.0:
        return (2.0 * logarithm * first - 4.0 * even / whole) / math.pi
    return 2.0 * ((logarithm - 1.0) * first - (here / x + odd) / whole) / math.pi


def _bessel_far(order: float, x: float, second: bool) -> float:
    """Return the function by its asymptotic series in 1 / x, cut off before the terms begin to
    grow.
    """
    p, q, term, k = 1.0, 0.0, 1.0, 1.0
    while abs(term) > 1e-17 and k < 40.0:
        step = 2.0 * k - 1.0
        term *= (4.0 * order * order - step * step) / (8.0 * x * k)
        phase = k % 4.0
        if phase == 1.0:
            q += term
        elif phase == 2.0:
            p -= term
        elif phase == 3.0:
            q -= term
        else:
            p += term
        k += 1.0
    # The formulas for the sine and cosine of a difference give those of x - pi / 4, or of
    # x - 3 pi / 4, without rounding the difference.
    sine, cosine = math.sin(x), math.cos(x)
    along, across = cosine + sine, sine - cosine
    if order != 0.0:
        along, across = across, -along
    found = p * across + q * along if second else p * along - q * across
    return found / math.sqrt(math.pi * x)


def scaled_modified_bessel_k0(x: float) -> float:
    """Return exp(x) K(x) for K, the modified Bessel function of the second kind of order 0."""
    return bessel_ke(0.0, x)


def scaled_modified_bessel_k1(x: float) -> float:
    """Return exp(x) K(x) for K, the modified Bessel function of the second kind of order 1."""
    return bessel_ke(1.0, x)


def bessel_ke(order: float, x: float) -> float:
    """Return exp(x) K(x) for K of order 0 or 1."""
    if not x >= 0.0:
        return math.nan
    if x == 0.0 or x == math.inf:
        return math.inf if x == 0.0 else 0.0
    if x <= 1.0:
        return math.exp(x) * _bessel_k_near(order, x)
    # The integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0, by the trapezoidal rule. The
    # integrand decays so fast that the rule is exact to exp(-40) if the steps are short enough.
    step = min(0.2, 0.6 / math.sqrt(x))
    total, t = 0.5, step
    while True:
        half = math.sinh(0.5 * t)
        fall = 2.0 * x * half * half
        if fall > 42.0:
            return step * total
        total += math.exp(-fall) * (1.0 if order == 0.0 else math.cosh(t))
        t += step


def _bessel_k_near(order: float, x: float) -> float:
    y, k = 0.25 * x * x, 1.0
    term, harmonic = 1.0, -2.0 * _EULER + order
    total, weighed = 1.0, harmonic
    while term > 1e-18:
        term *= y / (k * (k + order))
        harmonic += 1.0 / k + 1.0 / (k + order)
        total += term
        weighed += term * harmonic
        k += 1.0
    logarithm = math.log(x) - _LN_2
    if order == 0.0:
        return 0.5 * weighed - logarithm * total
    return 1.0 / x + 0.5 * x * (logarithm * total - 0.5 * weighed)


# Airy's function and its derivative at -9, -8 ... 9, from the power series with 60 digits.
_AIRY = (
    -0.022133721547341403, -0.0527050503563862, 0.18428083525050565, -0.3291451736298231,
    0.35076100902411433, -0.07026553294928951, -0.37881429367765806, 0.22740742820168558,
    0.5355608832923521, 0.3550280538878172, 0.13529241631288141, 0.03492413042327438,
    0.006591139357460719, 0.0009515638512048018, 0.00010834442813607442, 9.947694360252889e-06,
    7.492128863997167e-07, 4.6922076160992316e-08, 2.47116843087249e-09,
)  # fmt: skip
_AIRY_SLOPE = (
    -0.9756639809263316, 0.9355609381983065, -0.7710081684101265, 0.3459354872813429,
    0.32719281855444315, -0.7906285753685813, 0.3145837692165988, 0.618259020741691,
    -0.01016056711664521, -0.2588194037928068, -0.1591474412967932, -0.05309038443365363,
    -0.011912976705951319, -0.001958640950204179, -0.0002474138908684625, -2.4765200397034955e-05,
    -2.008150894738792e-06, -1.3414392979067865e-07, -7.480641389658946e-09,
)  # fmt: skip


def airy_ai(x: float) -> float:
    """Return Airy's function Ai: it oscillates below 0 and decays above; 0 at both infinities."""
    if x != x or abs(x) == math.inf:
        return x if x != x else 0.0
    return _airy_near(x) if abs(x) < 9.5 else _airy_far(x)


def _airy_near(x: float) -> float:
    """Return Airy's function by its Taylor series about the nearest integer."""
    place = math.floor(x + 0.5)
    # Three successive Taylor coefficients, from the differential equation.
    before, last, here = 0.0, _AIRY[int(place) + 9], _AIRY_SLOPE[int(place) + 9]
    h = x - place
    total, power, k = last + h * here, h, 2.0
    while k < 40.0:
        before, last, here = last, here, (place * last + before) / (k * (k - 1.0))
        power *= h
        total += power * here
        k += 1.0
    return total


def _airy_far(x: float) -> float:
    """Return Airy's function by its asymptotic series in 1 / zeta, cut off before the terms begin
    to grow.
    """
    root = math.sqrt(abs(x))
    zeta = abs(x) * root * 2.0 / 3.0
    p, q, term, k = 1.0, 0.0, 1.0, 1.0
    while abs(term) > 1e-17 and k < 30.0:
        term *= (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0)
        term /= 216.0 * k * (2.0 * k - 1.0) * zeta
        phase = k % 4.0
        if x > 0.0:
            p += term if phase % 2.0 == 0.0 else -term
        elif phase % 2.0 == 1.0:
            q += term if phase == 1.0 else -term
        else:
            p += term if phase == 0.0 else -term
        k += 1.0
    if x > 0.0:
        return 0.5 * math.exp(-zeta) * p / math.sqrt(math.pi * root)
    # The formulas for the sine and cosine of a difference give those of zeta - pi / 4 without
    # rounding the difference.
    sine, cosine = math.sin(zeta), math.cos(zeta)
    along, across = cosine + sine, sine - cosine
    return (along * p + across * q) / math.sqrt(2.0 * math.pi * root)


# The functions that vector_math compiles with Numba; a function follows the functions that it
# calls.
COMPILED = (
    *(_bessel_near, _bessel_between, _bessel_far, bessel, bessel_j0, bessel_j1, bessel_y0),
    *(bessel_y1, _bessel_k_near, bessel_ke, scaled_modified_bessel_k0, scaled_modified_bessel_k1),
    *(_airy_near, _airy_far, airy_ai),
)
