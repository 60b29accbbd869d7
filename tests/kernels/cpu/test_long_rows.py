"""Compiled kernels along rows, against NumPy in float64: values, gradients, NaN, inf, threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.reduce.repeat import repeat
from fastdist.kernels.cpu.rows import long_rows, row_steps
from fastdist.kernels.cpu.rows.row_steps import Columns, If, Let, Map, Pick, Reduce, Short, row
from fastdist.kernels.cpu.small.call_facts import LIMIT, CallFacts
from fastdist.nn import functional as F
from tests.properties import in_one_test

Array = Any
# Lengths near those of a vector (16), of an iteration (64) and of a block of a sum (2048).
LENGTHS = [1, 3, 16, 17, 63, 64, 65, 100, 2047, 2048 + 65, 40001]
TOLERANCES = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 4e-15}
DTYPES = list(TOLERANCES)


def sample(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def rows_of(length: int) -> tuple[int, int]:
    """Return a shape with more elements than kernels for small arrays accept."""
    return LIMIT // length + 2, length


def facts_of(numbers: Any, *arrays: Any) -> CallFacts:
    shapes = tuple(None if a is None else a.shape for a in arrays)
    dtypes = tuple(None if a is None else a.dtype for a in arrays)
    gapless = tuple(a is not None and a.flags.c_contiguous for a in arrays)
    return CallFacts(shapes, dtypes, gapless, arrays[0].shape, arrays[0].dtype, numbers, None)


def close(found: Array, expected: Array, dtype: Any, times: float = 1) -> None:
    bound = TOLERANCES[dtype] * times
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(found, expected, atol=bound * scale, rtol=bound)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x: Array) -> Array:
    top = x.max(-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(-1, keepdims=True)))[..., 0]


def layer_norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def ties(x: Array) -> Array:
    best = x == x.max(-1, keepdims=True)
    return best / best.sum(-1, keepdims=True)


def by_layer_norm(g: Array, x: Array) -> Array:
    normal, scale = layer_norm(x), 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    even, along = g.mean(-1, keepdims=True), (g * normal).mean(-1, keepdims=True)
    return (g - even - normal * along) * scale


def by_root(x: Array) -> Array:
    return 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1)


def by_softmax(g: Array, x: Array) -> Array:
    y = softmax(x)
    return y * (g - (g * y).sum(-1, keepdims=True))


# By name: the call, the same computation in NumPy with float64, and its gradient, computed from g
# and x. If the last axis is reduced, g has length 1 on that axis.
ROWS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x: x.sum(-1), lambda x: x.sum(-1), lambda g, x: g + 0 * x),
    "mean": (lambda x: x.mean(-1), lambda x: x.mean(-1), lambda g, x: g / x.shape[-1] + 0 * x),
    "amax": (lambda x: x.amax(-1), lambda x: x.max(-1), lambda g, x: g * ties(x)),
    "amin": (lambda x: x.amin(-1), lambda x: x.min(-1), lambda g, x: g * ties(-x)),
    "var": (
        lambda x: x.var(-1, correction=0), lambda x: x.var(-1),
        lambda g, x: g * 2 * (x - x.mean(-1, keepdims=True)) / x.shape[-1],
    ),
    "std": (
        lambda x: (x.var(-1, correction=0) + 1).sqrt(), lambda x: np.sqrt(x.var(-1) + 1),
        lambda g, x: g * (x - x.mean(-1, keepdims=True)) / x.shape[-1]
        / np.sqrt(x.var(-1, keepdims=True) + 1),
    ),
    "norm": (
        lambda x: x.norm(2, -1), lambda x: np.sqrt((x * x).sum(-1)),
        lambda g, x: g * x / np.sqrt((x * x).sum(-1, keepdims=True)),
    ),
    "logsumexp": (lambda x: x.logsumexp(-1), logsumexp, lambda g, x: g * softmax(x)),
    "softmax": (lambda x: x.softmax(-1), softmax, by_softmax),
    "log_softmax": (
        lambda x: x.log_softmax(-1), lambda x: x - logsumexp(x)[..., None],
        lambda g, x: g - softmax(x) * g.sum(-1, keepdims=True),
    ),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[-1:]), layer_norm, by_layer_norm),
    "rms norm": (
        lambda x: F.rms_norm(x, x.shape[-1:], eps=0.1), lambda x: x * by_root(x),
        lambda g, x: (g - x * (g * x).mean(-1, keepdims=True) * by_root(x) ** 2) * by_root(x),
    ),
    "cross entropy": (
        lambda x: F.cross_entropy(x, fd.arange(len(x)) % x.shape[-1], reduction="none"),
        lambda x: logsumexp(x) - x[np.arange(len(x)), np.arange(len(x)) % x.shape[-1]],
        lambda g, x: g * (softmax(x) - np.eye(x.shape[-1])[np.arange(len(x)) % x.shape[-1]]),
    ),
}  # fmt: skip
LONGEST_TABLE = 2048 + 65  # for cross entropy, whose expected gradient needs a square matrix


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@in_one_test("length", LENGTHS)
@pytest.mark.parametrize("name", ROWS)
def test_a_kernel_and_its_gradient_are_the_formulas(name: str, length: int, dtype: Any) -> None:
    call, value, gradient = ROWS[name]
    if name == "cross entropy":
        length = min(length, LONGEST_TABLE)
    x = sample(rows_of(length), dtype, 0)
    wide = x.astype(np.float64)
    leaf = fd.tensor(x, requires_grad=True)
    out = call(leaf)
    # A sum of many numbers of both signs is small compared to the numbers, so allow a larger error.
    close(out.detach().numpy(), value(wide), dtype, 5)
    g = sample(tuple(out.shape), dtype, 1)
    out.backward(fd.tensor(g))
    spread = g if g.ndim == 2 else g[:, None]
    assert leaf.grad is not None
    if name == "layer norm" and length < 16:
        return  # divides by a standard deviation that may be almost zero
    close(leaf.grad.numpy(), gradient(spread.astype(np.float64), wide), dtype, 10)


WHOLE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x: x.sum(), np.sum),
    "mean": (lambda x: x.mean(), np.mean),
    "amax": (lambda x: x.amax(), np.max),
    "amin": (lambda x: x.amin(), np.min),
    "var": (lambda x: x.var(), lambda x: x.var(ddof=1)),
    "std": (lambda x: x.std(), lambda x: x.std(ddof=1)),
    "norm": (lambda x: x.norm(), lambda x: np.sqrt((x * x).sum())),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [LIMIT + 1, 1 << 18, (1 << 18) + 1, 300_001])
@pytest.mark.parametrize("name", WHOLE)
def test_all_numbers_are_reduced_by_parts(name: str, count: int, dtype: Any) -> None:
    call, value = WHOLE[name]
    x = sample((count,), dtype, 0) + dtype.type(10)
    found = call(fd.tensor(x))
    assert found.shape == () and found.numpy().dtype == dtype
    close(found.numpy(), value(x.astype(np.float64)), dtype)
    assert call(fd.tensor(x.reshape(1, -1))).item() == found.item()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_short_rows_are_reduced_several_at_a_time_to_the_same_bits(name: str, dtype: Any) -> None:
    x = sample((9001, 43), dtype, 0)
    x[8, 40], x[9, 2], x[10, 42], x[11], x[9000, 0] = math.nan, math.inf, -math.inf, -math.inf, 100
    call, value, _ = ROWS[name]
    threads, found = fd.get_num_threads(), []
    try:
        for count in (1, 2):
            fd.set_num_threads(count)
            found.append(call(fd.tensor(x)).numpy())
    finally:
        fd.set_num_threads(threads)
    np.testing.assert_array_equal(*found)
    # A row has the same bits whether it is computed alone or among other rows.
    np.testing.assert_array_equal(call(fd.tensor(x[500:1500])).numpy(), found[0][500:1500])
    np.testing.assert_allclose(found[0], value(x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_a_sums_first_calls_may_come_from_several_threads_at_once() -> None:
    x, dtype = sample((64, 300), np.float32, 0), np.dtype(np.float32)
    expected = long_rows.result_by("sum_of_rows", (64,), dtype, 64, 300, 1.0)(x)
    found: list[bool] = []
    for _ in range(20):
        fresh, begin = long_rows.result_by("sum_of_rows", (64,), dtype, 64, 300, 1.0), Barrier(4)

        def run(make: Any = fresh, begin: Barrier = begin) -> None:
            begin.wait(60)
            found.extend(np.array_equal(make(x), expected) for _ in range(50))

        threads = [Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 20 * 4 * 50
    assert all(found)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*ROWS, "all"])
def test_any_number_of_threads_makes_the_same_bits(name: str) -> None:
    x = fd.tensor(sample((301, 700), np.float32, 0), requires_grad=True)
    call = ROWS[name][0] if name in ROWS else (lambda x: x.var() + x.sum() + x.norm())
    threads, found = fd.get_num_threads(), []
    try:
        for count in (1, 2):
            fd.set_num_threads(count)
            out, x.grad = call(x), None
            out.backward(fd.ones_like(out))
            assert x.grad is not None
            found.append((out.detach().numpy(), x.grad.numpy()))
    finally:
        fd.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_gives_nan_to_the_rows_that_have_no_other_answer(dtype: Any) -> None:
    x = np.zeros((rows_of(40)[0], 40), dtype)
    x[0, 3], x[1, 39], x[2, 7], x[3], x[4, ::2] = (
        math.nan,
        -math.nan,
        math.inf,
        -math.inf,
        -math.inf,
    )
    out, log = (one(fd.tensor(x)).numpy() for one in (ROWS["softmax"][0], ROWS["log_softmax"][0]))
    for made in (out, log):
        assert np.isnan(made[:4]).all()
        assert not np.isnan(made[4:]).any()
    np.testing.assert_array_equal(out[4], np.tile([0, dtype.type(0.05)], 20).astype(dtype))
    assert (log[4, ::2] == -math.inf).all()
    np.testing.assert_allclose(out[5], 1 / 40, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("place", [0, 17, 63, 64, 99])
def test_nan_and_infinities_come_out_of_reductions_as_they_should(place: int, dtype: Any) -> None:
    x = sample(rows_of(100), dtype, 0)
    x[0, place], x[1, place], x[2, place], x[3, place], x[4] = (
        math.nan, -math.nan, math.inf, -math.inf, -math.inf,
    )  # fmt: skip
    t = fd.tensor(x)
    nan, inf = math.nan, math.inf
    wanted = {
        "sum": (nan, nan, inf, -inf, -inf),
        "mean": (nan, nan, inf, -inf, -inf),
        "amax": (nan, nan, inf, x[3].max(), -inf),
        "amin": (nan, nan, x[2].min(), -inf, -inf),
        "var": (nan,) * 5,
        "norm": (nan, nan, inf, inf, inf),
        "logsumexp": (nan, nan, inf, None, -inf),
    }
    for name, values in wanted.items():
        found = ROWS[name][0](t).numpy()
        assert np.isfinite(found[5:]).all()
        for one, value in zip(found, values, strict=False):
            if value is not None:
                np.testing.assert_equal(one, value)
    assert np.isfinite(t.logsumexp(1).numpy()[3])


def test_what_parts_make_of_nan_and_infinities_is_silent() -> None:
    x = np.ones(300_000, np.float32)
    x[0], x[-1] = math.inf, -math.inf
    found = {name: call(fd.tensor(x)).item() for name, (call, _) in WHOLE.items()}
    assert found["amax"] == found["norm"] == math.inf and found["amin"] == -math.inf
    assert all(math.isnan(found[name]) for name in ("sum", "mean", "var", "std"))
    x[1] = math.nan
    assert all(math.isnan(call(fd.tensor(x)).item()) for call, _ in WHOLE.values())
    same = fd.ones(300, 50, requires_grad=True)
    weight = fd.ones(50, requires_grad=True)
    F.layer_norm(same, (50,), weight, eps=0.0).sum().backward()
    assert weight.grad is not None and weight.grad.isnan().all()


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_the_gradient_of_an_extreme_of_all_is_shared_by_its_ties(name: str) -> None:
    for extreme, shared in ((9.0, True), (math.nan, name in ("max", "min"))):
        x = fd.zeros(300, 50, requires_grad=True)
        with fd.no_grad():
            x[7, 1] = x[290, 49] = -extreme if name.endswith("min") else extreme
        getattr(x, name)().backward(fd.tensor(6.0))
        expected = np.zeros((300, 50), np.float32)
        expected[7, 1] = expected[290, 49] = 3
        assert x.grad is not None
        np.testing.assert_array_equal(
            x.grad.numpy(), expected if shared else np.full((300, 50), math.nan)
        )


def test_exp_keeps_its_smallest_results_and_its_ends() -> None:
    x = np.zeros((50, 100), np.float32)
    x[:, 1:] = -np.linspace(80, 110, 99, dtype=np.float32)
    out = fd.tensor(x).softmax(1).numpy()
    expected = softmax(x.astype(np.float64))
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1.5e-45)
    assert (out[:, 1:][expected[:, 1:] > 1e-44] > 0).all()


@pytest.mark.parametrize("length", [5, 33, 1000, 100_000])
@pytest.mark.parametrize("about", [0, 1000, -1e6])
def test_layer_norm_is_right_to_1e_6_at_any_length_and_place(length: int, about: float) -> None:
    x = (sample(rows_of(length), np.float32, 0) + np.float32(about)).astype(np.float32)
    x[:, 0] += 1  # so that no row has only equal numbers
    found = F.layer_norm(fd.tensor(x), (length,)).numpy()
    expected = layer_norm(x.astype(np.float64))
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


@in_one_test("length", [33, 1000, 100_000])
@pytest.mark.parametrize("deviations", [2.9, 3.1, 100, 1e6, -1e6])
def test_layer_norm_and_var_are_right_where_the_first_number_is_far_from_the_others(
    deviations: float, length: int
) -> None:
    x = sample(rows_of(length), np.float32, 0)
    x[:, 0] = 3 * deviations
    x[1] = 5
    wide = x.astype(np.float64)
    found = F.layer_norm(fd.tensor(x), (length,)).numpy()
    # Compare the first element and the others separately, since the others may be almost zero.
    for part in (slice(None), slice(1, None)):
        expected = layer_norm(wide)[:, part]
        assert np.abs(found[:, part] - expected).max() < 1e-6 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(fd.tensor(x).var(1).numpy(), wide.var(1, ddof=1), rtol=1e-6)


@in_one_test("about", [0, 10, 1000])
@in_one_test("rows", [1, 2, 7])
@pytest.mark.parametrize("length", [2, 3, 5, 7, 16, 31, 100, 1000])
def test_layer_norm_of_few_rows_is_right_to_1e_6(length: int, rows: int, about: float) -> None:
    x = (sample((rows, length), np.float32, 0) + np.float32(about)).astype(np.float32)
    found = F.layer_norm(fd.tensor(x), (length,)).numpy()
    expected = layer_norm(x.astype(np.float64))
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()


ALIKE: dict[str, Any] = {
    "two numbers": lambda random, shape: random.choice([7.1, 9.3], shape),
    "bytes": lambda random, shape: random.integers(0, 256, shape) / 255,
    "beside a far one": lambda random, shape: np.where(
        np.arange(shape[1]), 0.7, np.full(shape, 1e5)
    ),
    "far from 0": lambda random, shape: random.standard_normal(shape) * 9 + 1e7,
}


@pytest.mark.parametrize("name", ALIKE)
@in_one_test("shape", [(1, 17), (3, 300), (3, 1001), (5, 7), (70, 300)])
def test_rows_of_numbers_that_are_rounded_in_one_direction_have_exact_deviations(
    shape: Any, name: str
) -> None:
    x = ALIKE[name](np.random.default_rng(5), shape).astype(np.float32)
    given, wide = fd.tensor(x), x.astype(np.float64)
    expected = layer_norm(wide)
    found = F.layer_norm(given, (shape[1],)).numpy()
    assert np.abs(found - expected).max() < 1e-6 * np.abs(expected).max()
    for correction in (0, 1):
        variance = wide.var(1, ddof=correction)
        found = given.var(1, correction=correction).numpy()
        np.testing.assert_allclose(found, variance, rtol=1e-6)
        found = given.t().contiguous().std(0, correction=correction).numpy()
        np.testing.assert_allclose(found, np.sqrt(variance), rtol=2e-6)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(700, 33), (17, 300), (70, 64), (40, 700)], ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["weight and bias", "neither"])
def test_layer_norm_and_its_gradients_are_the_formulas(
    dtype: Any, shape: tuple[int, int], affine: bool
) -> None:
    eps = 1e-5
    x, g = sample(shape, dtype, 0) + dtype.type(5), sample(shape, dtype, 1)
    weight, bias = (sample(shape[1:], dtype, i) if affine else None for i in (2, 3))
    facts = facts_of((eps,), x, weight, bias)
    run, gradients = long_rows.layer_norm(facts), long_rows.layer_norm_gradient(facts)
    assert run is not None and gradients is not None
    by_all, *_ = gradients
    assert by_all is not None
    wide = x.astype(np.float64)
    mean, deviation = wide.mean(1, keepdims=True), np.sqrt(wide.var(1, keepdims=True) + eps)
    normal, scaled = (wide - mean) / deviation, g if weight is None else g * weight.astype(float)
    expected = normal if weight is None or bias is None else normal * weight + bias
    slope = scaled - scaled.mean(1, keepdims=True)
    slope = (slope - normal * (scaled * normal).mean(1, keepdims=True)) / deviation
    out, *others = run(x, weight, bias)
    for found, true in zip((out, *others), (expected, mean, deviation), strict=True):
        close(found, true, dtype, 3)
    by_input, by_weight, by_bias = by_all(g, others, x, weight, (True, True, True))
    close(by_input, slope, dtype, 10)
    close(by_weight, (g * normal).sum(0), dtype, 10)
    close(by_bias, g.astype(float).sum(0), dtype)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("asking", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1)])
@in_one_test("rows", [7, 300])
@in_one_test("length", [100, 300, 700])
def test_layer_norm_gives_gradients_to_those_alone_who_ask(
    length: int, rows: int, asking: tuple[int, ...]
) -> None:
    shapes = [(rows, length), (length,), (length,)]
    g, *arrays = (sample(shape, np.float32, i) for i, shape in enumerate([shapes[0], *shapes]))
    found = []
    for who in (asking, (0, 1, 2)):
        x, weight, bias = (fd.tensor(a, requires_grad=i in who) for i, a in enumerate(arrays))
        F.layer_norm(x, (length,), weight, bias).backward(fd.tensor(g))
        found.append([x.grad, weight.grad, bias.grad])
    for i, (one, of_all) in enumerate(zip(*found, strict=True)):
        assert (one is not None) == (i in asking)
        if one is not None:
            assert fd.equal(one, of_all)


@pytest.mark.parametrize("length", [100, 700])
def test_gradients_of_layer_norm_have_the_same_bits_on_any_number_of_threads(length: int) -> None:
    shapes = [(300_000 // length, length), (length,), (length,)]
    g, *arrays = (sample(shape, np.float32, i) for i, shape in enumerate([shapes[0], *shapes]))
    threads, found = fd.get_num_threads(), []
    try:
        for count in (1, 2):
            fd.set_num_threads(count)
            x, weight, bias = (fd.tensor(a, requires_grad=True) for a in arrays)
            F.layer_norm(x, (length,), weight, bias).backward(fd.tensor(g))
            found.append([x.grad, weight.grad, bias.grad])
    finally:
        fd.set_num_threads(threads)
    assert all(fd.equal(one, two) for one, two in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_weight_of_rms_norm_gets_its_gradient(dtype: Any) -> None:
    x, g, weight = sample((700, 33), dtype, 0), sample((700, 33), dtype, 1), sample((33,), dtype, 2)
    leaf = fd.tensor(weight, requires_grad=True)
    out = F.rms_norm(fd.tensor(x), (33,), leaf, 0.1)
    out.backward(fd.tensor(g))
    normal = x * by_root(x.astype(np.float64))
    close(out.detach().numpy(), normal * weight, dtype, 3)
    assert leaf.grad is not None
    close(leaf.grad.numpy(), (g * normal).sum(0), dtype, 10)


def test_a_gradient_that_is_spread_out_or_turned_is_read_as_it_is() -> None:
    x = sample((130, 64), np.float32, 0)
    found = long_rows.mapped_gradient(facts_of((1,), x), "softmax_gradient")
    assert found is not None and found[0] is not None
    gradient = found[0]
    turned = np.asfortranarray(sample((130, 64), np.float32, 1))
    np.testing.assert_array_equal(gradient(turned, x), gradient(np.ascontiguousarray(turned), x))
    spread = np.broadcast_to(np.float32(1), x.shape)
    np.testing.assert_array_equal(gradient(spread, x), gradient(np.ones_like(x), x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_what_repeats_numbers_along_its_last_axes_is_written_by_a_loop(
    kept: int, dtype: Any
) -> None:
    shape = (5, 7, 1100)
    numbers = sample(shape[:kept], dtype, 0).reshape(shape[:kept] + (1,) * (3 - kept))
    for given in (numbers, numbers[::-1] if kept else numbers):
        x, out = np.broadcast_to(given, shape), np.zeros(shape, dtype)
        assert repeat(x, out) == (kept < 3)
        np.testing.assert_array_equal(out, x if kept < 3 else 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("repeated", [1, 2])
def test_rows_that_are_repeated_along_the_first_axes_are_written_by_a_loop(
    repeated: int, dtype: Any
) -> None:
    shape = (5, 7, 11)
    row = sample(shape[repeated:], dtype, 0)
    for given in (row, row[..., ::-1]):
        x, out = np.broadcast_to(given, shape), np.zeros(shape, dtype)
        assert repeat(x, out)
        np.testing.assert_array_equal(out, x)
    turned = np.broadcast_to(sample((11, 7), dtype, 0).T[..., None], (7, 11, 5))
    out = np.zeros(turned.shape, dtype)
    assert repeat(turned, out)
    np.testing.assert_array_equal(out, turned)
    alone = np.lib.stride_tricks.as_strided(row, (9, 1), (0, row.itemsize))
    assert not repeat(alone, np.zeros((9, 1), dtype))


def test_what_is_not_repeated_into_gapless_memory_of_its_dtype_is_left_alone() -> None:
    x = np.broadcast_to(np.float32(2), (40, 100))
    for out in (
        np.zeros((40, 100)),
        np.zeros((100, 40), np.float32).T,
        np.zeros((40, 200), "f")[:, ::2],
    ):
        assert not repeat(x, out)
        assert not out.any()
    assert not repeat(x[:1], np.zeros((40, 100), np.float32))
    assert not repeat(np.broadcast_to(True, (40, 100)), np.zeros((40, 100), bool))


@pytest.mark.one_in(3)
def test_long_layer_norm_can_be_differentiated_twice() -> None:
    x = fd.tensor(sample((130, 64), np.float64, 0), requires_grad=True)
    once = fd.nn.functional.layer_norm(x, (64,)).pow(3).sum()
    (slope,) = fd.autograd.grad(once, x, create_graph=True)
    (plain,) = fd.autograd.grad(fd.nn.functional.layer_norm(x, (64,)).pow(3).sum(), x)
    np.testing.assert_allclose(slope.detach().numpy(), plain.numpy(), atol=1e-12)
    slope.square().sum().backward()
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all()


@pytest.mark.one_in(3)
def test_steps_share_a_loop_until_one_needs_a_number_of_it() -> None:
    from fastdist.kernels.cpu.rows.row_code import loops_of

    made = row(
        "x out target:places",
        Reduce("top", "top", "x"),
        Map("out", "exp(x - top)"),
        Reduce("total", "sum", "out"),
        Let("share", "T(1) / total"),
        Let("twice", "share + share"),
        Pick("chosen", "x", "target"),
        If("chosen > share", (Let("share", "chosen"),)),
        Map("out", "out * share"),
    )
    top, exp, total, share, twice, chosen, again, last = made.steps
    found = [[top], [exp, total], [share, twice], [chosen], [again], [last]]
    assert list(loops_of(made.steps)) == found


@pytest.mark.parametrize("name", row_steps.KERNELS)
def test_every_operand_of_a_kernel_is_named_in_its_steps(name: str) -> None:
    kernel = row_steps.KERNELS[name]
    if isinstance(kernel, Short):
        return  # the kernel has no source steps
    said = repr(kernel.texts if isinstance(kernel, Columns) else kernel.steps)
    # An operand of kind `outside` is used by every step that takes indices.
    assert all(operand in said for operand, kind in kernel.operands if kind != "outside")
