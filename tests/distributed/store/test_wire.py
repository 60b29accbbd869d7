"""The bytes exchanged between a client and the served store."""

from __future__ import annotations

import math
import random

import pytest

from fastdist.core.errors import MessageError
from fastdist.distributed.store.requests import Op, Status
from fastdist.distributed.store.wire import (
    Question,
    Reply,
    pack_question,
    pack_reply,
    unpack_question,
    unpack_reply,
)


@pytest.mark.parametrize("timeout_s", [0.0, 1.5, 1e9, math.inf])
def test_a_question_comes_as_it_went(timeout_s: float) -> None:
    question = Question(Op.GET, 2**64 - 1, timeout_s, [b"", b"key"])
    assert unpack_question(pack_question(question)) == question


@pytest.mark.parametrize("status", list(Status))
def test_a_reply_comes_as_it_went(status: Status) -> None:
    reply = Reply(status, 7, [b"", b"value"])
    assert unpack_reply(pack_reply(reply)) == reply


def test_rubbish_is_a_message_error_whatever_it_is() -> None:
    generator = random.Random(20_261_121)
    for _ in range(5_000):
        frames = [
            generator.randbytes(generator.randrange(24)) for _ in range(generator.randrange(4))
        ]
        for unpack in (unpack_question, unpack_reply):
            try:
                unpack(frames)
            except MessageError:
                continue
            assert frames[0][0] == 1


def test_another_version_is_named() -> None:
    header = pack_question(Question(Op.GET, 1, 1.0, []))[0]
    with pytest.raises(MessageError, match="protocol 9, this server speaks 1"):
        unpack_question([b"\x09" + header[1:]])
