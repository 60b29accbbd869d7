"""CUDA kernels of CTC loss, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fastdist.kernels.cuda.nn.ctc import plan_gradient, plan_losses
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.ctc")

# The number of steps and the target of each sample. Some samples have no steps, no target, or fewer
# steps than the target needs.
TEXTS = [(6, [1, 2, 2, 3]), (7, []), (0, []), (2, [1, 1]), (7, [3, 1, 3]), (0, [1])]
LETTERS = np.zeros((len(TEXTS), 9), np.int64)
for row, (_, text) in zip(LETTERS, TEXTS, strict=True):
    row[1 : 2 * len(text) : 2] = text
SIZES = np.array([(steps, 2 * len(text) + 1) for steps, text in TEXTS])


def likely(dtype: str) -> np.ndarray:
    """Return log_probs whose memory is laid out as (samples, classes, time)."""
    x = np.random.default_rng(0).standard_normal((len(TEXTS), 4, 7))
    x = (x - np.log(np.exp(x).sum(1, keepdims=True))).astype(dtype)
    return x.transpose(2, 0, 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 2e-3), ("float32", 1e-6), ("float64", 1e-13)]
)
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_twins_agree(dtype: str, tolerance: float, zero_infinity: bool, seed: int) -> None:
    x = likely(dtype)
    n, alphas = len(TEXTS), [np.zeros((len(TEXTS), 7, 9)) for _ in range(2)]
    expected, out = np.empty(n, dtype), np.empty(n, dtype)
    cpu.losses(x, LETTERS, SIZES, expected, alphas[0], zero_infinity)
    run(plan_losses(x, LETTERS, SIZES, out, alphas[1], zero_infinity), seed)
    np.testing.assert_allclose(out, expected, tolerance)
    np.testing.assert_allclose(*alphas, 1e-12)
    g = np.linspace(-1, 2, 2 * n).astype(dtype)[::2]
    slope, found = np.empty(x.shape, dtype), np.empty(x.shape, dtype)
    cpu.gradient(g, x, LETTERS, SIZES, alphas[0], slope, zero_infinity)
    run(plan_gradient(g, x, LETTERS, SIZES, alphas[0], found, zero_infinity), seed)
    np.testing.assert_allclose(found, slope, tolerance, tolerance)
    assert np.isnan(slope[:2, 3]).all() != zero_infinity and not slope[2:, 3].any()


def test_nothing_is_launched_for_nothing() -> None:
    x, none, whole = np.empty((3, 0, 2)), np.empty((0, 1), np.int64), np.empty((0, 3, 1))
    assert plan_losses(x, none, none, np.empty(0), whole, False) == []
    assert plan_gradient(np.empty(0), x, none, none, whole, x, False) == []
