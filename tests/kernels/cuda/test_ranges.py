"""CUDA linspace, run on the CPU shim, equals the CPU kernel to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cpu.create import ranges as cpu
from fastdist.kernels.cuda.create.ranges import plan_evenly
from tests.fibre_shim.driver import SEEDS, run
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic

ENDS = [(0, 1), (-3, 3), (10, -7), (0.1, 0.7), (5, 5), (-0.0, -1), (1e-3, 1e3)]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "int16"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("steps", [1, 2, 7, 300, 3000])
def test_numbers_are_the_cpu_s_to_the_last_bit(steps: int, dtype: str) -> None:
    kind: Any = getattr(fd, dtype).numpy
    for place, (low, high) in enumerate(ENDS):
        first, last = np.array([low, high]).astype(kind)
        found, expected = np.empty(steps, kind), np.empty(steps, kind)
        cpu.evenly(expected, first, last)
        run(plan_evenly(found, first, last), SEEDS[place % len(SEEDS)])
        np.testing.assert_array_equal(found.view("u1"), expected.view("u1"))


@pytest.mark.parametrize("ends", [(np.inf, 1.0), (0.0, -np.inf), (np.nan, 1.0), (-3e38, 3e38)])
def test_what_is_not_finite_is_as_on_the_cpu(ends: tuple[float, float]) -> None:
    first, last = np.float32(ends[0]), np.float32(ends[1])
    found, expected = np.empty(9, "f4"), np.empty(9, "f4")
    cpu.evenly(expected, first, last)
    run(plan_evenly(found, first, last), SEEDS[0])
    np.testing.assert_array_equal(found, expected)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


@pytest.mark.usefixtures("cuda")
def test_linspace_is_made_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    told = host_traffic(monkeypatch)
    found = [fd.linspace(-1, 2, steps, device="cuda") for steps in (0, 1, 2, 50)]
    assert told == []
    for one in found:
        assert fd.equal(one.cpu(), fd.linspace(-1, 2, len(one)))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("dtype", [fd.float32, fd.complex64, fd.uint64])
def test_a_graph_holds_linspace_of_each_dtype(dtype: fd.dtype) -> None:
    graph = fd.cuda.CUDAGraph()
    with fd.cuda.graph(graph):
        found = fd.linspace(0, 6, 4, dtype=dtype, device="cuda")
    graph.replay()
    assert found.tolist() == [0, 2, 4, 6]
