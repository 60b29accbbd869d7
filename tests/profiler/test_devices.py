"""A profile contains the work and the memory of devices other than the CPU."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import fastdist as fd
from fastdist.autograd import profiler as old
from fastdist.core.errors import KernelError
from fastdist.devices import backend_of
from fastdist.devices.cuda import CudaBackend
from fastdist.devices.sim import SimBackend
from fastdist.profiler import (
    DeviceType,
    ProfilerActivity,
    profile,
    record_function,
    supported_activities,
)
from tests.fibre_shim.installed import cuda_on_fibres

DEVICES = {ProfilerActivity.CPU, ProfilerActivity.PrivateUse1}


@pytest.fixture
def sim() -> Iterator[SimBackend]:
    backend = cast(SimBackend, backend_of("sim"))
    backend.reset()
    yield backend
    backend.set_device_count(2)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    monkeypatch.setattr("fastdist.profiler.activities.device_count", lambda: 2)
    yield from cuda_on_fibres(monkeypatch)


def named(p: profile, name: str, device_type: DeviceType = DeviceType.CPU) -> Any:
    (event,) = [e for e in p.events() if (e.name, e.device_type) == (name, device_type)]
    return event


def take_and_give_back(device: str) -> tuple[profile, fd.Tensor]:
    x = fd.ones(100, device=device)
    with profile(profile_memory=True) as p, record_function("all"):
        y = x.exp()
        with record_function("given back"):
            z = fd.ones(1000, device=device)
            del y
        with record_function("of the CPU"):
            fd.ones(4).exp()
        z.add_(1.0)
    return p, z


def hold_memory(p: profile, small: int, large: int) -> None:
    told = {
        event.name: (event.device_memory_usage, event.self_device_memory_usage)
        for event in p.events()
    }
    assert told["aten::add_"] == told["of the CPU"] == (0, 0)
    assert told["given back"] == (large - small, -small)  # `ones` had allocated the memory
    assert told["all"] == (large, 0)
    of_cpu = named(p, "of the CPU")
    assert of_cpu.cpu_memory_usage == 0 and of_cpu.cpu_children[-1].cpu_memory_usage == 16
    assert {e.device_memory_usage for e in p.events() if e.name == "aten::exp"} == {small, 0}


def test_bytes_that_a_device_gives_are_counted_where_they_are_asked_for(sim: SimBackend) -> None:
    p, z = take_and_give_back("sim:0")
    hold_memory(p, 512, 4096)
    table = p.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=1)
    assert "SIM Mem" in table and "Self SIM Mem" in table and "4.00 KB" in table
    with profile() as p:
        z.exp()
    assert named(p, "aten::exp").device_memory_usage == 0


def test_bytes_of_cuda_are_those_of_cupys_pool(cuda: CudaBackend) -> None:
    p, _ = take_and_give_back("cuda:1")
    hold_memory(p, 400, 4000)
    assert "CUDA Mem" in p.key_averages().table()
    assert named(p, "aten::add_").use_device == "cuda"


def test_allocators_are_as_ever_where_nobody_counts(sim: SimBackend) -> None:
    from fastdist.devices.cuda import memory
    from fastdist.devices.sim import device

    def makers() -> tuple[Any, Any]:
        return memory._make_block, device._make_storage

    before = makers()
    with profile(profile_memory=True):
        assert all(now is not was for now, was in zip(makers(), before, strict=True))
    assert makers() == before == (memory._Block, device.Storage)
    with profile():
        assert makers() == before


def test_an_end_in_another_thread_is_no_events_of_this_one(sim: SimBackend) -> None:
    x = fd.ones(100, device="sim")
    with profile(profile_memory=True) as p:
        kept = [x.exp()]
        with record_function("wait"):
            thread = threading.Thread(target=kept.clear)
            thread.start()
            thread.join()
    assert named(p, "wait").device_memory_usage == 0


def hold_kernels(p: profile, device_type: DeviceType, device: str) -> None:
    name = f"aten::exp on {device}:1"
    op, kernel = named(p, "aten::exp"), named(p, name, device_type)
    assert op.kernels == [(name, 1, kernel.time_range.elapsed_us())] and kernel.cause is op
    assert op.device_time_total == op.self_device_time_total == kernel.device_time_total > 0
    assert (kernel.cpu_time_total, kernel.self_cpu_time_total) == (0, 0)
    assert (kernel.device_index, kernel.use_device, op.use_device) == (1, device, device)
    around = named(p, "around")
    both = op.device_time_total + named(p, "aten::add_").device_time_total
    assert around.device_time_total == pytest.approx(both)
    assert around.self_device_time_total == 0.0 and around.use_device == device
    # Kernel and op have times of the host's clock: the kernel ends after the op has started.
    assert op.time_range.start <= kernel.time_range.end
    gradient = named(p, "ExpBackward0")
    assert gradient.device_time_total > 0.0 == gradient.self_device_time_total
    averages = p.key_averages()
    rows = {(row.key, row.device_type): row.count for row in averages}
    assert rows[name, device_type] == rows["aten::exp", DeviceType.CPU] == 1
    text = averages.table(sort_by="self_cuda_time_total")
    kind = device.upper()
    for column in (f"Self {kind}", f"Self {kind} %", f"{kind} total", f"{kind} time avg"):
        assert column in text
    assert f"Self {kind} time total: " in text


def work_on(device: str) -> None:
    x = fd.ones(100, device=device, requires_grad=True)
    with record_function("around"):
        y = x.exp()
        fd.ones(3, device=device).add_(1.0)
    y.backward(fd.ones(100, device=device))


def test_what_a_device_did_for_an_op_is_told_by_events_around_it(sim: SimBackend) -> None:
    sim.behaviour.delays(0)
    with profile(activities=DEVICES) as p:
        work_on("sim:1")
    hold_kernels(p, DeviceType.PrivateUse1, "sim")


def test_what_cuda_did_is_told_where_it_is_there(cuda: CudaBackend) -> None:
    assert supported_activities() == {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    with profile() as p:
        work_on("cuda:1")
    hold_kernels(p, DeviceType.CUDA, "cuda")


def test_a_lazy_device_is_waited_for_at_the_end(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    with profile(activities=DEVICES) as p:
        fd.ones(3, device="sim").exp()
    assert len(named(p, "aten::exp").kernels) == 1


def test_what_fails_on_a_device_is_raised_where_it_would_be(sim: SimBackend) -> None:
    with profile(activities=DEVICES) as p:
        x = fd.ones(3, device="sim")
        x.log()
        sim.behaviour.fail_kernel("pointwise: exp*")
        y = x.exp()
    assert (len(named(p, "aten::log").kernels), named(p, "aten::exp").kernels) == (1, [])
    with pytest.raises(KernelError, match="exp"):
        y.cpu()


def test_each_stream_is_a_row_of_its_own(sim: SimBackend, tmp_path: Path) -> None:
    streams = [sim.current_stream(0), sim.stream(0), sim.stream(1)]
    x = [fd.ones(3, device=f"sim:{stream.index}") for stream in streams]
    with profile(activities=DEVICES) as p:
        for stream, operand in zip(streams, x, strict=True):
            with stream:
                operand.exp()
    for device_index in (0, 1):
        sim.synchronize(device_index)
    kernels = [e for e in p.events() if e.device_type is DeviceType.PrivateUse1]
    assert {e.thread_name for e in kernels} == {stream.name for stream in streams}
    p.export_chrome_trace(tmp_path / "trace.json")
    listed = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {one["tid"]: one["args"]["name"] for one in listed if one["name"] == "thread_name"}
    assert {stream.name for stream in streams} < {*rows.values()} and len(rows) == 4
    ran = {rows[one["tid"]] for one in listed if one.get("cat") == "kernel"}
    assert ran == {stream.name for stream in streams}


def test_the_older_name_takes_devices_as_well(sim: SimBackend) -> None:
    x = fd.ones(3, device="sim")
    with old.profile(use_device="sim") as p:
        x.exp()
    assert [e.device_type for e in p.function_events or ()] == [
        DeviceType.CPU,
        DeviceType.PrivateUse1,
    ]
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        old.profile(use_device="cuda")
    with pytest.warns(FutureWarning, match="use_cuda"), pytest.warns(UserWarning, match="CUDA"):
        old.profile(use_cuda=True)


def test_activities_are_held_against_what_there_is() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        p = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    assert p.activities == {ProfilerActivity.CPU}
    with pytest.raises(ValueError, match="specified more than once"):
        profile(activities=[ProfilerActivity.CPU] * 2)
    with pytest.raises(TypeError, match="Expected ProfilerActivity"):
        profile(activities=["cpu"])  # type: ignore[list-item]
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
