"""Small kernels for windows, sorted rows and losses, against the ordinary kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.index.indices import OutOfBounds
from fastdist.kernels.cpu.nn import weighted_neighbours
from fastdist.kernels.cpu.small import losses, windows
from fastdist.kernels.cpu.small.kernels import small_kernel
from tests.kernels.cpu.test_small import facts_of, ordinary, shortened
from tests.properties import in_one_test

INT = np.dtype(np.int64)
# The shape of the planes, the windows of each axis, and the number of windows.
WINDOWS = [
    ((1, 3, 8, 8), ((2, 2, 0, 1), (2, 2, 0, 1)), (4, 4)),
    ((2, 9, 7), ((3, 2, 1, 1), (3, 1, 1, 2)), (5, 5)),
    ((2, 3, 16), ((3, 2, 1, 1),), (8,)),
    ((2, 4, 5, 6), ((2, 1, 0, 1), (2, 2, 1, 1), (3, 3, 0, 1)), (3, 3, 2)),
    ((1, 7, 5), ((0, 0, 0, 0), (0, 0, 0, 0)), (3, 2)),
]


def draw(shape: Any, dtype: str) -> np.ndarray:
    made = np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(dtype)
    if made.dtype.kind == "f":
        made.flat[2], made.flat[5] = np.nan, -np.inf
    return made


def same(ours: Any, theirs: Any) -> bool:
    return ours is not None and all(
        np.array_equal(one, other, equal_nan=one.dtype.kind == "f") and one.dtype == other.dtype
        for one, other in zip(ours, theirs, strict=True)
    )


@in_one_test("dtype", ["float32", "float64", "int64", "uint8"])
@in_one_test("shape, given, counts", WINDOWS)
def test_windows_by_numpy(
    shape: Any, given: Any, counts: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "is_numpys_turn", lambda *_: True)
    check_windows(shape, given, counts, dtype)


@in_one_test("shape, given, counts", WINDOWS)
def test_windows_by_loops(
    shape: Any, given: Any, counts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "is_numpys_turn", lambda *_: False)
    check_windows(shape, given, counts, "float32")


def check_windows(shape: Any, given: Any, counts: Any, dtype: str) -> None:
    x = draw(shape, dtype)
    final = (*shape[: -len(counts)], *counts)
    kinds = [(final, x.dtype), (final, INT)]
    largest = ordinary("nn.windows.largest", [x], kinds, (given,))
    assert same(shortened("nn.windows.largest", [x], kinds, (given,)), largest)
    back = [(shape, x.dtype)]
    expected = ordinary("nn.windows.spread", largest, back, (given,))
    assert same(shortened("nn.windows.spread", largest, back, (given,)), expected)


@pytest.mark.parametrize("by_numpy", [False, True])
def test_a_place_outside_of_its_plane_is_refused(
    by_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "is_numpys_turn", lambda *_: by_numpy)
    places = np.array([[0, 16, 3, 1]])
    for wrong in (16, -1):
        places[0, 1] = wrong
        with pytest.raises(OutOfBounds, match="invalid max index"):
            shortened(
                "nn.windows.spread",
                [np.ones((1, 4), np.float32), places],
                [((1, 16), np.dtype(np.float32))],
                (((4, 4, 0, 1),),),
            )


@in_one_test("dtype", ["float32", "float64", "int32", "uint8"])
@in_one_test("shape", [(8, 8), (3, 1), (2, 3, 40), (130,), (1, 200)])
@pytest.mark.parametrize("largest", [False, True])
def test_rows_in_order(shape: Any, dtype: str, largest: bool) -> None:
    x, n, axis = (
        draw((*shape[:-1], max(shape[-1], 6)), dtype)[..., : shape[-1]],
        shape[-1],
        len(shape) - 1,
    )
    x = x.copy()
    kinds = [(shape, x.dtype), (shape, INT)]
    given = axis, largest
    expected = ordinary("reduce.sorting.sort", [x], kinds, given)
    assert same(shortened("reduce.sorting.sort", [x], kinds, given), expected)
    for k in {1, n // 2, n} - {0}:
        final = (*shape[:-1], k)
        kinds = [(final, x.dtype), (final, INT)]
        found = shortened("reduce.sorting.topk", [x], kinds, (axis, k, largest))
        assert (found is None) == (n > 128 and k * 8 <= n)
        if found is not None:
            expected = ordinary("reduce.sorting.topk", [x], kinds, (axis, k, largest))
            assert same(found, expected)


@in_one_test("dtype", ["float32", "float64", "int32", "uint8"])
@in_one_test("shape", [(8, 8), (3, 6), (2, 3, 40), (130,)])
def test_the_nth_of_rows(shape: Any, dtype: str) -> None:
    x, axis, final = draw(shape, dtype), len(shape) - 1, (*shape[:-1], 1)
    kinds = [(final, x.dtype), (final, INT)]
    for first in (0, 5):
        places = (first + np.arange(np.prod(final)).reshape(final)) % shape[-1]
        expected = ordinary("reduce.sorting.nth", [x, places], kinds, (axis,))
        assert same(shortened("reduce.sorting.nth", [x, places], kinds, (axis,)), expected)


@in_one_test("reduction", [0, 1, 2])
@in_one_test("ignored", [-100, 2])
@in_one_test("target", [[0, 3, 1, 3], [-100, 1, 1, 0], [2, 2, 2, 2], [-100] * 4])
def test_likelihoods(target: list[int], ignored: int, reduction: int) -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    given = [x, np.array(target), None]
    kinds = [((4,) if not reduction else (), x.dtype), ((), x.dtype)]
    if any(not 0 <= one < 4 and one != ignored for one in target):
        with pytest.raises(IndexError, match="out of bounds"):
            shortened("nn.loss.nll", given, kinds, (ignored, reduction))
        return
    expected = ordinary("nn.loss.nll", given, kinds, (ignored, reduction))
    assert same(shortened("nn.loss.nll", given, kinds, (ignored, reduction)), expected)


def test_losses_of_many_rows_or_with_weights_are_left_to_the_ordinary_kernel() -> None:
    kinds = [((), np.dtype(np.float32)), ((), np.dtype(np.float32))]
    many = np.ones((losses._ROWS + 1, 2), np.float32), np.zeros(losses._ROWS + 1, np.int64), None
    assert shortened("nn.loss.nll", many, kinds, (-100, 1)) is None
    weighed = np.ones((3, 2), np.float32), np.zeros(3, np.int64), np.ones(2, np.float32)
    assert shortened("nn.loss.nll", weighed, kinds, (-100, 1)) is None


@in_one_test("by_numpy", [False, True])
@in_one_test("dtype", ["float32", "float64"])
def test_sums_by_weight(dtype: str, by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (windows, weighted_neighbours):
        monkeypatch.setattr(module, "is_numpys_turn", lambda *_: by_numpy)
    one, pairs, uneven = [0, 1, 0], [0, 2, 4, 0, 1, 2, 3], [0, 3, 4, 4, 0, 1, 2, 4]
    for wide, taps, length in ((pairs, 4, 2), (uneven, 4, 3)):
        x, table = draw((2, 3, 4, 5), dtype), np.array([*one, *pairs, *wide])
        weights = np.linspace(0.5, 2.0, 5 + taps).astype(dtype)
        arrays, kinds = [x, table, weights], [((2, 3, 2, length), x.dtype)]
        given = ((4, taps),)
        expected = ordinary("nn.weighted_neighbours.weigh", arrays, kinds, given)
        run = small_kernel("nn.weighted_neighbours.weigh", facts_of(arrays, *kinds[0], given))
        assert run is not None
        for _ in range(2):  # the second call uses the cached table
            assert same([run(*arrays)], expected)
        for axis, place in ((2, 6), (3, 3 + len(pairs) + length + 1)):
            wrong = table.copy()
            wrong[place] = 9
            with pytest.raises(OutOfBounds, match=f"index 9 is out of bounds for dimension {axis}"):
                run(x, wrong, weights)


SCATTERED = [
    # The shape that is written to, the shapes of index and source, and the axis.
    ((8, 8), (8, 8), (8, 8), 1),
    ((8, 8), (5, 8), (6, 8), 0),
    ((4, 3), (9, 2), (9, 3), 0),
    ((2, 3, 4), (2, 5, 3), (2, 5, 4), 1),
    ((7,), (20,), (20,), 0),
]


@in_one_test("name", ["scatter", "scatter_add"])
@in_one_test("dtype", ["float32", "float64", "int64"])
@in_one_test("shape, places, given, axis", SCATTERED)
def test_scattering(shape: Any, places: Any, given: Any, axis: int, dtype: str, name: str) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, shape[axis], places)
    arrays = [draw(shape, dtype), index, draw(given, dtype)]
    kernel, kinds = f"index.indexing.{name}", [(shape, arrays[0].dtype)]
    expected = ordinary(kernel, arrays, kinds, (axis,))
    assert same(shortened(kernel, arrays, kinds, (axis,)), expected)
    assert same(
        shortened(kernel, [arrays[0], index.astype("i4"), arrays[2]], kinds, (axis,)), expected
    )
    for wrong in (-1, shape[axis]):
        index.flat[1] = wrong
        with pytest.raises(OutOfBounds, match="out of bounds"):
            shortened(kernel, arrays, kinds, (axis,))
