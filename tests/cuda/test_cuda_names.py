"""Functions of `fastdist.cuda` for memory, utilisation and the runtime."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist.devices.cuda.waiting import sync_debug_mode
from tests.fibre_shim import cupy
from tests.fibre_shim.installed import cuda_on_fibres

cuda = fd.cuda


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


def test_memory_is_counted_under_pytorchs_names(fibres: Any) -> None:
    gc.collect()
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()
    before = cuda.memory_stats()
    x, y = fd.ones(256, device="cuda"), fd.ones(256, device="cuda")
    del y
    gc.collect()
    now = cuda.memory_stats()

    def more(kind: str) -> list[int]:
        names = [f"{kind}.all.{word}" for word in ("current", "peak", "allocated", "freed")]
        return [now[name] - before[name] for name in names]

    assert more("allocation") == more("active") == [1, 2, 2, 1]
    assert more("allocated_bytes") == more("active_bytes") == [1024, 2048, 2048, 1024]
    assert len(now) == 9 * 3 * 4 + 2 * 4 + 6
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == now["allocated_bytes.all.current"]
    assert x.numel() == 256


def test_no_share_of_memory_is_none_at_all(fibres: Any) -> None:
    pool = cupy.get_default_memory_pool()
    for fraction, limit in ((0.25, 0.25), (0, 2**-40), (1.0, 0)):
        cuda.set_per_process_memory_fraction(fraction, 1)
        assert pool.limits[1] == limit
        assert cuda.get_per_process_memory_fraction(1) == fraction
    assert cuda.get_per_process_memory_fraction(0) == 1.0


def test_who_waits_for_the_gpu_is_told_of_if_wanted(fibres: Any) -> None:
    x = fd.ones(2, device="cuda")
    try:
        cuda.set_sync_debug_mode("warn")
        with pytest.warns(UserWarning, match="^called a synchronizing CUDA operation") as told:
            x.sum().item()
        assert told[0].filename == __file__ and cuda.get_sync_debug_mode() == 1
        cuda.set_sync_debug_mode(2)
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            x.tolist()
        assert x.to("cpu", non_blocking=True).is_pinned()
        cuda.set_sync_debug_mode("default")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert x.tolist() == [1, 1]
        with pytest.raises(RuntimeError, match="invalid value of debug_mode: 'loud'"):
            cuda.set_sync_debug_mode("loud")
    finally:
        sync_debug_mode.number = 0


def test_tensors_of_a_gpu_have_types_of_old(fibres: Any) -> None:
    x = cuda.FloatTensor([1, 2])
    assert x.is_cuda and x.dtype is fd.float32 and isinstance(x, cuda.FloatTensor)
    assert not isinstance(x, cuda.LongTensor | fd.FloatTensor)
    assert not isinstance(x.cpu(), cuda.FloatTensor)
    assert cuda.LongTensor(2, 3).shape == (2, 3) and cuda.FloatTensor(x).tolist() == [1, 2]
    with pytest.raises(TypeError, match="expected float16 on cuda:0"):
        cuda.HalfTensor(x)


def test_a_gpu_is_described_for_people(fibres: Any) -> None:
    told = cuda.get_device_properties(1)
    assert str(told.uuid) == "01010101-0101-0101-0101-010101010101"
    assert repr(told).startswith("_CudaDeviceProperties(name='fibres', major=9, minor=0, total_mem")
    assert "total_memory=1048576MB" in repr(told) and repr(told).endswith("L2_cache_size=50MB)")
    assert cuda.get_gencode_flags() == "-gencode compute=compute_90,code=sm_90"
    assert [one.device.index for one in cuda.default_generators] == [0, 1]


def test_the_runtime_is_called_past_the_tensors(fibres: Any) -> None:
    runtime = cuda.cudart()
    assert runtime.cudaMemGetInfo(0) == cuda.mem_get_info(0)
    assert runtime.cudaHostRegister(0x1000, 4096, 0) == 0 and runtime.cudaStreamCreate() == 0x77
    with cuda.profiler.profile():
        assert cupy.profiler == ["start"]
    assert cupy.profiler == ["start", "stop"]
    cupy.profiler.clear()
    assert (cuda.current_blas_handle(), cuda.current_solver_handle()) == (0x88, 0x99)
    cuda.check_error(cuda.cudaStatus.SUCCESS)
    with pytest.raises(cuda.CudaError, match=r"status 2 \(2\)"):
        cuda.check_error(2)
    address = cuda.caching_allocator_alloc(512, 1)
    cuda.caching_allocator_delete(address)
    with pytest.raises(RuntimeError, match="was freed already"):
        cuda.caching_allocator_delete(address)


def test_how_busy_a_gpu_is_the_management_library_tells(
    fibres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ModuleNotFoundError, match=r"^pynvml does not seem to be installed"):
        cuda.utilization()
    open_: list[str] = []
    nvml = SimpleNamespace(
        nvmlInit=lambda: open_.append("open"),
        nvmlShutdown=open_.clear,
        nvmlDeviceGetHandleByPciBusId=lambda place: place,
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=97, memory=41),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=int(handle[5:7])),
        nvmlDeviceGetTemperature=lambda handle, sensor: 60 + sensor,
        nvmlDeviceGetPowerUsage=lambda handle: 300_000,
        nvmlDeviceGetClockInfo=lambda handle, kind: 1980 if kind == 1 else 0,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [
            SimpleNamespace(pid=7, usedGpuMemory=3 << 20)
        ],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    asked = [cuda.utilization, cuda.memory_usage, cuda.device_memory_used, cuda.temperature]
    assert [ask(1) for ask in (*asked, cuda.power_draw, cuda.clock_rate)] == [
        *(97, 41, 1, 60, 300_000, 1980)
    ]
    lines = cuda.list_gpu_processes(1).splitlines()
    assert lines == ["GPU:1", "process          7 uses        3.000 MB GPU memory"]
    assert not open_


def test_names_of_pytorchs_pool_say_whose_memory_is() -> None:
    with pytest.raises(AttributeError, match="or from a MemPool, which is CuPy's as well"):
        _ = cuda.CUDAPluggableAllocator
    assert cuda.get_sync_debug_mode() == 0 and cuda.default_generators == ()


def test_what_a_block_makes_lies_in_the_pool_that_it_names(fibres: Any) -> None:
    pool, other = cuda.MemPool(), cuda.MemPool()
    with cuda.use_mem_pool(pool):
        fd.empty(16, device="cuda")
        assert pool.id.num_given == 1
        with cuda.use_mem_pool(other):
            fd.empty(16, device="cuda")
        fd.empty(16, device="cuda:1")  # on another GPU, so it does not use the pool
        thread = threading.Thread(target=lambda: fd.empty(16, device="cuda"))
        thread.start()
        thread.join()
        assert (pool.id.num_given, other.id.num_given) == (1, 1)
        kept = fd.ones(16, device="cuda")
        assert pool.id.num_given == 2
    fd.empty(16, device="cuda")
    assert pool.id.num_given == 2
    del pool
    assert kept.sum().item() == 16
    with pytest.raises(RuntimeError, match="leave allocator out"):
        cuda.MemPool(allocator=object())


def test_a_graph_takes_the_memory_of_a_pool(fibres: Any) -> None:
    pool, captured = cuda.MemPool(), cuda.CUDAGraph()
    with cuda.graph(captured, pool=pool.id):
        fd.empty(16, device="cuda")
    assert pool.id.num_given == 1 and captured.pool() is pool.id


def test_storages_of_a_gpu_are_of_their_classes(fibres: Any) -> None:
    made = cuda.FloatStorage(6)
    assert len(made) == 6 and made.is_cuda and made.dtype is fd.float32
    assert isinstance(made, cuda.FloatStorage) and not isinstance(made, fd.FloatStorage)
    assert not isinstance(made, cuda.DoubleStorage)
    here = fd.FloatStorage([1.0, 2.0])
    assert isinstance(here, fd.FloatStorage) and not isinstance(here, cuda.FloatStorage)
    assert isinstance(here.cuda(), cuda.FloatStorage)
    assert cuda.LongStorage([1, 2]).tolist() == [1, 2]


def test_an_accelerator_is_used_for_a_block_and_gives_back_its_cache(
    fibres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    accelerator = fd.accelerator
    accelerator.set_device_index(0)
    with accelerator.device_index(1):
        assert accelerator.current_device_index() == 1
    assert accelerator.current_device_index() == 0
    x = fd.ones(4096, device="cuda:0")
    assert accelerator.memory_reserved() == cuda.memory_reserved() >= x.nbytes
    freed = list[str]()
    monkeypatch.setattr(fibres, "free_reserved", lambda: freed.append("all"))
    accelerator.empty_cache()
    assert freed == ["all"]


def test_a_copy_by_tensor_stays_on_the_device_of_its_source(fibres: Any) -> None:
    x = fd.ones(2, device="cuda:0")
    with pytest.warns(UserWarning, match="recommended to use"):
        assert fd.tensor(x).device == x.device
    with pytest.warns(UserWarning, match="recommended to use"):
        assert fd.tensor(x, device="cpu").device == fd.device("cpu")
