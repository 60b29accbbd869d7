"""Each limit of a message, at its boundary: the sender rejects what the receiver would reject."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer
from fastdist.distributed.rpc.message.layout import (
    AUTOGRAD_BLOCK,
    DEVICE_PAIR,
    HEADER,
    NO_INDEX,
    AutogradBlock,
    TensorEntry,
)
from fastdist.distributed.rpc.message.limits import DEFAULT, Limits
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.metadata import encode_metadata

BEYOND = Limits(header_bytes=1 << 24, tensors=1 << 20)
TENSOR = TensorEntry(0, 0, 7, 0, NO_INDEX, 0, (1,), (1,))


def frames_of(message: Message, limits: Limits = DEFAULT) -> list[Buffer]:
    return [bytes(frame) for frame in message.encode(limits=limits)]


def assert_at_the_edge(
    message: Message, one_more: Message, limits: Limits, error: str, receiver_error: str = ""
) -> None:
    """Check that both ends accept `message` and reject `one_more`.

    For the receiver's check, the sender has no limits.
    """
    decode(frames_of(message, limits), limits)
    with pytest.raises(MessageError, match=error):
        one_more.encode(limits=limits)
    with pytest.raises(MessageError, match=receiver_error or "limit"):
        decode(frames_of(one_more, BEYOND), limits)


def test_the_defaults_are_those_that_are_promised() -> None:
    assert dataclasses.asdict(DEFAULT) == {
        "message_bytes": 16 << 30,
        "header_bytes": 1 << 20,
        "nesting": 64,
        "tensors": 65_536,
        "frame_bytes": 16 << 20,
        "wire_frame_bytes": 64 << 20,
        "connections": 9,
        "handshake_s": 5.0,
        "outstanding_bytes": 256 << 20,
        "outstanding_calls": 100_000,
    }


def test_a_message_is_as_large_as_its_limit_and_no_larger() -> None:
    limits = Limits(message_bytes=100_000)
    assert_at_the_edge(
        Message(1, buffers=[bytes(60_000), bytes(40_000)]),
        Message(1, buffers=[bytes(60_000), bytes(40_001)]),
        *(limits, "a message of 100001 bytes; the worker takes at most 100000"),
    )


class SixteenGibibytes(bytes):
    """A buffer that only reports a large size; its data must not be read."""

    def __len__(self) -> int:
        return 16 << 30


def test_sixteen_gibibytes_are_refused_before_anything_is_cut_or_copied() -> None:
    buffers: list[Buffer] = [SixteenGibibytes(), b"x"]
    with pytest.raises(MessageError, match="a message of 17179869185 bytes; the worker takes at"):
        Message(1, buffers=buffers).encode()


def test_a_plain_body_is_as_large_as_its_limit_and_no_larger() -> None:
    limits = Limits(message_bytes=10_000, frame_bytes=4096)
    frames = Message(1, body=bytes(10_000)).encode(limits=limits)
    assert max(map(len, frames)) <= 4096
    assert decode(frames, limits).body == bytes(10_000)
    with pytest.raises(MessageError, match="a message of 10001 bytes"):
        Message(1, body=bytes(10_001)).encode(limits=limits)


def with_metadata(size: int) -> Message:
    empty = len(encode_metadata({"x": ""}))
    return Message(1, metadata={"x": "y" * (size - empty)})


@pytest.mark.parametrize("header_bytes", [DEFAULT.header_bytes, 5000])
def test_a_header_is_as_long_as_its_limit_and_no_longer(header_bytes: int) -> None:
    room = header_bytes - HEADER.size
    assert_at_the_edge(
        with_metadata(room),
        with_metadata(room + 1),
        *(Limits(header_bytes=header_bytes), f"a header of {header_bytes + 1} bytes"),
        f"a header of {header_bytes + 1} bytes or more",
    )


def test_a_device_map_counts_as_header() -> None:
    limits = Limits(header_bytes=4096)
    pairs = (4096 - HEADER.size - AUTOGRAD_BLOCK.size) // DEVICE_PAIR.size
    fits, does_not = (
        Message(1, autograd=AutogradBlock(1, 2, ((2, 0, 2, 1),) * count))
        for count in (pairs, pairs + 1)
    )
    assert_at_the_edge(fits, does_not, limits, "a header of", "a header of")


@pytest.mark.parametrize("nesting", [DEFAULT.nesting, 3])
def test_metadata_nest_as_deep_as_their_limit_and_no_deeper(nesting: int) -> None:
    def nested(depth: int) -> Message:
        value: Any = ()
        for _ in range(depth - 1):
            value = (value,)
        return Message(1, metadata={"x": value})

    limits = Limits(nesting=nesting)
    decode(frames_of(nested(nesting), limits), limits)
    with pytest.raises(MessageError, match="as deep as the limit nesting= allows"):
        nested(nesting + 1).encode(limits=limits)
    with pytest.raises(MessageError, match="with 0 levels left"):
        decode(frames_of(nested(nesting + 1), Limits(nesting=nesting + 1)), limits)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("count", [DEFAULT.tensors, 10])
def test_a_message_carries_as_many_tensors_as_its_limit_and_no_more(count: int) -> None:
    limits = Limits(tensors=count)
    fits, one_more = (
        Message(1, entries=[TENSOR] * number, buffers=[bytes(8)]) for number in (count, count + 1)
    )
    assert len(decode(frames_of(fits, limits), limits).entries) == count
    with pytest.raises(MessageError, match=f"{count + 1} tensors; a message to this worker"):
        one_more.encode(limits=limits)
    with pytest.raises(MessageError, match=f"{count + 1} tensors announced; the limit is {count}"):
        decode(frames_of(one_more, Limits(tensors=count + 1)), limits)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("frame_bytes", [DEFAULT.frame_bytes, 1 << 20])
def test_no_frame_is_longer_than_its_limit(frame_bytes: int) -> None:
    limits = Limits(frame_bytes=frame_bytes)
    message = Message(1, buffers=[bytes(frame_bytes), bytes(frame_bytes + 1)])
    frames = frames_of(message, limits)
    assert [len(frame) for frame in frames[1:]] == [frame_bytes, frame_bytes, 1]
    decode(frames, limits)
    longer = frames_of(message, Limits(frame_bytes=2 * frame_bytes))
    with pytest.raises(MessageError, match=f"a frame of more than {frame_bytes} bytes"):
        decode(longer, limits)
    plain = frames_of(Message(1, body=bytes(frame_bytes)), Limits(frame_bytes=2 * frame_bytes))
    with pytest.raises(MessageError, match=f"the limit is {frame_bytes}"):
        decode(plain, limits)


def test_tables_that_do_not_fit_a_frame_are_refused_with_advice() -> None:
    deep = TensorEntry(0, 0, 7, 0, NO_INDEX, 0, (1,) * 64, (1,) * 64)
    message = Message(1, entries=[deep] * 20_000, buffers=[bytes(8)])
    with pytest.raises(MessageError, match=r"tables of .* send fewer tensors at once"):
        message.encode()


def test_a_sender_keeps_to_the_smaller_of_two_limits() -> None:
    mine, theirs = Limits(tensors=5, message_bytes=10_000), Limits(tensors=9, message_bytes=5_000)
    between = mine.towards(theirs)
    assert (between.tensors, between.message_bytes) == (5, 5_000)
    assert between.outstanding_calls == mine.outstanding_calls
    assert Limits(**dataclasses.asdict(theirs)) == theirs


@pytest.mark.parametrize(
    ("limit", "value", "text"),
    [
        ("message_bytes", 0, "message_bytes is 0; expected a whole number, 4096 or more"),
        ("frame_bytes", 1.5, "frame_bytes is 1.5; expected a whole number"),
        ("tensors", True, "tensors is True; expected a whole number, 1 or more"),
        ("connections", 0, "connections is 0"),
        ("handshake_s", "5", "handshake_s is '5'; expected a number of seconds, 1 or more"),
        ("handshake_s", float("nan"), "handshake_s is nan"),
        ("nesting", 1000, "nesting is 1000; expected at most 256"),
        ("wire_frame_bytes", 4096, "what is sent in one piece must pass the wire"),
        ("outstanding_calls", -1, "outstanding_calls is -1"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(limit: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Limits(**{limit: value})
