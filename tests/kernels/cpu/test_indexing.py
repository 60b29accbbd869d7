"""Reading elements and rows at given indices, by compiled loops and by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.index import indexing


# Rows of integers use one loop per layout, which takes most of a second to compile, so an ordinary
# run tests only one shape.
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "places", "dtype"),
    [
        pytest.param(
            shape,
            places,
            dtype,
            marks=[pytest.mark.slow] if dtype is np.int64 and shape != (3000, 2) else [],
        )
        for shape in ((3000, 2), (400, 3, 5))
        for places in (np.int64, np.int32)
        for dtype in (np.float32, np.float64, np.int64)
    ],
)
def test_many_rows_are_added_one_after_the_other(
    shape: tuple[int, ...], places: type, dtype: type
) -> None:
    rng = np.random.default_rng(0)
    x, src = ((9 * rng.standard_normal((n, *shape[1:]))).astype(dtype) for n in (7, shape[0]))
    index = rng.integers(0, 7, shape[0]).astype(places)
    expected, out = x.copy(), np.empty((*x.shape[:-1], 2 * x.shape[-1]), dtype)[..., ::2]
    np.add.at(expected, index, src)
    indexing.add(x, index, src, out, 0, np.asarray(1, dtype))
    np.testing.assert_array_equal(out, expected)
    turned = np.asfortranarray(src)
    indexing.add(x, index, turned, out, 0, np.asarray(1, dtype))
    np.testing.assert_array_equal(out, expected)


def test_many_rows_refuse_a_place_that_is_not_there() -> None:
    x, src = np.zeros((3, 64)), np.ones((100, 64))
    index = np.full(100, 3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        indexing.add(x, index, src, np.empty_like(x), 0, np.asarray(1.0))


# Shape, the first indexed axis, the number of indexed axes, and the shape of the indices.
AT_PLACES = [
    ((50, 60), 0, 2, (5000,)),
    ((50, 9, 3), 0, 1, (70, 70)),
    ((7, 50, 6, 2), 1, 2, (4100,)),
    ((5, 6, 7, 8, 2), 0, 4, (4097,)),
    ((3, 50), 1, 1, (4096,)),
    ((300,), 0, 1, (90, 95)),
    # Few indices, with many elements each.
    ((40, 50), 1, 1, (500,)),
    ((9, 50, 40), 1, 1, (60,)),
    ((8, 2000), 0, 1, (9,)),
]


# An ordinary run tests every shape in float32, and in other dtypes only the shapes of these
# indices. The loops of all dtypes have one source text, and are compiled for each dtype.
OWN_PLACES: dict[type, tuple[int, ...]] = {np.complex128: (0, 6), np.bool_: (2, 5, 8)}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("dtype", "shape", "first", "count", "of"),
    [
        pytest.param(
            dtype,
            *case,
            marks=[] if number in OWN_PLACES.get(dtype, (number,)) else [pytest.mark.slow],
        )
        for dtype in (np.float32, np.complex128, np.bool_)
        for number, case in enumerate(AT_PLACES)
    ],
)
def test_many_places_are_read_and_written_as_numpy_does(
    shape: tuple[int, ...], first: int, count: int, of: tuple[int, ...], dtype: type
) -> None:
    rng = np.random.default_rng(0)
    x = (9 * rng.standard_normal(shape)).astype(dtype)
    if len(shape) == 2:
        x = x.T.copy().T
    places = [rng.integers(-n, n, of) for n in shape[first : first + count]]
    if count > 1:
        places[-1] = places[-1].astype(np.int32)
    given, index = (*[None] * first, *places), (*[slice(None)] * first, *places)
    expected = x[index]
    out = np.empty_like(expected)
    indexing.take(x, out, given)
    np.testing.assert_array_equal(out, expected)
    for value in (np.asarray(3, dtype), expected[::-1].copy(), expected[..., :1].copy()):
        written, added = x.copy(), x.copy()
        written[index] = value
        np.add.at(added, index, value)
        for wanted, adds in ((written, False), (added, True)):
            found = x.copy("K")
            indexing.put(value, found, given, adds)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_nothing_is_written_where_one_of_many_places_is_not_there(wrong: int, adds: bool) -> None:
    shape, out = (5, 6, 7), np.zeros((5, 6, 7), np.float32)
    places = [np.arange(5000) % n for n in shape]
    for bad in (shape[wrong], -shape[wrong] - 1, 2**63 - 1, -(2**63)):
        places[wrong][4321] = bad
        message = f"index {bad} is out of bounds for dimension {wrong} with size {shape[wrong]}"
        with pytest.raises(IndexError, match=message):
            indexing.put(np.ones(5000, np.float32), out, tuple(places), adds)
        assert not out.any()


def test_many_places_of_a_vector_are_refused_where_one_is_not_there() -> None:
    x, out, place = np.zeros(9, np.float32), np.zeros(8200, np.float32), np.arange(8200) % 9
    for bad in (9, -10, 2**63 - 1, -(2**63)):
        place[8199] = bad
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0 with"):
            indexing.take(x, out, (place,))
        for adds in (False, True):
            with pytest.raises(IndexError, match=f"index {bad} is out of bounds for dimension 0"):
                indexing.put(out + 1, x, (place,), adds)
            assert not x.any()


@pytest.mark.parametrize("adds", [False, True])
def test_a_loop_over_a_vector_refuses_a_place_that_changes_during_the_call(
    monkeypatch: pytest.MonkeyPatch, adds: bool
) -> None:
    from fastdist.kernels.cpu.index import place_pairs

    place, written = np.zeros(4096, np.int64), np.zeros(9, np.float32)

    def change_then(places: Any, length: int) -> int:
        place[4095] = 9
        return -1

    monkeypatch.setattr(place_pairs._loops, "first_outside", change_then, raising=False)
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 9"):
        place_pairs.put_line(np.ones(4096, np.float32), written, place, add=adds)
    assert written.tolist() == [4095.0 if adds else 1.0] + [0.0] * 8


def test_elements_before_a_wrong_place_among_four_are_added_in_their_order() -> None:
    for count in range(4096, 4104):
        index = np.arange(count)[None] % 3
        src = np.random.default_rng(count).standard_normal((1, count)).astype(np.float32)
        x, out, expected = np.zeros((1, 3), np.float32), *np.zeros((2, 1, 3), np.float32)
        np.add.at(expected[0], index[0], src[0])
        indexing.scatter_add(x, index, src, out, 1)
        np.testing.assert_array_equal(out, expected)
        read = np.empty_like(src)
        indexing.gather(out, index, read, 1)
        np.testing.assert_array_equal(read[0], out[0][index[0]])
        for wrong in range(count - 5, count):
            spoilt = index.copy()
            spoilt[0, wrong] = 3
            with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1"):
                indexing.scatter_add(x, spoilt, src, out, 1)
            with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 1"):
                indexing.gather(x, spoilt, read, 1)
