"""The cuda backend, on the CPU shim for CuPy, follows the rules for every backend."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.core.errors import DeviceError, KernelError, OutOfMemoryError
from fastdist.devices.cuda import CudaBackend, load
from tests.devices.test_conformance import *  # noqa: F403
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres, forget_cupy

# CUDA's status for work that is not done yet.
NOT_READY = 600


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def test_products_of_the_backend_are_matmul(backend: CudaBackend) -> None:
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    out = backend.empty((4, 2), np.dtype("float64"), 0).transpose((1, 0))
    backend.kernel("linalg.product.matmul")(backend.from_numpy(x, 0), backend.from_numpy(y, 0), out)
    assert np.array_equal(backend.to_numpy(out), x @ y)


def test_one_product_of_float16_is_added_in_float32(backend: CudaBackend) -> None:
    # The products 90,000 and -90,000 are beyond float16's range.
    x, y = (np.array([[300, sign * 300, 3]], np.float16) for sign in (1, -1))
    out = backend.empty((1, 1), np.dtype("float16"), 0)
    backend.kernel("linalg.product.matmul")(
        backend.from_numpy(x, 0), backend.from_numpy(y.T, 0), out
    )
    assert backend.to_numpy(out).item() == 9


def test_copying_kernels_cast_and_place(backend: CudaBackend) -> None:
    x = backend.from_numpy(np.array([1.5, -2.5], np.float32), 0)
    whole = backend.empty((2,), np.dtype("int32"), 0)
    backend.kernel("shape.copying.cast")(x, whole)
    assert backend.to_numpy(whole).tolist() == [1, -2]
    out = backend.empty((2, 3), np.dtype("float32"), 0)
    for number in (0, 7):
        backend.kernel("shape.copying.place")(x, out, np.s_[:, 1], np.array(number, np.float32))
        assert backend.to_numpy(out).tolist() == [[number, 1.5, number], [number, -2.5, number]]


def test_copy_into_crosses_devices(backend: CudaBackend) -> None:
    source = backend.from_numpy(np.arange(12.0).reshape(3, 4), 1)
    out = backend.empty((4, 3), np.dtype("float32"), 0)
    backend.copy_into(out, source.transpose((1, 0)))
    assert np.array_equal(backend.to_numpy(out), np.arange(12.0).reshape(3, 4).T)
    assert backend.index_of(source) == 1 and backend.index_of(out) == 0


def test_arrays_of_two_devices_do_not_meet_in_a_kernel(backend: CudaBackend) -> None:
    x, y = (backend.from_numpy(np.zeros(3), index) for index in (0, 1))
    with pytest.raises(DeviceError, match="but found at least two devices, cuda:0 and cuda:1"):
        backend.add_into(x, y)
    with pytest.raises(DeviceError, match="a CPU array among arrays of cuda"):
        backend.add_into(x, np.zeros(3))


def test_memory_of_a_recorded_stream_comes_back_when_its_event_has_passed(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, free = backend.from_numpy(np.zeros(1000), 0), cupy.Memory.free_bytes
    backend.record_stream(array[10:20], backend.stream(0))
    monkeypatch.setattr(cupy, "status", [NOT_READY])
    del array
    backend.empty((1,), np.dtype("int8"), 0)
    assert cupy.Memory.free_bytes == free
    monkeypatch.setattr(cupy, "status", [0])
    backend.empty((0,), np.dtype("int8"), 0)
    assert cupy.Memory.free_bytes == free + 8000


def test_out_of_memory_waits_for_recorded_streams_before_it_gives_up(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = backend.from_numpy(np.zeros(1000), 0)
    backend.record_stream(array, backend.stream(0))
    monkeypatch.setattr(cupy, "status", [NOT_READY])
    monkeypatch.setattr(cupy.Memory, "free_bytes", 4000)
    monkeypatch.setattr(cupy.Event, "synchronize", lambda event: cupy.status.__setitem__(0, 0))
    del array
    backend.empty((1000,), np.dtype("float64"), 0)
    with pytest.raises(OutOfMemoryError, match="cuda: cannot allocate 8000000 bytes"):
        backend.empty((10**6,), np.dtype("float64"), 0)


@pytest.mark.parametrize("kind", [cupy.CUDARuntimeError, cupy.CUDADriverError])
def test_what_failed_on_the_device_is_raised_by_who_waits(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(event: cupy.Event) -> None:
        raise kind("an illegal memory access")

    monkeypatch.setattr(cupy.Event, "synchronize", fail)
    with pytest.raises(KernelError, match="cuda: an illegal memory access"):
        backend.current_stream(0).record_event().synchronize()
    # Host functions still run after the error.
    called = threading.Event()
    backend.current_stream(0).launch_host_function(called.set)
    assert called.wait(30)


def test_an_event_of_another_backend_is_waited_for(backend: CudaBackend) -> None:
    class Event:
        waited = False

        def synchronize(self) -> None:
            self.waited = True

    event = Event()
    backend.current_stream(0).wait_event(event)
    assert event.waited


def test_a_failing_host_function_is_told_and_the_next_one_runs(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    stream, called = backend.stream(0), threading.Event()

    def fail() -> None:
        raise ValueError("on purpose")

    stream.launch_host_function(fail)
    stream.launch_host_function(called.set)
    assert called.wait(30) and [str(error) for error in told] == ["on purpose"]


def test_host_functions_are_called_though_their_thread_could_not_start_before(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stream, called = backend.stream(0), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            stream.launch_host_function(called.set)
    stream.launch_host_function(called.set)
    assert called.wait(10)


def test_without_a_driver_the_reason_is_told(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise cupy.CUDARuntimeError("cudaErrorNoDevice")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fail)
    with pytest.raises(DeviceError, match=r"no NVIDIA driver with a GPU.*cudaErrorNoDevice"):
        load()


def test_without_cupy_the_extra_is_named(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    forget_cupy()
    with pytest.raises(
        DeviceError, match=r"in the clone of fastdist, pip install -e '.\[cuda12\]'"
    ):
        load()
    monkeypatch.setitem(sys.modules, "cupy", cupy)


def test_memory_outlives_the_backend_and_cupy(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = backend.empty((8,), np.dtype(np.float32), 0)
    backend.record_stream(array, backend.stream(0))
    backend.allocator.close()
    with monkeypatch.context() as without_cupy:
        without_cupy.setitem(sys.modules, "cupy", None)
        forget_cupy()
        del array  # an error in the finalizer would fail this test
    forget_cupy()


def test_memory_is_given_back_after_a_kernel_has_failed(
    backend: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise cupy.CUDARuntimeError(700)

    array = backend.empty((8,), np.dtype(np.float32), 0)
    backend.record_stream(array, backend.stream(0))
    free = cupy.Memory.free_bytes
    monkeypatch.setattr(cupy.Event, "record", fails)
    del array
    assert cupy.Memory.free_bytes == free + 32
