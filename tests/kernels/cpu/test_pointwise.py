"""Both implementations of a pointwise kernel agree, for every layout and dtype."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.pointwise.pointwise import (
    CHEAP_LIMIT,
    SMALL_LIMIT,
    SPECIAL_LIMIT,
    PointwiseKernel,
    kernel_for,
)
from fastdist.language.scalar import Body, parse

RATIO = parse("x / (T(1) + abs(y))", ("x", "y"))
CHOICE = parse("where(c, x * y, -abs(x))", ("c", "x", "y"))
SPECIAL = ["nan", "inf", "-inf", "0.0", "-0.0", "1e-42", "3e38", "-1.5", "2.5", "0.5"]
rng = np.random.default_rng(5)
GRID = rng.standard_normal((120, 90)).astype(np.float32)


def both_sides(body: Body, arrays: list[Any], out: Any) -> tuple[Any, Any]:
    """Return the results of NumPy and Numba for these arrays, in arrays with the layout of out."""
    kernel = kernel_for(body)
    small, large = out.copy(order="K"), out
    kernel.run_small(arrays, small)
    kernel.run_large(arrays, large)
    return small, large


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (GRID, GRID),
        (GRID.T, GRID.T),
        (GRID, GRID.T.copy().T),
        (GRID[::2, ::3], GRID[1::2, 2::3]),
        (GRID[::-1], GRID[:, ::-1]),
        (GRID, GRID[0]),
        (GRID, GRID[:, :1]),
        (GRID[:, None, :4], GRID[:, :7, None]),
        (GRID, np.array(2.5, np.float32)),
        (np.array(1.5, np.float32), np.array(2.5, np.float32)),
        (GRID[:0], GRID[:0]),
        (GRID[:, :3].copy(), GRID[0, :3]),
    ],
    ids=[
        "contiguous",
        "transposed",
        "mixed",
        "strided",
        "reversed",
        "row",
        "column",
        "outer",
        "number",
        "0-d",
        "empty",
        "thin",
    ],
)
def test_both_sides_agree_on_this_layout(x: Any, y: Any) -> None:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), np.float32)
    small, large = both_sides(RATIO, [x, y], out)
    np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed"])
def test_both_sides_write_into_this_layout(layout: str) -> None:
    out = {
        "transposed": np.empty((90, 120), np.float32).T,
        "strided": np.empty((240, 270), np.float32)[::2, ::3],
        "reversed": np.empty((120, 90), np.float32)[::-1, ::-1],
    }[layout]
    kernel_for(RATIO).run_large([GRID, GRID[0]], out)
    np.testing.assert_array_equal(out, GRID / (1 + abs(GRID[0])))


def test_input_may_be_the_output() -> None:
    x = GRID.copy()
    kernel_for(RATIO).run_large([x, x], x)
    np.testing.assert_array_equal(x, GRID / (1 + abs(GRID)))


@pytest.mark.parametrize("side", ["run_small", "run_large"])
def test_inputs_may_overlap_the_output(side: str) -> None:
    x = GRID.copy()
    getattr(kernel_for(RATIO), side)([x[:-1], x[1:]], x[1:])
    np.testing.assert_array_equal(x[1:], GRID[:-1] / (1 + abs(GRID[1:])))
    y = GRID[:90].copy()
    getattr(kernel_for(RATIO), side)([y.T, y.T], y)
    np.testing.assert_array_equal(y, (GRID[:90] / (1 + abs(GRID[:90]))).T)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "float32", "float64"]
)
def test_both_sides_agree_in_this_dtype_and_keep_its_wraparound(dtype: str) -> None:
    x = rng.integers(0 if dtype == "uint8" else -128, 127, (60, 80)).astype(dtype)
    c = x > 3
    small, large = both_sides(CHOICE, [c, x, x[0]], np.empty_like(x))
    np.testing.assert_array_equal(small, large)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(large, np.where(c, x * x[0], -abs(x)))


def test_float16_computes_in_float32_and_rounds_once() -> None:
    x = GRID.astype(np.float16)
    wide = x.astype(np.float32)
    expected = (wide / (1 + abs(wide))).astype(np.float16)
    small, large = np.empty_like(x[:9]), np.empty_like(x)
    kernel_for(RATIO).run([x[:9], x[:9]], small)
    kernel_for(RATIO).run([x, x], large)
    np.testing.assert_array_equal(small, expected[:9])
    np.testing.assert_array_equal(large, expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("where(isnan(x), T(7), floor(x) + ceil(x) + trunc(x) + round(x))", "float32"),
        ("copysign(minimum(x, y), maximum(x, y))", "float64"),
        ("sign(x) + rsqrt(y) - reciprocal(x)", "float32"),
        ("pow(x, T(-2)) + pow(y, T(-1)) * pow(x, T(3)) + pow(y, T(0.5))", "float64"),
        ("floor_divide(x, y) * T(3) + remainder(x, y)", "float32"),
        ("fmod(x, y) + hypot(x, y) * atan2(x, y)", "float64"),
    ],
)
def test_both_sides_agree_on_nan_and_inf(text: str, dtype: str) -> None:
    numbers = np.array(SPECIAL, np.float32).astype(dtype)
    x, y = (axis.copy() for axis in np.meshgrid(numbers, numbers))
    small, large = both_sides(parse(text, ("x", "y")), [x, y], np.empty_like(x))
    np.testing.assert_allclose(small, large, rtol=4 * np.finfo(dtype).eps, atol=0)


NUMBERS = np.concatenate([rng.uniform(-3, 3, 500), np.array(SPECIAL, np.float64)])
# test_vector_math.py and the tests above cover the other functions.
ONE_BY_ONE = [
    "abs",
    "sqrt",
    "square",
    "rsqrt",
    "reciprocal",
    "neg",
    "exp2",
    "log2",
    "log10",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("primitive", ONE_BY_ONE)
def test_both_sides_agree_on_this_function(primitive: str) -> None:
    body = parse(f"{primitive}(x)", ("x",))
    small, large = both_sides(body, [NUMBERS], np.empty_like(NUMBERS))
    np.testing.assert_allclose(small, large, rtol=2e-15, atol=1e-15)


@pytest.mark.parametrize("primitive", ["pow", "nextafter", "polygamma"])
def test_both_sides_agree_on_this_function_of_two(primitive: str) -> None:
    x, y = (axis.copy() for axis in np.meshgrid(NUMBERS[-60:], NUMBERS[-60:]))
    body = parse(f"{primitive}(floor(x), y)", ("x", "y"))
    small, large = both_sides(body, [x, y], np.empty_like(x))
    np.testing.assert_allclose(small, large, rtol=2e-14)


@pytest.mark.parametrize(
    "text",
    [
        "logical_and(x > y, isfinite(x))",
        "logical_xor(x == y, signbit(x))",
        "logical_or(isinf(x), logical_not(y))",
    ],
)
def test_both_sides_agree_on_bool_results(text: str) -> None:
    numbers = np.array(SPECIAL, np.float32)
    x, y = (axis.copy() for axis in np.meshgrid(numbers, numbers))
    small, large = both_sides(parse(text, ("x", "y")), [x, y], np.empty(x.shape, bool))
    np.testing.assert_array_equal(small, large)


def test_bool_inputs_count_as_numbers_in_arithmetic() -> None:
    body = parse("(x > T(0)) * g", ("x", "g"))
    small, large = both_sides(body, [GRID, GRID], np.empty_like(GRID))
    np.testing.assert_array_equal(large, np.where(GRID > 0, GRID, GRID * 0))
    np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize("primitive", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("side", ["run_small", "run_large"])
def test_integers_divided_by_zero_raise(primitive: str, side: str) -> None:
    x = np.arange(4)
    kernel = kernel_for(parse(f"{primitive}(x, y)", ("x", "y")))
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError"):
        getattr(kernel, side)([x, x], np.empty_like(x))


def test_integer_power_wraps_and_knows_negative_exponents() -> None:
    power = kernel_for(parse("pow(x, y)", ("x", "y")))
    x = np.array([2, 1, -1, -1, 0, 3], np.int64)
    y = np.array([-1, -5, -3, -2, -1, 41], np.int64)
    np.testing.assert_array_equal(power.small(x, y), [0, 1, -1, 1, 0, 3**41 - 2 * 2**64])
    np.testing.assert_array_equal(power.small(x, np.array(-1)), [0, 1, -1, -1, 0, 0])


def test_sign_of_nan_is_zero_as_in_pytorch() -> None:
    assert kernel_for(parse("sign(x)", ("x",))).small(np.array([np.nan, -2.0])).tolist() == [0, -1]


def test_single_ufunc_body_is_the_ufunc() -> None:
    add = parse("x + y", ("x", "y"))
    assert kernel_for(add).small is np.add
    assert kernel_for(add) is kernel_for(add)
    assert kernel_for(parse("y - x", ("x", "y"))).small(1.0, 3.0) == 2.0


def test_constant_and_plain_bodies_fill_and_copy() -> None:
    one, same = parse("T(1)", ("x", "y")), parse("x", ("x", "y"))
    assert kernel_for(one).small(GRID, GRID[0]).tolist() == np.ones((120, 90)).tolist()
    copy = kernel_for(same).small(GRID, GRID)
    assert copy is not GRID and np.array_equal(copy, GRID)
    small, large = both_sides(one, [GRID, GRID], np.empty_like(GRID))
    assert (small == 1).all() and (large == 1).all()
    small, large = both_sides(parse("T(3)", ()), [], np.empty_like(GRID))
    assert (small == 3).all() and (large == 3).all()


def test_literals_are_worked_out_beforehand() -> None:
    body = parse("x * sqrt(T(2) / T(pi)) + T(1000) ** T(-20)", ("x",))
    expected = np.float32(1) * np.float32((2 / np.pi) ** 0.5)
    assert kernel_for(body).small(np.ones(3, np.float32))[0] == expected
    assert kernel_for(parse("x * T(1000) ** T(20)", ("x",))).small(np.ones(1))[0] == 1e60


def test_size_alone_chooses_the_side(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    for side in ("run_small", "run_large"):
        monkeypatch.setattr(PointwiseKernel, side, lambda *_, side=side: chosen.append(side))
    for size in (0, SMALL_LIMIT, SMALL_LIMIT + 1):
        kernel_for(RATIO).run([np.ones(size), np.ones(size)], np.empty(size))
    assert chosen == ["run_small", "run_small", "run_large"]
    chosen.clear()
    for size in (SMALL_LIMIT + 1, CHEAP_LIMIT, CHEAP_LIMIT + 1):
        kernel_for(parse("x + y", ("x", "y"))).run([np.ones(size)] * 2, np.empty(size))
    assert chosen == ["run_small", "run_small", "run_large"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", [SPECIAL_LIMIT, SPECIAL_LIMIT + 1])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_small_side_of_a_special_function_keeps_shape_and_dtype(size: int, dtype: str) -> None:
    gelu = parse("T(0.5) * x * (T(1) + erf(x * T(0.5 ** 0.5)))", ("x",))
    x = np.linspace(-3, 3, size).astype(dtype).reshape(1, size)
    result = kernel_for(gelu).small(x)
    erf = np.array([math.erf(number / 2**0.5) for number in x[0].tolist()])
    assert result.shape == x.shape and result.dtype == x.dtype
    np.testing.assert_allclose(
        result[0], 0.5 * x[0] * (1 + erf), rtol=0, atol=3 * np.finfo(dtype).eps
    )


def test_two_threads_may_compile_and_run_one_body_at_once() -> None:
    body = parse("x * T(3) - y / T(7)", ("x", "y"))
    x = rng.standard_normal(200_000)
    results = [np.empty_like(x) for _ in range(4)]
    start = threading.Barrier(4)

    def run(out: Any) -> None:
        start.wait(60)
        kernel_for(body).run([x, x], out)

    threads = [threading.Thread(target=run, args=(out,)) for out in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for out in results:
        np.testing.assert_array_equal(out, x * 3 - x / 7)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 2.5, 0.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "text", ["pow(x, e)", "g * (e * pow(where(e == T(0), T(1), x), e - T(1)))"]
)
def test_powers_of_one_number_are_powers_on_both_sides(
    text: str, dtype: str, exponent: float
) -> None:
    size = 3 * SMALL_LIMIT
    x = np.linspace(-3, 3, size).astype(dtype)
    x[:4] = [np.nan, np.inf, -np.inf, 0.0]
    names = ["x", "e"] if text == "pow(x, e)" else ["g", "x", "e"]
    kernel = kernel_for(parse(text, names))
    e = np.array(exponent, dtype)
    given = [x, e] if len(names) == 2 else [np.full(size, 2.0, dtype), x, e]
    large = np.empty(size, dtype)
    kernel.run(given, large)
    parts = [np.empty(SMALL_LIMIT, dtype) for _ in range(3)]
    for i, part in enumerate(parts):
        here = slice(i * SMALL_LIMIT, (i + 1) * SMALL_LIMIT)
        kernel.run([one[here] if one.ndim else one for one in given], part)
    tolerance, least = (2e-3, 1e-6) if dtype == "float16" else (1e-6, 0.0)
    np.testing.assert_allclose(np.concatenate(parts), large, rtol=tolerance, atol=least)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        wanted = wide**exponent if len(names) == 2 else 2 * exponent * wide ** (exponent - 1)
        # As in PyTorch, where powers of 0.5 are computed as square roots.
        power = exponent if len(names) == 2 else exponent - 1
        wanted[2] = np.nan if abs(power) == 0.5 else wanted[2]
        wanted = np.where(np.abs(wanted) > np.finfo(dtype).max, np.sign(wanted) * np.inf, wanted)
    usual = np.isfinite(wanted)
    np.testing.assert_allclose(large[usual], wanted[usual], rtol=tolerance, atol=least)


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan", "signbit"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_predicates_write_into_an_out_with_gaps(name: str, dtype: str) -> None:
    x = np.array([[-1.0, 2.0, -3.0] * 5] * 7)
    if dtype != "int32":
        x[0, 3:6], x[5, 2] = (np.nan, np.inf, -np.inf), np.nan
    given, out = x.astype(dtype), np.ones((7, 45), bool)[:, ::3]
    kernel_for(parse(f"{name}(x)", ["x"])).run([given], out)
    np.testing.assert_array_equal(out, getattr(np, name)(given))
