"""NumPy and the compiled loop give the same bits for every exact kernel along rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.index.indices import ALL_INSIDE
from fastdist.kernels.cpu.rows.numpy_twins import exp_in_sum_of, exp_of, twin
from fastdist.kernels.cpu.rows.row_kernels import row_loop
from fastdist.kernels.cpu.rows.small_row_steps import SMALL
from fastdist.kernels.cpu.rows.small_tables import table

BAND = 32
SHAPES = [(1, 1), (3, 7), (8, 8), (70, 130), (33, 9), (1, 4096), (2, 1203), (33, 1)]
# Rows with NaN and infinity, a row in which one share is everything, rows of equal numbers, and
# rows of numbers whose squares overflow float32.
STRANGE = [
    *[(one, 1.0) for one in (0.0, np.nan, np.inf, -np.inf, 60.0, 1e30)],
    *[(0.0, 30.0), (np.inf, 30.0), (0.0, 0.0)],
]


def operand(
    kind: str, shape: tuple[int, int], bands: int, dtype: str, strange: float, scale: float
) -> Any:
    rows, n = shape
    drawn = np.random.default_rng(rows)
    if kind == "places":
        return drawn.integers(0, n, rows)
    if kind == "outside":
        return ALL_INSIDE.copy()
    if kind == "table":
        return table(n)
    if kind == "sum":
        return np.zeros((), dtype)
    if kind == "numbers":
        return drawn.uniform(0.5, 2.0, rows).astype(dtype)
    turns = turns_of(rows)
    shapes = {"rows": shape, "bands": (bands, n), "columns": (n,), "turn_numbers": (turns,)}
    shapes["group_numbers"] = (rows // turns,)
    found = drawn.standard_normal(shapes.get(kind, (turns, n)))
    if kind == "rows" and strange != 0.0:
        found[rows // 2, n // 3] = strange
    with np.errstate(all="ignore"):
        return (found * scale).astype(dtype)


def turns_of(rows: int) -> int:
    """Return a number of turns that divides the number of rows: 2, 3 or 5, or else 1."""
    return next((turns for turns in (2, 3, 5) if rows % turns == 0), 1)


def bits(array: Any) -> Any:
    """Return an array's bits with all NaNs made equal, since the bits of NaN are unspecified."""
    if array.dtype.kind == "f":  # integers have no NaN
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.view(f"i{array.itemsize}")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SMALL)
def test_both_sides_of_a_kernel_make_the_same_bits(name: str, dtype: str) -> None:
    kernel = SMALL[name]
    for rows, n in SHAPES:
        count = -(-rows // BAND) if kernel.has_bands else rows
        turns = float(turns_of(rows))
        told = (float(rows), float(BAND)) if kernel.has_bands else (0.37, turns)
        if kernel.has_groups:
            told = turns, turns
        by_numpy = twin(kernel, np.dtype(dtype), count, n, *told)
        for strange, scale in STRANGE:
            given = [
                operand(kind, (rows, n), count, dtype, strange, scale)
                for _, kind in kernel.operands
            ]
            ours, theirs = ([one.copy() for one in given] for _ in range(2))
            by_numpy(tuple(ours))
            row_loop(name, dtype)(tuple(theirs), count, n, *told)
            for (operand_name, _), one, other in zip(kernel.operands, ours, theirs, strict=True):
                assert np.array_equal(bits(one), bits(other)), (
                    f"{operand_name} of {rows} x {n} with {strange}, times {scale}"
                )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_place_that_a_row_does_not_have_is_reported_by_both_sides(dtype: str) -> None:
    reported = []
    for run in (twin(SMALL["small_cross_entropy"], np.dtype(dtype), 3, 4, 0.0, 0.0), None):
        x, losses, totals = (np.ones(shape, dtype) for shape in ((3, 4), 3, 3))
        wrong = ALL_INSIDE.copy()
        operands = x, np.array([1, 4, -2]), losses, x.copy(), totals, wrong, table(4)
        if run is None:
            row_loop("small_cross_entropy", dtype)(operands, 3, 4, 0.0, 0.0)
        else:
            run(operands)
        reported.append((wrong.item(), losses.tobytes()))
    assert reported[0] == reported[1]
    assert reported[0][0] == -2


@pytest.mark.parametrize(("dtype", "end"), [(np.float32, 87.0), (np.float64, 708.0)])
def test_exp_of_single_operations_is_within_two_units_in_the_last_place(
    dtype: Any, end: float
) -> None:
    x = np.linspace(-end, end, 20001).astype(dtype)
    expected = np.exp(x.astype(np.longdouble))
    off = np.abs(exp_of(np.dtype(dtype), False)(x).astype(np.longdouble) / expected - 1)
    assert off.max() < 2 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_single_operations_keeps_its_ends(dtype: Any) -> None:
    exp = exp_of(np.dtype(dtype), False)
    found = exp(np.array([np.inf, -np.inf, np.nan, 0.0, -1e9, 1e9], dtype)).tolist()
    assert found[0] == found[5] == np.inf
    assert found[1] == found[4] == 0.0
    assert np.isnan(found[2]) and found[3] == 1.0


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -87.0), (np.float64, -708.0)])
def test_a_term_of_a_sum_is_off_in_proportion_to_its_exponent(dtype: Any, least: float) -> None:
    exp, eps = exp_in_sum_of(np.dtype(dtype)), np.finfo(dtype).eps
    x = np.linspace(least, 0.0, 20001).astype(dtype)
    off = np.abs(exp(x).astype(np.longdouble) / np.exp(x.astype(np.longdouble)) - 1)
    assert np.all(off < (2 + np.abs(x)) * eps)
    strange = exp(np.array([0.0, -np.inf, 2 * least, np.nan], dtype))
    assert strange[0] == 1.0 and np.isnan(strange[3])
    assert np.all(strange[1:3] < 4 * np.finfo(dtype).tiny)
