"""The parts of the backend nccl, with stand-ins for streams, events and NCCL."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.device import Device
from fastdist.core.errors import (
    CollectiveError,
    CollectiveTimeoutError,
)
from fastdist.distributed import HashStore
from fastdist.distributed.process_group import debug_level, device_transport, device_work
from fastdist.distributed.process_group.device_transport import DeviceTransport
from fastdist.distributed.process_group.device_work import (
    DeviceFuture,
    DeviceWork,
    _tensors_in,
)
from fastdist.distributed.process_group.nccl import Message, NcclCarrier
from fastdist.distributed.process_group.options import Place
from fastdist.distributed.process_group.transport import Call
from tests.distributed.process_group.device_stand_ins import (
    CALL,
    GPU,
    Clock,
    Event,
    Part,
    progress_of,
)

WHAT = "all_reduce (float32), called at a.py:3"


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that collects the events that the current stream waits for."""
    found: list[Any] = []
    stream = SimpleNamespace(wait_event=found.append)
    backend = SimpleNamespace(current_stream=lambda index: stream if index == 1 else None)
    monkeypatch.setattr(device_work, "backend_of", lambda kind: {"cuda": backend}[kind])
    return found


# ---- waiting ------------------------------------------------------------------------------------


def test_a_wait_is_the_streams_unless_it_has_a_timeout(waited: list[Any]) -> None:
    event = Event()
    work = DeviceWork(["it"], progress_of(event))
    assert work.wait() is True and waited == [event]
    assert not work.is_completed() and not work.is_success() and work.exception() is None
    for timeout in (timedelta(milliseconds=2), 0.002):
        with pytest.raises(CollectiveTimeoutError, match=r"It did not end within 0\.002 s, which"):
            work.wait(timeout)
    assert work.wait(0) is True and work.wait(timedelta(0)) is True
    event.passed = True
    assert work.wait(timedelta(seconds=5)) and work.is_completed() and work.is_success()


@pytest.mark.parametrize(("text", "blocks"), [("1", True), ("0", False), (None, False)])
def test_the_environment_makes_programs_wait(
    monkeypatch: pytest.MonkeyPatch, waited: list[Any], text: str | None, blocks: bool
) -> None:
    monkeypatch.delenv("TORCH_NCCL_BLOCKING_WAIT", raising=False)
    if text is not None:
        monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", text)
    event = Event()
    work = DeviceWork(["it"], progress_of(event))
    assert work.blocks_host == blocks
    on_host: list[float | None] = []
    monkeypatch.setattr(work, "_wait_on_host", on_host.append)
    work.wait()
    assert on_host == ([None] if blocks else [])
    # In a captured collective the host never waits.
    work.progress.is_captured = True
    work.progress.kept.append("memory")
    work.wait()
    assert on_host == ([None] if blocks else []) and work.progress.kept == []


def test_a_failure_ends_waits_and_is_kept_only_before_the_end(waited: list[Any]) -> None:
    progress = progress_of(Event())
    work = DeviceWork(["it"], progress)
    first, second = CollectiveError("first"), CollectiveError("second")
    timer = threading.Timer(0.01, lambda: (progress.fail(first), progress.fail(second)))
    timer.start()
    with pytest.raises(CollectiveError, match="first"):
        work.wait(10.0)
    timer.join()
    assert work.exception() is first and work.is_completed() and not work.is_success()
    assert progress.failed.is_set()
    num_waited = len(waited)
    with pytest.raises(CollectiveError, match="first"):
        work.wait()
    assert len(waited) == num_waited
    with pytest.raises(CollectiveError, match="first"):
        work.get_future().wait()
    ended = progress_of(Event(passed=True))
    ended.fail(first)
    assert ended.error is None and not ended.failed.is_set()
    with pytest.raises(CollectiveError, match="has no callbacks"):
        work._when_finished(lambda: None)


def test_a_future_lets_the_stream_wait_where_it_has_an_event(waited: list[Any]) -> None:
    event = Event()
    future = DeviceWork(["it"], progress_of(event)).get_future()
    assert future.done() and future.wait() == ["it"] and waited == [event]
    other: DeviceFuture = DeviceFuture(GPU, None)
    other.set_result(3)
    assert other.wait() == 3 and waited == [event]


def test_tensors_of_gpus_are_found_in_lists() -> None:
    gpu, other = fd.ones(1, device="sim:0"), fd.ones(2, device="sim:0")
    assert [*_tensors_in([gpu, (fd.ones(1), [other]), 3, {"a": gpu}])] == [gpu, other]
    assert [*_tensors_in(gpu)] == [gpu]
    assert [*_tensors_in(fd.ones(1))] == [*_tensors_in(None)] == []


# ---- the transport of one GPU -------------------------------------------------------------------


class Communicator:
    """Records its calls, without arrays."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.asked.append((name, *given))


class Array:
    def __init__(self, size: int) -> None:
        self.size = size


def transport_of(rank: int = 1) -> tuple[DeviceTransport, list[tuple[Any, ...]]]:
    made: Any = object.__new__(DeviceTransport)
    made.rank, made.size, made.stream = rank, 2, "stream"
    made.communicator, made._blocks_host = Communicator(), False
    made.memory = SimpleNamespace(empty=lambda size, dtype: (size, dtype))
    made.grouped = nullcontext
    return made, made.communicator.asked


def test_each_call_of_a_communicator_has_the_text_for_its_errors() -> None:
    made, asked = transport_of()
    a, b, none = Array(2), Array(3), Array(0)
    made.all_reduce(CALL, a, "sum")
    made.reduce(CALL, a, "max", 1)
    made.broadcast(CALL, a, 0)
    made.all_gather(CALL, a, b)
    made.reduce_scatter(CALL, a, b, "min")
    assert asked == [
        ("all_reduce", WHAT, a, "sum", "stream"),
        ("reduce", WHAT, a, "max", 1, "stream"),
        ("broadcast", WHAT, a, 0, "stream"),
        ("all_gather", WHAT, a, b, "stream"),
        ("reduce_scatter", WHAT, a, b, "min", "stream"),
    ]
    asked.clear()
    made.send(CALL, a, 0, 7)
    made.send(CALL, none, 0, 7)
    assert made.recv(CALL, b, 1, 7) == 1 and made.recv(CALL, none, 0, 7) == 0
    made.require_healthy(CALL)
    made.abort()
    made.barrier(CALL)
    assert made._blocks_host
    assert asked == [
        ("send", WHAT, a, 0, "stream"),
        ("recv", WHAT, b, 1, "stream"),
        ("require_healthy", WHAT),
        ("abort",),
        ("all_reduce", WHAT, (1, "uint8"), "max", "stream"),
    ]


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_collective_is_queued_behind_the_current_stream(is_captured: bool, fails: bool) -> None:
    did: list[Any] = []

    class Stream:
        def __init__(self, name: str) -> None:
            self.name, self.native = name, SimpleNamespace(ptr=name)
            self.native_device = nullcontext()

        def __enter__(self) -> None:
            did.append(f"in {self.name}")

        def __exit__(self, *error: object) -> None:
            did.append(f"out of {self.name}")

        def wait_event(self, event: str) -> None:
            did.append(f"{self.name} waits for {event}")

        def record_event(self) -> str:
            return f"an event of {self.name}"

    made, _ = transport_of()
    current: Any = Stream("current")
    made.device, made.stream = GPU, Stream("own")
    backend = SimpleNamespace(
        current_stream=lambda index: current,
        is_capturing=lambda index: is_captured,
        allocator=SimpleNamespace(share_capture=lambda *given: did.append(given)),
    )
    made.memory = SimpleNamespace(backend=backend, kept=None, is_captured=None)  # type: ignore[assignment]

    def act(transport: Any, call: Call) -> None:
        did.append(call)
        transport._blocks_host = True
        if fails:
            raise CollectiveError("it fails")

    begins = [*([("current", "own")] if is_captured else []), "own waits for an event of current"]
    begins += ["in own", CALL, "out of own"]
    if fails:
        with pytest.raises(CollectiveError, match="it fails"):
            made.run(act, CALL, ["it"])
        joins = ["current waits for an event of own"] if is_captured else []
        assert did == begins + joins
        return
    work = made.run(act, CALL, ["it"])
    assert did == begins and work.result() == ["it"] and work.blocks_host
    assert work.progress.event == "an event of own" and work.progress.call is CALL
    assert work.progress.is_captured == made.memory.is_captured == is_captured
    assert made.memory.kept is work.progress.kept


@pytest.mark.parametrize("rank", [0, 1])
def test_lists_are_messages_between_the_root_and_all(rank: int) -> None:
    made, asked = transport_of(rank)
    a, b, c = Array(1), Array(2), Array(3)
    made.all_to_all(CALL, [a, b], [b, c])
    both = [("send", b, 0), ("recv", a, 0), ("send", c, 1), ("recv", b, 1)]
    assert [(one[0], one[2], one[3]) for one in asked] == both
    for call, root_only in (
        (lambda: made.gather(CALL, [a, b] if rank == 1 else None, c, 1),
            [("recv", a, 0), ("recv", b, 1)]),
        (lambda: made.scatter(CALL, c, [a, b] if rank == 1 else None, 1),
            [("send", a, 0), ("send", b, 1)]),
    ):  # fmt: skip
        asked.clear()
        call()
        own = "send" if root_only[0][0] == "recv" else "recv"
        assert [(one[0], one[2], one[3]) for one in asked] == [
            (own, c, 1),
            *(root_only if rank == 1 else []),
        ]


def test_a_transport_closes_when_its_work_is_done_and_aborts_what_takes_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, naps = Clock(), list[float]()
    monkeypatch.setattr(device_transport, "time", clock)
    slow, failed = progress_of(Event()), progress_of(Event())
    failed.error = CollectiveError("it failed")

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            slow.event.passed = True

    slow.failed = SimpleNamespace(wait=nap)  # type: ignore[assignment]
    made, asked = transport_of()
    made.close([slow, failed, progress_of(Event(passed=True))], 100.0)
    assert asked == [("close",)] and naps == [0.0005] * 3
    made.close([], 0.0)
    assert asked == [("close",)] * 2
    asked.clear()
    slow.event.passed = False
    made.close([slow], 2.0)
    assert asked == [("abort",)] and naps == [0.0005] * 5


# ---- the carrier --------------------------------------------------------------------------------


@pytest.fixture
def carrier() -> NcclCarrier:
    place = Place(None, 0, 2, (4, 7), "0", timedelta(seconds=5), 8)
    return NcclCarrier(place, lambda place: None)  # type: ignore[arg-type,return-value]


def test_which_gpu_a_call_is_for(carrier: NcclCarrier, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastdist.distributed.process_group import nccl

    first, second = fd.ones(1, device="sim:0"), fd.ones(1, device="sim:1")
    bound = Device("cuda", 3)
    for result in ([first, second], [[first, second], second], [([first],), second]):
        assert carrier._device(result, bound) == Device("sim", 0)
    assert carrier._device([], bound) is bound and carrier._device([[]], bound) is bound
    monkeypatch.setattr(nccl, "backend_of", lambda kind: SimpleNamespace(device_count=lambda: 4))
    monkeypatch.setattr(nccl, "current_gpu", lambda: 0)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert carrier._device([], None) == Device("cuda", 0)
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert carrier._device([], None) == Device("cuda", 1)
    monkeypatch.setattr(nccl, "current_gpu", lambda: 2)
    assert carrier._device([], None) == Device("cuda", 2)
    carrier._last_index = 3
    assert carrier._device([], None) == Device("cuda", 3)


def test_a_gpu_is_connected_at_once_in_the_name_of_init(
    carrier: NcclCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(carrier, "_part", lambda *given: asked.append(given))
    before = time.monotonic()
    carrier.connect(GPU, 50.0)
    ((device, peer, call),) = asked
    assert device is GPU and peer is None and 50.0 <= call.deadline - before < 60.0
    assert call[:-1] == (0, "init_process_group", "", "")


def test_nccl_has_no_tensors_of_other_devices(carrier: NcclCarrier) -> None:
    for call in (
        lambda: carrier.start(CALL, lambda *_: None, [fd.ones(1)], None, is_async=True),
        lambda: carrier.start_message(CALL, Message(True, fd.ones(1), 1), is_async=True),
        lambda: carrier.start_batch(CALL, [Message(True, fd.ones(1), 1)]),
    ):
        with pytest.raises(RuntimeError, match="NCCL has no tensors on cpu; copy it to a GPU"):
            call()
    assert carrier._parts == {}


def test_each_pair_meets_by_its_own_name_and_number(
    carrier: NcclCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastdist.distributed.process_group import nccl

    store = HashStore()
    place = Place(store, 1, 3, (0, 1, 2), "0", timedelta(seconds=5), 3)
    made = NcclCarrier(place, lambda place: None)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(
        nccl, "backend_of", lambda kind: SimpleNamespace(properties=lambda index: {})
    )
    call = CALL._replace(deadline=nccl.time.monotonic() + 10)
    for members, name in (([0, 1], "pair.0.1"), ([0, 1, 2], "all")):
        for number in range(2):
            prefix = f"{name}.{number}"
            store.set(f"{prefix}.id", f"id of {prefix}")
            for rank in {0, 2} & set(members):
                store.set(f"{prefix}.{rank}", "another")
            assert made._meet(0, members, call) == f"id of {prefix}".encode()
            assert store.get(f"{prefix}.1") == b"?"
    monkeypatch.setattr(nccl.nccl, "new_unique_id", lambda: b"its id")
    store.set("pair.1.2.0.2", "another")
    assert made._meet(0, [1, 2], call) == b"its id"
    late = CALL._replace(deadline=nccl.time.monotonic() - 1)
    with pytest.raises(CollectiveTimeoutError) as raised:
        made._meet(0, [0, 1, 2], late)
    assert str(raised.value) == (
        "all_reduce, called at a.py:3: ranks [0, 2] did not come to connect their GPUs; NCCL needs "
        "a first call of all members"
    )


def test_two_members_may_not_share_a_gpu_that_has_a_name(carrier: NcclCarrier) -> None:
    carrier._require_own_gpus([0, 1], [b"a", b"b"], 0)
    carrier._require_own_gpus([0, 1], [b"?", b"?"], 0)
    with pytest.raises(CollectiveError, match="rank 0 and rank 1 both use the GPU cuda:5 of this"):
        carrier._require_own_gpus([0, 1], [b"a", b"a"], 5)


def test_messages_are_compared_in_their_order_if_the_level_asks_for_it(
    carrier: NcclCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def note(kind: str) -> Any:
        return lambda call, array, peer, tag: asked.append(
            (kind, call.sequence, call.name, call.agreed, array.size, peer, tag)
        )

    carrier._checks = SimpleNamespace(send=note("send"), recv=note("recv"))  # type: ignore[assignment]
    x = fd.ones(2)
    messages = [Message(False, x, 1), Message(True, x, 1), Message(True, x[:1], 0)]
    carrier._check_messages(CALL, messages)
    assert asked == []
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    monkeypatch.setattr(debug_level, "_debug_level", None)
    for number in range(2):
        carrier._check_messages(CALL, messages)
        # Sends come first, so that they are announced before a receive waits.
        assert asked == [
            ("send", number, "send", "float32, 2 numbers", 0, 1, 0),
            ("send", number, "send", "float32, 1 numbers", 0, 0, 0),
            ("recv", number, "send", "float32, 2 numbers", 0, 1, 0),
        ]
        asked.clear()
    assert carrier._peer_in_pair(1) == 1


def test_a_failure_ends_all_and_is_raised_by_later_calls(carrier: NcclCarrier) -> None:
    part, ended = Communicator(), list[Any]()
    carrier._parts[0, None] = part  # type: ignore[assignment]
    carrier._checks = SimpleNamespace(abort=ended.append, close=lambda: ended.append("closed"))  # type: ignore[assignment]
    under_way = progress_of(Event())
    carrier._watch._under_way.append((Part(), under_way))  # type: ignore[arg-type]
    reported: list[Any] = []
    carrier._watch.report_failure = reported.append  # type: ignore[method-assign]
    error = CollectiveError("it failed")
    carrier._fail(error)
    carrier._fail(CollectiveError("later"))
    assert reported == ended == [error] and part.asked == [("abort",)]
    assert under_way.error is error
    with pytest.raises(CollectiveError, match="it failed"):
        carrier.start(CALL, lambda *_: None, [fd.ones(1)], None, is_async=True)
    carrier.close()
    # The part was aborted, so it is not closed as well.
    assert part.asked == [("abort",)] and carrier._parts == {} and ended == [error, "closed"]


@pytest.mark.parametrize("error", [CollectiveError("why"), ValueError("why")])
def test_an_abort_ends_with_an_error_of_collectives(carrier: NcclCarrier, error: Exception) -> None:
    carrier.abort(error)
    with pytest.raises(CollectiveError, match="why") as raised:
        carrier._require_open()
    assert (raised.value is error) == isinstance(error, CollectiveError)


def test_a_carrier_that_is_closed_waits_for_the_work_of_each_gpu(carrier: NcclCarrier) -> None:
    other = progress_of(Event())
    other.device = Device("cuda", 2)
    mine = progress_of(Event())
    for work in (mine, other):
        carrier._watch._under_way.append((Part(), work))  # type: ignore[arg-type]
    closed: list[Any] = []
    for device in (GPU, other.device):
        part = SimpleNamespace(device=device, close=lambda *given: closed.append(given))
        carrier._parts[device.index, None] = part  # type: ignore[assignment,index]
    carrier.close()
    assert closed == [([mine], 2.0), ([other], 2.0)]
    carrier.close()
    assert len(closed) == 2
    with pytest.raises(CollectiveError, match="'0' was destroyed"):
        carrier._require_open()
