"""Convolutions and patches, run on the CPU by fibres, against the CPU's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda import convolution as cuda
from tests.fibre_shim.installed import cuda_on_fibres
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("convolution")
cpu_patches = cpu_twins("patches")

TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12, "int64": 0}
# Image, kernel, stride, padding, dilation, inputs and outputs of a group, groups.
GEOMETRIES = [
    ((7,), (3,), (2,), (1,), (1,), 3, 4, 1),
    ((5, 6), (3, 2), (1, 2), (1, 0), (1, 2), 2, 3, 1),
    ((3, 4, 5), (2, 1, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 2, 2, 1),
    ((5, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, 3),
    ((4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 9, 2, 2),
    ((6, 5), (2, 2), (2, 2), (0, 0), (2, 1), 2, 1, 2),
]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def grid_of(image: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    axes = zip(image, kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    drawn = np.random.default_rng(seed).uniform(-2, 2, shape)
    return (drawn * 3).astype(dtype) if dtype == "int64" else drawn.astype(dtype)


def hold(backend: CudaBackend, twin: Any, name: str, given: Any, shape: Any, *how: Any) -> None:
    """Hold a kernel against its twin, for operands in C order and with gaps."""
    dtype = given[0].dtype
    expected = np.empty(shape, dtype)
    twin(*given, expected, *how)
    for gaps in (False, True):
        ours = [
            None if one is None else backend.from_numpy(spread(one) if gaps else one, 0)
            for one in given
        ]
        if gaps:
            ours = [one if one is None else one[..., ::2] for one in ours]
        out = backend.empty(shape, dtype, 0)
        backend.kernel(name)(*ours, out, *how)
        tolerance = TOLERANCE[dtype.name]
        scale = max(np.abs(expected).max(initial=0), 1)
        found = backend.to_numpy(out)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def spread(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=-1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolutions_are_those_of_the_cpu(
    backend: CudaBackend, geometry: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_COLUMN_BYTES", 1 << 11)
    image, kernel, stride, padding, dilation, inputs, outputs, groups = geometry
    grid = grid_of(image, kernel, stride, padding, dilation)
    x = numbers(0, (3, inputs * groups, *image), dtype)
    y = numbers(1, (3, outputs * groups, *grid), dtype)
    weight = numbers(2, (outputs * groups, inputs, *kernel), dtype)
    how = (stride, padding, dilation, groups)
    of_y, of_x = numbers(3, (y.shape[1],), dtype), numbers(4, (x.shape[1],), dtype)
    for bias in (None, of_y):
        hold(backend, cpu.forward, "convolution.forward", (x, weight, bias), y.shape, *how)
    for bias in (None, of_x):
        hold(backend, cpu.by_input, "convolution.by_input", (y, weight, bias), x.shape, *how)
    hold(backend, cpu.by_weight, "convolution.by_weight", (y, x), weight.shape, *how)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("geometry", GEOMETRIES[:3])
def test_patches_are_those_of_the_cpu(backend: CudaBackend, geometry: Any, dtype: str) -> None:
    image, kernel, stride, padding, dilation, channels, *_ = geometry
    grid = grid_of(image, kernel, stride, padding, dilation)
    shape = (2, channels * int(np.prod(kernel)), int(np.prod(grid)))
    x, columns = numbers(0, (2, channels, *image), dtype), numbers(1, shape, dtype)
    how = (kernel, grid, stride, padding, dilation)
    hold(backend, cpu_patches.unfold, "patches.unfold", (x,), shape, *how)
    hold(backend, cpu_patches.fold, "patches.fold", (columns,), x.shape, *how)


@pytest.mark.parametrize("shapes", [((0, 2, 4), (0, 3, 3)), ((2, 0, 4), (2, 3, 3))])
def test_sums_of_nothing_are_zero(backend: CudaBackend, shapes: Any) -> None:
    x, y = [np.ones(shape) for shape in shapes]
    weight, how = np.ones((3, x.shape[1], 2)), ((1,), (0,), (1,), 1)
    hold(backend, cpu.forward, "convolution.forward", (x, weight, np.ones(3)), y.shape, *how)
    hold(backend, cpu.by_weight, "convolution.by_weight", (y, x), weight.shape, *how)
