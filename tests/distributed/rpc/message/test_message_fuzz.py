"""Thousands of corrupted messages, read as a worker reads them, raise only documented errors."""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist.graph.tensor_methods  # noqa: F401 - attaches requires_grad to Tensor
from fastdist.core.errors import DeviceError, ForbiddenFunctionError, MessageError
from fastdist.distributed.pipe.batch import join, split
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.rpc.message import gate
from fastdist.distributed.rpc.message.body import (
    deserialize_call,
    serialize,
    serialize_call,
)
from fastdist.distributed.rpc.message.layout import AutogradBlock, TangentEntry
from fastdist.distributed.rpc.message.limits import Limits
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor, from_array
from tests.distributed.fuzzing import Mutator, bounded_memory
from tests.distributed.rpc.calls.test_serving import CALLER, FakeListener, hello, serve

SMALL_FRAMES = Limits(frame_bytes=4096)


def exported(*args: Any, **kwargs: Any) -> int:
    return len(args) + len(kwargs)


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gate, "_exported", set(gate._exported))
    gate.export(exported)
    gate.set_mode(gate.STRICT)
    yield
    gate.set_mode(gate.OPEN)


def message_of(args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **rest: Any) -> Message:
    tensors: list[Tensor] = []
    body, encoding = serialize_call(exported, args, kwargs or {}, tensors)
    return Message(
        MessageType.PYTHON_CALL,
        5,
        source=1,
        incarnation=101,
        body=body,
        encoding=encoding,
        tensors=tensors,
        **rest,
    )


def corpus() -> list[list[bytes]]:
    """Return the frames of messages of every format."""
    base = np.arange(600.0).reshape(20, 30)
    some, large = from_array(base), from_array(np.zeros(5000))
    views = (some, from_array(base.T), from_array(base[::2, 3:]), from_array(base[:0]))
    leaf = Parameter(from_array(np.ones(3, "f4")))
    messages = [
        message_of(()),
        message_of((1, "two", [3.0, {"four": None}]), {"x": (b"y",)}),
        message_of((from_array(np.arange(4)),)),
        message_of((*views, leaf, large)),
        message_of(({"weights": [some, leaf]}, np.arange(3)), {"lr": 0.1}),
        message_of(
            (some, leaf),
            inner_type=MessageType.PYTHON_CALL,
            metadata={"context": 5, "names": ("a", ("b", b"c")), "scale": 0.5},
            tangents=[TangentEntry(0, 2**63, 1)],
            autograd=AutogradBlock(1 << 48, 5, ((2, 0, 2, 1),)),
        ),
        message_of(("x" * 9000, large)),
    ]
    frames = [message.encode() for message in messages]
    frames += [message.encode(limits=SMALL_FRAMES) for message in messages]
    small = [message.encode() for message in messages[:3]]
    frames.append(list(join(small)))
    return [[bytes(frame) for frame in one] for one in frames]


def read(frames: list[bytes], limits: Limits) -> None:
    """Read a message step by step as a worker does; each step raises its documented errors only."""
    for one in split(list[Buffer](frames)):
        message = decode(one, limits)
        try:
            message.open()
        except DeviceError:
            continue  # a GPU that this machine does not have
        assert all(tensor._array.nbytes <= 16 << 30 for tensor in message.tensors)
        try:
            deserialize_call(message.body, message.encoding, message.tensors)
        except (MemoryError, RecursionError, SystemError):
            raise
        except Exception as error:
            if isinstance(error, MessageError | ForbiddenFunctionError):
                raise
            outcomes["a value's own"] += 1


def how_many(samples_alone: bool) -> int:
    return 5_000 if samples_alone else 50_000


outcomes: collections.Counter[str] = collections.Counter()


@pytest.mark.one_in(4)
def test_broken_messages_raise_what_is_documented_and_take_no_memory(samples_alone: bool) -> None:
    count = how_many(samples_alone)
    mutator, whole = Mutator(21), corpus()
    for frames in whole:
        read(frames, Limits())
    outcomes.clear()
    began = time.thread_time()
    with bounded_memory():
        for number in range(count):
            frames = mutator.break_frames(whole[number % len(whole)])
            if not frames:
                continue
            limits = SMALL_FRAMES if number % 3 == 0 else Limits()
            try:
                read(frames, limits)
            except (MessageError, ForbiddenFunctionError) as error:
                outcomes[type(error).__name__] += 1
            else:
                outcomes["read"] += 1
    assert outcomes["MessageError"] > count // 3, outcomes
    assert outcomes["read"] > 100 and outcomes["ForbiddenFunctionError"] > 10, outcomes
    assert time.thread_time() - began < 30


@pytest.mark.one_in(4)
def test_broken_answers_raise_what_is_documented(samples_alone: bool) -> None:
    mutator = Mutator(22)
    values = [None, from_array(np.ones(3)), {"x": [from_array(np.ones((2, 3)))]}, ValueError("x")]
    whole = []
    for value in values:
        tensors: list[Tensor] = []
        body, encoding = serialize(value, tensors)
        answer = Message(
            *(MessageType.PYTHON_RET, 5), body=body, encoding=encoding, tensors=tensors,
            metadata={"worker": "w1"} if isinstance(value, Exception) else None,
        )  # fmt: skip
        whole.append([bytes(frame) for frame in answer.encode()])
    with bounded_memory():
        for number in range(how_many(samples_alone)):
            frames = mutator.break_frames(whole[number % len(whole)])
            try:
                message = decode(list[Buffer](frames))
                message.open()
            except (MessageError, DeviceError):
                continue
            try:
                message.value()
            except (MemoryError, RecursionError, SystemError):
                raise
            except Exception as error:  # an error of the message, the gate, or a corrupted value
                outcomes[type(error).__name__] += 1


def test_a_server_reads_on_whatever_a_member_sends_it(caplog: pytest.LogCaptureFixture) -> None:
    mutator, whole = Mutator(23), corpus()
    broken = [mutator.break_frames(one) for one in whole * 100]
    coming = [Received(b"r", list[Buffer](frames), 1) for frames in broken if frames]
    listener = FakeListener(hello(b"r", 1), *coming)
    server = serve(listener, lambda *_: CALLER)
    with bounded_memory():
        while server.take() is not None:
            pass
    assert not listener.coming
    assert server.num_rubbish > 300
    # The log reports the member once, and no internal error.
    assert all("cannot be read" in record.getMessage() for record in caplog.records)
