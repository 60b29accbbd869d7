"""CUDA reductions except sums and means, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import bfloat16
from fastdist.kernels.cuda.reduce import reductions
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("reduce.reductions")

REAL = ["float64", "float32", "float16"]
WHOLE = ["int64", "int32", "int16", "int8", "uint8", "bool"]
EXACT = ["prod", "amax", "amin", "all", "any", "count_nonzero", "argmax", "argmin"]
# Shapes that give one chunk of a few lanes or of a full block, many chunks, or many adjacent
# results.
SHAPES = [(3, 5, 7), (2, 700), (2, 20001), (20001, 2), (70, 3), (1, 1), (600,)]
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3}


def sample(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    numbers = rng.integers(-9, 10, shape) if np.dtype(dtype).kind in "iu" else rng.random(shape)
    shifted: np.ndarray = numbers - 0.5 * (np.dtype(dtype).kind == "f")
    return shifted.astype(dtype)


def result_dtype(name: str, dtype: Any) -> Any:
    if name in ("all", "any"):
        return np.dtype("bool")
    return np.dtype("int64") if name in ("count_nonzero", "argmax", "argmin") else np.dtype(dtype)


def axes_of(name: str, shape: tuple[int, ...]) -> list[Any]:
    one = list(range(len(shape)))
    if name in ("argmax", "argmin"):
        return [*one, None, -1]
    return [*[(axis,) for axis in one], tuple(one), (-1,)]


def room(x: np.ndarray, axes: Any, dtype: Any) -> np.ndarray:
    axes = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    gone = {axis % x.ndim for axis in axes}
    return np.empty([n for axis, n in enumerate(x.shape) if axis not in gone], dtype)


def check(
    monkeypatch: pytest.MonkeyPatch, name: str, x: np.ndarray, axes: Any, *numbers: float
) -> None:
    """Compare the CUDA kernel with the CPU kernel, for three orders of threads."""
    dtype = result_dtype(name, x.dtype)
    expected, found = room(x, axes, dtype), []
    getattr(cpu, name)(x.copy(), expected, axes, *numbers)
    for seed in SEEDS:
        monkeypatch.setattr(reductions, "launch", lambda launches, seed=seed: run(launches, seed))
        found.append(room(x, axes, dtype))
        getattr(reductions, name)(x, found[-1], axes, *numbers)
    assert all(np.array_equal(one, found[0], equal_nan=True) for one in found)
    tolerance = 0.0 if name in EXACT and name != "prod" else TOLERANCE.get(x.dtype.name, 0.0)
    np.testing.assert_allclose(
        found[0].astype("float64" if tolerance else dtype),
        expected.astype("float64" if tolerance else dtype),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.one_in(5)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_ones_are_the_cpu_s(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, ...]
) -> None:
    for dtype in ("float32", "int32"):
        for axes in axes_of(name, shape):
            check(monkeypatch, name, sample(shape, dtype), axes)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [*REAL, *WHOLE])
@pytest.mark.parametrize("name", EXACT)
def test_any_dtype_and_layout_of_exact_ones(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    x = sample((6, 5), dtype)
    for view in (x.T, x[::-1, ::2], np.broadcast_to(x[:, :1], (6, 9))):
        check(monkeypatch, name, view, 1 if name in ("argmax", "argmin") else (1,))


@pytest.mark.parametrize("name", ["amax", "argmin", "all", "count_nonzero"])
def test_any_axes_of_any_layout(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    x = sample((6, 5, 8), "float32")
    for view in (x, x.T, x[::-1, ::2], np.broadcast_to(x[:, :1], (6, 9, 8))):
        for axes in axes_of(name, view.shape):
            check(monkeypatch, name, view, axes)


STRANGE = [
    [math.nan], [math.inf], [-math.inf], [math.inf, math.nan], [math.nan, math.inf, math.nan],
    [-math.inf, math.inf], [0.0, -0.0],
]  # fmt: skip
NUMBERS: dict[str, list[tuple[float, ...]]] = {
    **{name: [()] for name in (*EXACT, "logsumexp")},
    **{name: [(1.0,), (0.0,), (400.0,)] for name in ("var", "std")},
    "norm": [(2.0,), (1.0,), (0.0,), (math.inf,), (-math.inf,), (3.0,), (0.5,), (-2.0,)],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", NUMBERS)
def test_nan_and_infinity_are_the_cpu_s(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    x = sample((9, 300), dtype) + np.dtype(dtype).type(1)
    for row, strange in enumerate(STRANGE):
        x[row, 100 : 100 + len(strange)] = strange
    x[7] = -np.inf
    x[8] = np.inf
    axes = 1 if name in ("argmax", "argmin") else (1,)
    for numbers in NUMBERS[name]:
        if name != "prod" or dtype == "float64":  # a product of 300 numbers overflows other dtypes
            check(monkeypatch, name, x, axes, *numbers)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["var", "std", "logsumexp", "norm"])
def test_others_are_near_the_cpu_s(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, ...]
) -> None:
    for dtype in REAL if math.prod(shape) < 10_000 else ["float32"]:
        for axes in axes_of(name, shape):
            for numbers in NUMBERS[name]:
                if not (numbers == (0.5,) and dtype == "float16"):  # the result soon exceeds 65504
                    check(monkeypatch, name, sample(shape, dtype), axes, *numbers)


def test_deviations_do_not_drown_in_a_large_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    x = (1e6 + np.arange(40_000) % 2).astype("float32")
    out = np.empty((), "float32")
    for seed in SEEDS:
        monkeypatch.setattr(reductions, "launch", lambda launches, seed=seed: run(launches, seed))
        reductions.var(x, out, (0,), 0.0)
        assert out == 0.25
        far = x.astype("float64")
        far[0] = 1e12  # the first element of its thread is far from all others
        wide = np.empty(())
        reductions.var(far, wide, (0,), 0.0)
        np.testing.assert_allclose(wide, far.var(), rtol=1e-12)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["max_along", "min_along"])
def test_extremes_come_with_their_places(
    monkeypatch: pytest.MonkeyPatch, name: str, axis: int, dtype: str
) -> None:
    for shape in ((300, 5), (5, 20001)):
        x = sample(shape, dtype)
        if dtype == "float32":
            x[2, 3] = np.nan
        expected, places = room(x, axis, dtype), room(x, axis, "int64")
        getattr(cpu, name)(x, expected, places, axis)
        for seed in SEEDS:
            monkeypatch.setattr(
                reductions, "launch", lambda launches, seed=seed: run(launches, seed)
            )
            # The outputs have gaps in memory, and the elements of the gaps belong to another array.
            found, where = np.empty((len(places), 2), dtype), np.empty((3, len(places)), "int64")
            getattr(reductions, name)(x, found[:, 1], where[1], axis)
            np.testing.assert_array_equal(found[:, 1], expected)
            np.testing.assert_array_equal(where[1], places)


def test_a_0d_array_is_a_row_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "launch", lambda launches: run(launches, 0))
    found, place = np.empty(()), np.empty((), "int64")
    reductions.max_along(np.array(7.0), found, place, 0)
    assert found == 7.0 and place == 0
    reductions.amax(np.array(8.0), found, None)
    assert found == 8.0
    reductions.argmin(np.array(8.0), place, -1)
    assert place == 0


@pytest.mark.parametrize("order", [1.5, 2.0, -2.0, 3.0])
def test_the_norm_of_one_element_is_its_absolute_value(
    monkeypatch: pytest.MonkeyPatch, order: float
) -> None:
    monkeypatch.setattr(reductions, "launch", lambda launches: run(launches, 0))
    x = np.array([[1e-30], [-1e30]], np.float32)
    out = np.empty(2, np.float32)
    reductions.norm(x, out, (1,), order)
    assert out.tolist() == np.abs(x[:, 0]).tolist()


def test_reductions_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, numbers in NUMBERS.items():
        if name not in ("amax", "amin", "argmax", "argmin"):
            for each in numbers:
                if each != (-math.inf,):
                    check(monkeypatch, name, np.empty((3, 0)), (1,), *each)


def test_bfloat16_computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "launch", lambda launches: run(launches, 0))
    x = np.array([1.0, 1.0, 256.0, -3.0], bfloat16.numpy)
    out = np.empty((), bfloat16.numpy)
    reductions.norm(x, out, (0,), 1.0)
    assert out == np.float32(261).astype(bfloat16.numpy)
    reductions.amin(x, out, None)
    assert out == -3
