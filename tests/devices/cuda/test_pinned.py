"""Pinned memory: non-blocking copies, on a CuPy stand-in whose copies arrive late."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import fastdist as fd
from fastdist.core.errors import KernelError
from fastdist.cuda import CUDAGraph, graph
from fastdist.data import DataLoader
from fastdist.data.pinning import pinned
from fastdist.devices.cuda import CudaBackend
from fastdist.devices.cuda import pinned as room
from tests.dense_layouts import DENSE
from tests.fibre_shim import cupy, streams
from tests.fibre_shim.installed import cuda_on_fibres, waits


@pytest.fixture(autouse=True)
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    monkeypatch.setattr(cupy, "status", [0])
    yield from cuda_on_fibres(monkeypatch)


def test_tensors_are_pinned_where_they_are_asked_to_be() -> None:
    x = fd.arange(6.0).view(2, 3)
    held = x.pin_memory()
    assert held.is_pinned() and not x.is_pinned() and held.tolist() == x.tolist()
    assert held.pin_memory() is held and held[1:, ::2].is_pinned()
    for made in (
        fd.zeros(2, 3, pin_memory=True),
        fd.empty(4, pin_memory=True),
        fd.randn(4, pin_memory=True),
        fd.full((2,), 7, pin_memory=True),
        fd.arange(4, pin_memory=True),
        fd.zeros(0, 3).pin_memory(),
    ):
        assert made.is_pinned() or not made.numel()
    with pytest.raises(RuntimeError, match="cannot pin 'cuda' tensor: only dense CPU tensors"):
        x.cuda().pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        fd.zeros(2, device="cuda", pin_memory=True)


@pytest.mark.parametrize("name", DENSE)
def test_dense_layouts_stay_what_they_are(name: str) -> None:
    x = DENSE[name](fd.arange(120.0))
    held = x.pin_memory()
    assert held.is_pinned() and held._layout is x._layout and held.tolist() == x.tolist()
    there = held.to("cuda:0", non_blocking=True)
    assert there.stride() == x.stride() and there.tolist() == x.tolist()


def test_gradients_go_through_pinning() -> None:
    x = fd.ones(3, requires_grad=True)
    (x.pin_memory() * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2, 2]


def test_no_copy_from_or_to_pinned_memory_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    held, back, x = fd.ones(1000).pin_memory(), fd.zeros(1000).pin_memory(), fd.empty(1000)
    x = x.cuda()
    told = waits(monkeypatch)
    y = (
        held.to("cuda", non_blocking=True)
        + held.cuda(non_blocking=True)
        + held.to("cuda", None, True)
    )
    x.copy_(held, non_blocking=True)
    z = (x + y).to("cpu", non_blocking=True)
    back.copy_(x + 2, non_blocking=True)
    assert told == [] and z.is_pinned()
    # The GPU has not done the copy yet.
    assert back.sum().item() == 0
    fd.cuda.synchronize()
    assert (z.sum().item(), back.sum().item()) == (4000, 3000)


def test_copies_wait_unless_they_are_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    held = fd.ones(3).pin_memory()
    x = held.to("cuda")
    held.fill_(9)  # this does not change x, because the copy is complete
    assert x.to("cpu").tolist() == [1, 1, 1]
    back = fd.zeros(3)
    back.copy_(x, non_blocking=True)  # `back` is not pinned, so the call waits for the copy
    assert back.tolist() == [1, 1, 1]


def test_pinned_memory_under_way_is_given_to_nobody_else() -> None:
    cupy.status[0] = 600  # the GPU is still working
    x = fd.full((5,), 3.0).pin_memory().cuda(non_blocking=True)
    late = fd.ones(5, device="cuda").to("cpu", non_blocking=True)
    gc.collect()
    fd.zeros(5, pin_memory=True)
    assert len(room._under_way) == 2
    assert x.tolist() == [3] * 5 and late.tolist() == [1] * 5
    cupy.status[0] = 0
    fd.zeros(5, pin_memory=True)
    assert len(room._under_way) == 0


def test_a_graph_reads_pinned_memory_anew_at_each_replay() -> None:
    given, back, captured = fd.ones(3).pin_memory(), fd.zeros(3).pin_memory(), CUDAGraph()
    with graph(captured):
        x = given.to("cuda", non_blocking=True)
        back.copy_(x * 2, non_blocking=True)
        with pytest.raises(KernelError, match="cannot be copied to the GPU while a graph"):
            given.to("cuda")
    for number in (1.0, 4.0):
        given.fill_(number)
        captured.replay()
        fd.cuda.synchronize()
        assert back.tolist() == [2 * number] * 3


class Pair(NamedTuple):
    x: Any
    y: str


def test_a_loader_pins_its_batches() -> None:
    data = [(fd.ones(2) * n, n) for n in range(4)]
    for x, y in DataLoader(data, batch_size=2, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
    x = fd.ones(2)
    held: Any = pinned({"a": Pair(x, "word"), "b": [x, (x, 1)], "c": None})
    assert held["a"].x.is_pinned() and held["a"].y == "word" and held["c"] is None
    assert held["b"][0].is_pinned() and held["b"][1][0].is_pinned() and held["b"][1][1] == 1
    (plain,) = next(iter(DataLoader([(x,)], pin_memory=False)))
    assert not plain.is_pinned()


def test_a_module_goes_to_this_threads_gpu_and_back_without_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = fd.nn.Linear(2, 3)
    with fd.cuda.device(1):
        net.cuda()
    assert str(net.weight.device) == "cuda:1"
    told = waits(monkeypatch)
    net.to("cpu", non_blocking=True)
    assert told == [] and net.weight.is_pinned()
    net.to("cuda:0", None, True)
    assert told == []


def test_a_backend_ends_when_its_copies_are_done(fibres: CudaBackend) -> None:
    x, held, back = fd.ones(5, device="cuda"), fd.ones(5).pin_memory(), fd.zeros(5).pin_memory()
    loan, place = fibres.host_ring.lend(20)
    there = held.cuda(non_blocking=True)
    back.copy_(x, non_blocking=True)
    fibres.begin_copy_to_host(place, x._array)
    loan.hold(fibres.current_stream(0).record_event())
    del loan, place
    assert len(room._under_way) == 2 and len(streams._late) == 3
    fibres.close()
    assert not room._under_way and not streams._late
    assert back.tolist() == there.tolist() == [1] * 5


def test_a_late_copy_writes_to_no_memory_that_has_another_owner() -> None:
    given = cupy.array(np.arange(8, dtype=np.uint8))
    pinned_memory = cupy.PinnedMemory(16)
    left = pinned_memory._bytes
    given.data.copy_to_host_async(pinned_memory.ptr + 8, 8, streams.null)
    del pinned_memory
    with pytest.raises(AssertionError, match="pinned memory that was given back"):
        streams.arrive()
    assert (left == 0xF7).all()


def test_memory_that_is_not_pinned_is_copied_at_once() -> None:
    array, plain = cupy.array(np.arange(8, dtype=np.uint8)), np.zeros(8, np.uint8)
    array.data.copy_to_host_async(plain.ctypes.data, 8, streams.null)
    assert (plain == np.arange(8)).all() and not streams._late
    plain[:] = 3
    array.data.copy_from_host_async(plain.ctypes.data, 8, streams.null)
    assert (array.host == 3).all() and not streams._late
    stream = cupy.cuda.Stream()
    stream.begin_capture()
    with pytest.raises(streams.CUDARuntimeError, match="status 900"):
        array.data.copy_to_host_async(plain.ctypes.data, 8, stream)
    stream.end_capture()
