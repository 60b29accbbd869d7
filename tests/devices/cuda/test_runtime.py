"""Reports of a GPU's driver and libraries, and limits of a process; here on the CPU shim.

The tests marked gpu, and `bench first_contact`, check that a real driver reports the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import info
from fastdist.core.device import current_gpu
from fastdist.core.errors import DeviceError, KernelError
from fastdist.core.precision import products
from fastdist.devices import backend, gpus
from fastdist.devices.cuda import CudaBackend, cuda, library
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    for one in cuda_on_fibres(monkeypatch):
        yield one
        fd.cuda.set_device(0)
        products.choose("highest")


class CompileException(Exception):
    __module__ = "cupy.cuda.compiler"


class CUBLASError(RuntimeError):
    __module__ = "cupy_backends.cuda.libs.cublas"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (CUBLASError("CUBLAS_STATUS_EXECUTION_FAILED"), "cuda: CUBLAS_STATUS_EXECUTION_FAILED$"),
        (CompileException("x.cu(3): error"), r"x\.cu\(3\): error\nfastdist's own text did not"),
        (cupy.CUDARuntimeError(700), "status 700: a kernel before this call failed.*LAUNCH_BLOCK"),
        (cupy.CUDARuntimeError(900), "status 900: .*while a graph is captured"),
        (CUBLASError(), "cuda: CUBLASError$"),
    ],
)
def test_errors_of_the_driver_and_its_libraries_are_ours(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    x = fd.ones(2, 2, device="cuda", dtype=fd.int64)  # CuPy computes matrix products of integers
    monkeypatch.setattr(cupy, "matmul", fail)
    for call in (lambda: x @ x, lambda: x.reshape(1, 2, 2) @ x):
        with pytest.raises(KernelError, match=told):
            call()
    assert issubclass(KernelError, fd.cuda.AcceleratorError)


def test_errors_of_ours_stay_what_they_are(fibres: CudaBackend) -> None:
    with pytest.raises(ZeroDivisionError), library.device_errors():
        raise ZeroDivisionError


def test_a_query_tells_what_is_late_from_what_never_comes(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = fd.cuda.current_stream()
    event = fd.cuda.Event()
    event.record()
    for status, done in ((0, True), (600, False)):
        monkeypatch.setattr(cupy, "status", [status])
        assert stream.query() is done and event.query() is done
    monkeypatch.setattr(cupy, "status", [719])
    for ask in (stream.query, event.query):
        with pytest.raises(KernelError, match="cannot use the GPU any more"):
            ask()


def test_default_streams_of_each_thread_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", "1")
    monkeypatch.setattr(cuda, "cupy", lambda: cupy)
    with pytest.raises(DeviceError, match="unset it, and use fastdist"):
        cuda.load()


@pytest.mark.parametrize(
    "error",
    [ImportError("libcublas.so.12: no such file"), ModuleNotFoundError("x", name="fastrlock")],
)
def test_a_cupy_that_does_not_load_is_told_of(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> Any:
        raise error

    monkeypatch.setattr(cuda, "cupy", fail)
    monkeypatch.delitem(backend._loaded, "cuda", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    gpus._finds_cupy.cache_clear()
    try:
        assert not fd.cuda.is_available()
    finally:
        gpus._finds_cupy.cache_clear()
    row = info._usable()
    assert row.is_missing and f"does not load ({error})" in row.value


def test_how_many_gpus_are_usable_is_told(fibres: CudaBackend) -> None:
    assert info._usable() == info.Row("gpu", "usable", "2 GPUs")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_told_that_cuda_does_not_survive_it(fibres: CudaBackend) -> None:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            cuda.refuse_in_child()
            fd.zeros(1, device="cuda")
        except DeviceError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read().startswith("Cannot re-initialize CUDA in forked subprocess.")
    os.waitpid(child, 0)
    assert fd.zeros(1, device="cuda").tolist() == [0]


def test_a_process_that_used_no_gpu_may_fork_and_use_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(backend._loaded, "cuda", raising=False)
    cuda.refuse_in_child()
    assert "cuda" not in backend._loaded


def test_cuda_alone_means_the_device_that_the_thread_chose(fibres: CudaBackend) -> None:
    fd.cuda.set_device("cuda:1")
    assert fd.ones(1, device="cuda").device == fd.device("cuda:1") == fd.device("cuda")
    assert fd.cuda.current_device() == 1 == cupy.state.device
    with fd.cuda.device(0):
        assert str(fd.ones(1, device="cuda").device) == "cuda:0"
        with fd.cuda.device(-1), fd.cuda.device(None):
            assert fd.cuda.current_device() == 0
        with fd.cuda.device_of(fd.ones(1, device="cuda:1")):
            assert fd.cuda.current_device() == 1
    assert current_gpu() == 1 and fd.cuda.current_stream().device == fd.device("cuda:1")
    fd.cuda.set_device(-1)
    assert fd.cuda.current_device() == 1
    with pytest.raises(DeviceError, match="cuda:2 does not exist"):
        fd.cuda.set_device(2)
    assert fd.cuda.current_device() == 1


def test_what_a_gpu_is_can_be_asked(fibres: CudaBackend) -> None:
    found = fd.cuda.get_device_properties(1)
    assert (found.name, found.major, found.multi_processor_count) == ("fibres", 9, 2)
    assert found.total_memory == 1 << 40
    assert fd.cuda.get_device_name() == "fibres" and fd.cuda.get_device_capability() == (9, 0)
    assert fd.cuda.get_arch_list() == ["sm_90"]
    assert fd.cuda.is_bf16_supported(including_emulation=False) and fd.cuda.is_tf32_supported()
    assert fd.cuda.can_device_access_peer(0, "cuda:1")
    for bad in (lambda: fd.cuda.can_device_access_peer(1, 1), lambda: fd.cuda.get_device_name(7)):
        with pytest.raises(DeviceError):
            bad()


def test_memory_in_use_is_counted_by_device(fibres: CudaBackend) -> None:
    fd.cuda.reset_peak_memory_stats(1)
    before = fd.cuda.memory_allocated(1)
    x = fd.ones(1000, device="cuda:1")
    assert fd.cuda.memory_allocated(1) - before == 4000
    y = x * 2
    del x
    assert fd.cuda.memory_allocated(1) - before == 4000
    assert fd.cuda.max_memory_allocated(1) - before == 8000
    fd.cuda.reset_peak_memory_stats(1)
    assert fd.cuda.max_memory_allocated(1) - before == 4000
    stats = fd.cuda.memory_stats(1)
    assert stats["allocated_bytes.all.current"] == fd.cuda.memory_allocated(1)
    assert stats["allocation.all.current"] >= 1 and stats["num_ooms"] == 0
    assert fd.cuda.memory_reserved(1) >= fd.cuda.memory_allocated(1)
    assert fd.cuda.max_memory_reserved(1) >= fd.cuda.memory_reserved(1)
    free, total = fd.cuda.mem_get_info(1)
    assert 0 < free < total == 1 << 40
    assert "memory of cuda:1" in fd.cuda.memory_summary(1) and "at most" in fd.cuda.memory_summary()
    fd.cuda.empty_cache()
    del y
    assert fd.cuda.memory_allocated(1) == before
    with pytest.raises(DeviceError):
        fd.cuda.memory_allocated(5)


def test_memory_that_there_is_not_is_counted(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy.Memory, "free_bytes", 100)
    with pytest.raises(fd.cuda.OutOfMemoryError, match="cannot allocate 4000 bytes"):
        fd.empty(1000, device="cuda")
    assert fd.cuda.memory_stats()["num_ooms"] == 1


def test_a_share_of_the_memory_is_a_limit_of_the_pool(fibres: CudaBackend) -> None:
    fd.cuda.set_per_process_memory_fraction(0.5, "cuda:1")
    assert cupy.get_default_memory_pool().limits == {1: 0.5}
    fd.cuda.set_per_process_memory_fraction(1.0, 1)
    assert cupy.get_default_memory_pool().limits == {1: 0}
    for bad in (1.5, -0.1, "half"):
        with pytest.raises(ValueError, match="Allowed range: 0~1"):
            fd.cuda.set_per_process_memory_fraction(bad)  # type: ignore[arg-type]


def test_products_may_be_computed_in_tf32(fibres: CudaBackend) -> None:
    chosen = cupy.compute_types
    assert chosen[np.float32] == 0
    fd.set_float32_matmul_precision("high")
    assert chosen[np.float32] == 5 and fd.backends.cuda.matmul.allow_tf32
    fd.backends.cuda.matmul.allow_tf32 = False
    assert chosen[np.float32] == 0 and fd.get_float32_matmul_precision() == "highest"
    fd.backends.cuda.matmul.allow_tf32 = True
    assert fd.get_float32_matmul_precision() == "high"


def test_streams_are_waited_for_and_told_apart(fibres: CudaBackend) -> None:
    side, default = fd.cuda.Stream(), fd.cuda.default_stream()
    assert default == fd.cuda.current_stream() != side and side.cuda_stream and default in {default}
    side.wait_stream(default)
    with fd.cuda.stream(side):
        assert fd.cuda.current_stream() == side
        y = fd.ones(3, device="cuda") * 2
    default.wait_stream(side)
    y.record_stream(side)
    assert y.tolist() == [2, 2, 2]
    del y
    event = fd.cuda.Event(enable_timing=True)
    assert side.record_event(event) is event and event.query()
    default.wait_event(event)
    default.wait_event(fd.cuda.Event())  # not recorded: there is nothing to wait for
    fd.cuda.set_stream(side)
    assert fd.cuda.current_stream() == side
    fd.cuda.set_stream(default)
    other = fd.cuda.ExternalStream(side.cuda_stream)
    assert other == side and hash(other) == hash(side) and (side == 1) is False
    assert fd.cuda.Stream(priority=-1).device == fd.device("cuda:0")


def test_other_libraries_see_the_memory_by_cuda_s_interface(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fd.arange(6.0, device="cuda").reshape(2, 3)
    described = x.__cuda_array_interface__
    assert described["shape"] == (2, 3) and described["typestr"] == "<f4"
    assert described["data"] == (x.data_ptr(), False) and described["strides"] is None
    strided = x.t().__cuda_array_interface__
    assert strided["shape"] == (3, 2) and strided["strides"] == (4, 12)
    assert described["version"] == 3 and described["stream"] == 1  # the legacy default stream
    assert not hasattr(fd.ones(1), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires_grad"):
        _ = fd.ones(1, device="cuda", requires_grad=True).__cuda_array_interface__
    foreign = SimpleNamespace(__cuda_array_interface__=described)
    monkeypatch.setattr(cupy, "asarray", lambda owner: x._array, raising=False)
    assert fd.as_tensor(foreign).data_ptr() == x.data_ptr()
