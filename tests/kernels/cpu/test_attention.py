"""Attention in blocks equals attention in one piece, for any number of blocks."""

from __future__ import annotations

import math
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.kernels.cpu.jit import launch
from fastdist.kernels.cpu.nn import attention as kernels
from fastdist.random_numbers import philox
from tests.properties import in_one_test

Array = np.ndarray[Any, Any]


def reference(
    g: Array, q: Array, k: Array, v: Array, mask: Any, factor: float, is_causal: bool,
    stays: Any = 1.0,
) -> list[Array]:  # fmt: skip
    """Return attention and its gradients in float64, the mask's gradient last.

    The weights are multiplied by `stays`, the factors of dropout.
    """
    g, q, k, v = (one.astype(np.float64) for one in (g, q, k, v))
    groups = q.shape[1] // k.shape[1]
    keys, values = k.repeat(groups, 1), v.repeat(groups, 1)
    scores = q @ keys.swapaxes(2, 3) * factor
    if mask is not None:
        scores = scores + (np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    top = scores.max(3, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    weights = weights / np.maximum(weights.sum(3, keepdims=True), 1e-300)
    towards = g @ values.swapaxes(2, 3) * stays
    slopes = weights * (towards - (towards * weights).sum(3, keepdims=True))
    weights = weights * stays
    by_key, by_value = factor * slopes.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ g
    shared = [
        one.reshape(len(one), k.shape[1], groups, *one.shape[2:]).sum(2)
        for one in (by_key, by_value)
    ]
    by_mask = slopes
    for axis in range(4):
        if mask is not None and mask.shape[axis] == 1:
            by_mask = by_mask.sum(axis, keepdims=True)
    return [weights @ values, factor * slopes @ keys, *shared, by_mask]


def in_blocks(
    g: Array, q: Array, k: Array, v: Array, mask: Any, factor: float, is_causal: bool,
    seed: Array | None = None, dropout: float = 0.0, *, keeps: bool = False,
) -> list[Array]:  # fmt: skip
    rows = q.shape[:3]
    out, log_sum = np.full((*rows, v.shape[3]), 7, q.dtype), np.full(rows, 7, q.dtype)
    kept = np.full((*rows, k.shape[2]) if keeps else (0,) * 4, 7, q.dtype)
    numbers = factor, is_causal, dropout
    kernels.attention(q, k, v, mask, seed, out, log_sum, kept, *numbers)
    slopes = [np.full(one.shape, 7, q.dtype) for one in (q, k, v)]
    is_learnt = mask is not None and mask.dtype != bool
    slopes.append(np.full(mask.shape if is_learnt else (0,) * 4, 7, q.dtype))
    kernels.attention_gradient(g, q, k, v, mask, seed, out, log_sum, kept, *slopes, *numbers)
    return [out, *slopes] if is_learnt else [out, *slopes[:3]]


def sample(dtype: str, heads: int, kept: int, queries: int, keys: int) -> list[Array]:
    """Return g, query, key and value with heads that are adjacent in memory."""
    random = np.random.default_rng(1)
    shapes = [(heads, queries, 16), (heads, queries, 32), (kept, keys, 32), (kept, keys, 16)]
    return [
        random.standard_normal((2, rows, count, width)).astype(dtype).swapaxes(1, 2)
        for count, rows, width in shapes
    ]


# Block sizes that give many blocks, some blocks, or one. Two blocks of 65,536 scores need 300 rows.
# With 64 scores per block, 90 rows give 260 blocks, which test as much as the 2,800 blocks of 300
# rows.
SMALL = [(2, 2, 40, 56), (4, 2, 33, 17), (3, 1, 1, 90), (1, 1, 70, 1)]
LARGEST = {64: (2, 2, 90, 90), 1000: (2, 2, 300, 300), 65536: (2, 2, 300, 300)}
GRID = [(block, sizes) for block, largest in LARGEST.items() for sizes in (*SMALL, largest)]


@pytest.fixture(params=LARGEST)
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the scores per block, and use one thread.

    Other tests check that more threads give the same bits.
    """
    monkeypatch.setattr(kernels, "_BLOCK", request.param)
    monkeypatch.setattr(kernels, "_FEWEST", 3)
    before = fastdist.get_num_threads()
    fastdist.set_num_threads(1)
    yield int(request.param)
    fastdist.set_num_threads(before)


@pytest.mark.one_in(5)
@pytest.mark.usefixtures("block")
@in_one_test("dtype, tolerance", [("float32", 2e-4), ("float64", 1e-11)])
@pytest.mark.parametrize(("block", "sizes"), GRID, indirect=["block"])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added"])
@in_one_test("keeps", [False, True])
def test_blocks_make_what_matrices_make(
    keeps: bool, mask: str, sizes: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    given = sample(dtype, *sizes)
    sees: Any = np.random.default_rng(2).random(sizes[2:]) < 0.6
    sees[-1] = False
    if mask == "added":
        sees = np.where(sees, 0.25, -np.inf).astype(dtype)
    whole = np.broadcast_to(sees, (2, sizes[0], *sizes[2:]))
    rest = whole if mask in ("bool", "added") else None, 0.3, mask == "causal"
    made = in_blocks(*given, *rest, keeps=keeps)
    for found, expected in zip(made, reference(*given, *rest), strict=False):
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


MASKS = [(1, 1, 1, 1), (1, 1, 0, 0), (0, 1, 0, 0), (1, 0, 0, 0), (1, 0, 1, 0), (0, 0, 0, 1)]


@pytest.mark.one_in(5)
@pytest.mark.usefixtures("block")
@in_one_test("dtype, tolerance", [("float32", 3e-4), ("float64", 1e-11)])
@pytest.mark.parametrize(("block", "sizes"), GRID, indirect=["block"])
@pytest.mark.parametrize("shared", MASKS)
@in_one_test("keeps", [False, True])
def test_a_mask_that_axes_share_has_a_gradient_of_its_shape(
    keeps: bool, shared: tuple[int, ...], sizes: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    given, random = sample(dtype, *sizes), np.random.default_rng(3)
    whole = (2, sizes[0], *sizes[2:])
    shape = [1 if is_one else count for is_one, count in zip(shared, whole, strict=True)]
    rest = random.standard_normal(shape).astype(dtype), 0.3, False
    made = in_blocks(*given, *rest, keeps=keeps)
    for found, expected in zip(made, reference(*given, *rest), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("axes", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["float32", "bool"])
def test_a_mask_of_fewer_axes_is_as_one_of_four(axes: int, kind: str) -> None:
    given, random = sample("float32", 2, 2, 40, 56), np.random.default_rng(4)
    mask: Any = random.random((2, 40, 56)[3 - axes :]) < 0.7
    if axes > 1:
        mask[..., 5, :] = False
    if kind != "bool":
        mask = np.where(mask, 0.5, -np.inf).astype(kind)
    wide = mask.reshape((1,) * (4 - axes) + mask.shape)
    found, expected = (in_blocks(*given, one, 0.3, False) for one in (mask, wide))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.reshape(other.shape), other)
    for turned in (mask.T.copy().T, np.repeat(mask, 2, -1)[..., ::2] if axes else mask):
        again = in_blocks(*given, turned, 0.3, False)
        assert [one.tobytes() for one in again] == [one.tobytes() for one in found]


def test_a_mask_hides_numbers_but_not_what_is_none() -> None:
    g, q, k, v = sample("float32", 1, 1, 3, 40)
    q[:, :, 0, 0] = np.nan
    mask: Any = np.random.default_rng(4).random((3, 40)) < 0.5
    out = in_blocks(g, q, k, v, mask, 0.3, False)[0]
    assert np.isnan(out[:, :, 0]).all() and np.isfinite(out[:, :, 1:]).all()
    mask[0] = False
    assert (in_blocks(g, q, k, v, mask, 0.3, False)[0][:, :, 0] == 0).all()


def stays_by_formula(seed: int, dropout: float, shape: tuple[int, ...]) -> Array:
    """Return the factors of dropout; each row begins with a new block of the seed's stream."""
    *rows, keys = shape
    blocks = -(-keys // 4)
    words = philox.words32(seed % 2**64, 0, math.prod(rows) * blocks * 4)
    drops = words.reshape(-1, blocks * 4)[:, :keys] < dropout * 2.0**32
    return np.where(drops, 0, 1 / (1 - dropout)).reshape(shape)


@pytest.mark.one_in(5)
@pytest.mark.usefixtures("block")
@in_one_test("dtype, tolerance", [("float32", 3e-4), ("float64", 1e-11)])
@pytest.mark.parametrize(("block", "sizes"), GRID, indirect=["block"])
@pytest.mark.parametrize("mask", ["none", "causal", "added"])
def test_the_same_weights_are_dropped_there_and_back(
    mask: str, sizes: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    given, number, dropout = sample(dtype, *sizes), -(10**15), 0.25
    added = np.random.default_rng(2).standard_normal((1, 1, *sizes[2:])).astype(dtype)
    rest: Any = added if mask == "added" else None, 0.3, mask == "causal"
    stays = stays_by_formula(number, dropout, (2, sizes[0], *sizes[2:]))
    seed = np.array([number])
    found = in_blocks(*given, *rest, seed, dropout)
    for one, expected in zip(found, reference(*given, *rest, stays), strict=False):
        np.testing.assert_allclose(one, expected, tolerance, tolerance)
    thinned = np.empty(stays.shape, dtype)
    kernels.thinning(seed, thinned, dropout)
    np.testing.assert_array_equal(thinned, stays.astype(dtype))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_reaches_its_row_and_no_other(bad: float) -> None:
    g, q, k, v = sample("float32", 2, 2, 40, 56)
    q[1, 0, 3, 5] = bad
    out = in_blocks(g, q, k, v, None, 0.3, False)[0]
    assert np.isnan(out[1, 0, 3]).all()
    out[1, 0, 3] = 0
    assert np.isfinite(out).all()


def test_scores_that_all_are_minus_infinity_give_nan_where_no_mask_says_so() -> None:
    g, q, k, v = sample("float64", 1, 1, 2, 3)
    q[:], k[:] = 1e200, -1e200
    assert np.isnan(in_blocks(g, q, k, v, None, 1.0, False)[0]).all()


def test_results_repeat_bit_by_bit() -> None:
    given = *sample("float32", 2, 1, 200, 300), None, 0.3, True
    first = [one.tobytes() for one in in_blocks(*given)]
    assert [one.tobytes() for one in in_blocks(*given)] == first


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = launch.get_num_threads()
    yield launch.set_num_threads
    launch.set_num_threads(before)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "most"), [((0,), 2), ((2, 6, 1, 1), 2), ((1, 6, 1, 1), 2), ((2, 1, 1, 300), 2),
                        ((1, 1, 200, 300), 1)]
)  # fmt: skip
def test_threads_share_heads_and_change_no_bit(
    threads: Callable[[int], None],
    shape: tuple[int, ...],
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "_FOR_THREADS", 0)
    asking: list[int] = []
    of = kernels._Scores.of

    def spy(*given: Any) -> Any:
        asking.append(threading.get_ident())
        return of(*given)

    monkeypatch.setattr(kernels._Scores, "of", spy)
    mask = np.random.default_rng(5).standard_normal(shape).astype("float32")
    given: Any = *sample("float32", 6, 3, 200, 300), mask if mask.size else None, 0.3, False
    threads(1)
    alone = [one.tobytes() for one in in_blocks(*given)]
    assert set(asking) == {threading.get_ident()}
    threads(2)
    before = threading.active_count()
    assert [one.tobytes() for one in in_blocks(*given)] == alone
    assert len(set(asking)) == min(launch.get_num_threads(), 2)
    # Heads whose results are added to the same elements are computed by one thread.
    asking.clear()
    out, log_sum = (np.zeros((2, 6, 200, n), np.float32) for n in (16, 1))
    g, q, k, v, mask, factor, is_causal = given
    if mask is not None:
        more = [np.zeros_like(one) for one in (q, k, v, mask)]
        rest = factor, is_causal, 0.0
        told = log_sum[..., 0], np.empty((0,) * 4, np.float32)
        kernels.attention_gradient(g, q, k, v, mask, None, out, *told, *more, *rest)
        assert len(set(asking)) == min(launch.get_num_threads(), most)
    # The threads belong to the C pool, not to Python.
    assert threading.active_count() == before


# Numbers of samples, query heads, key heads, queries, keys; widths. A BLAS would use threads.
LARGE = [(1, 8, 8, 300, 300, 64, 64), (1, 1, 1, 600, 500, 40, 72), (1, 2, 1, 301, 307, 50, 33)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", LARGE)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("keeps", [False, True])
def test_large_products_have_the_same_bits_for_any_number_of_threads(
    keeps: bool, is_causal: bool, sizes: tuple[int, ...], dtype: str
) -> None:
    n, heads, kept, queries, keys, width, more = sizes
    random = np.random.default_rng(0)
    shapes = (
        (heads, queries, more),
        (heads, queries, width),
        (kept, keys, width),
        (kept, keys, more),
    )
    given = [random.standard_normal((n, *shape)).astype(dtype) for shape in shapes]
    before, found = fastdist.get_num_threads(), []
    try:
        for count in (1, 2, 1):
            # This sets the threads of the pool and of the BLAS.
            fastdist.set_num_threads(count)
            made = in_blocks(*given, None, 0.1, is_causal, keeps=keeps)
            found.append([x.tobytes() for x in made])
    finally:
        fastdist.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_what_a_thread_raises_is_raised_by_the_call(
    threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_FOR_THREADS", 0)
    threads(2)
    done: list[int] = []

    def work(part: range) -> None:
        if 3 in part:
            raise MemoryError("head 3")
        done.extend(part)

    with pytest.raises(MemoryError, match="head 3"):
        kernels._share(work, 4, 1, kernels._compiled("float32"))
    assert done in ([0, 1], [])  # all work of the other thread, if there is one


@pytest.mark.one_in(2)
@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_with_length_alone(is_causal: bool, threads: Callable[[int], None]) -> None:
    length = 4096
    given = sample("float32", 1, 1, length, length)
    threads(1)
    try:
        in_blocks(*given, None, 0.3, is_causal)  # compile and load before measuring
        tracemalloc.start()
        in_blocks(*given, None, 0.3, is_causal)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # This much is enough for the results, temporaries of their size, and two blocks. A matrix of
    # all scores would take 64 MiB.
    assert most < 8 << 20, most


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [None, (1, 1, 1, 4096), (1, 1, 4096, 4096)])
def test_neither_dropout_nor_a_mask_that_learns_makes_a_matrix_a_head(
    shape: tuple[int, ...] | None, threads: Callable[[int], None]
) -> None:
    length = 4096
    given = sample("float32", 1, 1, length, length)
    mask = None if shape is None else np.zeros(shape, np.float32)
    rest = mask, 0.3, False, np.array([3]), 0.1
    threads(1)
    try:
        # Compile and load before measuring.
        in_blocks(*sample("float32", 1, 1, 64, 64), None, *rest[1:])
        tracemalloc.start()
        in_blocks(*given, *rest)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # As in the test above, but for two heads, and with the mask's gradient. A matrix of all scores
    # would take 128 MiB.
    assert most < (12 << 20) + (0 if mask is None else mask.nbytes), most
