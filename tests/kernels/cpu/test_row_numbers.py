"""exp and log in kernels along rows, by table and without, against a wider dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.rows import row_numbers
from fastdist.kernels.cpu.rows.row_kernels import row_loop
from fastdist.kernels.cpu.rows.row_steps import KERNELS, Give, Map, Reduce, row

Array = Any
WIDER = {"float32": np.float64, "float64": np.longdouble}
# Two expressions for one value. They must differ, since compiled code is cached by source text.
WAYS = {"by table": "exp(x)", "without": "T(1) * exp(x)"}


def error_in_units(found: Array, exact: Array) -> float:
    """Return the largest error, in units in the last place of the rounded exact value."""
    unit = np.spacing(np.abs(exact.astype(found.dtype))).astype(exact.dtype)
    return float(np.max(np.abs(found.astype(exact.dtype) - exact) / unit))


@pytest.fixture(params=WAYS)
def exp(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "without":
        monkeypatch.setattr(row_numbers, "HAS_TABLES", False)
    text = WAYS[request.param]
    monkeypatch.setitem(KERNELS, text, row("x out", Map("out", text)))

    def run(x: Array) -> Array:
        out = np.empty_like(x)
        row_loop(text, x.dtype.name)((x, out), 1, x.size, 0.0, 0.0)
        return out

    return run


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", WIDER)
def test_exp_is_right_to_about_a_unit_in_the_last_place(exp: Any, dtype: str) -> None:
    lowest, highest = (-103.9, 88.7) if dtype == "float32" else (-744.0, 709.7)
    rng = np.random.default_rng(0)
    for low, high in ((lowest, highest), (-1, 1), (-20, 0)):
        x = rng.uniform(low, high, 100_003).astype(dtype)
        assert error_in_units(exp(x), np.exp(x.astype(WIDER[dtype]))) < 1.1


@pytest.mark.parametrize("dtype", WIDER)
def test_exp_of_what_is_not_finite_or_far_away_is_numpys(exp: Any, dtype: str) -> None:
    far = float(np.finfo(dtype).max)
    numbers = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e5, -1e5, 1e30, -1e30, far, -far]
    x = np.array(numbers * 7, dtype)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(exp(x), np.exp(x))


@pytest.mark.parametrize("dtype", WIDER)
def test_log_is_right_to_a_unit_in_the_last_place_and_at_its_ends(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    steps = Reduce("total", "sum", "x"), Give("out", "log(total)")
    monkeypatch.setitem(KERNELS, "log", row("x out:numbers", *steps))
    ends = np.array([0, -0.0, -1, np.inf, -np.inf, np.nan, 1, np.finfo(dtype).smallest_subnormal])
    rng = np.random.default_rng(0)
    near = np.concatenate([np.exp(rng.uniform(-80, 80, 50_000)), rng.uniform(0.5, 2, 50_000)])
    x = np.concatenate([ends, near]).astype(dtype)
    out = np.empty_like(x)
    row_loop("log", dtype)((x, out), x.size, 1, 0.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(x.astype(WIDER[dtype]))
    np.testing.assert_array_equal(out[:7], exact[:7].astype(dtype))
    assert error_in_units(out[7:], exact[7:]) < 1
