"""Attention, run on the CPU by fibres, against the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu import attention as cpu
from fastdist.kernels.cuda.attention import plan, plan_gradient
from tests.fibre_shim.driver import SEEDS, run


def samples(dtype: str, mask: str) -> list[Any]:
    """Return g, query, key, value and mask: of swapped axes, with a head of key to two of query;
    a query sees nothing where a mask can say so.
    """
    random = np.random.default_rng(0)

    def turned(*shape: int) -> Any:
        n, heads, rows, columns = shape
        return random.standard_normal((n, rows, heads, columns)).astype(dtype).swapaxes(1, 2)

    g = np.broadcast_to(random.standard_normal((1, 1, 1, 5)).astype(dtype), (2, 4, 7, 5))
    sees: Any = random.random((7, 300)) < 0.7
    sees[2] = False
    if mask == "added":
        sees = np.where(sees, 0.5, -np.inf).astype(dtype)
    mask_array = np.broadcast_to(sees, (2, 4, 7, 300)) if mask in ("bool", "added") else None
    return [g, turned(2, 4, 7, 3), turned(2, 2, 300, 3), turned(2, 2, 300, 5), mask_array]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added"])
def test_twins_agree(mask: str, dtype: str, tolerance: float, seed: int) -> None:
    g, *given = samples(dtype, mask)
    numbers = 0.6, mask == "causal"
    outs = [[np.empty((2, 4, 7, 5), dtype), np.empty((2, 4, 7), dtype)] for _ in range(2)]
    cpu.attention(*given, *outs[0], *numbers)
    run(plan(*given, *outs[1], *numbers), seed)
    for expected, found in zip(*outs, strict=True):
        np.testing.assert_allclose(found, expected, tolerance, tolerance)
    slopes = [[np.empty(one.shape, dtype) for one in given[:3]] for _ in range(2)]
    cpu.attention_gradient(g, *given, *outs[0], *slopes[0], *numbers)
    run(plan_gradient(g, *given, *outs[0], (*slopes[1],), *numbers), seed)
    for expected, found in zip(*slopes, strict=True):
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


def test_rows_that_see_infinities_are_nan_on_both() -> None:
    _, query, key, value, mask = samples("float64", "added")
    query[0, 1, 4, 0], key[1, 0, 9, 0] = np.nan, np.inf
    outs = [[np.empty((2, 4, 7, 5)), np.empty((2, 4, 7))] for _ in range(2)]
    cpu.attention(query, key, value, mask, *outs[0], 1.0, False)
    run(plan(query, key, value, mask, *outs[1], 1.0, False), 0)
    assert np.isnan(outs[0][0]).any()
    np.testing.assert_array_equal(np.isnan(outs[1][0]), np.isnan(outs[0][0]))


def test_nothing_is_launched_for_nothing() -> None:
    none, rows = np.empty((0, 2, 3, 4)), np.empty((0, 2, 3))
    assert plan(none, none, none, None, none, rows, 1.0, False) == []
    outs = none, none, none
    assert plan_gradient(none, none, none, none, None, none, rows, outs, 1.0, False) == []
