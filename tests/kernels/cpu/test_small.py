"""Kernels for small arrays, against the ordinary kernels that they replace."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.backend import backend_of
from fastdist.kernels.cpu.fft import transforms
from fastdist.kernels.cpu.small import (
    channel_norms,
    convolution,
    indexing,
    losses,
    second_gradients,
    sorting,
    windows,
)
from fastdist.kernels.cpu.small.call_facts import GRADIENTS, KERNELS, TERMS, CallFacts
from fastdist.kernels.cpu.small.kernels import LATER, small_gradients, small_kernel
from tests.properties import in_one_test

INF, NAN = math.inf, math.nan
LATER_MODULES = (
    *(transforms, second_gradients, losses, sorting, windows),
    *(channel_norms, convolution, indexing),
)
EXTREMES = np.array(
    [
        [1.0, -2.0, 3.0, 0.5],
        [NAN, 1.0, 2.0, 3.0],
        [INF, 1.0, 2.0, 3.0],
        [-INF, 1.0, 2.0, 3.0],
        [-INF, -INF, -INF, -INF],
        [500.0, -500.0, 0.0, 499.0],
        [INF, -INF, 0.0, 1.0],
    ]
)
REDUCING = ("sum", "mean", "amax", "amin")
AXES = [((5, 4), (1,)), ((5, 4), (0,)), ((5, 4), (0, 1)), ((2, 3, 4), (2,)), ((2, 3, 4), (0, 1))]
AXES += [((2, 3, 4), (1,)), ((2, 3, 4), (1, 2)), ((7,), (0,)), ((), ()), ((3, 20), (1,))]


def facts_of(
    arrays: Any, shape: Any, dtype: Any, numbers: Any, view_shape: Any = None
) -> CallFacts:
    return CallFacts(
        tuple(None if a is None else a.shape for a in arrays),
        tuple(None if a is None else a.dtype for a in arrays),
        tuple(a is not None and a.flags.c_contiguous for a in arrays),
        shape,
        np.dtype(dtype),
        numbers,
        view_shape,
    )


def ordinary(name: str, arrays: Any, kinds: Any, numbers: Any) -> list[np.ndarray]:
    outs = [np.empty(shape, dtype) for shape, dtype in kinds]
    backend_of("cpu").kernel(name)(*arrays, *outs, *numbers)
    return outs


def shortened(name: str, arrays: Any, kinds: Any, numbers: Any) -> list[np.ndarray] | None:
    """Return the small kernel's result; warnings are errors, and inputs must not change."""
    (shape, dtype), *others = kinds
    run = small_kernel(name, facts_of(arrays, shape, dtype, numbers))
    if run is None:
        return None
    kept = [None if a is None else a.copy() for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(*arrays)
    for before, after in zip(kept, arrays, strict=True):
        np.testing.assert_array_equal(before, after)
    found = list(found) if others else [found]
    for (shape, dtype), one in zip(kinds, found, strict=True):
        assert one.__class__ is np.ndarray and one.shape == shape and one.dtype == dtype
        assert not any(np.may_share_memory(one, a) for a in arrays if a is not None)
    return found


def assert_same(name: str, arrays: Any, kinds: Any, numbers: Any = ()) -> None:
    found = shortened(name, arrays, kinds, numbers)
    assert found is not None, f"{name} has no small kernel for this"
    expected = ordinary(name, arrays, kinds, numbers)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)


def sample(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.one_in(5)
@in_one_test("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axes"), AXES)
@pytest.mark.parametrize("name", REDUCING)
def test_reductions_are_the_ordinary_ones(name: str, shape: Any, axes: Any, dtype: Any) -> None:
    x = sample(shape, dtype)
    kept = tuple(n for i, n in enumerate(shape) if i not in axes)
    found = shortened(f"reduce.reductions.{name}", [x], [(kept, dtype)], (axes,))
    if found is not None:
        (expected,) = ordinary(f"reduce.reductions.{name}", [x], [(kept, dtype)], (axes,))
        np.testing.assert_allclose(found[0], expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", REDUCING)
def test_reductions_of_nan_and_infinities_are_the_ordinary_ones(name: str) -> None:
    x = EXTREMES.astype(np.float32)
    assert_same(f"reduce.reductions.{name}", [x], [((7,), np.float32)], ((1,),))
    assert_same(f"reduce.reductions.{name}", [x], [((), np.float32)], ((0, 1),))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.2, 10.0, 200.0])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((5, 4), (1,)), ((3, 40), (1,)), ((2, 3, 4), (1, 2)), ((7,), (0,)), ((4, 1), (1,)),
     ((5, 4), (0, 1)), ((4, TERMS), (1,))],
)  # fmt: skip
def test_logsumexp_of_short_rows_and_its_gradient(
    shape: Any, axes: Any, scale: float, dtype: Any
) -> None:
    x = (sample(shape, dtype) * scale).astype(dtype)
    kept = shape[: len(shape) - len(axes)]
    assert_same("reduce.reductions.logsumexp", [x], [(kept, dtype)], (axes,))
    (gradient,) = small_gradients(
        "reduce.reductions.logsumexp", facts_of([x], kept, np.dtype(dtype), (axes,))
    ) or (None,)
    assert gradient is not None
    (out,) = ordinary("reduce.reductions.logsumexp", [x], [(kept, dtype)], (axes,))
    g = sample(kept, dtype)
    places = (..., *[None] * len(axes))
    expected = g[places] * np.exp(x - out[places])
    found = gradient(g, out, x)
    assert found.shape == shape and found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=2e-6)


def test_logsumexp_of_short_rows_keeps_tails_infinities_and_keepdim() -> None:
    x = np.array([[3.0, -40.0], [0.5, 0.25]])
    (found,) = (
        shortened("reduce.reductions.logsumexp", [x - 3], [((2,), np.float64)], ((1,),)) or ()
    )
    assert found[0] == np.log1p(np.exp(-43.0)) > 0
    np.testing.assert_allclose(found[1], np.logaddexp(-2.5, -2.75), rtol=1e-15)
    for dtype in (np.float32, np.float64):
        assert_same(
            "reduce.reductions.logsumexp", [EXTREMES.astype(dtype)], [((7,), dtype)], ((1,),)
        )
    run = small_kernel(
        "reduce.reductions.logsumexp", facts_of([x], (2,), np.float64, ((1,),), (2, 1))
    )
    assert run is not None and run(x).shape == (2, 1)


@pytest.mark.parametrize("name", [*REDUCING, "var", "norm", "logsumexp"])
def test_what_is_empty_strided_or_of_another_dtype_is_left_alone(name: str) -> None:
    more = {"var": (1.0,), "norm": (2.0,)}.get(name, ())
    axes = (0, 1) if name == "norm" else (1,)
    shape = () if name == "norm" else (3,)
    left = [sample((3, 0)), sample((4, 3)).T, sample((3, 4)).astype(np.int32)]
    left += [sample((3, 4)).astype(np.float16)]
    for x in left:
        assert (
            shortened(f"reduce.reductions.{name}", [x], [(shape, x.dtype)], (axes, *more)) is None
        )


def test_sums_of_many_terms_keep_numpy_s_order() -> None:
    x = sample((2, TERMS + 1))
    assert shortened("reduce.reductions.sum", [x], [((2,), np.float32)], ((1,),)) is None


@pytest.mark.parametrize("n", [7, 64, 128, 129, 510, 1000, 1021, 1024])
@pytest.mark.parametrize("columns", [False, True])
def test_sums_of_many_numbers_that_are_alike_are_exact(n: int, columns: bool) -> None:
    shape, axis = ((n, 3), 0) if columns else ((3, n), 1)
    x = np.full(shape, 0.1, np.float32)
    (total,) = shortened("reduce.reductions.sum", [x], [((3,), np.float32)], ((axis,),)) or ()
    np.testing.assert_allclose(total, x.sum(axis, np.float64), 6e-7)
    if not columns:
        (shares,) = shortened("nn.softmax.softmax", [x], [(shape, np.float32)], (1,)) or ()
        np.testing.assert_allclose(shares, 1 / n, 4e-7)


@pytest.mark.parametrize(("n", "columns"), [(1025, 3), (1301, 3), (1365, 3), (2047, 2), (4093, 1)])
def test_sums_of_few_columns_are_exact_however_long(n: int, columns: int) -> None:
    x = fd.full((n, columns), 0.1)
    for name, expected in (("sum", np.float32(0.1).astype(float) * n), ("mean", 0.1)):
        np.testing.assert_allclose(getattr(x, name)(0).numpy(), [expected] * columns, 6e-7)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    "shape",
    [(3, 655, 2), (2, 510, 3), (1, 1551, 2), (16, 128, 2), (4, 64, 16), (2, 5, 100, 4),
     (18, 466, 33), (3, 30_000, 3), (4, 256, 1024), (2, 2, 70, 64), (1, 1, 9000), (2, 4500, 1)],
)  # fmt: skip
def test_sums_means_and_norms_over_middle_axes_are_exact(
    shape: tuple[int, ...], keepdim: bool
) -> None:
    alike, drawn = np.full(shape, 0.1, np.float32), sample(shape).astype(np.float32)
    axes = tuple(range(1, len(shape) - 1))
    for x in (alike, np.abs(drawn)):
        wide, given = x.astype(np.float64), fd.tensor(x)
        sums = wide.sum(axes, keepdims=keepdim)
        roots = np.sqrt((wide * wide).sum(axes, keepdims=keepdim))
        means = sums / math.prod(shape[1:-1])
        for found, expected in (
            (given.sum(axes, keepdim=keepdim), sums),
            (given.mean(axes, keepdim=keepdim), means),
            (fd.linalg.vector_norm(given, dim=axes, keepdim=keepdim), roots),
        ):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found.numpy(), expected, 1e-6)


@pytest.mark.parametrize("shape", [(600, 3), (1301, 3), (1965, 2), (6864, 7), (1000, 20), (150, 4)])
def test_norms_and_sums_of_columns_are_exact_as_they_may_lie(shape: tuple[int, int]) -> None:
    x = fd.full(shape, 0.1)
    one = np.float64(np.float32(0.1))
    wide = one * shape[0]
    np.testing.assert_allclose(x.norm(dim=0).numpy(), math.sqrt(wide * one), 1e-6)
    np.testing.assert_allclose(x.sum(0).numpy(), wide, 1e-6)
    for found in (x.t().sum(1), x[:, 1:].sum(0)):
        np.testing.assert_allclose(found.numpy(), wide, 2e-6 if shape[0] > 4096 else 1e-6)
    np.testing.assert_allclose(x[::2].sum(0).numpy(), one * -(-shape[0] // 2), 1e-6)
    for order in (1, 3):
        sums = shape[0] * one**order
        found = fd.linalg.vector_norm(x, order, dim=0, keepdim=True)
        assert found.shape == (1, shape[1])
        np.testing.assert_allclose(found.numpy(), sums ** (1 / order), 2e-6)


def test_nan_and_infinities_stay_in_their_place_in_sums_over_a_middle_axis() -> None:
    x = np.full((3, 130, 2), 3e38, np.float32)
    x[0] = 1
    x[1, :, 0], x[1, 5, 0], x[1, 6, 1], x[1, 7, 1] = 2, math.nan, math.inf, -math.inf
    found = fd.tensor(x).sum(1).numpy()
    assert found[0].tolist() == [130, 130] and np.isnan(found[1]).all() and np.isinf(found[2]).all()


@pytest.mark.parametrize("n", [64, 65, 509, 1000, 1024])
def test_gradients_of_a_bias_are_as_exact_as_sums(n: int) -> None:
    for columns in (3, 100):
        x, g = fd.full((n, columns), 0.1), fd.full((n, columns), 0.1)
        bias = fd.zeros(columns, requires_grad=True)
        (x + bias).backward(g)
        fd.nn.functional.linear(x, fd.eye(columns), bias).backward(g)
        assert bias.grad is not None
        np.testing.assert_allclose(bias.grad.numpy(), 0.2 * n, 6e-7)


def test_keepdim_and_places_are_seen_in_their_shape() -> None:
    x = EXTREMES.astype(np.float32)
    for name in (
        "reduce.reductions.sum",
        "reduce.reductions.amax",
        "reduce.reductions.argmax",
        "reduce.reductions.max_along",
    ):
        axis = 1 if name in ("reduce.reductions.argmax", "reduce.reductions.max_along") else (1,)
        facts = facts_of([x], (7,), np.float32, (axis,), (7, 1))
        run = small_kernel(name, facts)
        assert run is not None
        found = run(x)
        for one in found if isinstance(found, tuple) else (found,):
            assert one.shape == (7, 1)


@pytest.mark.parametrize("name", ["max_along", "min_along"])
def test_extremes_come_with_their_places(name: str) -> None:
    x = EXTREMES.astype(np.float32)
    assert_same(f"reduce.reductions.{name}", [x], [((7,), np.float32), ((7,), np.int64)], (1,))


@in_one_test("dtype", [np.float64, np.float32, np.int64, np.uint8])
@in_one_test("name", ["max_along", "min_along"])
def test_extremes_along_any_axis_come_with_their_places(name: str, dtype: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NaN becomes an integer
        x = np.stack([EXTREMES, EXTREMES[::-1], np.roll(EXTREMES, 1, 1)]).astype(dtype)
    for given, axes in ((x, 3), (x[0], 2), (x[0, 1], 1)):
        for axis in range(axes):
            kept = tuple(n for i, n in enumerate(given.shape) if i != axis)
            kinds = [(kept, np.dtype(dtype)), (kept, np.int64)]
            assert_same(f"reduce.reductions.{name}", [given], kinds, (axis,))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes_are_the_ordinary_ones(name: str) -> None:
    x = EXTREMES.astype(np.float32)
    assert_same(f"reduce.reductions.{name}", [x], [((7,), np.int64)], (1,))
    assert_same(f"reduce.reductions.{name}", [x], [((), np.int64)], (None,))


@pytest.mark.parametrize("x", [np.zeros(5, bool), np.ones((2, 3), bool), np.eye(3, dtype=bool)])
def test_any_and_all_of_bools(x: np.ndarray) -> None:
    for name in ("any", "all"):
        assert_same(
            f"reduce.reductions.{name}", [x], [((), np.dtype(bool))], (tuple(range(x.ndim)),)
        )


def test_var_norm_and_cumsum_are_the_ordinary_ones() -> None:
    x = sample((6, 5))
    assert_same("reduce.reductions.var", [x], [((6,), np.float32)], ((1,), 1.0))
    assert_same("reduce.reductions.norm", [x], [((), np.float32)], ((0, 1), 2.0))
    for axis in (0, 1):
        assert_same("reduce.scan.cumsum", [x], [((6, 5), np.float32)], (axis,))


@in_one_test("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 4), (3, 17), (2, 3, 4), (4,), (1, 1), (4, 1)])
@in_one_test("scale", [1.0, 10.0, 200.0])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_the_ordinary_one(name: str, scale: float, shape: Any, dtype: Any) -> None:
    x = (sample(shape, dtype) * scale).astype(dtype)
    assert_same(f"nn.softmax.{name}", [x], [(shape, dtype)], (len(shape) - 1,))


def test_the_logarithm_of_what_is_nearly_certain_keeps_its_digits() -> None:
    tops = np.linspace(0.1, 6.0, 400)
    x = np.stack([tops, -tops], 1)
    exact = -np.log1p(np.exp(x[:, 1] - x[:, 0]))
    for one, right in zip(x.astype(np.float32), exact, strict=True):
        found = shortened("nn.softmax.log_softmax", [one], [((2,), np.float32)], (0,))
        assert abs(float(found[0][0]) - right) < 1.7e-7
    alone = np.array([[0.3], [0.7]], np.float32)
    (found,) = shortened("nn.softmax.log_softmax", [alone], [((2, 1), np.float32)], (1,))
    assert found.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_nan_and_infinities_is_the_ordinary_one(name: str) -> None:
    x = EXTREMES.astype(np.float32)
    assert_same(f"nn.softmax.{name}", [x], [(x.shape, np.float32)], (1,))


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(5, 4), (3, 40)])
def test_layer_norm_is_the_ordinary_one(shape: Any, weighted: bool) -> None:
    x, row = sample(shape), sample(shape[1:])
    given = [x, row if weighted else None, row * 2 if weighted else None]
    column = ((shape[0], 1), np.float32)
    assert_same(
        "nn.normalization.layer_norm", given, [(shape, np.float32), column, column], (1e-5,)
    )


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_cross_entropy_is_the_ordinary_one(reduction: int, scale: float) -> None:
    x, target = sample((6, 4)) * np.float32(scale), np.array([0, 1, 2, 3, 3, 0])
    numbers = (reduction,)
    kinds = [
        ((6,) if reduction == 0 else (), np.float32),
        (x.shape, np.float32),
        ((6,), np.float32),
    ]
    found = shortened("nn.cross_entropy.rows", [x, target], kinds, numbers)
    expected = ordinary("nn.cross_entropy.rows", [x, target], kinds, numbers)
    assert found is not None
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-6)
    (alone,) = shortened("nn.cross_entropy.losses", [x, target], kinds[:1], numbers) or ()
    assert alone.tobytes() == found[0].tobytes()
    # Weights and totals may share a factor per row, which cancels in the gradient.
    shares = [weights / totals[:, None] for _, weights, totals in (found, expected)]
    np.testing.assert_allclose(shares[0], shares[1], rtol=3e-6)


def test_cross_entropy_of_nan_and_infinities_is_the_ordinary_one() -> None:
    x, target = EXTREMES.astype(np.float32), np.array([0, 1, 2, 0, 1, 0, 1])
    kinds = [((7,), np.float32), (x.shape, np.float32), ((7,), np.float32)]
    found = shortened("nn.cross_entropy.rows", [x, target], kinds, (0,))
    expected = ordinary("nn.cross_entropy.rows", [x, target], kinds, (0,))
    assert found is not None
    np.testing.assert_allclose(found[0], expected[0])


def test_indexing_and_copies_are_the_ordinary_ones() -> None:
    x, places = sample((6, 5)), np.array([5, 0, 0, 3])
    assert_same("index.indexing.select", [x, places], [((4, 5), np.float32)], (0,))
    assert_same("index.indexing.select", [x, places[1:]], [((6, 3), np.float32)], (1,))
    column = np.array([[4, 0], [1, 1], [2, 3]])
    assert_same("index.indexing.gather", [x, column], [((3, 2), np.float32)], (1,))
    assert_same("shape.copying.cast", [x], [((6, 5), np.float32)])
    assert_same("shape.copying.cast", [x.T], [((5, 6), np.float32)])
    assert_same("shape.copying.cast", [EXTREMES], [((7, 4), np.int64)])


@pytest.mark.parametrize("places", [[0, 6], [-1, 0]])
def test_places_outside_are_refused_as_ever(places: list[int]) -> None:
    x, index = sample((6, 6)), np.array(places)
    for name, given, shape in (
        ("select", index, (2, 6)),
        ("gather", index[:, None], (2, 1)),
    ):
        axis = 0 if name == "select" else 1
        facts = facts_of([x, given], shape, np.float32, (axis,))
        run = small_kernel(f"index.indexing.{name}", facts)
        assert run is not None
        with pytest.raises(IndexError, match=r"index -?\d is out of bounds for dimension"):
            run(x, given)


def test_gradients_of_sums_repeat_what_came_in_any_strides() -> None:
    x, g = sample((5, 4)), sample((2, 5))[0]
    (repeat,) = (
        small_gradients("reduce.reductions.sum", facts_of([x], (5,), np.float32, ((1,),))) or ()
    )
    assert repeat is not None
    np.testing.assert_array_equal(repeat(g), np.repeat(g[:, None], 4, 1))
    np.testing.assert_array_equal(
        repeat(sample((5, 2))[:, 0]), np.repeat(sample((5, 2))[:, :1], 4, 1)
    )
    assert not repeat(g).flags.writeable


def test_a_bias_without_axes_gets_the_sum_of_all() -> None:
    x, weight, bias = sample((5, 4)), sample((3, 4)), np.zeros((), np.float32)
    facts = facts_of([x, weight, bias], (5, 3), np.float32, ())
    found = small_gradients("linalg.product.linear", facts)
    assert found is not None and found[2] is not None
    g = sample((5, 3))
    np.testing.assert_allclose(found[2](g), g.sum(), rtol=1e-6)


def test_every_small_kernel_stands_in_for_one_that_exists() -> None:
    for name in {*KERNELS, *GRADIENTS}:
        assert callable(backend_of("cpu").kernel(name))


def test_what_is_loaded_later_is_loaded_for_its_names() -> None:
    later = {module.__name__: 0 for module in LATER_MODULES}
    for name, maker in [*KERNELS.items(), *GRADIENTS.items()]:
        found = [module for text, module in LATER.items() if text in name]
        home = str(maker.__module__)
        assert found == [home.removeprefix("fastdist.kernels.cpu.")] * (home in later)
        if home in later:
            later[home] += 1
    assert min(later.values()) > 0


@in_one_test("dtype", [np.float32, np.int16, bool, np.complex64])
def test_rolled_and_flipped_numbers_are_the_ordinary_ones(dtype: Any) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for given in (x, x.transpose(2, 0, 1)):
        kinds = [(given.shape, np.dtype(dtype))]
        for axes in ((0,), (1, 2), (0, 1, 2)):
            assert_same("shape.copying.flip", [given], kinds, (axes,))
        for numbers in (((5,), None), ((-1,), (1,)), ((1, 30), (0, 2))):
            assert_same("shape.copying.roll", [given], kinds, numbers)


@in_one_test("dtype", [np.float32, np.int16, bool, np.complex64])
def test_a_vector_on_a_diagonal_is_the_ordinary_one(dtype: Any) -> None:
    for shape in ((4, 4), (3, 5), (5, 3)):
        for offset in range(-shape[0], shape[1] + 1):
            x = np.arange(1, 1 + np.eye(*shape)[:].diagonal(offset).size).astype(dtype)
            kinds = [(shape, np.dtype(dtype))]
            assert_same("shape.copying.place_diagonal", [x], kinds, (offset, 0, 1))


@in_one_test("dtype", [np.float32, np.int64])
def test_gathered_numbers_are_the_ordinary_ones(dtype: Any) -> None:
    x = np.arange(60).reshape(3, 4, 5).astype(dtype)
    for given, shape in ((x, (2, 4, 3)), (x[0], (4, 5)), (x[0, 0], (7,))):
        for axis in range(given.ndim):
            index = np.arange(math.prod(shape)).reshape(shape) % given.shape[axis]
            cut = tuple(slice(n) if i != axis else slice(None) for i, n in enumerate(given.shape))
            kinds = [(index[cut].shape, np.dtype(dtype))]
            assert_same("index.indexing.gather", [given, index[cut]], kinds, (axis,))


@in_one_test("dtype", [np.float32, np.int64, np.float16, np.int8])
def test_triangles_are_the_ordinary_ones(dtype: Any) -> None:
    x = np.arange(1, 31).reshape(2, 3, 5).astype(dtype)
    for diagonal in (-9, -1, 0, 2, 9):
        for upper in (False, True):
            kinds = [(x.shape, np.dtype(dtype))]
            assert_same("shape.copying.triangle", [x], kinds, (diagonal, upper))
