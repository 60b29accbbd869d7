"""Attention in blocks is attention, however many blocks there are."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu import attention as kernels
from fastdist.kernels.cpu import launch

Array = np.ndarray[Any, Any]


def reference(
    g: Array, q: Array, k: Array, v: Array, mask: Any, factor: float, is_causal: bool
) -> list[Array]:
    """Return attention and its gradients, of matrices in float64."""
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
    towards = g @ values.swapaxes(2, 3)
    slopes = weights * (towards - (towards * weights).sum(3, keepdims=True)) * factor
    by_key, by_value = slopes.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ g
    shared = [
        one.reshape(len(one), k.shape[1], groups, *one.shape[2:]).sum(2)
        for one in (by_key, by_value)
    ]
    return [weights @ values, slopes @ keys, *shared]


def in_blocks(
    g: Array, q: Array, k: Array, v: Array, mask: Any, factor: float, is_causal: bool
) -> list[Array]:
    rows = q.shape[:3]
    out, log_sum = np.full((*rows, v.shape[3]), 7, q.dtype), np.full(rows, 7, q.dtype)
    kernels.attention(q, k, v, mask, out, log_sum, factor, is_causal)
    slopes = [np.full(one.shape, 7, q.dtype) for one in (q, k, v)]
    kernels.attention_gradient(g, q, k, v, mask, out, log_sum, *slopes, factor, is_causal)
    return [out, *slopes]


def sample(dtype: str, heads: int, kept: int, queries: int, keys: int) -> list[Array]:
    """Return g, query, key and value, whose heads lie beside each other."""
    random = np.random.default_rng(1)
    shapes = [(heads, queries, 16), (heads, queries, 32), (kept, keys, 32), (kept, keys, 16)]
    return [
        random.standard_normal((2, rows, count, width)).astype(dtype).swapaxes(1, 2)
        for count, rows, width in shapes
    ]


SIZES = [(2, 2, 40, 56), (4, 2, 33, 17), (3, 1, 1, 90), (1, 1, 70, 1), (2, 2, 300, 300)]


@pytest.fixture(params=[64, 1000, 65536])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let blocks have so many scores, so that there are many, some, and one."""
    monkeypatch.setattr(kernels, "_BLOCK", request.param)
    monkeypatch.setattr(kernels, "_FEWEST", 3)
    return int(request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-11)])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added"])
def test_blocks_make_what_matrices_make(
    mask: str, sizes: tuple[int, ...], dtype: str, tolerance: float
) -> None:
    given = sample(dtype, *sizes)
    sees: Any = np.random.default_rng(2).random(sizes[2:]) < 0.6
    sees[-1] = False
    if mask == "added":
        sees = np.where(sees, 0.25, -np.inf).astype(dtype)
    whole = np.broadcast_to(sees, (2, sizes[0], *sizes[2:]))
    rest = whole if mask in ("bool", "added") else None, 0.3, mask == "causal"
    for found, expected in zip(in_blocks(*given, *rest), reference(*given, *rest), strict=True):
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


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


def test_threads_share_heads_and_change_no_bit(
    threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_FOR_THREADS", 0)
    asking: list[int] = []
    of = kernels._Scores.of

    def spy(*given: Any) -> Any:
        asking.append(threading.get_ident())
        return of(*given)

    monkeypatch.setattr(kernels._Scores, "of", spy)
    given = *sample("float32", 6, 3, 200, 300), None, 0.3, False
    threads(1)
    alone = [one.tobytes() for one in in_blocks(*given)]
    assert set(asking) == {threading.get_ident()}
    threads(2)
    before = threading.active_count()
    assert [one.tobytes() for one in in_blocks(*given)] == alone
    assert len(set(asking)) == min(launch.get_num_threads(), 2)
    # Those of the pool, which Python did not start.
    assert threading.active_count() == before


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
        kernels._share(work, 4, 1)
    assert done in ([0, 1], [])  # all that the other thread had to do, if there is one


@pytest.mark.parametrize("is_causal", [False, True])
def test_memory_grows_with_length_alone(is_causal: bool, threads: Callable[[int], None]) -> None:
    length = 4096
    given = sample("float32", 1, 1, length, length)
    threads(1)
    try:
        in_blocks(*given, None, 0.3, is_causal)  # what is compiled and loaded is no part of it
        tracemalloc.start()
        in_blocks(*given, None, 0.3, is_causal)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Its results, as much again, and two blocks; a matrix of all scores has 64 MiB.
    assert most < 8 << 20, most
