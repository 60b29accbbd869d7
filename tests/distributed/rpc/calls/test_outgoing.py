"""A call ends exactly once, whatever ends it first, and its timeout is in whole milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError, RpcTimeoutError, WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.pipe.pipe import Pipe
from fastdist.distributed.rpc.calls.outgoing import FutureCall, open_answer, whole_ms
from fastdist.distributed.rpc.handlers import Reply
from fastdist.distributed.rpc.message.limits import DEFAULT
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.workers.progress import Timeouts
from fastdist.distributed.rpc.workers.reconciliation import (
    Reconciliation,
    apply_result,
    pack_result,
)
from fastdist.distributed.rpc.workers.session import Session
from fastdist.distributed.rpc.workers.stuck import NOT_STUCK
from fastdist.distributed.rpc.workers.worker import Worker
from tests.distributed.workers import run_group

End = Callable[[Pipe], bool]


def call_under_way(pipe: Pipe, ends: list[bool]) -> FutureCall:
    """Return a waiting call on a pipe that only records how the call ends."""
    counts = SimpleNamespace(call_ended=lambda *_, failed: ends.append(failed))
    client: Any = SimpleNamespace(
        counts=counts, name="w0", pool=SimpleNamespace(num_stuck=lambda: 0)
    )
    peer: Any = SimpleNamespace(info=SimpleNamespace(name="w1", id=1), lender=None, stuck=NOT_STUCK)
    call = FutureCall(client, Message(MessageType.PYTHON_CALL, 5, peer), 0.0, "a function")
    call.await_in(Future(), Timeouts())
    pipe.add_pending(5, call)
    return call


def answer(pipe: Pipe) -> bool:
    call: Any = pipe.take_pending(5)
    if call is not None:
        call.end("answer", None)
    return call is not None


def expire(pipe: Pipe) -> bool:
    call: Any = pipe.take_pending(5)
    if call is not None:
        call.end(None, RpcTimeoutError("too long"))
    return call is not None


def break_off(pipe: Pipe) -> bool:
    return pipe.break_off(RpcError("gone")) > 0


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    nobody: Any = None
    pipe = Pipe(nobody, nobody, nobody)
    yield pipe
    pipe.break_off(RpcError("the end"))
    pipe.close()


@pytest.mark.seed("T13", "T15")
@pytest.mark.parametrize("first", [answer, expire, break_off])
@pytest.mark.parametrize("later", [answer, expire, break_off])
def test_the_first_end_of_a_call_counts_and_is_told_alone(
    pipe: Pipe, first: End, later: End
) -> None:
    ends = list[bool]()
    call = call_under_way(pipe, ends)
    assert first(pipe) and not later(pipe)
    assert ends == [first is not answer] and pipe.num_pending() == 0
    error = call.future.exception()
    kinds = {answer: type(None), expire: RpcTimeoutError, break_off: RpcError}
    assert type(error) is kinds[first]


@pytest.mark.seed("T13")
def test_threads_that_end_a_call_at_once_end_it_once() -> None:
    nobody: Any = None
    for _ in range(50):
        pipe, ends, won = Pipe(nobody, nobody, nobody), list[bool](), list[bool]()
        call_under_way(pipe, ends)
        together = threading.Barrier(3)

        def race(end: End, pipe: Pipe = pipe, won: Any = won, together: Any = together) -> None:
            together.wait(10)
            won.append(end(pipe))

        threads = [threading.Thread(target=race, args=(end,)) for end in (answer, expire, answer)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert sorted(won) == [False, False, True] and len(ends) == 1
        pipe.break_off(RpcError("the end"))
        pipe.close()


@pytest.mark.seed("T20")
@pytest.mark.parametrize(
    ("timeout_s", "ms"), [(0, 0), (1e-9, 1), (0.0019, 1), (0.57, 570), (60, 60_000)]
)
def test_a_timeout_is_in_whole_milliseconds(timeout_s: float, ms: int) -> None:
    assert whole_ms(timeout_s) == ms


def test_a_truth_is_no_timeout_though_one_second_was() -> None:
    assert whole_ms(1.0) == 1000
    with pytest.raises(TypeError, match="timeout"):
        whole_ms(True)


def test_a_worker_that_answers_with_rubbish_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for rank in (1, 2, 2):  # the last one is a new life of worker 2
        peer: Any = object.__new__(Worker)
        peer.name, peer.takes, peer._answers_rubbish = f"w{rank}", DEFAULT, False
        for _ in range(100):
            assert peer._decoded([b"rubbish"]) is None
    told = [record.getMessage() for record in caplog.records]
    assert [text[:11] for text in told] == ["worker 'w1'", "worker 'w2'", "worker 'w2'"]


def test_a_request_that_goes_again_is_whole_though_its_sender_lets_go_of_it(pipe: Pipe) -> None:
    call: Any = call_under_way(pipe, [])
    call.frames, call.message.lent_bytes = (b"head", b"tensor"), 1

    def renew(message_id: int) -> bool:
        # The call ends right after it was found to be under way.
        call.frames = ()
        return True

    call.peer.lender = SimpleNamespace(renew_if_untaken=renew, end=lambda message_id: None)
    sent: list[Any] = []
    notified: Any = SimpleNamespace(pending=pipe.pending, notify=sent.append)
    session = Session(0.0)
    serial = session.next_query([5])
    result = decode(pack_result(serial, Reconciliation([], [5], [])), peer=SimpleNamespace(id=1))
    apply_result(result, session, notified, "w1")
    assert sent == [[b"head", b"tensor"]]


@pytest.mark.parametrize(("lent_bytes", "may_have_run"), [(0, False), (1, True)])
def test_a_request_that_is_gone_may_have_run_if_its_memory_may_have_been_taken(
    pipe: Pipe, lent_bytes: int, may_have_run: bool
) -> None:
    call: Any = call_under_way(pipe, [])
    call._client.give_up = lambda call: None
    call.frames, call.message.lent_bytes = (b"head",) * lent_bytes, lent_bytes
    call.peer.info.id = 1
    call.peer.lender = SimpleNamespace(renew_if_untaken=lambda _: False, end=lambda _: None)
    session = Session(0.0)
    told = pack_result(session.next_query([5]), Reconciliation([], [5], []))
    result = decode(told, peer=SimpleNamespace(id=1))
    apply_result(result, session, pipe, "w1")
    error = call.future.exception()
    assert isinstance(error, WorkerLostError) and error.may_have_run is may_have_run


def test_an_answer_without_a_value_is_a_reply_that_holds_nothing() -> None:
    message = Message(MessageType.RREF_USER_DELETE, 5)
    call: Any = SimpleNamespace(message=message)
    reply = open_answer(decode(Message(MessageType.RREF_ACK, 5).encode()), call)
    assert isinstance(reply, Reply) and not reply.tensors and not reply.metadata


class Nothing:
    """A value that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("it does not pickle")


def open_after_failures() -> list[list[int]]:
    rpc.init_rpc("w0", rank=0, world_size=1)
    agent: Any = rpc._get_current_rpc_agent()
    pipe = agent.workers.reach(0).pipe
    found = []
    with pytest.raises(RpcError, match="does not pickle"):
        rpc.rpc_async("w0", len, (Nothing(),))
    found.append(pipe.open_calls(9)[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent.client, "announce", refuse)
        with pytest.raises(RpcTimeoutError, match="no room"):
            rpc.rpc_async("w0", len, ((1, 2),))
    found.append(pipe.open_calls(9)[1])
    assert rpc.rpc_async("w0", len, ((1, 2),)).wait() == 2
    found.append(pipe.open_calls(9)[1])
    rpc.shutdown()
    return found


def refuse(call: FutureCall) -> Any:
    raise RpcTimeoutError("no room until then")


def test_a_call_that_cannot_begin_is_not_open() -> None:
    assert run_group(open_after_failures, 1) == [[[], [], []]]
