"""Bessel functions across the ranges of their methods, compared with SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import fastdist as fd
from fastdist.kernels.cpu.pointwise import bessel

# Use only arguments for which the error of SciPy's phase is smaller than the tolerance.
AT = np.concatenate([np.geomspace(1e-300, 0.01, 30), np.linspace(0.02, 60, 1999)])
BESIDE = {
    bessel.bessel_j0: scipy.special.j0,
    bessel.bessel_j1: scipy.special.j1,
    bessel.bessel_y0: scipy.special.y0,
    bessel.bessel_y1: scipy.special.y1,
    bessel.scaled_modified_bessel_k0: scipy.special.k0e,
    bessel.scaled_modified_bessel_k1: scipy.special.k1e,
}


@pytest.mark.parametrize(("function", "theirs"), BESIDE.items())
def test_values_are_exact_but_for_the_last_digits(
    function: Callable[[float], float], theirs: Any
) -> None:
    with np.errstate(over="ignore"):
        expected = theirs(AT)
    found = np.array([function(float(x)) for x in AT])
    # The errors of oscillating functions are relative to their amplitude near the argument.
    size = np.maximum(np.abs(expected), np.minimum(1.0, AT**-0.5) if theirs(40.0) < 0.15 else 0.0)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert (np.abs(found - expected)[finite] <= 2e-14 * size[finite]).all()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", BESIDE)
def test_the_compiled_side_is_the_same(function: Callable[[float], float]) -> None:
    op = getattr(fd.special, function.__name__)
    x = fd.linspace(-1, 50, 1 << 15, dtype=fd.float64)
    some = [op(piece) for piece in x[::1024]]
    np.testing.assert_allclose(op(x)[::1024].numpy(), fd.stack(some).numpy(), rtol=1e-12)


def test_nothing_is_there_below_0_and_waves_end_in_0() -> None:
    inf = float("inf")
    assert [bessel.bessel_y0(0.0), bessel.bessel_y1(0.0)] == [-inf, -inf]
    assert [bessel.bessel_ke(0.0, 0.0), bessel.bessel_ke(1.0, inf)] == [inf, 0.0]
    assert [bessel.bessel_j0(-inf), bessel.bessel_j1(inf), bessel.bessel_y1(inf)] == [0.0] * 3
    below = [bessel.bessel_y0(-1.0), bessel.bessel_y1(-1.0), bessel.bessel_ke(0.0, -1.0)]
    assert np.isnan(below).all()
