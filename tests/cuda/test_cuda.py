"""`fastdist.cuda` answers queries on any machine; computing needs a GPU."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.core.device import Device
from fastdist.core.errors import DeviceError
from fastdist.cuda.event import Event
from fastdist.devices.backend import backend_of
from fastdist.devices.gpus import _finds_cupy
from fastdist.random_numbers.generator import default_generator_of
from tests.fibre_shim.installed import cuda_on_fibres


def gpus() -> int:
    """Return the number of GPUs that the backend finds, or 0 if it cannot be used."""
    try:
        return backend_of("cuda").device_count()
    except DeviceError:
        return 0


def test_cuda_counts_the_gpus() -> None:
    assert fastdist.cuda.device_count() == gpus()
    assert fastdist.cuda.is_available() is (gpus() > 0)


def test_asking_for_a_gpu_does_not_import_cupy_where_it_is_missing() -> None:
    code = (
        "import sys, fastdist; sys.modules['cupy'] = None; "
        "print(fastdist.cuda.is_available(), fastdist.cuda.device_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "0"]


def test_cuda_is_seeded_whether_it_is_there_or_not() -> None:
    on_gpu = default_generator_of(Device("cuda", 0))
    before = on_gpu.initial_seed()
    try:
        fastdist.cuda.manual_seed(3)
        assert on_gpu.initial_seed() == 3
        fastdist.cuda.manual_seed_all(4)
        assert on_gpu.initial_seed() == 4
    finally:
        fastdist.cuda.manual_seed_all(before)


def test_a_device_that_is_no_gpu_is_refused() -> None:
    with pytest.raises((ValueError, DeviceError)):
        fastdist.cuda.synchronize("cpu")


def test_no_stream_leaves_things_as_they_are() -> None:
    with fastdist.cuda.stream(None):
        assert fastdist.ones(1).item() == 1.0


def test_what_programs_ask_before_they_decide_is_answered_without_a_gpu() -> None:
    assert not fastdist.cuda.is_bf16_supported()
    fastdist.cuda.empty_cache()
    if not gpus():
        assert fastdist.cuda.memory_allocated() == fastdist.cuda.max_memory_allocated() == 0
        assert fastdist.cuda.get_rng_state_all() == [] and not fastdist.cuda.is_initialized()
        assert fastdist.cuda._initialized is False
        with pytest.raises(DeviceError):
            fastdist.cuda.set_device(0)
        with pytest.raises(AttributeError, match=r"nearest in fastdist\.cuda: synchronize"):
            _ = fastdist.cuda.syncronize


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the cuda backend of the CPU shim instead of the real one."""
    yield from cuda_on_fibres(monkeypatch)


def test_events_tell_how_long_a_gpu_took(fibres: Any) -> None:
    start, end = (fastdist.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="must be recorded before"):
        start.elapsed_time(end)
    start.record()
    end.record(fibres.stream(0))
    start.wait()
    end.synchronize()
    assert start.query() and end.elapsed_time(start) <= 0 <= start.elapsed_time(end)


def test_an_event_without_time_says_so(fibres: Any) -> None:
    with pytest.raises(ValueError, match="enable_timing=True"):
        fastdist.cuda.Event().elapsed_time(fastdist.cuda.Event())


def test_streams_are_of_a_class_that_annotations_name_and_programs_derive(fibres: Any) -> None:
    cuda = fastdist.cuda

    class Named(cuda.Stream):
        def __init__(self, word: str, priority: int = 0) -> None:
            self.word = word

        def __new__(cls, word: str, priority: int = 0) -> Any:
            return super().__new__(cls, priority=priority)

    def annotated(s: cuda.Stream | None = None) -> None: ...

    side, own = cuda.Stream(device="cuda:1", priority=-1), Named("mine", -1)
    assert (side.device_index, side.priority, side.device_type) == (1, -1, 1)
    assert (own.word, own.device_index, own.priority) == ("mine", 0, -1)
    external = cuda.ExternalStream(0x1234, 0)
    every = [side, own, external, cuda.current_stream(), cuda.default_stream()]
    assert all(isinstance(one, cuda.Stream) for one in every)
    assert [isinstance(one, cuda.ExternalStream) for one in every[:3]] == [False, False, True]
    assert cuda.get_stream_from_external(0x1234) == external != own
    again = cuda.Stream(stream_id=side.stream_id, device_index=1)
    assert again is side and again.__cuda_stream__() == (0, side.cuda_stream)
    assert cuda.Stream(stream_id=0, device_index=0) == cuda.default_stream(0)
    assert cuda.Stream.priority_range() == (0, -1)
    called = threading.Event()
    with own:
        assert cuda.current_stream() == own
        own.launch_host_function(called.set)
    assert called.wait(60)
    event = cuda.Event(interprocess=True)
    assert event.cuda_event == 0 and "uninitialized" in repr(event)
    event.record(own)
    assert event.cuda_event == event.event_id != 0
    first = event.cuda_event
    event.record(cuda.current_stream())
    assert event.cuda_event == first  # unchanged, because other processes may have the handle
    opened = cuda.Event.from_ipc_handle(1, event.ipc_handle())
    assert opened.cuda_event == first and opened.device == fastdist.device("cuda", 1)
    own.wait_event(opened)
    opened.synchronize()
    assert opened.query()
    assert cuda.Event(interprocess=True).ipc_handle() != event.ipc_handle()
    with pytest.raises(RuntimeError, match="create it with interprocess=True"):
        cuda.Event().ipc_handle()
    with pytest.raises(ValueError, match="not both"):
        cuda.Event(enable_timing=True, interprocess=True)


def test_a_streams_class_knows_streams_of_every_device() -> None:
    made = fastdist.Stream("cpu"), fastdist.Stream("sim:0")
    assert all(isinstance(one, fastdist.Stream) for one in made)
    assert not isinstance(fastdist.Event("cpu"), fastdist.Stream) and not isinstance(
        3, fastdist.Stream
    )

    def takes(stream: fastdist.Stream | None = None) -> None: ...

    assert isinstance(fastdist.Stream, type) and takes.__annotations__


def test_an_event_of_the_cpu_is_always_passed() -> None:
    event = Event("cpu")
    event.synchronize()
    event.wait()
    assert event.query() and fastdist.Stream("cpu").query()
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        event.record()


def test_the_disk_is_read_once_for_each_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("importlib.util.find_spec", asked.append)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    _finds_cupy.cache_clear()
    try:
        for _ in range(3):
            assert not fastdist.cuda.is_available()
        assert asked == ["cupy"]
        monkeypatch.setattr(sys, "path", [*sys.path, "/nowhere"])
        assert fastdist.cuda.device_count() == 0
        assert asked == ["cupy"] * 2
    finally:
        _finds_cupy.cache_clear()


def test_questions_that_need_no_gpu_are_answered() -> None:
    cuda = fastdist.cuda
    with cuda.device(None), cuda.device(-1), cuda.device_of(fastdist.ones(1)):
        cuda.set_stream(None)
    cuda.reset_peak_memory_stats()
    assert (cuda.memory_stats(), cuda.get_arch_list()) == ({}, [])
    assert not (cuda.is_tf32_supported() or cuda.is_current_stream_capturing())
    assert "nvidia-smi" in cuda.memory_summary()
    assert issubclass(fastdist.cuda.OutOfMemoryError, RuntimeError)
    assert fastdist.AcceleratorError is cuda.AcceleratorError


def test_work_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(kind: str) -> Any:
        raise DeviceError("no GPU")

    monkeypatch.setattr("fastdist.cuda.backend_of", none)
    monkeypatch.setattr("fastdist.cuda.event.backend_of", none)
    for call in (
        fastdist.cuda.Event,
        fastdist.cuda.ipc_collect,
        fastdist.cuda.device(0).__enter__,
        lambda: fastdist.cuda.can_device_access_peer(0, 1),
    ):
        with pytest.raises(DeviceError):
            call()
