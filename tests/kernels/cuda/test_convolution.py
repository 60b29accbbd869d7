"""CUDA convolutions and patches, run on the CPU shim, against the CPU kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.precision import convolutions
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.launch import Slot
from fastdist.kernels.cuda.nn import convolution as cuda
from fastdist.kernels.cuda.nn import patches
from tests.fibre_shim.installed import cuda_on_fibres
from tests.kernels.cuda.cpu_twins import cpu_twins

cpu = cpu_twins("nn.convolution")
cpu_patches = cpu_twins("nn.patches")

TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12, "int64": 0}
# Image, kernel, stride, padding, dilation, input and output channels per group, groups.
GEOMETRIES = [
    ((7,), (3,), (2,), (1,), (1,), 3, 4, 1),
    ((5, 6), (3, 2), (1, 2), (1, 0), (1, 2), 2, 3, 1),
    ((3, 4, 5), (2, 1, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 2, 2, 1),
    ((5, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1, 2, 3),
    ((4, 4), (3, 3), (1, 1), (1, 1), (1, 1), 9, 2, 2),
    ((6, 5), (2, 2), (2, 2), (0, 0), (2, 1), 2, 1, 2),
    ((8, 5), (3, 2), (3, 2), (2, 1), (1, 2), 2, 3, 1),
    ((2, 3), (1, 1), (1, 1), (0, 0), (1, 1), 3, 4, 1),
    ((2, 2), (1, 1), (1, 1), (0, 0), (1, 1), 65, 2, 2),
    ((5, 4), (1, 1), (3, 2), (0, 0), (1, 1), 3, 2, 1),
]
ALL_AT_ONCE, NONE = 1 << 28, 1 << 30


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
    """Compare a kernel with its CPU twin, for operands in C order and for operands with gaps."""
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


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_convolutions_are_those_of_the_cpu(
    backend: CudaBackend, geometry: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_COLUMN_BYTES", 1 << 11)
    hold_all(backend, geometry, dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("limit", "widest"), [(ALL_AT_ONCE, NONE), (ALL_AT_ONCE, 1), (1 << 9, 1)])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_images_multiplied_together_or_apart_give_the_same(
    backend: CudaBackend, geometry: Any, limit: int, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_COLUMN_BYTES", limit)
    monkeypatch.setattr(cuda, "_WIDE", widest)
    hold_all(backend, geometry, "float32")


@pytest.mark.parametrize("widest", [NONE, 1])
def test_one_image_is_multiplied_as_it_lies(
    backend: CudaBackend, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_WIDE", widest)
    for geometry in (GEOMETRIES[1], GEOMETRIES[4], GEOMETRIES[7]):
        hold_all(backend, geometry, "float32", images=1)


def hold_all(backend: CudaBackend, geometry: Any, dtype: str, images: int = 3) -> None:
    image, kernel, stride, padding, dilation, inputs, outputs, groups = geometry
    grid = grid_of(image, kernel, stride, padding, dilation)
    x = numbers(0, (images, inputs * groups, *image), dtype)
    y = numbers(1, (images, outputs * groups, *grid), dtype)
    weight = numbers(2, (outputs * groups, inputs, *kernel), dtype)
    how = (stride, padding, dilation, groups)
    of_y, of_x = numbers(3, (y.shape[1],), dtype), numbers(4, (x.shape[1],), dtype)
    for bias in (None, of_y):
        hold(backend, cpu.forward, "nn.convolution.forward", (x, weight, bias), y.shape, *how)
    for bias in (None, of_x):
        hold(backend, cpu.by_input, "nn.convolution.by_input", (y, weight, bias), x.shape, *how)
    hold(backend, cpu.by_weight, "nn.convolution.by_weight", (y, x), weight.shape, *how)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("geometry", GEOMETRIES[:3])
def test_patches_are_those_of_the_cpu(backend: CudaBackend, geometry: Any, dtype: str) -> None:
    image, kernel, stride, padding, dilation, channels, *_ = geometry
    grid = grid_of(image, kernel, stride, padding, dilation)
    shape = (2, channels * int(np.prod(kernel)), int(np.prod(grid)))
    x, columns = numbers(0, (2, channels, *image), dtype), numbers(1, shape, dtype)
    how = (kernel, grid, stride, padding, dilation)
    hold(backend, cpu_patches.unfold, "nn.patches.unfold", (x,), shape, *how)
    hold(backend, cpu_patches.fold, "nn.patches.fold", (columns,), x.shape, *how)


@pytest.mark.parametrize("threads", [1, 40])
@pytest.mark.parametrize("wide", [False, True])
def test_a_thread_may_write_all_numbers_of_a_kernel(
    backend: CudaBackend, threads: int, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "_ENOUGH", threads)
    monkeypatch.setattr(patches, "_is_wide", lambda *facts: wide)
    for image, kernel, stride, padding, dilation, channels, *_ in GEOMETRIES[:3]:
        grid = grid_of(image, kernel, stride, padding, dilation)
        rows, places = channels * int(np.prod(kernel)), int(np.prod(grid))
        how = (kernel, grid, stride, padding, dilation)
        x, columns = numbers(0, (2, channels, *image), "float32"), (2, rows, places)
        hold(backend, cpu_patches.unfold, "nn.patches.unfold", (x,), columns, *how)
        y = numbers(1, columns, "float32")
        hold(backend, cpu_patches.fold, "nn.patches.fold", (y,), x.shape, *how)


@pytest.mark.parametrize(
    ("far", "is_wide"), [({}, False), ({"step": 2**30}, True), ({"n": 2**26}, True)]
)
def test_places_are_64_bits_wide_where_32_do_not_hold_them(
    far: dict[str, int], is_wide: bool
) -> None:
    axes = patches.three_axes((4, 4), (3, 3), (4, 4), (1, 1), (1, 1), (1, 1))
    steps = [48, 16, 0, far.get("step", 4), 1, 576, 16, 1]
    assert patches._is_wide(far.get("n", 2), 3, axes, steps) == is_wide


@pytest.mark.gpu
@pytest.mark.parametrize(("allowed", "least", "most"), [(False, 0.0, 2e-6), (True, 1e-5, 5e-3)])
def test_the_switch_of_tf32_chooses_how_many_bits_a_gpu_keeps(
    monkeypatch: pytest.MonkeyPatch, allowed: bool, least: float, most: float
) -> None:
    monkeypatch.setattr(convolutions, "allow_tf32", allowed)
    x, weight = numbers(0, (4, 16, 32, 32), "float32"), numbers(1, (32, 16, 3, 3), "float32")
    convolve = fd.nn.functional.conv2d
    expected = convolve(fd.tensor(x).double(), fd.tensor(weight).double())
    found = convolve(fd.tensor(x, device="cuda"), fd.tensor(weight, device="cuda")).cpu().double()
    has_tf32 = fd.cuda.get_device_capability()[0] >= 8
    error = float((found - expected).abs().max() / expected.abs().max())
    assert (least if has_tf32 else 0.0) <= error <= most


def products_of(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, geometry: Any
) -> list[tuple[Any, ...]]:
    """Return operands and result of each product that `forward`, `by_input`, `by_weight` plan."""
    planned: list[tuple[Any, ...]] = []

    def noted(*given: Any, **how: Any) -> Any:
        planned.append(given)
        return product_step(*given, **how)

    product_step = cuda.product_step
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "product_step", noted)
        hold_all(backend, geometry, "float32")
    return planned


def test_all_images_are_one_product(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = products_of(backend, monkeypatch, GEOMETRIES[1])
    (rows, places), outputs = (12, 3 * 5 * 2), 3
    assert {tuple([one.shape for one in product]) for product in planned} == {
        ((outputs, rows), (rows, places), (outputs, places)),
        ((rows, outputs), (outputs, places), (rows, places)),
        ((outputs, places), (places, rows), (outputs, rows)),
    }


def test_a_kernel_of_one_place_multiplies_wide_images_where_they_lie(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "_WIDE", 1)
    planned = products_of(backend, monkeypatch, GEOMETRIES[7])
    lying = [
        [one.place for one in product]
        for product in planned
        if all(isinstance(one, Slot) for one in product)
    ]
    # The calls are `forward` and `by_input`, each without and with a bias. Their other operands
    # have gaps.
    weight, images, out = 1, 0, 3
    assert lying == [[weight, images, out]] * 4


def test_layouts_are_planned_once(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    assert products_of(backend, monkeypatch, GEOMETRIES[1])
    assert not products_of(backend, monkeypatch, GEOMETRIES[1])


@pytest.mark.parametrize(
    "shapes", [((0, 2, 4), (0, 3, 3)), ((2, 0, 4), (2, 3, 3)), ((2, 2, 1), (2, 3, 0))]
)
def test_sums_of_nothing_are_zero(backend: CudaBackend, shapes: Any) -> None:
    x, y = [np.ones(shape) for shape in shapes]
    weight, how = np.ones((3, x.shape[1], 2)), ((1,), (0,), (1,), 1)
    hold(backend, cpu.forward, "nn.convolution.forward", (x, weight, np.ones(3)), y.shape, *how)
    bias = np.ones(x.shape[1])
    hold(backend, cpu.by_input, "nn.convolution.by_input", (y, weight, bias), x.shape, *how)
    hold(backend, cpu.by_weight, "nn.convolution.by_weight", (y, x), weight.shape, *how)
