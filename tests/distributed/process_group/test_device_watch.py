"""The thread that watches GPU collectives for completion, delays and failures."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveTimeoutError,
    KernelError,
    StoreError,
)
from fastdist.distributed import HashStore
from fastdist.distributed.process_group import device_watch
from fastdist.distributed.process_group.device_watch import Watch
from fastdist.distributed.process_group.transport import Call
from tests.distributed.process_group.device_stand_ins import CALL, Clock, Event, Part, progress_of


def watch_of(store: Any = None, size: int = 1, rank: int = 0) -> tuple[Watch, list[Any]]:
    """Return a watch without its thread, and the list of errors with which it fails a group."""
    failed: list[Any] = []
    made = Watch(store, rank, size, failed.append)
    made._thread = threading.current_thread()
    return made, failed


def test_what_has_ended_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_watch, "time", Clock(step=0.0))
    made, _ = watch_of()
    part: Any = Part()
    works = [
        progress_of(Event()),
        progress_of(Event(passed=True)),
        progress_of(Event(error=KernelError("CUDA failed"))),
        progress_of(Event()),
    ]
    works[3].error = CollectiveError("it failed")
    for work in works:
        work.kept.append("memory")
        made.add(part, work)
    assert made.under_way() == works
    part.is_captured = True
    made._look()
    assert made.under_way() == works and part.looked == []
    part.is_captured = False
    made._look()
    assert made.under_way() == works[:1] and part.looked == [CALL]
    assert [len(work.kept) for work in works] == [1, 0, 0, 0]
    made.close()


@pytest.mark.parametrize(("now", "is_late"), [(199.0, False), (200.0, False), (200.5, True)])
def test_a_collective_is_late_after_its_deadline(
    monkeypatch: pytest.MonkeyPatch, now: float, is_late: bool
) -> None:
    monkeypatch.setattr(device_watch, "time", Clock(now, 0.0))
    made, _ = watch_of()
    for name in ("first", "second"):
        made.add(Part(), progress_of(Event(), CALL._replace(name=name)))  # type: ignore[arg-type]
    if not is_late:
        made._look()
        return
    with pytest.raises(CollectiveTimeoutError) as raised:
        made._look()
    assert str(raised.value) == (
        "first (float32), collective 4 of the group, called at a.py:3 by rank 0, did not end "
        "within its timeout: all have called it, as far as they report"
    )


def test_members_report_how_far_they_are_and_why_they_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(100.0, 0.0)
    monkeypatch.setattr(device_watch, "time", clock)
    store = HashStore()
    made, _ = watch_of(store, 2)
    made.add(Part(), progress_of(Event()))  # type: ignore[arg-type]
    made._look()
    assert json.loads(store.get("called.0")) == [4, "all_reduce", "a.py:3"]
    # The watch does not check again within a second, unless something is late.
    made.add(Part(), progress_of(Event(), CALL._replace(sequence=5)))  # type: ignore[arg-type]
    clock.now += 0.99
    made._look()
    assert json.loads(store.get("called.0"))[0] == 4
    made._exchange(store, is_urgent=True)
    assert json.loads(store.get("called.0"))[0] == 5
    # An unchanged value is not written again.
    store.delete_key("called.0")
    clock.now += 1.0
    made._look()
    assert not store.check(["called.0"])
    made.report_failure(CollectiveError("its own"))
    clock.now += 1.0
    made._look()
    other, _ = watch_of(store, 2, rank=1)
    for error, kind in (
        (CollectiveError("why"), CollectiveError),
        (CollectiveLostError("why"), CollectiveLostError),
    ):
        made.report_failure(error)
        with pytest.raises(CollectiveError, match="rank 0 of the group failed: why") as raised:
            other._exchange(store, is_urgent=True)
        assert type(raised.value) is kind


def test_one_member_alone_and_one_without_a_store_report_nothing() -> None:
    store = HashStore()
    for made, _ in (watch_of(store, 1), watch_of(None, 2)):
        made.add(Part(), progress_of(Event()))  # type: ignore[arg-type]
        made.report_failure(CollectiveError("why"))
    assert made._behind(4) == []
    assert not store.check(["failure"]) and not store.check(["called.0"])

    class Gone:
        def set(self, key: str, text: str) -> None:
            raise StoreError("the store is gone")

    made, _ = watch_of(Gone(), 2)
    made.report_failure(CollectiveError("why"))


def test_members_that_did_not_come_are_named_with_their_last_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.0)
    clock = Clock(300.0, 0.5)
    monkeypatch.setattr(device_watch, "time", clock)
    store = HashStore()
    made, _ = watch_of(store, 3)
    made.add(Part(), progress_of(Event()))  # type: ignore[arg-type]
    store.set("called.2", json.dumps([3, "barrier", "b.py:9"]))
    with pytest.raises(CollectiveTimeoutError) as raised:
        made._look()
    assert str(raised.value).endswith(
        "within its timeout: rank 1 did not come (it has called none); rank 2 did not come (its "
        "last was barrier at b.py:9)"
    )
    # The watch waited 1.5 to 5 s for reports of ranks 1 and 2.
    assert 301.5 < clock.now < 305.0
    for rank in (1, 2):
        store.set(f"called.{rank}", json.dumps([4, "all_reduce", "a.py:3"]))
    began = clock.now
    assert made._behind(4) == [] and clock.now - began < 1.0
    assert len(made._behind(5)) == 3


def test_a_failure_is_logged_fails_the_group_and_ends_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.001)
    failed = threading.Event()
    errors: list[Any] = []
    made = Watch(None, 3, 4, lambda error: (errors.append(error), failed.set()))
    part: Any = Part()
    part.error = CollectiveError("NCCL failed")
    with caplog.at_level(logging.INFO):
        made.add(part, progress_of(Event()))
        assert failed.wait(10.0)
    made.close()
    assert errors == [part.error] and made.under_way() == []
    assert "rank 3: NCCL failed" in caplog.messages


def test_what_else_fails_is_noted_and_it_looks_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.001)
    again, part = threading.Event(), Part()

    def look(call: Call) -> None:
        part.looked.append(call)
        if len(part.looked) == 2:
            again.set()
        raise StoreError("the store is gone")

    part.require_healthy = look  # type: ignore[method-assign]
    made, errors = Watch(None, 3, 4, lambda error: None), list[Any]()
    with caplog.at_level(logging.INFO):
        made.add(part, progress_of(Event()))  # type: ignore[arg-type]
        assert again.wait(10.0)
        made.close()
    assert errors == []
    assert "rank 3 cannot look after its collectives: the store is gone" in caplog.messages


def test_the_thread_ends_when_nothing_comes_and_begins_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.001)
    monkeypatch.setattr(device_watch, "_IDLE_S", 0.01)
    made = Watch(None, 0, 1, lambda error: None)
    for _ in range(2):
        made.add(Part(), progress_of(Event(passed=True)))  # type: ignore[arg-type]
        thread = made._thread
        assert thread is not None and thread.name == "fastdist NCCL watch" and thread.daemon
        thread.join(10.0)
        assert not thread.is_alive() and made._thread is None
    made.close()
    made.add(Part(), progress_of(Event()))  # type: ignore[arg-type]
    assert made._thread is None


def test_how_long_the_thread_waits_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waits = Clock(100.0, 0.0), list[float]()
    monkeypatch.setattr(device_watch, "time", clock)
    monkeypatch.setattr(device_watch, "_LOOK_S", 0.0)
    made, _ = watch_of()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.now += seconds
        if len(waits) == 3:
            made._under_way.clear()

    made._changed.wait = wait  # type: ignore[method-assign, assignment]
    made._under_way.append((Part(), progress_of(Event())))  # type: ignore[arg-type]
    made._serve()
    # The thread ends as soon as it has had no work for this long.
    assert waits == [0.0] * 3 + [device_watch._IDLE_S]
    assert made._thread is None
