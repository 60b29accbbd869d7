"""Orthogonal polynomials and Airy functions across the ranges of their methods, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import fastdist as fd
from fastdist.kernels.cpu.pointwise import bessel, orthogonal_polynomials
from tests.ops.pointwise.pointwise_rows import POLYNOMIALS

AT = np.linspace(-3.0, 3.0, 601)
DEGREES = (0, 1, 2, 3, 10, 60, 127, 128, 129, 200)


@pytest.mark.parametrize("name", [name for name in POLYNOMIALS if not name.startswith("shifted")])
def test_values_are_exact_in_parts_of_how_far_they_swing(name: str) -> None:
    function = getattr(orthogonal_polynomials, name)
    for degree in DEGREES:
        x = AT[::3] if degree > 10 else AT
        expected = POLYNOMIALS[name](x, np.full(x.shape, degree))
        # The amplitude near each argument. It counts as 1 if it is smaller.
        around = np.maximum.accumulate(np.abs(expected[: len(x) // 2 + 1])[::-1])
        swing = np.concatenate(
            [around[::-1], np.maximum.accumulate(np.abs(expected[len(x) // 2 + 1 :]))]
        )
        found = np.array([function(float(one), float(degree)) for one in x])
        assert (np.abs(found - expected) <= 4e-13 * np.maximum(swing, 1.0)).all(), degree


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*POLYNOMIALS, "airy_ai"])
def test_the_compiled_side_is_the_same(name: str) -> None:
    op = getattr(fd.special, name)
    x = fd.linspace(-3, 3, 1 << 15, dtype=fd.float64)
    some = x[::1024]
    degrees = fd.arange(1 << 15, dtype=fd.float64) % 150
    given = (x,) if name == "airy_ai" else (x, degrees)
    apart = (some,) if name == "airy_ai" else (some, degrees[::1024])
    pieces = [op(*one) for one in zip(*apart, strict=True)]
    found = op(*given)[::1024].numpy()
    np.testing.assert_allclose(found, fd.stack(pieces).numpy(), rtol=1e-9, atol=1e-12)


def test_huge_degrees_take_no_longer_and_end_where_numbers_do() -> None:
    inf, huge = math.inf, 1e15
    assert abs(orthogonal_polynomials.chebyshev_polynomial_t(0.5, huge)) <= 1.0
    assert orthogonal_polynomials.chebyshev_polynomial_t(-1.0, huge + 1) == -1.0
    assert orthogonal_polynomials.chebyshev_polynomial_u(1.0, huge) == huge + 1
    assert orthogonal_polynomials.chebyshev_polynomial_w(1.0, huge) == 2 * huge + 1
    assert orthogonal_polynomials.chebyshev_polynomial_t(-1.5, huge + 1) == -inf
    assert orthogonal_polynomials.chebyshev_polynomial_v(inf, 200.0) == inf
    assert orthogonal_polynomials.hermite_polynomial_h(-1e300, 5.0) == -inf
    assert orthogonal_polynomials.laguerre_polynomial_l(1e300, 5.0) == -inf
    assert orthogonal_polynomials.laguerre_polynomial_l(-1e300, huge) == inf
    assert orthogonal_polynomials.legendre_polynomial_p(-1e300, huge) == inf
    assert math.isnan(orthogonal_polynomials.legendre_polynomial_p(0.5, huge))  # too many steps
    # Between the zeros of the polynomial, the sign of a value that overflows is unknown.
    assert math.isnan(orthogonal_polynomials.hermite_polynomial_he(0.5, huge))


def test_no_degree_is_nan_and_one_below_0_gives_0() -> None:
    for name in POLYNOMIALS:
        op = getattr(fd.special, name)
        found = op(0.25, fd.tensor([math.nan, math.inf, -math.inf, -1.0, 0.0, 0.9]))
        np.testing.assert_array_equal(found.numpy(), [math.nan, math.nan, 0.0, 0.0, 1.0, 1.0])
        assert not op(fd.ones(2, requires_grad=True), 3).requires_grad


def test_airy_s_function_is_exact_but_for_the_last_digits_and_ends_in_0() -> None:
    x = np.concatenate([np.linspace(-60.0, 60.0, 1201), np.linspace(-10.0, 10.0, 1003)])
    expected = scipy.special.airy(x)[0]
    found = np.array([bessel.airy_ai(float(one)) for one in x])
    size = np.where(x > 0.0, expected, np.maximum(-x, 1.0) ** -0.25)
    assert (np.abs(found - expected) <= 1e-13 * size).all()
    assert [bessel.airy_ai(one) for one in (math.inf, -math.inf, 1e300)] == [0.0, 0.0, 0.0]
    assert math.isnan(bessel.airy_ai(math.nan))
