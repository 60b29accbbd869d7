"""Simulated devices: opaque arrays, several devices, and errors of the backend."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from fastdist.core.errors import DeviceError
from fastdist.devices.sim import SimBackend, load


@pytest.mark.parametrize(
    "read",
    [np.asarray, np.array, float, int, bool, list, len, copy.deepcopy, pickle.dumps, memoryview],
)
def test_cpu_cannot_read_a_device(sim: SimBackend, read: Callable[[object], object]) -> None:
    with pytest.raises(TypeError) as caught:
        read(sim.from_numpy(np.zeros(1)))
    if read is not memoryview:
        assert "Copy it to the CPU first: Tensor.cpu()" in str(caught.value)


def test_numpy_functions_refuse_a_device(sim: SimBackend) -> None:
    array = sim.from_numpy(np.zeros(1))
    with pytest.raises(TypeError):
        np.add(array, 1)
    with pytest.raises(TypeError):
        np.zeros(1) + array


@pytest.mark.parametrize("index", [True, [0], np.array([0])])
def test_only_basic_indices_make_views(sim: SimBackend, index: object) -> None:
    with pytest.raises(TypeError, match="takes integers, slices"):
        sim.from_numpy(np.zeros(3))[index]


def test_reshape_to_another_size_is_refused_at_once(sim: SimBackend) -> None:
    with pytest.raises(ValueError, match="cannot reshape"):
        sim.from_numpy(np.zeros(6)).reshape((4,))


@pytest.mark.parametrize(
    ("shape", "stride", "offset"), [((64,), 8, 8), ((1,), 8, -8), ((2,), -8, 0)]
)
def test_as_strided_does_not_leave_its_memory(
    sim: SimBackend, shape: tuple[int, ...], stride: int, offset: int
) -> None:
    with pytest.raises(DeviceError, match="as_strided"):
        sim.as_strided(sim.from_numpy(np.zeros(64)), shape, (stride,), offset)


def test_arrays_of_two_devices_do_not_meet_in_a_kernel(sim: SimBackend) -> None:
    here, there = sim.from_numpy(np.zeros(2), 0), sim.from_numpy(np.zeros(2), 1)
    with pytest.raises(
        DeviceError, match="add_into: Expected all tensors to be on the same device"
    ):
        sim.add_into(here, there)


def test_array_of_the_cpu_does_not_meet_one_of_a_device(sim: SimBackend) -> None:
    with pytest.raises(DeviceError, match="copy it first"):
        sim.add_into(sim.from_numpy(np.zeros(2)), np.zeros(2))  # type: ignore[arg-type]


def test_copy_between_devices_waits_for_the_source_and_keeps_it(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    source = sim.from_numpy(np.arange(4.0), 0)
    out = sim.empty((4,), np.dtype("float32"), 1)
    sim.copy_into(out, source)
    sim.copy_into(source, np.array(9.0))
    sim.synchronize(0)
    assert sim.to_numpy(out).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert sim.index_of(out) == 1


def test_change_of_the_host_array_after_from_numpy_is_not_seen(sim: SimBackend) -> None:
    sim.behaviour.lazy = True
    values = np.ones(3)
    array = sim.from_numpy(values)
    values[:] = 7.0
    assert sim.to_numpy(array).tolist() == [1.0, 1.0, 1.0]


def test_set_device_count_changes_how_many_there_are(sim: SimBackend) -> None:
    sim.set_device_count(4)
    assert sim.index_of(sim.empty((1,), np.dtype("int8"), 3)) == 3
    sim.set_device_count(1)
    with pytest.raises(DeviceError, match=r"sim:3 does not exist: there are 1 simulated devices"):
        sim.empty((1,), np.dtype("int8"), 3)


def test_load_reads_how_many_devices_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_SIM_DEVICES", "5")
    assert load().device_count() == 5
    monkeypatch.setenv("FASTDIST_SIM_DEVICES", "many")
    with pytest.raises(DeviceError, match="FASTDIST_SIM_DEVICES is 'many'"):
        load()
