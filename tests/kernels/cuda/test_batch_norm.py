"""CUDA batch norm, run on the CPU shim, against the CPU kernel and the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cuda.nn.batch_norm import plan_channels, plan_gradients
from tests.fibre_shim.driver import SEEDS, run
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.batch_norm")

TOLERANCE = {"float16": 4e-3, "float32": 3e-6, "float64": 1e-13}
EPS = 1e-3


def sample(shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    """Return g, x, weight and bias."""
    random = np.random.default_rng(0)
    shapes = (shape, shape, shape[1:2], shape[1:2])
    return [(random.standard_normal(s) + 0.5).astype(dtype) for s in shapes]


def by_formula(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None
) -> list[np.ndarray]:
    """Return out, mean, variance and the gradients by x, weight and bias, in float64."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    kept = tuple(-1 if axis == 1 else 1 for axis in range(x.ndim))
    wide, slope = x.astype(np.float64), g.astype(np.float64)
    mean, variance = wide.mean(axes), wide.var(axes)
    inverse = 1 / np.sqrt(variance + EPS).reshape(kept)
    normal = (wide - mean.reshape(kept)) * inverse
    scale = inverse if weight is None else inverse * weight.reshape(kept)
    out = normal if weight is None else normal * weight.reshape(kept)
    out = out if bias is None else out + bias.reshape(kept)
    along = (slope * normal).mean(axes, keepdims=True)
    by_x = (slope - slope.mean(axes, keepdims=True) - normal * along) * scale
    return [out, mean, variance, by_x, (slope * normal).sum(axes), slope.sum(axes)]


def computed(
    forward: Any, backward: Any, given: list[Any], *, whole: bool = True
) -> list[np.ndarray]:
    """Return the results of a pair of kernels, as in `by_formula`."""
    g, x, weight, bias = given
    real = np.float64 if x.dtype == np.float64 else np.float32
    out, by_x = (np.full(x.shape, 99, x.dtype) for _ in range(2))
    mean, variance, by_weight, by_bias = (np.full(x.shape[1], 99, real) for _ in range(4))
    forward(x, weight, bias, out, mean, variance, EPS)
    to = by_x if whole else np.empty(0, x.dtype)
    backward(g, x, weight, mean, variance, to, by_weight, by_bias, EPS)
    return [out, mean, variance, by_x, by_weight, by_bias]


def on_fibres(given: list[Any], seed: int, *, whole: bool = True) -> list[np.ndarray]:
    return computed(
        lambda *a: run(plan_channels(*a), seed),
        lambda *a: run(plan_gradients(*a), seed),
        given,
        whole=whole,
    )


def check(given: list[Any]) -> None:
    """Compare both kernels with the formula; run the CUDA kernel with three orders of threads."""
    tolerance = TOLERANCE[given[1].dtype.name]
    expected = by_formula(*given)
    twins = [computed(cpu.channels, cpu.channels_gradients, given)]
    twins += [on_fibres(given, seed) for seed in SEEDS]
    for found in twins:
        for one, wanted in zip(found, expected, strict=True):
            atol = tolerance * max(np.abs(wanted).max(), 1.0)
            np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=atol)
    for found in twins[2:]:
        assert all(np.array_equal(a, b) for a, b in zip(found, twins[1], strict=True))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shape", [(2, 1), (33, 5), (2, 3, 1), (3, 70, 4), (2, 3, 7, 9), (3, 2, 1500), (2, 2, 3, 4, 5)]
)
def test_channels_of_any_number_of_places(shape: tuple[int, ...], dtype: str) -> None:
    check(sample(shape, dtype))


@pytest.mark.parametrize("absent", [(2,), (3,), (2, 3)])
def test_weight_and_bias_may_be_absent(absent: tuple[int, ...]) -> None:
    check([None if i in absent else one for i, one in enumerate(sample((4, 3, 5), "float32"))])


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 2, 1, 0)])
def test_inputs_may_lie_in_any_order(order: tuple[int, ...]) -> None:
    g, x, _, _ = sample((4, 5, 6, 5), "float64")
    g, x = g[::-1, :, ::2].transpose(order), x[:, ::-1, 1::2].transpose(order)
    weight, bias = np.linspace(1, 2, x.shape[1]), np.linspace(-1, 0, x.shape[1])
    check([g, x, weight, bias])


def test_parameters_of_half_an_input_may_be_float32() -> None:
    g, x, weight, bias = sample((4, 3, 20), "float16")
    check([g, x, weight.astype(np.float32), bias.astype(np.float32)])


def test_the_variance_about_a_large_mean_keeps_its_digits() -> None:
    given = sample((64, 2, 200), "float32")
    given[1] += 1000
    for found in (
        computed(cpu.channels, cpu.channels_gradients, given),
        on_fibres(given, 0),
    ):
        np.testing.assert_allclose(found[2], given[1].astype(float).var((0, 2)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 7)])
def test_the_gradient_of_the_input_is_left_out_where_nobody_asks(shape: tuple[int, ...]) -> None:
    given = sample(shape, "float64")
    expected = by_formula(*given)[4:]
    for found in (
        computed(cpu.channels, cpu.channels_gradients, given, whole=False),
        on_fibres(given, 0, whole=False),
    ):
        np.testing.assert_allclose(found[4:], expected, rtol=1e-12)
        assert (found[3] == 99).all()


def test_what_is_not_finite_stays_in_its_channel() -> None:
    given = sample((4, 4, 300), "float32")
    given[1][0, 0, 5], given[1][2, 2, 7] = np.nan, np.inf
    for found in (
        computed(cpu.channels, cpu.channels_gradients, given),
        on_fibres(given, 0),
    ):
        assert np.isnan(found[0][:, [0, 2]]).all() and np.isfinite(found[0][:, [1, 3]]).all()
        assert np.isfinite(found[3][:, [1, 3]]).all()
