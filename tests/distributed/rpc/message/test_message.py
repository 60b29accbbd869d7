"""A message is decoded as it was encoded, and decode rejects malformed bytes."""

from __future__ import annotations

import random

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer, is_alone
from fastdist.distributed.rpc.message.layout import (
    FRAME_BYTES,
    INLINE_BYTES,
    NO_INDEX,
    PICKLE,
    AutogradBlock,
    TangentEntry,
    TensorEntry,
)
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.metadata import Value, decode_metadata, encode_metadata

VALUES: dict[str, Value] = {
    "none": None,
    "yes": True,
    "no": False,
    "int": -(2**63),
    "id": 2**64 - 1,
    "float": 0.1,
    "text": "grüß",
    "bytes": b"\0\1",
    "list": (1, ("nested", 2.5), b""),
}


def full_message() -> Message:
    entry = TensorEntry(0, 8, 7, 0, NO_INDEX, 1, (2, 3), (3, 1))
    return Message(
        0x102,
        (3 << 48) | 17,
        source=3,
        incarnation=2**64 - 1,
        body=b"body",
        encoding=PICKLE,
        entries=(entry, entry._replace(buffer=1, sizes=(), strides=(), offset=0)),
        buffers=[bytes(range(64)), b"x" * (INLINE_BYTES + 1)],
        timeout_ms=60_000,
        lane=8,
        inner_type=0x10F,
        metadata=VALUES,
        tangents=(TangentEntry(0, 2**63, 1),),
        autograd=AutogradBlock(1 << 48, 5, ((2, 0, 2, 1),)),
    )


def test_every_field_of_a_message_comes_back() -> None:
    sent = full_message()
    frames = sent.encode()
    came = decode(frames)
    assert len(frames) == 2
    for name in Message.__slots__:
        if name != "buffers":
            assert getattr(came, name) == getattr(sent, name), name
    assert [bytes(buffer) for buffer in came.buffers] == [bytes(b) for b in sent.buffers]


def test_a_message_without_tables_is_one_frame_of_header_and_body() -> None:
    frames = Message(0x203, 9, body=b"abc", encoding=PICKLE).encode()
    assert [len(frame) for frame in frames] == [67]
    assert bytes(decode(frames).body) == b"abc"


def test_a_buffer_beyond_a_frame_travels_in_pieces_and_comes_back_whole() -> None:
    payload = bytes(range(256)) * (FRAME_BYTES // 256 + 1)
    frames = Message(1, buffers=[payload]).encode()
    assert [len(frame) for frame in frames[1:]] == [FRAME_BYTES, 256]
    assert decode(frames).buffers == [payload]


def test_buffers_that_come_in_can_be_written() -> None:
    for buffer in decode(full_message().encode()).buffers:
        assert not memoryview(buffer).readonly


def test_metadata_comes_back_and_unknown_types_are_refused() -> None:
    assert decode_metadata(encode_metadata(VALUES)) == VALUES
    with pytest.raises(MessageError, match="cannot send a set"):
        encode_metadata({"x": {1}})  # type: ignore[dict-item]
    with pytest.raises(MessageError, match="does not fit 64 bits"):
        encode_metadata({"x": 2**64})


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [FRAME_BYTES // 2, FRAME_BYTES - 64, FRAME_BYTES, 65 << 20])
def test_a_body_of_any_size_travels_in_frames_that_are_not_too_long(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    tensor = TensorEntry(0, 0, 7, 0, NO_INDEX, 0, (1,), (1,))
    for message in (
        Message(0x102, 9, body=body, encoding=PICKLE),
        Message(0x102, 9, body=body, encoding=PICKLE, entries=[tensor], buffers=[bytes(8)]),
    ):
        frames = message.encode()
        assert max(map(len, frames)) <= FRAME_BYTES
        came = decode(frames)
        assert (came.message_id, came.encoding, came.body) == (9, PICKLE, body)
        assert came.buffers == (() if not message.buffers else [bytes(8)]) or came.buffers == []


@pytest.mark.one_in(4)
def test_many_small_buffers_share_frame_0_as_far_as_it_goes() -> None:
    buffers = [b"%d" % n * 1000 for n in range(6000)]
    tensors = [TensorEntry(n, 0, 7, 0, NO_INDEX, 0, (1,), (1,)) for n in range(6000)]
    frames = Message(1, entries=tensors, buffers=buffers).encode()
    assert max(map(len, frames)) <= FRAME_BYTES
    assert [bytes(buffer) for buffer in decode(frames).buffers] == buffers


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"GET / HTTP/1.1\r\nHost: x\r\nAccept: more than the 64 bytes of a header\r\n\r\n" * 2],
        [b"\0" * 64],
        [b"\xff" * 64],
        [b"\1" + b"\xff" * 200],
    ],
)
def test_rubbish_is_a_message_error(frames: list[bytes]) -> None:
    with pytest.raises(MessageError):
        decode(frames)


def test_a_truncated_message_is_a_message_error() -> None:
    first, second = (bytes(frame) for frame in full_message().encode())
    for length in range(len(first)):
        with pytest.raises(MessageError):
            decode([first[:length], second])
    for frames in ([first], [first, second[:-1]], [first + b"x", second], [first, second, b""]):
        with pytest.raises(MessageError):
            decode(frames)


@pytest.mark.one_in(4)
def test_flipped_bytes_are_an_error_or_a_message_that_stays_inside_its_buffers() -> None:
    rng = random.Random(7)
    first, second = (bytes(frame) for frame in full_message().encode())
    for _ in range(3000):
        broken = bytearray(first)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        frames: list[Buffer] = [bytes(broken), second]
        try:
            message = decode(frames)
        except MessageError:
            continue
        assert sum(len(buffer) for buffer in message.buffers) <= len(first) + len(second)
        for entry in message.entries:
            assert 0 <= entry.offset <= len(message.buffers[entry.buffer])
            assert all(number >= 0 for number in entry.sizes + entry.strides)


@pytest.mark.parametrize(
    ("sizes", "body"),
    [((), 0), ((8,), 4), ((FRAME_BYTES,), 4), ((8, 9), 0), ((INLINE_BYTES + 1,), 0), ((), 9 << 20)],
)
def test_the_first_frame_says_whether_it_is_the_only_one(sizes: tuple[int, ...], body: int) -> None:
    tensors = [TensorEntry(n, 0, 7, 0, NO_INDEX, 0, (1,), (1,)) for n in range(len(sizes))]
    buffers = [bytes(size) for size in sizes]
    frames = Message(1, body=bytes(body), entries=tensors, buffers=buffers).encode()
    assert len(frames) == 1 or not is_alone(frames[0])
    assert is_alone(frames[0]) or len(sizes) > 1 or len(frames) > 1
