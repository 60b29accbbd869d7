"""CUDA attention, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import WIDE
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cpu.halves import in_float32
from fastdist.kernels.cpu.nn import attention as cpu
from fastdist.kernels.cuda.nn import attention as cuda
from fastdist.kernels.cuda.nn.attention import _Block, _Task, plan_slopes, plan_weights
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres

cpu_attention = in_float32("nn.attention.attention", cpu.attention, 5)
cpu_gradient = in_float32("nn.attention.attention_gradient", cpu.attention_gradient, 9)
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}
KEYS = 300
MASKS = ("none", "dropped", "bool", "added", "heads", "samples", "rows", "one")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    # Use blocks of three queries. The last block has one query.
    monkeypatch.setattr(cuda, "_FEWEST", 3)
    monkeypatch.setattr(cuda, "_BLOCK", 1)
    yield from cuda_on_fibres(monkeypatch)


def samples(dtype: str, mask: str, keys: int = KEYS) -> list[Any]:
    """Return g, query, key, value and mask with swapped axes; two query heads share a key head.

    If the mask can express it, one query attends to nothing. With a learned mask, all queries
    attend to all keys.
    """
    random = np.random.default_rng(0)

    def turned(*shape: int) -> Any:
        n, heads, rows, columns = shape
        return random.standard_normal((n, rows, heads, columns)).astype(dtype).swapaxes(1, 2)

    g = np.broadcast_to(random.standard_normal((1, 1, 1, 5)).astype(dtype), (2, 4, 7, 5))
    sees: Any = random.random((7, keys)) < 0.7
    sees[2] = False
    if mask == "added":
        sees = np.where(sees, 0.5, -np.inf).astype(WIDE.get(np.dtype(dtype), np.dtype(dtype)))
    shapes = {"heads": (4, 7, keys), "samples": (2, 1, 1, keys), "rows": (7, 1), "one": (1, 1)}
    if mask in shapes:
        sees = random.standard_normal(shapes[mask]).astype(WIDE.get(np.dtype(dtype), dtype))
    elif mask not in ("bool", "added"):
        sees = None
    mask_array = None if sees is None else sees.reshape(*[1] * (4 - sees.ndim), *sees.shape)
    seed = np.array([-(1 << 40)], np.int64) if mask in shapes or mask == "dropped" else None
    given = [g, turned(2, 4, 7, 3), turned(2, 2, keys, 3), turned(2, 2, keys, 5), mask_array]
    return [*given, seed]


def results(dtype: str, keys: int = KEYS, mask: Any = None) -> tuple[list[Any], list[Any]]:
    """Return arrays for the outputs of attention and for its gradients.

    The array for kept weights is empty. The gradients belong to query, key, value and mask. The
    mask's gradient is empty unless the mask is numeric.
    """
    wide = WIDE.get(np.dtype(dtype), np.dtype(dtype))
    slopes = [(2, 4, 7, 3), (2, 2, keys, 3), (2, 2, keys, 5)]
    is_learnt = mask is not None and mask.dtype != np.bool_
    return (
        [np.empty((2, 4, 7, 5), dtype), np.empty((2, 4, 7), wide), np.empty((0,) * 4, wide)],
        [
            *[np.empty(shape, dtype) for shape in slopes],
            np.empty(mask.shape if is_learnt else (0,) * 4, wide),
        ],
    )


def on_device(backend: CudaBackend, arrays: Any) -> list[Any]:
    return [None if one is None else backend.from_numpy(one, 0) for one in arrays]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("keys", "mask"), [(4, "causal"), *[(KEYS, mask) for mask in MASKS]])
def test_twins_agree(backend: CudaBackend, keys: int, mask: str, dtype: str) -> None:
    g, *given = samples(dtype, mask, keys)
    numbers = 0.6, mask == "causal", 0.3
    made, slopes = results(dtype, keys, given[3])
    cpu_attention(*given, *made, *numbers)
    cpu_gradient(g, *given, *made, *slopes, *numbers)
    ours, our_slopes = (on_device(backend, one) for one in results(dtype, keys, given[3]))
    g, *given = on_device(backend, (g, *given))
    cuda.attention(*given, *ours, *numbers)
    cuda.attention_gradient(g, *given, *ours, *our_slopes, *numbers)
    for expected, found in zip([*made, *slopes], [*ours, *our_slopes], strict=True):
        most = np.abs(expected[np.isfinite(expected)]).max() if expected.size else 1
        tolerance = TOLERANCE[dtype] * max(1, most)
        np.testing.assert_allclose(backend.to_numpy(found), expected, tolerance, tolerance)


@pytest.mark.parametrize("is_causal", [True, False])
def test_scores_of_float16_may_be_larger_than_it(backend: CudaBackend, is_causal: bool) -> None:
    g, query, key, value, _, _ = samples("float16", "none")
    query, key = (one * np.float16(200) for one in (query, key))
    scores = query[0, 0].astype(np.float32) @ key[0, 0].astype(np.float32).T
    assert np.abs(scores).max() > 2 * float(np.finfo(np.float16).max)
    given, numbers = (query, key, value, None, None), (1.0, is_causal, 0.0)
    made, slopes = results("float16")
    cpu_attention(*given, *made, *numbers)
    cpu_gradient(g, *given, *made, *slopes, *numbers)
    ours, our_slopes = (on_device(backend, one) for one in results("float16"))
    g, *rest = on_device(backend, (g, *given))
    cuda.attention(*rest, *ours, *numbers)
    cuda.attention_gradient(g, *rest, *ours, *our_slopes, *numbers)
    for expected, found in zip([*made, *slopes], [*ours, *our_slopes], strict=True):
        assert np.isfinite(expected).all()
        tolerance = 4e-3 * max(1, np.abs(expected).max()) if expected.size else 1
        np.testing.assert_allclose(backend.to_numpy(found), expected, 4e-3, tolerance)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_thins_weights_out_is_the_cpus(backend: CudaBackend, dtype: str) -> None:
    seed = np.array([-12345], np.int64)
    expected, found = np.empty((2, 3, 7, 37), dtype), np.empty((2, 3, 7, 37), dtype)
    in_float32("nn.attention.thinning", cpu.thinning, 1)(seed, expected, 0.2)
    ours = backend.from_numpy(found, 0)
    cuda.thinning(backend.from_numpy(seed, 0), ours, 0.2)
    np.testing.assert_array_equal(backend.to_numpy(ours), expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", ["causal", "added"])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("keys", [5, KEYS, 9000])
def test_rows_do_not_depend_on_the_order_of_threads(
    keys: int, drops: bool, mask: str, seed: int
) -> None:
    g, query, key, value, given, _ = samples("float32", mask, keys)
    number = np.array([7], np.int64) if drops else None
    task = _Task(query, key, value, given, number, 1.0, mask == "causal", 0.4)
    block = _Block(slice(2, 5), slice(keys))
    stays = np.ones((2, 4, 7, keys), np.float32)
    if drops:
        cpu.thinning(number, stays, 0.4)
    stays = stays[:, :, 2:5]
    scores = (query[:, :, 2:5].reshape(2, 2, 6, 3) @ key.swapaxes(2, 3)).copy()
    again, log_sum = scores.copy(), np.zeros((2, 4, 7), np.float32)
    run(plan_weights(task, scores, scores, log_sum, block), seed)
    bias: Any = np.zeros((2, 4, 3, keys))
    bias = bias if given is None else bias + given[:, :, 2:5]
    if mask == "causal":
        bias = np.where(np.arange(keys) <= np.arange(2, 5)[:, None], bias, -np.inf)
    seen = again.reshape(2, 4, 3, keys) + bias
    blind = (bias == -np.inf).all(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.where(blind, 0, np.exp(seen - np.log(np.exp(seen).sum(-1, keepdims=True))))
    np.testing.assert_allclose(scores.reshape(weights.shape), weights * stays, 1e-4, 1e-6)
    towards = (g[:, :, 2:5].reshape(2, 2, 6, 5) @ value.swapaxes(2, 3)).copy()
    result = np.random.default_rng(1).standard_normal((2, 4, 7, 5)).astype(np.float32)
    even = (g[:, :, 2:5] * result[:, :, 2:5]).sum(-1, keepdims=True)
    slopes = weights * (towards.reshape(weights.shape) * stays - even)
    rows = np.ascontiguousarray(g[:, :, 2:5])
    given = (again, towards), (again, towards), (rows, result)
    run(plan_slopes(task, *given, log_sum, block), seed)
    np.testing.assert_allclose(again.reshape(weights.shape), weights * stays, 1e-4, 1e-6)
    np.testing.assert_allclose(towards.reshape(weights.shape), slopes, 1e-4, 1e-5)


def test_rows_that_see_infinities_are_nan_on_both(backend: CudaBackend) -> None:
    _, query, key, value, mask, _ = samples("float64", "added")
    query[0, 1, 4, 0], key[1, 0, 9, 0] = np.nan, np.inf
    made, _ = results("float64")
    cpu_attention(query, key, value, mask, None, *made, 1.0, False, 0.0)
    ours = on_device(backend, made)
    given = on_device(backend, (query, key, value, mask, None))
    cuda.attention(*given, *ours, 1.0, False, 0.0)
    assert np.isnan(made[0]).any()
    np.testing.assert_array_equal(np.isnan(backend.to_numpy(ours[0])), np.isnan(made[0]))


def test_without_keys_there_are_zeros(backend: CudaBackend) -> None:
    _, query, key, value, _, _ = samples("float32", "none", 0)
    ours, slopes = (on_device(backend, one) for one in results("float32", 0))
    given = on_device(backend, (query, key, value, None, None))
    cuda.attention(*given, *ours, 1.0, False, 0.0)
    cuda.attention_gradient(ours[0], *given, *ours, *slopes, 1.0, False, 0.0)
    found = [backend.to_numpy(one) for one in (*ours[:2], slopes[0])]
    assert (found[0] == 0).all() and (found[1] == np.inf).all() and (found[2] == 0).all()
