"""Polynomials stay within 3 units in the last place of long double, over the whole range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.language.scalar import parse

WIDE = np.longdouble
UNITS = 3.0
# erfc is a product, and each factor is rounded.
UNITS_OF: dict[str, float] = {"erfc": 5.0}


def sigmoid(x: Any) -> Any:
    e = np.exp(-abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def erf(x: Any) -> Any:
    # Python's erf has an error of at most 1 unit in float64; the bound for float64 allows for it.
    return np.array([math.erf(number) for number in x.astype(np.float64)], WIDE)


def erfc(x: Any) -> Any:
    # The same holds for Python's erfc.
    return np.array([math.erfc(number) for number in x.astype(np.float64)], WIDE)


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "erfc": erfc,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
}


def samples(dtype: str) -> Any:
    """Return numbers of every exponent and sign, special arguments, NaN and inf."""
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**63, 4000, dtype=np.int64)
    every_exponent = (bits & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    if dtype == "float64":
        every_exponent = (bits * 2 + rng.integers(0, 2, 4000)).view(np.float64)
    info = np.finfo(dtype)
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, info.max, -info.max, info.tiny, -info.tiny]
    edges += [info.smallest_subnormal, 1.0, -1.0, 88.72, 88.73, -103.9, -104.0, 709.7, -745.1]
    right_angles = rng.integers(-(10**6), 10**6, 2000) * (np.pi / 2)
    spans = [rng.uniform(-span, span, 4000) for span in (1, 10, 110, 750, 1e5)]
    return np.concatenate([every_exponent, edges, right_angles, *spans]).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from the reference functions, at the edges
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REFERENCES)
def test_function_is_within_three_units_in_the_last_place(name: str, dtype: str) -> None:
    x = samples(dtype)
    result = np.empty_like(x)
    kernel_for(parse(f"{name}(x)", ("x",))).run_large([x], result)
    exact = REFERENCES[name](x.astype(WIDE))
    rounded = exact.astype(dtype)
    finite = np.isfinite(rounded)
    unit = np.spacing(np.abs(rounded[finite])).astype(WIDE)
    errors = np.abs(result[finite].astype(WIDE) - exact[finite]) / unit
    worst = np.argmax(errors)
    found = x[finite][worst], result[finite][worst], rounded[finite][worst]
    assert errors[worst] <= UNITS_OF.get(name, UNITS), found
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    zero = rounded == 0
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(rounded[zero]))


def test_one_far_angle_does_not_spoil_its_neighbours() -> None:
    x = np.linspace(-3, 3, 1000)
    x[500] = 1e300
    result = np.empty_like(x)
    kernel_for(parse("sin(x)", ("x",))).run_large([x], result)
    np.testing.assert_allclose(result, np.sin(x), rtol=1e-15)


def test_angle_may_itself_be_a_sine() -> None:
    x = np.linspace(-1e9, 1e9, 1000)
    result = np.empty_like(x)
    kernel_for(parse("sin(T(3e8) * cos(x))", ("x",))).run_large([x], result)
    np.testing.assert_allclose(result, np.sin(3e8 * np.cos(x)), atol=2e-7)
