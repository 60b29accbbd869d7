"""The caching allocator of a simulated device."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from fastdist.core.errors import OutOfMemoryError
from fastdist.devices.sim import SimBackend

F8 = np.dtype("float64")


def test_fresh_memory_is_poisoned(sim: SimBackend) -> None:
    assert np.isnan(sim.to_numpy(sim.empty((5,), F8))).all()
    assert sim.to_numpy(sim.empty((5,), np.dtype("int32"))).tolist() == [-1] * 5


def test_memory_is_poisoned_again_when_it_is_used_again(sim: SimBackend) -> None:
    array = sim.from_numpy(np.ones(5))
    address = sim.data_ptr(array)
    del array
    again = sim.empty((5,), F8)
    assert sim.data_ptr(again) == address
    assert np.isnan(sim.to_numpy(again)).all()


def test_freed_memory_is_poisoned_under_a_stream_that_was_not_recorded(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    default, side = sim.current_stream(0), sim.stream(0)
    source = sim.from_numpy(np.ones(5))
    default.synchronize()
    with side:
        out = sim.empty((5,), F8)
        sim.copy_into(out, source)
    del source
    default.synchronize()
    with side:
        assert np.isnan(sim.to_numpy(out)).all()


def test_recorded_memory_waits_for_the_stream_that_uses_it(sim: SimBackend) -> None:
    hang = sim.behaviour.hang_kernel("copy")
    side = sim.stream(0)
    source = sim.from_numpy(np.ones(5))
    sim.synchronize(0)
    address = sim.data_ptr(source)
    with side:
        out = sim.empty((5,), F8)
        sim.copy_into(out, source)
    sim.record_stream(source, side)
    assert hang.reached.wait(30)
    del source
    meanwhile = sim.empty((5,), F8)
    assert sim.data_ptr(meanwhile) != address
    hang.release()
    with side:
        assert sim.to_numpy(out).tolist() == [1.0] * 5
    assert sim.data_ptr(sim.empty((5,), F8)) == address


def test_free_memory_of_one_stream_does_not_serve_another(sim: SimBackend) -> None:
    array = sim.empty((5,), F8)
    address = sim.data_ptr(array)
    del array
    with sim.stream(0):
        assert sim.data_ptr(sim.empty((5,), F8)) != address


def test_view_keeps_its_memory_alive(sim: SimBackend) -> None:
    view = sim.from_numpy(np.arange(6.0))[2:4]
    sim.from_numpy(np.zeros(6))
    assert sim.to_numpy(view).tolist() == [2.0, 3.0]


def test_counts_tell_live_and_kept_memory(sim: SimBackend) -> None:
    allocator = sim.device(0).allocator
    array = sim.empty((1000,), F8)
    assert (allocator.memory_allocated(), allocator.memory_reserved()) == (8192, 8192)
    del array
    assert (allocator.memory_allocated(), allocator.memory_reserved()) == (0, 8192)
    allocator.empty_cache()
    assert allocator.memory_reserved() == 0


@pytest.mark.parametrize(
    ("nbytes", "held"),
    [(0, 512), (1, 512), (512, 512), (513, 1024), (1 << 20, 1 << 20), ((1 << 20) + 1, 2 << 20)],
)
def test_sizes_are_rounded_up(sim: SimBackend, nbytes: int, held: int) -> None:
    array = sim.empty((nbytes,), np.dtype("uint8"))
    assert sim.device(0).allocator.memory_allocated() == held
    assert array.size == nbytes


def test_limit_empties_the_cache_first_and_then_raises(sim: SimBackend) -> None:
    allocator = sim.device(0).allocator
    allocator.set_limit(8192)
    array = sim.empty((512,), F8)
    del array
    large = sim.empty((1000,), F8)
    with pytest.raises(OutOfMemoryError, match=r"^sim:0 out of memory. Tried to allocate 8 bytes"):
        sim.empty((1,), F8)
    del large
    assert sim.empty((1000,), F8).size == 1000


def test_allocation_fails_where_it_was_asked_to(sim: SimBackend) -> None:
    sim.behaviour.fail_allocation(after=1)
    sim.empty((1,), F8)
    with pytest.raises(OutOfMemoryError, match="as a test requested"):
        sim.empty((1,), F8)
    assert sim.empty((1,), F8).size == 1


def test_out_of_memory_is_also_a_memory_error() -> None:
    assert issubclass(OutOfMemoryError, MemoryError)


def test_arrays_that_die_in_many_threads_give_all_memory_back(sim: SimBackend) -> None:
    def work() -> None:
        for size in range(1, 60):
            cycle: list[object] = [sim.empty((size,), F8, 0)]
            cycle.append(cycle)
            sim.record_stream(cycle[0], sim.stream(0))  # type: ignore[arg-type]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    gc.collect()
    assert sim.device(0).allocator.memory_allocated() == 0
