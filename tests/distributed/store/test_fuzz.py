"""Thousands of corrupted requests, answers and files are rejected, and the store still works."""

from __future__ import annotations

import math
import struct
import time
import zlib
from pathlib import Path

import pytest
import zmq

from fastdist.core.errors import AuthenticationError, MessageError, StoreError
from fastdist.distributed.sockets import connect, make_socket, tcp_endpoint
from fastdist.distributed.store import FileStore, TCPStore
from fastdist.distributed.store.access import client_security
from fastdist.distributed.store.answers import require_ok
from fastdist.distributed.store.requests import (
    MAX_KEY_BYTES,
    MAX_MEMBERS,
    MAX_VALUE_BYTES,
    Answer,
    Op,
    Request,
    Status,
)
from fastdist.distributed.store.state import StoreState
from fastdist.distributed.store.wire import (
    Question,
    Reply,
    pack_question,
    pack_reply,
    unpack_question,
    unpack_reply,
)
from tests.distributed.fuzzing import Mutator, bounded_memory
from tests.distributed.store.conftest import assert_serves

QUESTIONS = [
    Question(Op.SET, 7, 1.0, [b"key", b"value", b"other", b"value"]),
    Question(Op.GET, 8, 0.0, [b"key"]),
    Question(Op.WAIT, 9, math.inf, [b"key", b"missing"]),
    Question(Op.CHECK, 10, 1.0, [b"key", b"other"]),
    Question(Op.ADD, 11, 1.0, [b"number", b"-5"]),
    Question(Op.COMPARE_SET, 12, 1.0, [b"key", b"value", b"new"]),
    Question(Op.DELETE, 13, 1.0, [b"key"]),
    Question(Op.NUM_KEYS, 14, 1.0, []),
    Question(Op.APPEND, 15, 1.0, [b"key", b"more"]),
    Question(Op.JOIN, 16, 0.0, [b"group", b"1", b"3", b"value"]),
    Question(Op.WATCH, 17, 1.0, [b"k"]),
    Question(Op.JOIN, 18, 0.0, [b"group", b"-1", b"2", b"value"]),
    Question(Op.JOIN, 19, 0.0, [b"\0workers", b"-1", b"1", b""]),
    Question(Op.ENDED, 20, 1.0, [b"1", b"3"]),
    Question(Op.ROUND, 21, 1.0, []),
    Question(Op.WITHDRAW, 22, 1.0, [b"group", b"1", b"3"]),
    Question(Op.DISBAND, 23, 1.0, [b"group"]),
]
# Valid and invalid arguments of requests; a mutator may change them further.
ARGUMENTS = [b"", b"key", b"-1", b"0", b"65536", b"999999999999999", b"9" * 5000, b"x" * 70_000]


@pytest.fixture
def many(samples_alone: bool) -> int:
    return 4_000 if samples_alone else 100_000


def test_a_broken_request_is_a_message_error_or_a_request(many: int) -> None:
    mutator = Mutator(1)
    with bounded_memory():
        for number in range(many):
            frames = mutator.break_frames(pack_question(QUESTIONS[number % len(QUESTIONS)]))
            try:
                question = unpack_question(frames)
            except MessageError:
                continue
            assert question.arguments == frames[1:] and question.op in Op


def test_whatever_is_asked_the_dictionary_answers_and_stays_whole(many: int) -> None:
    mutator = Mutator(2)
    state, waiting = StoreState(), 0
    with bounded_memory():
        for number in range(many):
            op, _, timeout_s, arguments = QUESTIONS[mutator.random.randrange(len(QUESTIONS))]
            broken = [
                mutator.random.choice((argument, mutator.random.choice(ARGUMENTS)))
                for argument in arguments
            ]
            if broken and mutator.random.random() < 0.3:
                broken = mutator.break_frames(broken)
            now = float(number)
            answers = state.submit(Request(op, broken, (b"route", number), now + timeout_s), now)
            answers += state.expire(now)
            if number % 200 == 0:
                state.unwatch(state.watchers())  # as when the connections of the watchers end
            assert all(isinstance(answer, Answer) for answer in answers)
            waiting += 1 - sum(answer.status is not Status.CHANGED for answer in answers)
    assert waiting < many
    assert state.submit(Request(Op.SET, [b"alive", b"yes"], "me", 1e9), 0.0)[0].status is Status.OK


def test_a_served_store_survives_thousands_of_broken_requests(served: TCPStore, many: int) -> None:
    mutator = Mutator(3)
    server = served._server
    assert server is not None
    lane = make_socket(zmq.DEALER, "a member that sends rubbish")
    lane.set(zmq.SNDTIMEO, 10_000)
    endpoint = tcp_endpoint("127.0.0.1", served.port)
    connect(lane, endpoint, client_security(served.job_secret), peer="store")
    for number in range(many // 4):
        assert server._thread.is_alive(), number
        lane.send_multipart(
            mutator.break_frames(pack_question(QUESTIONS[number % len(QUESTIONS)])) or [b""]
        )
        while lane.poll(0):
            lane.recv_multipart()
    assert_serves(served)
    lane.close()
    assert_serves(served)


def test_a_served_store_survives_whole_requests_with_any_arguments(
    served: TCPStore, many: int
) -> None:
    random = Mutator(6).random
    server = served._server
    assert server is not None
    lane = make_socket(zmq.DEALER, "a member that asks for anything")
    lane.set(zmq.SNDTIMEO, 10_000)
    lane.set(zmq.RCVTIMEO, 10_000)
    connect(
        lane,
        tcp_endpoint("127.0.0.1", served.port),
        client_security(served.job_secret),
        peer="store",
    )
    pieces = [*ARGUMENTS, b"1", b"2", b"3", b"group", b"\0workers", b"\xff", b"1e3", b" 2 "]
    for number in range(many // 4):
        op = random.choice([op for op in Op if op is not Op.WATCH])
        few = random.choice([0, 1, 2, 3, 4, 4, 5])
        arguments = [random.choice(pieces) for _ in range(few)]
        lane.send_multipart(pack_question(Question(op, number, 0.0, arguments)))
        reply = unpack_reply(lane.recv_multipart())
        assert reply.request_id == number and server._thread.is_alive()
        # Our clients send no such request. It is rejected with a text, and is not an internal
        # error.
        assert b"mistake" not in b"".join(reply.frames), (op, arguments)
    lane.close()
    assert_serves(served)


def test_a_broken_answer_is_an_error_of_the_store_or_of_its_message(many: int) -> None:
    mutator = Mutator(4)
    replies = [
        Reply(Status.OK, 7, [b"value"]),
        Reply(Status.OK, 7, [b"12"]),
        Reply(Status.OK, 7, []),
        Reply(Status.OK, 7, [b"a", b"b", b"c"]),
        Reply(Status.TIMED_OUT, 7, [b"key"]),
        Reply(Status.REFUSED, 7, [b"no"]),
    ]
    with bounded_memory():
        for number in range(many):
            question = QUESTIONS[number % len(QUESTIONS)]
            frames = mutator.break_frames(pack_reply(replies[number % len(replies)]))
            try:
                reply = unpack_reply(frames)
                values = require_ok(
                    *("store", question.op, question.arguments, reply.status, reply.frames, 1.0)
                )
            except (MessageError, StoreError):
                continue
            if question.op in (Op.ADD, Op.NUM_KEYS):
                int(values[0])


def record(kind: int, *arguments: bytes) -> bytes:
    pieces = [struct.pack("<I", len(argument)) + argument for argument in arguments]
    body = struct.pack("<BI", kind, len(arguments)) + b"".join(pieces)
    return struct.pack("<II", len(body), zlib.crc32(body)) + body


def test_a_broken_file_is_an_error_of_the_store_or_read_as_far_as_it_is_whole(
    tmp_path: Path, many: int
) -> None:
    mutator = Mutator(5)
    path = tmp_path / "store"
    whole = b"fastdist store 1\n" + b"".join(
        [
            record(Op.SET, b"key", b"value"),
            record(Op.ADD, b"number", b"5"),
            record(Op.JOIN, b"group", b"0", b"2", b"value"),
            record(0x80, b"5a" * 32),
            record(0x81),
        ]
    )
    began = time.monotonic()
    with bounded_memory():
        for _ in range(many // 20):
            path.write_bytes(mutator.break_bytes(whole))
            try:
                with FileStore(str(path), timeout=0) as store:
                    store.set("alive", "yes")
                    assert store.get("alive") == b"yes"
            except (StoreError, AuthenticationError):
                continue
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "rubbish",
    [
        record(0x77, b"unknown"),
        record(Op.WATCH, b"key"),
        record(0x80, b"no secret"),
        record(0x80),
        struct.pack("<II", 3, zlib.crc32(b"abc")) + b"abc",
        struct.pack("<II", 5, zlib.crc32(b"\1\xff\xff\xff\xff")) + b"\1\xff\xff\xff\xff",
    ],
    ids=["unknown op", "no change", "no secret", "no argument", "too short", "too many arguments"],
)
def test_a_record_with_the_right_sum_that_none_of_ours_wrote_is_named(
    tmp_path: Path, rubbish: bytes
) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"fastdist store 1\n" + rubbish)
    with pytest.raises(StoreError, match="byte 17 does not begin a record"):
        FileStore(str(path))


def ask(state: StoreState, op: Op, *arguments: bytes) -> Answer:
    (answer,) = state.submit(Request(op, list(arguments), "me", 0.0), 0.0)
    return answer


def test_no_value_grows_beyond_what_can_be_fetched() -> None:
    state = StoreState()
    half = bytes(MAX_VALUE_BYTES // 2)
    assert ask(state, Op.APPEND, b"key", half).status is Status.OK
    assert ask(state, Op.APPEND, b"key", half).status is Status.OK
    refused = ask(state, Op.APPEND, b"key", b"x")
    assert refused.status is Status.REFUSED and b"1 more exceed" in refused.frames[0]
    assert len(ask(state, Op.GET, b"key").frames[0]) == MAX_VALUE_BYTES


@pytest.mark.parametrize("excess", [0, 1])
def test_keys_and_values_are_kept_up_to_their_limits(excess: int) -> None:
    state, expected = StoreState(), Status.REFUSED if excess else Status.OK
    key, value = bytes(MAX_KEY_BYTES + excess), bytes(MAX_VALUE_BYTES + excess)
    assert ask(state, Op.SET, key, b"v").status is expected
    assert ask(state, Op.SET, b"k", value).status is expected
    assert ask(state, Op.COMPARE_SET, b"other", b"", value).status is expected
    assert ask(state, Op.ADD, bytes(MAX_KEY_BYTES - 1 + 2 * excess), b"1").status is expected
    assert ask(state, Op.JOIN, b"group", b"0", b"1", value).status is expected


@pytest.mark.parametrize("world_size", [b"0", b"-1", b"%d" % (MAX_MEMBERS + 1), b"9" * 18])
def test_a_group_of_more_members_than_there_are_ranks_is_refused(world_size: bytes) -> None:
    # Such a group must be rejected, because an error would list its missing members one by one.
    refused = ask(StoreState(), Op.JOIN, b"group", b"0", world_size, b"value")
    assert refused.status is Status.REFUSED
    assert b"a group has 1 to 65536 members" in refused.frames[0]
