"""Whatever a function raises, its caller hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from fastdist.core.errors import MessageError, RemoteError
from fastdist.distributed.pipe.message import Message, decode
from fastdist.distributed.pipe.metadata import decode_metadata, encode_metadata
from fastdist.distributed.rpc.incoming import Incoming
from fastdist.distributed.rpc.membership import Record
from fastdist.distributed.rpc.message_types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.received_calls import CallerLane
from fastdist.distributed.rpc.remote_errors import pack_error, unpack_error


class BadText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class BadReduce(Exception):
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("cannot be reduced")


class WorseReduce(Exception):
    def __reduce__(self) -> Any:
        raise SystemExit(3)


def across(error: BaseException, *, text_only: bool = False) -> Exception:
    envelope, body, encoding = pack_error(error, "w1", 0, text_only=text_only)
    envelope.metadata = decode_metadata(encode_metadata(envelope.metadata))
    return unpack_error(envelope, body, encoding)


def test_an_error_without_a_text_arrives_with_its_type() -> None:
    assert type(across(BadText())) is BadText


def test_an_error_that_cannot_be_pickled_arrives_as_text_and_says_why() -> None:
    for error, why in ((BadReduce("one"), "ZeroDivisionError"), (WorseReduce("two"), "SystemExit")):
        arrived = across(error)
        assert type(arrived) is RemoteError
        assert str(error) in str(arrived) and f"does not pickle there: {why}" in str(arrived)


@pytest.mark.parametrize("text", ["\udcff alone", "\U0001f600" * 300_000, "x" * 1_000_000])
def test_a_text_of_any_letters_and_length_fits(text: str) -> None:
    arrived = across(KeyError(text), text_only=True)
    assert type(arrived) is RemoteError
    assert text[:2].encode(errors="backslashreplace").decode() in str(arrived)
    assert "On worker" in arrived.__notes__[0]


class Host:
    """A server that cannot send what carries an error's own bytes."""

    def __init__(self) -> None:
        self.me = Record("w1", 1, 2, 1, {}, {}, "none")
        self.counts = CallCounts()
        self.sent: list[Message] = []

    def reply(self, route: bytes, frames: Any) -> bool:
        message = decode(frames)
        if message.body:
            raise MessageError("a frame of too many bytes")
        self.sent.append(message)
        return True

    def lender_of(self, caller: Record) -> None:
        return None


def test_an_error_that_is_too_large_to_be_sent_is_told_of() -> None:
    host = Host()
    lane = CallerLane(Record("w0", 0, 2, 1, {}, {}, "none"), 0)
    incoming = Incoming(host, lane, Message(MessageType.PYTHON_CALL, 7), 0)
    host.counts.request_came()
    incoming._answer_error(KeyError("large"))
    (answer,) = host.sent
    assert answer.type == MessageType.EXCEPTION and answer.message_id == 7
    assert answer.metadata is not None and "too many bytes" in str(answer.metadata["message"])
    assert "KeyError" in str(answer.metadata["traceback"])
    assert host.counts.activity()[0] == 0
