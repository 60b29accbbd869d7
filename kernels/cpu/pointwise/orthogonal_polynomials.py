"""Orthogonal polynomials of one number, as in special.py.

The fraction of a degree is dropped; for a degree below 0 the polynomials are 0.

Source  Abramowitz and Stegun: recurrences of table 22.7; Chebyshev's polynomials as functions of an
        angle, 22.3.15 and 22.3.16, with hyperbolic instead of trigonometric functions for |x| > 1
"""

from __future__ import annotations

import math

# Chebyshev's polynomials of larger degrees than this are computed from an angle, so that the number
# of iterations is bounded.
_BY_STEPS = 128.0
# The other polynomials take one step per degree. For larger degrees than this they are NaN, unless
# they overflow within this number of steps.
_MOST_STEPS = 1e6


def chebyshev_polynomial_t(x: float, n: float) -> float:
    """Return Chebyshev's polynomial of the first kind."""
    return _chebyshev(1.0, x, n)


def chebyshev_polynomial_u(x: float, n: float) -> float:
    """Return Chebyshev's polynomial of the second kind."""
    return _chebyshev(2.0, x, n)


def chebyshev_polynomial_v(x: float, n: float) -> float:
    """Return Chebyshev's polynomial of the third kind."""
    return _chebyshev(3.0, x, n)


def chebyshev_polynomial_w(x: float, n: float) -> float:
    """Return Chebyshev's polynomial of the fourth kind."""
    return _chebyshev(4.0, x, n)


def _chebyshev(kind: float, x: float, n: float) -> float:
    if n != n or n == math.inf:
        return math.nan
    n = float(math.trunc(n)) if abs(n) < 1e18 else n
    if n <= 0.0:
        return 1.0 if n == 0.0 else 0.0
    sign = 1.0
    if x < 0.0:
        # T(-x) = s T(x), U(-x) = s U(x), V(-x) = s W(x) and W(-x) = s V(x), where s = (-1)^n.
        x = -x
        sign = 1.0 if n % 2.0 == 0.0 else -1.0
        kind = kind if kind < 3.0 else 7.0 - kind
    if n > _BY_STEPS:
        return sign * _chebyshev_of_angle(kind, x, n)
    below = 1.0
    here = 2.0 * x
    if kind == 1.0:
        here = x
    elif kind == 3.0:
        here -= 1.0
    elif kind == 4.0:
        here += 1.0
    k = 1.0
    while k < n and here < math.inf:
        below, here = here, 2.0 * x * here - below
        k += 1.0
    return sign * here


def _chebyshev_of_angle(kind: float, x: float, n: float) -> float:
    """Return Chebyshev's polynomial for x >= 0, by trigonometric functions for x < 1 and hyperbolic
    functions for x > 1.
    """
    turns, scale = n, 1.0
    if kind == 2.0:
        turns, scale = n + 1.0, math.sqrt(abs(1.0 - x)) * math.sqrt(1.0 + x)
    elif kind == 3.0:
        turns, scale = n + 0.5, math.sqrt(0.5 + 0.5 * x)
    elif kind == 4.0:
        turns, scale = n + 0.5, math.sqrt(0.5 * abs(1.0 - x))
    if x < 1.0:
        angle = turns * math.acos(x)
        odd = kind == 2.0 or kind == 4.0
        return (math.sin(angle) if odd else math.cos(angle)) / scale
    if x == 1.0:
        return turns if kind == 2.0 else 2.0 * turns if kind == 4.0 else 1.0
    if x != x or x == math.inf:
        return x
    angle = turns * math.acosh(x)
    if angle < 20.0:
        odd = kind == 2.0 or kind == 4.0
        return (math.sinh(angle) if odd else math.cosh(angle)) / scale
    angle -= math.log(2.0 * scale)
    return math.exp(angle) if angle < 709.78 else math.inf


def hermite_polynomial_h(x: float, n: float) -> float:
    """Return the physicist's Hermite polynomial."""
    return _by_steps(1.0, x, n)


def hermite_polynomial_he(x: float, n: float) -> float:
    """Return the probabilist's Hermite polynomial."""
    return _by_steps(2.0, x, n)


def laguerre_polynomial_l(x: float, n: float) -> float:
    """Return Laguerre's polynomial."""
    return _by_steps(3.0, x, n)


def legendre_polynomial_p(x: float, n: float) -> float:
    """Return Legendre's polynomial."""
    return _by_steps(4.0, x, n)


def _by_steps(kind: float, x: float, n: float) -> float:
    if n != n or n == math.inf:
        return math.nan
    n = float(math.trunc(n)) if abs(n) < 1e18 else n
    if n <= 0.0:
        return 1.0 if n == 0.0 else 0.0
    below, here, k = 1.0, x, 1.0
    if kind == 1.0:
        here = 2.0 * x
    elif kind == 3.0:
        here = 1.0 - x
    while k < n and k < _MOST_STEPS and abs(here) < math.inf:
        if kind == 1.0:
            above = 2.0 * (x * here - k * below)
        elif kind == 2.0:
            above = x * here - k * below
        elif kind == 3.0:
            above = here + (k * (here - below) - x * here) / (k + 1.0)
        else:
            above = x * here + k * (x * here - below) / (k + 1.0)
        below, here = here, above
        k += 1.0
    if k == n and here == here:
        return here
    return math.nan if x != x or abs(here) < math.inf else _far_out(kind, x, n)


def _far_out(kind: float, x: float, n: float) -> float:
    """Return the result of a recurrence that has overflowed. If x is beyond all zeros of the
    polynomial, this is infinity with the sign of the leading term. If x is between zeros, the sign
    is unknown, and the result is NaN.
    """
    if kind == 3.0:
        x, last = -x, 0.0 if x < 0.0 else 4.0 * n + 2.0
    elif kind == 4.0:
        last = 1.0
    else:
        last = math.sqrt(4.0 * n + 2.0)
    if abs(x) < last:
        return math.nan
    return -math.inf if x < 0.0 and n % 2.0 == 1.0 else math.inf


# The functions that vector_math compiles with Numba; a function follows the functions that it
# calls.
COMPILED = (
    *(_chebyshev_of_angle, _chebyshev, chebyshev_polynomial_t, chebyshev_polynomial_u),
    *(chebyshev_polynomial_v, chebyshev_polynomial_w, _far_out, _by_steps, hermite_polynomial_h),
    *(hermite_polynomial_he, laguerre_polynomial_l, legendre_polynomial_p),
)
