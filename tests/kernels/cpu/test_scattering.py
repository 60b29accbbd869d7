"""The compiled loops that read and write at an index, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cpu.index import indexing, indices, scattering

WAYS = ["sum", "mean", "prod", "amin", "amax"]
# The shapes of index and tensor, the axis, and which arrays have gaps.
SHAPES = [((70,), (300,), 0), ((20, 30), (50, 25), 0), ((7, 30, 5), (6, 40, 5), 1)]
# All dtypes share the source text of the loops, and compiling a loop takes up to a second. Each run
# tests float64 with every shape and reduction, and other dtypes with one shape and two reductions.
# --slow tests all combinations.
OWN_WAYS = {
    "bool": ["sum", "amin"],
    "uint8": ["mean", "amax"],
    "int16": ["sum", "prod"],
    "int64": ["mean", "amin"],
    "float32": ["prod", "amax"],
}
CASES = [
    *[pytest.param("float64", *case, WAYS) for case in SHAPES],
    *[pytest.param(dtype, *SHAPES[0], ways) for dtype, ways in OWN_WAYS.items()],
    *[
        pytest.param(dtype, *case, WAYS, marks=pytest.mark.slow)
        for dtype in OWN_WAYS
        for case in SHAPES
    ],
]


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Return small integers in a layout other than C order."""
    found = np.random.default_rng(seed).integers(0, 3, shape[::-1]).T
    return found.astype(dtype) if dtype != "bool" else found > 1


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("dtype", "shape", "part", "axis", "ways"), CASES)
def test_loops_do_what_numpy_does(
    dtype: str, shape: tuple[int, ...], part: tuple[int, ...], axis: int, ways: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    x, src = numbers(shape, dtype, 0), numbers(tuple(n + 1 for n in part), dtype, 1)
    index = np.random.default_rng(2).integers(0, shape[axis], part)

    def results() -> list[np.ndarray]:
        found = [np.empty(part, dtype)]
        indexing.gather(x, index, found[0], axis)
        for kernel in (indexing.scatter, indexing.scatter_add):
            found.append(np.empty(shape[::-1], dtype).T)
            kernel(x, index, src, found[-1], axis)
        column = numbers((*shape[:axis], 9, *shape[axis + 1 :]), dtype, 3)
        found.append(np.empty(shape, dtype))
        one = np.ones((), dtype)
        indexing.add(x, np.arange(9) // 2, column, found[-1], axis, one)
        # The index is the same for a whole slice, so it has stride 0 along the slice.
        slices = np.broadcast_to(index[..., :1], part) if axis < len(shape) - 1 else index
        found.append(np.empty(shape, dtype))
        scattering.reduce(x, slices, src, found[-1], axis, ways[-1], False)
        for way in ways:
            for include_self in (False, True):
                if (dtype, way) != ("bool", "mean"):
                    found.append(np.empty(shape, dtype))
                    scattering.reduce(x, index, src, found[-1], axis, way, include_self)
        return found

    expected = results()
    for module in (indexing, scattering):
        module_of = getattr(module, "reduce", None) or module.gather
        monkeypatch.setitem(module_of.__globals__, "MANY", 1)
    for one, other in zip(results(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wrong", [-1, 50])
def test_a_place_that_is_not_there_is_named(wrong: int) -> None:
    x, index, out = np.zeros(50), np.zeros(indices.MANY, np.int64), np.empty(50)
    index[1234] = wrong
    src, found = np.ones(indices.MANY), np.empty(indices.MANY)
    for call in (
        lambda: indexing.gather(x, index, found, 0),
        lambda: indexing.scatter(x, index, src, out, 0),
        lambda: scattering.reduce(x, index, src, out, 0, "amax", True),
    ):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension 0"):
            call()


def test_nan_stays_in_every_way() -> None:
    index = np.zeros(indices.MANY, np.int64)
    for at in (0, 1, indices.MANY - 1):
        src, out = np.ones(indices.MANY, np.float32), np.empty(1, np.float32)
        src[at] = np.nan
        for way in WAYS:
            scattering.reduce(np.ones(1, np.float32), index, src, out, 0, way, True)
            assert np.isnan(out).all()
