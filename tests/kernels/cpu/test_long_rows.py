"""Compiled softmax and layer norm of many rows, held against float64 NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu import long_rows
from fastdist.kernels.cpu.short import Facts

SHAPES = [(1024, 5), (130, 64), (3, 2, 1000), (2, 40001)]
TOLERANCES = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 4e-15}
DTYPES = list(TOLERANCES)


def facts_of(numbers: Any, *arrays: Any) -> Facts:
    shapes = tuple(None if a is None else a.shape for a in arrays)
    dtypes = tuple(None if a is None else a.dtype for a in arrays)
    gapless = tuple(a is not None and a.flags.c_contiguous for a in arrays)
    return Facts(shapes, dtypes, gapless, arrays[0].shape, arrays[0].dtype, numbers, None)


def sample(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax_and_its_gradient_are_the_formulas(shape: tuple[int, ...], dtype: Any) -> None:
    x, g, axis = sample(shape, dtype, 0), sample(shape, dtype, 1), len(shape) - 1
    facts = facts_of((axis,), x)
    run, (gradient,) = long_rows.softmax(facts), long_rows.softmax_gradient(facts) or (None,)
    assert run is not None and gradient is not None
    out = run(x)
    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    wide /= wide.sum(-1, keepdims=True)
    np.testing.assert_allclose(out, wide, rtol=TOLERANCES[dtype])
    slope = wide * (g - (g * wide).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient(g, out), slope, atol=TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_gives_nan_to_the_rows_that_have_no_other_answer(dtype: Any) -> None:
    x = np.zeros((6, 40), dtype)
    x[0, 3], x[1, 39], x[2, 7], x[3], x[4, ::2] = (
        math.nan,
        -math.nan,
        math.inf,
        -math.inf,
        -math.inf,
    )
    run = long_rows.softmax(facts_of((1,), x))
    assert run is not None
    out = run(x)
    assert np.isnan(out[:4]).all()
    np.testing.assert_array_equal(out[4], np.tile([0, dtype.type(0.05)], 20).astype(dtype))
    np.testing.assert_allclose(out[5], 1 / 40, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("affine", [True, False], ids=["weight and bias", "neither"])
def test_layer_norm_and_its_gradients_are_the_formulas(dtype: Any, affine: bool) -> None:
    shape, eps = (700, 33), 1e-5
    x, g = sample(shape, dtype, 0) + dtype.type(5), sample(shape, dtype, 1)
    weight, bias = (sample((33,), dtype, i) if affine else None for i in (2, 3))
    facts = facts_of((eps,), x, weight, bias)
    run, gradients = long_rows.layer_norm(facts), long_rows.layer_norm_gradient(facts)
    assert run is not None and gradients is not None
    by_input, by_weight, by_bias = gradients
    assert by_input is not None and by_weight is not None and by_bias is not None
    wide = x.astype(np.float64)
    mean, deviation = wide.mean(1, keepdims=True), np.sqrt(wide.var(1, keepdims=True) + eps)
    normal, scaled = (wide - mean) / deviation, g if weight is None else g * weight.astype(float)
    expected = normal if weight is None or bias is None else normal * weight + bias
    slope = scaled - scaled.mean(1, keepdims=True)
    slope = (slope - normal * (scaled * normal).mean(1, keepdims=True)) / deviation
    out, *others = run(x, weight, bias)
    close = {"atol": 10 * TOLERANCES[dtype], "rtol": 10 * TOLERANCES[dtype]}
    for found, true in zip((out, *others), (expected, mean, deviation), strict=True):
        np.testing.assert_allclose(found, true, **close)
    np.testing.assert_allclose(by_input(g, others, x, weight), slope, **close)
    columns = {"atol": 300 * TOLERANCES[dtype]}
    np.testing.assert_allclose(by_weight(g, others, x), (g * normal).sum(0), **columns)
    np.testing.assert_allclose(by_bias(g), g.astype(float).sum(0), **columns)


def test_a_gradient_that_is_spread_out_or_turned_is_read_as_it_is() -> None:
    x = sample((130, 64), np.float32, 0)
    (gradient,) = long_rows.softmax_gradient(facts_of((1,), x)) or (None,)
    assert gradient is not None
    turned = np.asfortranarray(sample((130, 64), np.float32, 1))
    np.testing.assert_array_equal(gradient(turned, x), gradient(np.ascontiguousarray(turned), x))
    spread = np.broadcast_to(np.float32(1), x.shape)
    np.testing.assert_array_equal(gradient(spread, x), gradient(np.ones_like(x), x))


def test_long_layer_norm_can_be_differentiated_twice() -> None:
    x = fd.tensor(sample((130, 64), np.float64, 0), requires_grad=True)
    once = fd.nn.functional.layer_norm(x, (64,)).pow(3).sum()
    (slope,) = fd.autograd.grad(once, x, create_graph=True)
    (plain,) = fd.autograd.grad(fd.nn.functional.layer_norm(x, (64,)).pow(3).sum(), x)
    np.testing.assert_allclose(slope.detach().numpy(), plain.numpy(), atol=1e-12)
    slope.square().sum().backward()
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all()
