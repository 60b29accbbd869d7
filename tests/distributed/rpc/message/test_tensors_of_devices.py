"""Device tensors are packed and unpacked together: the sender waits once, the receiver never."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.core.device import Device
from fastdist.core.errors import DeviceError
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.tensors import pack_tensors, unpack_tensors
from tests.dense_layouts import DENSE, GAPS
from tests.device_kinds import KINDS, Waits, backend_on


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from backend_on(request.param, monkeypatch)


def crossed(kind: str) -> dict[Device, Device]:
    """Return a map that swaps two devices."""
    first, second = Device(kind, 0), Device(kind, 1)
    return {first: second, second: first}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_message_waits_once_for_its_device_and_is_opened_without_waiting(
    backend: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    tensors = [fastdist.full((size,), float(i), device=f"{backend.type}:0") for i in range(5)]
    tensors += [fastdist.ones(2), tensors[0][1:3]]
    backend.synchronize(0)
    waits = Waits(monkeypatch)
    frames = Message(0x102, 7, tensors=tensors).encode(
        device_map_to=lambda _: crossed(backend.type)
    )
    assert waits.count == 1
    message = decode([bytes(frame) for frame in frames])
    message.open()
    assert waits.count == 1
    places = [str(tensor.device) for tensor in message.tensors]
    assert places == [*[f"{backend.type}:1"] * 5, "cpu", f"{backend.type}:1"]
    for came, sent in zip(message.tensors, tensors, strict=True):
        np.testing.assert_array_equal(came.cpu().numpy(), sent.cpu().numpy())


def test_a_message_from_two_devices_waits_for_each(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = [fastdist.ones(3, device=f"{backend.type}:{i % 2}") for i in range(6)]
    waits = Waits(monkeypatch)
    entries, buffers = pack_tensors(tensors, crossed(backend.type))
    assert waits.count == 2
    came, _ = unpack_tensors(entries, buffers)
    assert [str(t.device) for t in came] == [f"{backend.type}:{1 - i % 2}" for i in range(6)]


def test_what_becomes_of_a_tensor_behind_the_packing_does_not_travel(backend: Any) -> None:
    tensor = fastdist.ones(4, device=f"{backend.type}:0")
    entries, buffers = pack_tensors([tensor], crossed(backend.type))
    tensor.zero_()
    (came,), _ = unpack_tensors(entries, buffers)
    assert came.tolist() == [1.0] * 4


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", ["to a device", "from a device", "between devices"])
def test_layouts_of_devices_come_as_they_went(backend: Any, way: str) -> None:
    # The bytes of one layout read with the strides of another would give other values.
    kind = backend.type
    source = "cpu" if way == "to a device" else f"{kind}:0"
    goal = Device("cpu") if way == "from a device" else Device(kind, 1)
    for name, make in {**DENSE, **GAPS}.items():
        sent = make(fastdist.arange(120.0).to(source))
        entries, buffers = pack_tensors([sent], goals=[goal])
        (came,), _ = unpack_tensors(entries, [bytearray(one) for one in buffers])
        assert came.tolist() == sent.tolist(), name
        assert name in GAPS or came.stride() == sent.stride()


def test_parameters_and_leaves_of_devices_come_as_they_went(backend: Any) -> None:
    device = f"{backend.type}:0"
    leaf = fastdist.ones(2, device=device, requires_grad=True)
    parameter = fastdist.nn.Parameter(fastdist.ones(2, device=device))
    message = decode(
        Message(0x102, 7, tensors=[leaf, parameter]).encode(
            device_map_to=lambda _: crossed(backend.type)
        )
    )
    message.open_leaves()
    came, other = message.tensors
    assert came.requires_grad and came.is_leaf and str(came.device) == f"{backend.type}:1"
    assert type(other) is fastdist.nn.Parameter and other.requires_grad


def test_a_device_that_the_map_does_not_name_is_told(backend: Any) -> None:
    with pytest.raises(DeviceError, match="only supports CPU tensors by default"):
        pack_tensors([fastdist.ones(2, device=f"{backend.type}:0")], {})


def test_memory_for_messages_comes_back_when_they_have_left(backend: Any) -> None:
    before = backend.host_ring.usage()[0]
    tensor = fastdist.ones(100_000, device=f"{backend.type}:0")
    frames = Message(0x102, 7, tensors=[tensor]).encode(
        device_map_to=lambda _: crossed(backend.type)
    )
    assert len(frames) == 2 and backend.host_ring.usage()[0] > before
    del frames
    assert backend.host_ring.usage()[0] == before
