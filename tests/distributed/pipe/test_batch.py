"""Messages sent in one batch are unpacked unchanged, and a malformed batch is an error."""

from __future__ import annotations

import struct

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.batch import (
    BATCH,
    MAX_BYTES,
    MAX_MESSAGES,
    can_join,
    join,
    split,
    take_batch,
)
from fastdist.distributed.rpc.message.message import Message


def test_joined_messages_come_back_in_order() -> None:
    messages = [[b"x" * n] for n in range(10)]
    (frame,) = join(messages)
    assert [bytes(frames[0]) for frames in split([frame])] == [m[0] for m in messages]


def test_a_lone_message_stays_as_it_is() -> None:
    message = Message(0x102, 5, body=b"abc").encode()
    assert join([message]) is message
    assert list(split(message)) == [message]


def test_only_small_messages_of_one_frame_are_joined() -> None:
    assert can_join([b"small"])
    assert not can_join([b"two", b"frames"])
    assert not can_join([b"x" * MAX_BYTES])


def test_a_batch_takes_the_first_messages_that_fit() -> None:
    small, large = [b"x" * 100], [b"x" * MAX_BYTES]
    assert take_batch([small] * 1000) == MAX_MESSAGES
    assert take_batch([small, small, large, small]) == 2
    assert take_batch([large, small]) == 1
    assert take_batch([[b"x" * (MAX_BYTES // 5)]] * 50) == 5


def test_a_broken_batch_is_a_message_error() -> None:
    (frame,) = join([[b"abc"], [b"defg"]])
    for broken in (frame[:3], frame[:9], frame[:-1], bytes(frame) + b"x"):
        with pytest.raises(MessageError):
            list(split([broken]))
    with pytest.raises(MessageError):
        list(split([frame, b"more"]))


def test_a_batch_that_announces_more_than_is_sent_at_once_is_refused_before_it_is_read() -> None:
    # 16 million empty messages would fit into a frame, and each would cost an object.
    frame = struct.pack("<BxxxI", BATCH, MAX_MESSAGES + 1) + bytes(4 * (MAX_MESSAGES + 1))
    for broken in (frame, struct.pack("<BxxxI", BATCH, 0)):
        with pytest.raises(MessageError, match=rf"one holds 1 to {MAX_MESSAGES}"):
            list(split([broken]))
