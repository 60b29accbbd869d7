"""The CPU backend: memory is NumPy's, and work runs immediately."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from fastdist.core.errors import DeviceError, ShapeError
from fastdist.devices import backend_of, register_backend
from fastdist.devices.backend import Backend

cpu = backend_of("cpu")


def test_backend_of_returns_the_same_backend_at_each_call() -> None:
    assert backend_of("cpu") is cpu


def test_backend_of_names_the_known_types_when_there_is_none() -> None:
    with pytest.raises(
        DeviceError, match="no backend of type 'tpu'; known types: cpu, cuda, meta, sim"
    ):
        backend_of("tpu")


def test_register_backend_refuses_a_type_that_is_taken() -> None:
    def load() -> Backend:
        raise AssertionError("never loaded")

    with pytest.raises(DeviceError, match="registered already"):
        register_backend("cpu", load)


def test_from_numpy_and_to_numpy_share_memory() -> None:
    array = np.arange(3.0)
    assert cpu.to_numpy(cpu.from_numpy(array)) is array


@pytest.mark.parametrize("start", [(), (1,), (3,), (1, 3), (2, 3), (2, 1), (0, 3)])
def test_expand_agrees_with_broadcast_to(start: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).random(start)
    wanted = (2, 2, 3) if 0 not in start else (4, 0, 3)
    expanded = cpu.expand(array, wanted)
    assert np.array_equal(expanded, np.broadcast_to(array, wanted))
    # An array without elements may be writable, since nothing can be written.
    assert expanded.flags.writeable is (expanded.size == 0)


def test_expand_of_memory_with_gaps_is_a_view() -> None:
    array = np.arange(12.0).reshape(3, 4)[:, ::2]
    expanded = cpu.expand(array, (5, 3, 2))
    assert np.shares_memory(expanded, array) and expanded.strides[0] == 0


@pytest.mark.parametrize("wanted", [(4,), (3, 2), ()])
def test_expand_refuses_a_shape_that_does_not_broadcast(wanted: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError):
        cpu.expand(np.zeros((2, 3)), wanted)


def test_as_strided_reaches_memory_before_and_after_the_first_element() -> None:
    whole = np.arange(12.0).reshape(3, 4)
    view = cpu.as_strided(whole[1], (2, 2), (32, 8), -32)
    assert view.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    view[0, 0] = 9.0
    assert whole[0, 0] == 9.0


def test_copy_into_casts_as_c_does_without_a_warning() -> None:
    out = np.empty(3, np.float16)
    cpu.copy_into(out, np.array([1.5, 1e30, np.nan]))
    assert out[0] == 1.5 and np.isinf(out[1]) and np.isnan(out[2])


def test_add_into_changes_the_accumulator_in_place() -> None:
    accumulator = np.ones(3)
    cpu.add_into(accumulator, np.arange(3.0))
    assert accumulator.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["nowhere.sum", "__init__.nothing"])
def test_kernel_says_which_kernel_is_missing(name: str) -> None:
    with pytest.raises(DeviceError, match=f"no kernel '{name}' for cpu"):
        cpu.kernel(name)


def test_streams_of_the_cpu_are_always_done() -> None:
    called = []
    with cpu.stream() as stream:
        stream.launch_host_function(lambda: called.append(1))
        event = stream.record_event()
    stream.wait_event(event)
    stream.synchronize()
    assert called == [1] and event.query() and stream.query()


# Ten steps that each fill and free 16 blocks of 1 MiB (4,096 pages in each step).
STEPS = """
import resource
import numpy as np
import fastdist

fastdist.ones(2) + 1

def step():
    return [np.full(1 << 18, 1, np.float32) for _ in range(16)]

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(program: str, **variables: str) -> int:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment | variables, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.one_in(3)
def test_steps_reuse_the_memory_that_the_last_one_freed_unless_glibc_is_told_otherwise() -> None:
    told = page_faults(STEPS, MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072")
    untold = page_faults(STEPS)
    # Other C libraries have different thresholds.
    assert platform.libc_ver()[0] != "glibc" or (untold < 4096 < told)


# Ten live threads, one after the other, each fill and free a block of 2 MiB (512 pages).
POOL = """
import resource, threading
import numpy as np
from fastdist.devices.cpu import share_freed_memory

share_freed_memory()
turns = [threading.Semaphore(0) for _ in range(10)]
done, end = threading.Semaphore(0), threading.Event()

def live(turn):
    turn.acquire()
    np.full(1 << 19, 1, np.float32)
    done.release()
    end.wait()

threads = [threading.Thread(target=live, args=(turn,)) for turn in turns]
for thread in threads:
    thread.start()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in turns:
    turn.release()
    done.acquire()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
end.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.one_in(3)
def test_threads_share_the_memory_that_others_freed_unless_glibc_is_told_otherwise() -> None:
    told = page_faults(POOL, MALLOC_ARENA_MAX="16")
    untold = page_faults(POOL)
    assert platform.libc_ver()[0] != "glibc" or (untold < 2048 < told)
