"""Attention, its rows run on the CPU by fibres, against the CPU's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.dtypes import WIDE
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cpu import attention as cpu
from fastdist.kernels.cpu.halves import in_float32
from fastdist.kernels.cuda import attention as cuda
from fastdist.kernels.cuda.attention import _Block, _Task, plan_slopes, plan_weights
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres

cpu_attention = in_float32("attention.attention", cpu.attention, 4)
cpu_gradient = in_float32("attention.attention_gradient", cpu.attention_gradient, 7)
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}
KEYS = 300


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    # Blocks of three queries, of which the last has one.
    monkeypatch.setattr(cuda, "_FEWEST", 3)
    monkeypatch.setattr(cuda, "_BLOCK", 1)
    yield from cuda_on_fibres(monkeypatch)


def samples(dtype: str, mask: str, keys: int = KEYS) -> list[Any]:
    """Return g, query, key, value and mask: of swapped axes, with a head of key to two of query;
    a query sees nothing where a mask can say so.
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
    mask_array = np.broadcast_to(sees, (2, 4, 7, keys)) if mask in ("bool", "added") else None
    return [g, turned(2, 4, 7, 3), turned(2, 2, keys, 3), turned(2, 2, keys, 5), mask_array]


def results(dtype: str, keys: int = KEYS) -> tuple[list[Any], list[Any]]:
    """Return arrays for what attention makes, and for the gradients by query, key and value."""
    of_logarithms = WIDE.get(np.dtype(dtype), np.dtype(dtype))
    slopes = [(2, 4, 7, 3), (2, 2, keys, 3), (2, 2, keys, 5)]
    return (
        [np.empty((2, 4, 7, 5), dtype), np.empty((2, 4, 7), of_logarithms)],
        [np.empty(shape, dtype) for shape in slopes],
    )


def on_device(backend: CudaBackend, arrays: Any) -> list[Any]:
    return [None if one is None else backend.from_numpy(one, 0) for one in arrays]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("keys", "mask"), [(4, "causal"), *[(KEYS, mask) for mask in ("none", "bool", "added")]]
)
def test_twins_agree(backend: CudaBackend, keys: int, mask: str, dtype: str) -> None:
    g, *given = samples(dtype, mask, keys)
    numbers = 0.6, mask == "causal"
    made, slopes = results(dtype, keys)
    cpu_attention(*given, *made, *numbers)
    cpu_gradient(g, *given, *made, *slopes, *numbers)
    ours, our_slopes = (on_device(backend, one) for one in results(dtype, keys))
    g, *given = on_device(backend, (g, *given))
    cuda.attention(*given, *ours, *numbers)
    cuda.attention_gradient(g, *given, *ours, *our_slopes, *numbers)
    for expected, found in zip([*made, *slopes], [*ours, *our_slopes], strict=True):
        tolerance = TOLERANCE[dtype] * max(1, np.abs(expected[np.isfinite(expected)]).max())
        np.testing.assert_allclose(backend.to_numpy(found), expected, tolerance, tolerance)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mask", ["causal", "added"])
@pytest.mark.parametrize("keys", [5, KEYS, 5000])
def test_rows_do_not_depend_on_the_order_of_threads(keys: int, mask: str, seed: int) -> None:
    g, query, key, value, given = samples("float32", mask, keys)
    task, block = (
        _Task(query, key, value, given, 1.0, mask == "causal"),
        _Block(slice(2, 5), slice(keys)),
    )
    scores = (query[:, :, 2:5].reshape(2, 2, 6, 3) @ key.swapaxes(2, 3)).copy()
    again, log_sum = scores.copy(), np.zeros((2, 4, 7), np.float32)
    run(plan_weights(task, scores, log_sum, block), seed)
    bias: Any = np.zeros((2, 4, 3, keys)) if given is None else given[:, :, 2:5]
    if mask == "causal":
        bias = np.where(np.arange(keys) <= np.arange(2, 5)[:, None], bias, -np.inf)
    seen = again.reshape(2, 4, 3, keys) + bias
    blind = (bias == -np.inf).all(-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.where(blind, 0, np.exp(seen - np.log(np.exp(seen).sum(-1, keepdims=True))))
    np.testing.assert_allclose(scores.reshape(weights.shape), weights, 1e-4, 1e-6)
    towards = (g[:, :, 2:5].reshape(2, 2, 6, 5) @ value.swapaxes(2, 3)).copy()
    result = np.random.default_rng(1).standard_normal((2, 4, 7, 5)).astype(np.float32)
    even = (g[:, :, 2:5] * result[:, :, 2:5]).sum(-1, keepdims=True)
    slopes = weights * (towards.reshape(weights.shape) - even)
    rows = np.ascontiguousarray(g[:, :, 2:5])
    run(plan_slopes(task, again, towards, rows, result, log_sum, block), seed)
    np.testing.assert_allclose(again.reshape(weights.shape), weights, 1e-4, 1e-6)
    np.testing.assert_allclose(towards.reshape(weights.shape), slopes, 1e-4, 1e-5)


def test_rows_that_see_infinities_are_nan_on_both(backend: CudaBackend) -> None:
    _, query, key, value, mask = samples("float64", "added")
    query[0, 1, 4, 0], key[1, 0, 9, 0] = np.nan, np.inf
    made, _ = results("float64")
    cpu_attention(query, key, value, mask, *made, 1.0, False)
    ours = on_device(backend, made)
    cuda.attention(*on_device(backend, (query, key, value, mask)), *ours, 1.0, False)
    assert np.isnan(made[0]).any()
    np.testing.assert_array_equal(np.isnan(backend.to_numpy(ours[0])), np.isnan(made[0]))


def test_without_keys_there_are_zeros(backend: CudaBackend) -> None:
    _, query, key, value, _ = samples("float32", "none", 0)
    ours, slopes = (on_device(backend, one) for one in results("float32", 0))
    given = on_device(backend, (query, key, value, None))
    cuda.attention(*given, *ours, 1.0, False)
    cuda.attention_gradient(ours[0], *given, *ours, *slopes, 1.0, False)
    found = [backend.to_numpy(one) for one in (*ours, slopes[0])]
    assert (found[0] == 0).all() and (found[1] == np.inf).all() and (found[2] == 0).all()
