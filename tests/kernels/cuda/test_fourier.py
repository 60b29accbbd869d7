"""Transforms on CUDA share CuPy's plans; a stand-in for cuFFT computes them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import KernelError
from fastdist.devices.cuda import CudaBackend
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def test_a_stream_waits_for_the_one_on_which_the_thread_used_its_plans(
    cuda: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(cupy.Stream, "wait_event", lambda self, event: waits.append(self.ptr))
    x = fd.ones(4, device="cuda")
    first, second = fd.cuda.Stream(), fd.cuda.Stream()
    with fd.cuda.stream(first):
        fd.fft.rfft(x)
    with fd.cuda.stream(second):
        x.exp()
        del waits[:]
        fd.fft.rfft(x)
        told = list(waits)
        fd.fft.rfft(x)
    assert len(told) == 1 and waits == told


def test_a_graph_that_is_captured_keeps_no_transform(cuda: CudaBackend) -> None:
    x = fd.ones(4, device="cuda")
    fd.fft.rfft(x)
    with (
        pytest.raises(KernelError, match="a graph cannot keep a transform"),
        fd.cuda.graph(fd.cuda.CUDAGraph()),
    ):
        fd.fft.rfft(x)


def test_what_is_halved_is_a_copy(cuda: CudaBackend) -> None:
    x = fd.ones(5, device="cuda", requires_grad=True)
    half = fd.fft.rfft(x)
    g = fd.ones_like(half.detach())
    half.backward(g)
    np.testing.assert_array_equal(g.cpu().numpy(), 1)
