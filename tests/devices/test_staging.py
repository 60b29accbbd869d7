"""Copies between devices and the CPU use one block and one event, and wait for nothing else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.dense_order import dense_order, undone
from fastdist.core.device import Device
from fastdist.core.dtypes import bfloat16
from fastdist.core.errors import KernelError
from fastdist.devices import backend as backends
from fastdist.devices import staging
from fastdist.devices.cuda.cuda import ForkedBackend
from fastdist.devices.sim import SimBackend
from fastdist.devices.staging import HostCopies, copy_to_devices, wait_for
from tests.dense_layouts import DENSE
from tests.device_kinds import KINDS, Waits, backend_on


@pytest.fixture(params=KINDS)
def late(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A backend that, if possible, does no work until something waits for the work."""
    for backend in backend_on(request.param, monkeypatch):
        if isinstance(backend, SimBackend):
            backend.behaviour.lazy = True
        yield backend


def on(backend: Any, array: np.ndarray, index: int = 0) -> tuple[Device, Any]:
    return Device(backend.type, index), backend.from_numpy(array, index)


VALUES = [
    np.arange(6.0),
    np.arange(24, dtype=np.int64).reshape(2, 3, 4),
    np.array(True),
    np.zeros((0, 3)),
    np.arange(3.0).astype(bfloat16.numpy),
    np.arange(5, dtype=np.float16),
]


def test_arrays_of_any_kind_come_to_the_cpu_with_one_wait_for_each_device(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [on(late, array, i % 2) for i, array in enumerate(VALUES)]
    waits = Waits(monkeypatch)
    copies = HostCopies(given)
    assert waits.count == 0
    copies.wait()
    assert waits.count == 2
    for came, array in zip(copies.arrays, VALUES, strict=True):
        assert came.dtype == array.dtype and came.flags.c_contiguous
        np.testing.assert_array_equal(came, array)


def test_dense_layouts_come_and_go_as_they_lie(late: Any) -> None:
    whole = np.arange(120.0)
    here = [make(fd.from_numpy(whole)).numpy() for make in DENSE.values()]
    # from_numpy packs an array. To keep the strides, copy in memory order and transpose back.
    given = []
    for array in here:
        order = dense_order(array.shape, array.strides, array.itemsize)
        assert order is not None
        device, packed = on(late, array.transpose(order))
        given.append((device, packed.transpose(undone(order))))
    copies = HostCopies(given)
    copies.wait()
    arrays, _ = copy_to_devices(copies.arrays, [device for device, _ in given])
    for there, came, array in zip(arrays, copies.arrays, here, strict=True):
        np.testing.assert_array_equal(came, array)
        assert came.strides == there.strides == array.strides
        np.testing.assert_array_equal(late.to_numpy(there), array)


def test_views_come_packed(late: Any) -> None:
    array = np.arange(12.0).reshape(3, 4)
    device, there = on(late, array)
    copies = HostCopies([(device, there.transpose((1, 0))), (device, there[1:, ::2])])
    copies.wait()
    np.testing.assert_array_equal(copies.arrays[0], array.T)
    np.testing.assert_array_equal(copies.arrays[1], array[1:, ::2])


def test_several_copies_of_a_device_are_waited_for_once(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = [HostCopies([on(late, np.full(3, float(i)))]) for i in range(5)]
    waits = Waits(monkeypatch)
    wait_for(copies)
    assert waits.count == 1
    assert [each.arrays[0].tolist() for each in copies] == [[float(i)] * 3 for i in range(5)]


def test_arrays_come_to_devices_without_a_wait(late: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Waits(monkeypatch)
    given = [array.copy() for array in VALUES]
    devices = [Device(late.type, i % 2) for i in range(len(given))]
    arrays, events = copy_to_devices(given, devices)
    for array in given:
        array.fill(0)  # the caller may overwrite its arrays immediately
    assert waits.count == 0 and [str(device) for device, _ in events] == [
        f"{late.type}:0",
        f"{late.type}:1",
    ]
    for came, array, device in zip(arrays, VALUES, devices, strict=True):
        assert late.index_of(came) == device.index
        np.testing.assert_array_equal(late.to_numpy(came), array)


def test_strided_values_of_the_cpu_come_packed_to_a_device(late: Any) -> None:
    array = np.arange(12.0).reshape(3, 4).T[::2]
    (came,), _ = copy_to_devices([array], [Device(late.type, 0)])
    np.testing.assert_array_equal(late.to_numpy(came), array)


def test_a_block_goes_back_when_the_arrays_are_looked_at_no_more(late: Any) -> None:
    before = late.host_ring.usage()[0]
    copies = HostCopies([on(late, np.arange(100.0))])
    copies.wait()
    view = copies.arrays[0][5:]
    del copies
    assert late.host_ring.usage()[0] > before
    del view
    gc.collect()
    assert late.host_ring.usage()[0] == before


def test_a_block_that_nobody_waited_for_goes_back_when_the_copies_have_passed(late: Any) -> None:
    before = late.host_ring.usage()[0]
    given = on(late, np.arange(100.0))
    HostCopies([given])
    copy_to_devices([np.arange(100.0)], [given[0]])
    is_late = late.type == "sim"
    assert (late.host_ring.usage()[0] > before) is is_late
    late.synchronize(0)
    assert late.host_ring.usage()[0] == before


def test_what_fails_on_the_way_is_raised_by_the_wait() -> None:
    from fastdist.devices import backend_of

    sim: Any = backend_of("sim")
    given = on(sim, np.arange(3.0))
    sim.behaviour.fail_kernel("copy_to_host")
    with pytest.raises(KernelError, match="copy_to_host"):
        HostCopies([given]).wait()
    sim.set_device_count(2)


def test_copies_wait_for_the_stream_that_makes_what_they_read_and_hold_up_no_other_work() -> None:
    from fastdist.devices import backend_of

    sim: Any = backend_of("sim")
    hang = sim.behaviour.hang_kernel("copy_to_host")
    with sim.stream(0) as stream:
        device, array = on(sim, np.arange(3.0))
        copies = HostCopies([(device, array)])
        sim.copy_into(array[:1], sim.from_numpy(np.ones(1)))
        # The copy hangs, but later work of the calling stream runs.
        stream.synchronize()
    hang.release()
    copies.wait()
    sim.set_device_count(2)


def test_usage_tells_of_what_is_loaded_and_asks_nothing_of_a_forked_childs_gpus(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(backends._loaded, "forked", ForkedBackend())
    copies = HostCopies([on(late, np.arange(100.0))])
    copies.wait()
    lent, there = staging.usage()[late.type]
    assert 0 < lent <= there and "forked" not in staging.usage()
