"""CUDA attention in tiles and its gradient, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cpu.nn import attention as cpu
from fastdist.kernels.cuda.nn import attention as cuda
from fastdist.kernels.cuda.nn.attention_tiles import (
    BY_KEY,
    BY_QUERY,
    TILES,
    Numbers,
    plan_attend,
    plan_gradient,
    tiles_for,
)
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# Numbers of queries and keys near the edges of tiles of 32 and 64 rows.
LENGTHS = [(1, 1), (1, 130), (31, 33), (63, 64), (64, 63), (65, 65), (130, 1), (130, 129)]
# Widths of queries and values: the widths for which tiles exist, and widths next to these.
WIDTHS = [(1, 1), (8, 8), (5, 64), (64, 7), (33, 32), (80, 80), (96, 97), (128, 128)]
DTYPES = ("float32", "float64")
KINDS = ("none", "causal", "bool", "added", "keys", "rows", "heads", "dropped", "all")


def in_turns(*axes: Sequence[Any]) -> list[Any]:
    """Return the cases of a grid; --slow runs all of them.

    An ordinary run takes the cases whose indices along the axes have an even sum, so that any two
    choices occur together.
    """
    return [
        pytest.param(
            *[value for _, value in chosen],
            marks=[pytest.mark.slow] if sum(number for number, _ in chosen) % 2 else [],
        )
        for chosen in itertools.product(*map(enumerate, axes))
    ]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def samples(
    dtype: str, kind: str, lengths: tuple[int, int] = (65, 70), widths: tuple[int, int] = (8, 8)
) -> list[Any]:
    """Return query, key, value, mask and seed with swapped axes; two query heads share a key head.

    If the mask can express it, one query attends to nothing.
    """
    random = np.random.default_rng(0)
    (queries, keys), (width, depth) = lengths, widths

    def turned(heads: int, rows: int, columns: int) -> Any:
        whole = random.standard_normal((2, rows, heads, columns)).astype(dtype)
        return whole.swapaxes(1, 2)

    given = turned(4, queries, width), turned(2, keys, width), turned(2, keys, depth)
    shape = {"keys": (1, 1, 1, keys), "rows": (2, 1, queries, 1), "heads": (2, 4, queries, keys)}
    mask: Any = random.standard_normal(shape.get(kind, (1, 1, queries, keys))).astype(dtype)
    sees = random.random(mask.shape) < 0.6
    sees[:, :, mask.shape[2] // 2] = False
    if kind == "bool":
        mask = sees
    elif kind in ("added", "heads", "all"):
        mask = np.where(sees, mask, -np.inf).astype(dtype)
    elif kind not in shape:
        mask = None
    seed = np.array([-(1 << 40)], np.int64) if kind in ("dropped", "all") else None
    return [*given, mask, seed]


def places(query: Any, key: Any, value: Any) -> tuple[list[Any], list[Any]]:
    """Return arrays for the outputs and the gradients of attention.

    The arrays for kept weights and for the mask's gradient are empty.
    """
    rows, dtype = query.shape[:3], query.dtype
    shapes = (*rows, value.shape[3]), rows, (0,) * 4
    slopes = query.shape, key.shape, value.shape, (0,) * 4
    return [np.empty(one, dtype) for one in shapes], [np.empty(one, dtype) for one in slopes]


def on_both(backend: CudaBackend, given: list[Any], *numbers: Any) -> tuple[list[Any], list[Any]]:
    """Return outputs and gradients of the CPU kernels and of the CUDA kernels."""
    (expected, slopes), (found, our_slopes) = places(*given[:3]), places(*given[:3])
    g = np.random.default_rng(5).standard_normal(expected[0].shape).astype(given[0].dtype)
    cpu.attention(*given, *expected, *numbers)
    cpu.attention_gradient(g, *given, *expected, *slopes, *numbers)
    ours, back, (g, *there) = (
        [None if one is None else backend.from_numpy(one, 0) for one in some]
        for some in (found, our_slopes, (g, *given))
    )
    cuda.attention(*there, *ours, *numbers)
    cuda.attention_gradient(g, *there, *ours, *back, *numbers)
    made = [backend.to_numpy(one) for one in (*ours[:2], *back[:3])]
    return [*expected[:2], *slopes[:3]], made


def require_close(expected: list[Any], found: list[Any]) -> None:
    for one, other in zip(expected, found, strict=True):
        most = TOLERANCE[one.dtype.name] * max(1, np.abs(one[np.isfinite(one)]).max(initial=1))
        np.testing.assert_allclose(other, one, most, most)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("lengths", "kind", "dtype"), in_turns(LENGTHS, KINDS, DTYPES))
def test_twins_agree_at_the_edges_of_tiles(
    backend: CudaBackend, lengths: tuple[int, int], kind: str, dtype: str
) -> None:
    given = samples(dtype, kind, lengths)
    assert tiles_for(TILES, *given[:3]) is not None
    dropout = 0.3 if given[4] is not None else 0.0
    require_close(*on_both(backend, given, 0.6, kind == "causal", dropout))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("widths", "kind", "dtype"), in_turns(WIDTHS, ["none", "all"], DTYPES))
def test_twins_agree_for_rows_of_any_width(
    backend: CudaBackend, widths: tuple[int, int], kind: str, dtype: str
) -> None:
    given = samples(dtype, kind, widths=widths)
    dropout = 0.3 if given[4] is not None else 0.0
    require_close(*on_both(backend, given, 0.6, False, dropout))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("widths", [(0, 8), (130, 8), (8, 129)])
def test_rows_that_no_tile_holds_go_in_blocks(
    backend: CudaBackend, widths: tuple[int, int], dtype: str
) -> None:
    given = samples(dtype, "added", widths=widths)
    assert (tiles_for(TILES, *given[:3]) is None) == (max(widths) > 128)
    require_close(*on_both(backend, given, 0.6, False, 0.0))


def test_half_types_have_no_tiles_for_their_products_are_those_of_tensor_cores() -> None:
    assert tiles_for(TILES, *samples("float16", "none")[:3]) is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "way", ["steps of columns", "backwards", "odd begin", "out apart", "g of one number"]
)
def test_rows_may_lie_in_any_way(backend: CudaBackend, way: str, dtype: str) -> None:
    query, key, value, *others = samples(dtype, "none", widths=(16, 16))
    if way == "steps of columns":
        query, key, value = (
            one.swapaxes(2, 3).copy().swapaxes(2, 3) for one in (query, key, value)
        )
    elif way == "backwards":
        query, key, value = query[..., ::-1], key[:, ::-1], value[:, :, ::-1, 1:]
    elif way == "odd begin":
        query, key, value = query[..., 1:], key[..., 1:], value[..., 1:]
    given, numbers = (query, key, value), Numbers(0.6, True, 0.0)
    (expected, slopes), (found, ours) = places(*given), places(*given)
    g = np.random.default_rng(5).standard_normal(expected[0].shape).astype(dtype)
    if way == "out apart":
        found[0] = np.empty((*found[0].shape[:3], 32), dtype)[..., ::2]
        ours[1] = np.empty((*ours[1].shape[:3], 32), dtype)[..., ::2]
    elif way == "g of one number":
        g = np.broadcast_to(g[:1, :1, :1, :1], g.shape)
    plain = [*map(np.ascontiguousarray, given), *others]
    cpu.attention(*plain, *expected, *numbers)
    cpu.attention_gradient(np.ascontiguousarray(g), *plain, *expected, *slopes, *numbers)
    run(plan_attend(*given, *others, (found[0], found[1]), numbers), 0)
    into = ours[0], ours[1], ours[2]
    run(plan_gradient(g, given, *others, (found[0], found[1]), into, numbers), 0)
    require_close([*expected[:2], *slopes[:3]], [*found[:2], *into])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["causal", "all"])
def test_bits_do_not_depend_on_the_order_of_threads(kind: str, dtype: str) -> None:
    width = 64 if dtype == "float32" else 32
    given = samples(dtype, kind, (130, 129), (width, width))
    results = []
    numbers, (query, key, value, *others) = Numbers(0.6, kind == "causal", 0.3), given
    for seed in SEEDS:
        (out, log_sum, _), (*slopes, _) = places(query, key, value)
        run(plan_attend(*given, (out, log_sum), numbers), seed)
        into = slopes[0], slopes[1], slopes[2]
        run(plan_gradient(out, (query, key, value), *others, (out, log_sum), into, numbers), seed)
        results.append([one.tobytes() for one in (out, log_sum, *into)])
    assert results == [results[0]] * len(SEEDS)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["none", "causal", "added"])
def test_rows_that_see_what_is_not_finite_are_those_of_the_cpu(
    backend: CudaBackend, kind: str, number: float, dtype: str
) -> None:
    given = samples(dtype, kind, (130, 70))
    given[0][0, 1, 4, 0], given[1][1, 0, 9, 0] = number, number
    given[0][1, 2, 100] = given[0][1, 2, 120]
    expected, found = on_both(backend, given, 1.0, kind == "causal", 0.0)
    assert not np.isfinite(expected[0]).all()
    # In gradients of causal attention, a weight of 0 may meet a value that is not finite. Whether
    # it does depends on the tiles on CUDA and on the blocks on the CPU, so compare only the
    # outputs.
    some = 2 if kind == "causal" else 5
    for one, other in zip(expected[:some], found[:some], strict=True):
        np.testing.assert_array_equal(np.isnan(other), np.isnan(one))
        np.testing.assert_allclose(other, one, 1e-4, 1e-5)


def test_a_later_score_that_is_much_larger_takes_it_all(backend: CudaBackend) -> None:
    query, key, value, *others = samples("float32", "none", (65, 200))
    key[:, :, 150] = 100 * query[:, ::2, 0]
    expected, found = on_both(backend, [query, key, value, *others], 1.0, False, 0.0)
    require_close(expected, found)
    np.testing.assert_allclose(found[0][0, 0, 0], value[0, 0, 150], 1e-6)


@pytest.mark.parametrize("kinds", [TILES, BY_QUERY, BY_KEY])
def test_the_narrowest_tiles_that_fit_are_taken(kinds: Any) -> None:
    for some in kinds.values():
        widths = [one.width for one in some]
        assert widths == sorted(widths)


def test_a_call_that_is_repeated_is_planned_once(backend: CudaBackend) -> None:
    given = samples("float32", "added")
    for _ in range(3):
        on_both(backend, given, 0.6, False, 0.0)
    numbers = Numbers(0.6, False, 0.0)
    assert (len(cuda.attending(numbers)), len(cuda.going_back(numbers))) == (1, 1)
