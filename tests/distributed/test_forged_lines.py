"""Text from another worker or a stranger appears in our log as at most one line."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.core.errors import GivenUpError, RankTakenError, RpcError, StoreError
from fastdist.distributed.pipe.listener import Received
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.remote_errors import pack_error, unpack_error, words_of
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.notices import NoticeSender
from fastdist.distributed.rpc.workers import joining
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.session import Event
from fastdist.distributed.store import TCPStore
from fastdist.distributed.store.answers import require_ok
from fastdist.distributed.store.requests import Op, Status
from fastdist.launch import gathering
from fastdist.launch.gathering import Card, Members
from fastdist.launch.roll import End, Roll
from tests.distributed.rpc.calls.test_serving import FakeListener, hello, serve
from tests.distributed.rpc.workers.by_hand import static, workers_of

FORGED = "so\n2026-01-01 00:00:00 ERROR worker 'w7' was lost\r\x1b[2K\x1b[1mall is well"
ME, OTHER = (Record(f"w{rank}", rank, 2, 100 + rank, {"uv": "x"}, {}, "none") for rank in range(2))


def require_one_line(text: str) -> None:
    assert text.isprintable() and "\\n2026" in text and "\\x1b[2K" in text, repr(text)


def test_a_line_at_the_stores_door() -> None:
    told: list[str] = []
    host = TCPStore(
        *("127.0.0.1", 0),
        is_master=True,
        security="none",
        tell=lambda level, line: told.append(line),
    )
    with closing(host), closing(TCPStore("127.0.0.1", host.port, security="none")) as member:
        member.query_host(FORGED)
        member.query_host("x" * 100_000)
    require_one_line(told[0])
    assert len(told[1]) < 5000


def test_what_a_store_refuses_and_misses_is_told_in_one_line() -> None:
    forged = FORGED.encode()
    cases: list[tuple[Op, Status, list[bytes]]] = [
        (Op.SET, Status.REFUSED, [forged]),
        (Op.GET, Status.ENDED, [forged]),
        (Op.GET, Status.TIMED_OUT, [forged]),
        (Op.JOIN, Status.TIMED_OUT, [forged]),
    ]
    for op, status, frames in cases:
        with pytest.raises(StoreError) as raised:
            require_ok("the store", op, [forged, b"0", b"2", b""], status, frames, 1.0)
        require_one_line(str(raised.value))


def test_what_a_record_says_of_itself() -> None:
    forged = replace(OTHER, host=FORGED, addresses={"uv": FORGED})
    require_one_line(Record.decode(forged.encode()).whereabouts)


@pytest.mark.parametrize("name", [FORGED, "", "x" * 200, "a b"])
def test_a_record_of_a_name_that_nobody_can_have_is_none(name: str) -> None:
    encoded = json.dumps({**asdict(OTHER), "name": name}).encode()
    with pytest.raises(RpcError, match="instead of the record of a worker") as raised:
        Record.decode(encoded)
    assert str(raised.value).isprintable()


def test_a_twin_that_says_who_it_is(caplog: pytest.LogCaptureFixture) -> None:
    greeting = Message(MessageType.HELLO, source=0, incarnation=7, metadata={"twin": FORGED})
    with pytest.raises(RankTakenError):
        joining.refuse_twin(ME, greeting)
    require_one_line(caplog.text.rstrip("\n"))


def test_who_refuses_this_worker_and_why(caplog: pytest.LogCaptureFixture) -> None:
    workers = workers_of(static(ME, OTHER))
    peer = workers.reach(1)
    peer._step(Event.CONNECTED)
    peer._refused(GivenUpError(FORGED, incarnation=ME.incarnation))
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    require_one_line(record.getMessage())
    other = workers_of(static(ME, OTHER))
    refuses = other.reach(1)
    refuses._step(Event.CONNECTED)
    refuses._refused(RpcError(FORGED))
    require_one_line(refuses.why_lost)
    require_one_line(str(refuses.pipe.error))


def test_a_message_that_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    words: Any = {"bytes": FORGED, "floor": 0, "open": ()}
    frames = Message(MessageType.CREDIT, metadata=words).encode()
    server = serve(FakeListener(hello(b"r", 1), Received(b"r", frames, 1)))
    assert server.take() is None and server.num_rubbish == 1
    (record,) = caplog.records
    assert record.getMessage().isprintable()


def test_an_error_that_comes_as_text() -> None:
    answer = pack_error(ValueError(FORGED), "w1", text_only=True)
    answer.metadata.update({"type": FORGED, "why": FORGED, "worker": FORGED})
    error = unpack_error(answer)
    told = "\n".join([str(error), *error.__notes__])
    assert "\x1b" not in told and "\r" not in told and "\\x1b[2K" in told
    assert words_of(RpcError("first\x1b[2K\nsecond")) == "RpcError: first\\x1b[2K"


def test_a_note_that_did_not_arrive(caplog: pytest.LogCaptureFixture) -> None:
    def send(*_: Any, **__: Any) -> Any:
        raise RpcError(FORGED)

    peer: Any = SimpleNamespace(is_dead=False, why_lost="", id=1, name="w1")
    with caplog.at_level(logging.WARNING):
        NoticeSender(send).send(
            peer, MessageType.RREF_USER_DELETE, {}, failure="an end", level=logging.WARNING
        )
    (record,) = caplog.records
    require_one_line(record.getMessage())


def card(node: int, host: str, **fields: Any) -> Card:
    return Card(node, 2, 1, host, **fields)


@pytest.mark.parametrize(
    "fault",
    [
        lambda: gathering.find_fault([card(1, FORGED), card(1, "there")]),
        lambda: gathering.find_fault([card(0, "here", max_restarts=3), card(1, FORGED)]),
        lambda: card(1, FORGED).name,
    ],
)
def test_a_node_of_a_job_that_says_where_it_is(fault: Callable[[], str]) -> None:
    require_one_line(fault())


def test_a_node_of_a_job_that_says_how_it_has_ended() -> None:
    posted: list[Any] = []
    meeting: Any = SimpleNamespace(
        card=card(0, "here"),
        members=Members(0, (card(0, "here"), card(1, FORGED))),
        round=0,
        _lost_s=10.0,
        _ends_elsewhere={},
        name=lambda node: f"node {node}",
        _post=lambda failure, number: posted.append(failure),
    )
    roll = Roll(meeting)
    end = End(status=1, sentence=FORGED, hearsay=False, is_last=False, is_hurried=False)
    roll._take_end(1, 0, end)
    require_one_line(posted[0].sentence)
