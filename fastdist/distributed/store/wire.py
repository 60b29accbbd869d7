"""The wire format of requests to the served store, and of its answers."""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from fastdist.core.errors import MessageError

from .requests import MAX_MEMBERS, Op, Status

VERSION = 1
_MAX_FRAMES = MAX_MEMBERS

# version, op, request id, timeout in ms (negative: no timeout)
_REQUEST = struct.Struct("<BBQq")
# version, status, request id
_ANSWER = struct.Struct("<BBQ")


class Question(NamedTuple):
    """A received request; timeout_s is relative, since the clocks of machines differ."""

    op: Op
    request_id: int
    timeout_s: float
    arguments: list[bytes]


class Reply(NamedTuple):
    """A received answer."""

    status: Status
    request_id: int
    frames: list[bytes]


def pack_question(question: Question) -> list[bytes]:
    """Return the frames of a request."""
    timeout_ms = -1 if math.isinf(question.timeout_s) else math.ceil(question.timeout_s * 1000)
    header = _REQUEST.pack(VERSION, question.op, question.request_id, timeout_ms)
    return [header, *question.arguments]


def unpack_question(frames: list[bytes]) -> Question:
    """Return the request in frames.

    Raises  MessageError for frames that pack_question does not write
    """
    header = frames[0] if frames else b""
    if len(header) != _REQUEST.size or len(frames) > _MAX_FRAMES:
        raise MessageError(
            f"not a request to a fastdist store: {len(frames)} frames, the first of {len(header)} "
            f"bytes, expected {_REQUEST.size}"
        )
    version, op, request_id, timeout_ms = _REQUEST.unpack(header)
    if version != VERSION:
        raise MessageError(f"request of store protocol {version}, this server speaks {VERSION}")
    if op not in Op.__members__.values():
        raise MessageError(f"unknown store op {op}")
    timeout_s = math.inf if timeout_ms < 0 else timeout_ms / 1000
    return Question(Op(op), request_id, timeout_s, frames[1:])


def pack_reply(reply: Reply) -> list[bytes]:
    """Return the frames of an answer."""
    return [_ANSWER.pack(VERSION, reply.status, reply.request_id), *reply.frames]


def unpack_reply(frames: list[bytes]) -> Reply:
    """Return the answer in frames.

    Raises  MessageError for frames that pack_reply does not write
    """
    header = frames[0] if frames else b""
    if len(header) != _ANSWER.size:
        raise MessageError(
            f"not an answer of a fastdist store: header of {len(header)} bytes, "
            f"expected {_ANSWER.size}"
        )
    version, status, request_id = _ANSWER.unpack(header)
    if version != VERSION:
        raise MessageError(f"answer of store protocol {version}, this client speaks {VERSION}")
    if status not in Status.__members__.values():
        raise MessageError(f"unknown store status {status}")
    return Reply(Status(status), request_id, frames[1:])
