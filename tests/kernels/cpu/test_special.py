"""Special functions agree with known values and with each other."""

from __future__ import annotations

import math

import pytest

from fastdist.kernels.cpu.pointwise.special import (
    digamma,
    erfinv,
    igamma,
    igammac,
    lgamma,
    polygamma,
)

EULER_GAMMA = 0.5772156649015329


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (1.0, -EULER_GAMMA),
        (0.5, -EULER_GAMMA - 2 * math.log(2)),
        (-0.5, 2 - EULER_GAMMA - 2 * math.log(2)),
        (1e10, math.log(1e10) - 0.5e-10),
        (0.0, -math.inf),
        (-0.0, math.inf),
        (-3.0, math.nan),
        (math.inf, math.inf),
        (-math.inf, math.nan),
        (math.nan, math.nan),
        # Close to the poles, from mpmath with 60 digits.
        (-1e-10, 9999999999.422785),
        (-1e-15, 999999999999999.4),
        (-1e-17, 1e17),
        (-1e-20, 1e20),
        (-1e-30, 1e30),
        (-1e-308, 1e308),
        (-5e-324, math.inf),
        (-1 - 1e-9, 999999917.6824201),
        (-1 + 1e-9, -1000000027.8591479),
        (-3 - 1e-13, 10007999171935.691),
        (-3 + 1e-13, -10007999171933.18),
        (-7 - 2.0**-49, 562949953421314.0),
        (-2.25, 4.158583564657972),
    ],
)
def test_digamma_knows_these_values(x: float, expected: float) -> None:
    assert digamma(x) == pytest.approx(expected, rel=4e-15, nan_ok=True)


@pytest.mark.parametrize("x", [0.3, 1.2, 1.461, 1.55, 4.7, 9.99, -2.3])
def test_digamma_keeps_its_recurrence(x: float) -> None:
    assert digamma(x + 1) - digamma(x) == pytest.approx(1 / x, rel=1e-14)


@pytest.mark.parametrize(
    ("n", "x", "expected"),
    [
        (1.0, 1.0, math.pi**2 / 6),
        (1.0, 0.5, math.pi**2 / 2),
        (3.0, 1.0, math.pi**4 / 15),
        (2.0, 1.0, -2.404113806319188570799),
        (1.0, -0.5, math.pi**2 / 2 + 4),
        (0.0, 1.0, -EULER_GAMMA),
        (1.0, 0.0, math.inf),
        (2.0, 0.0, -math.inf),
        (1.0, math.inf, 0.0),
        (1.0, math.nan, math.nan),
        (0.5, 1.0, math.nan),
        (1.0, 1e-200, math.inf),
        (2.0, 1e-300, -math.inf),
        (2.0, -1e-300, math.inf),
        (1.0, -1e-5, 1e10 + math.pi**2 / 6 + 1e-5 * 2.404113806319188570799),
        (1.0, 1e-5, 1e10 + math.pi**2 / 6 - 1e-5 * 2.404113806319188570799),
        (1.0, -1e-20, 1e40),
        (1.0, -1 - 1e-9, 9.999998345192786e17),
        (1.0, -1 + 1e-9, 1.0000000565638653e18),
        (2.0, -3 - 1e-13, 2.0048033433894417e39),
        # So far below 0 that k + 0.5 can just be represented. A loop must not take that many steps.
        (1.0, -(2.0**52) + 0.5, math.pi**2),
        (2.0, -(2.0**52) + 0.5, 0.0),
    ],
)
def test_polygamma_knows_these_values(n: float, x: float, expected: float) -> None:
    assert polygamma(n, x) == pytest.approx(expected, rel=4e-15, abs=1e-30, nan_ok=True)


@pytest.mark.parametrize("x", [1e-300, 1e-5, 0.3, -0.49, 0.5, 0.9, -0.9999, 1 - 1e-9])
def test_erfinv_inverts_erf(x: float) -> None:
    # Near 1 erf is flat, so compare the distance to 1.
    y = erfinv(x)
    assert math.erf(y) == pytest.approx(x, rel=1e-15)
    assert math.erfc(abs(y)) == pytest.approx(1 - abs(x), rel=4e-15)


@pytest.mark.parametrize(
    ("x", "expected"), [(1.0, math.inf), (-1.0, -math.inf), (1.5, math.nan), (math.nan, math.nan)]
)
def test_erfinv_is_infinite_at_the_ends_and_nan_beyond(x: float, expected: float) -> None:
    assert erfinv(x) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("x", [0.0, -0.0, -1.0, -7.0, math.inf, -math.inf, 1e306])
def test_lgamma_is_infinite_at_poles_and_beyond_float64(x: float) -> None:
    assert lgamma(x) == math.inf


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (-1e-20, 46.051701859880914),
        (-1 - 1e-9, 20.72326575378326),
        (-1 + 1e-9, 20.72326586565113),
        (-3 - 1e-13, 28.14264633712461),
        (-7 - 2.0**-49, 25.4390504863719),
        (-100.75, -365.7084850179313),
    ],
)
def test_lgamma_knows_these_values_beside_its_poles(x: float, expected: float) -> None:
    assert lgamma(x) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("a", "x"), [(1e20, 501.0), (1e17, 1.0), (1e300, 1e-300)])
def test_incomplete_gamma_far_below_a_large_a_is_nothing(a: float, x: float) -> None:
    assert (igamma(a, x), igammac(a, x)) == (0.0, 1.0)
