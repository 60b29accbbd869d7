"""Tables of ended lives and names are bounded, however many there were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastdist.core.errors import GivenUpError
from fastdist.distributed.rpc import metrics, shutdown_barrier
from fastdist.distributed.rpc.message.message import Message
from fastdist.distributed.rpc.message.types import MessageType
from fastdist.distributed.rpc.metrics import CallCounts
from fastdist.distributed.rpc.shutdown_reports import Report
from fastdist.distributed.rpc.workers import latest
from fastdist.distributed.rpc.workers import workers as workers_module
from fastdist.distributed.rpc.workers.group import Group
from fastdist.distributed.rpc.workers.joining import join_dynamic
from fastdist.distributed.rpc.workers.latest import remember
from fastdist.distributed.rpc.workers.session import Event
from fastdist.distributed.store import HashStore
from fastdist.distributed.store.membership import MOST_NAMED
from tests.distributed.rpc.test_shutdown_barrier import Life, make_group
from tests.distributed.rpc.workers.by_hand import workers_of
from tests.distributed.rpc.workers.test_group import come, member


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "MOST_REMEMBERED", 4)
    monkeypatch.setattr(shutdown_barrier, "MOST_REMEMBERED", 4)
    monkeypatch.setattr(metrics, "MOST_PEERS", 4)


def test_the_oldest_entry_goes_and_one_that_comes_again_is_young() -> None:
    table: dict[str, int | None] = {}
    for place, key in enumerate("abcdaef"):
        remember(table, key, place)
    assert table == {"d": 3, "a": 4, "e": 5, "f": 6}


def test_a_worker_keeps_little_of_the_lives_that_it_has_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers_module, "is_out", lambda *_, **__: False)
    store = HashStore()
    workers = workers_of(join_dynamic(store, member("w0", 0, 100), 1.0))
    for life in range(1, 20):
        come(store, member(f"w{life}", life, 100 + life))
        worker = workers.get(f"w{life}")
        workers.reach(worker)
        worker._step(Event.REJECTED, "the test says so")
        assert worker.is_dead
        workers.were_given_up(worker, GivenUpError("no", incarnation=1))
    come(store, member("last", 50, 200))
    workers.all()
    for name in ("_refusals_by_incarnation", "_missed", "_given_up_by"):
        assert len(getattr(workers, name)) <= 4, name
    assert 119 in workers._refusals_by_incarnation and 119 in workers._given_up_by


def test_calls_are_counted_by_name_for_the_latest_peers_and_as_a_sum_for_all() -> None:
    counts = CallCounts()
    for peer in range(20):
        counts.call_sent(0, f"w{peer}", 10)
    for peer in range(20):
        counts.call_ended(0, f"w{peer}", 5, failed=False)
    assert [*counts.network_data()] == ["w16", "w17", "w18", "w19"]
    assert counts.client_active == 0
    assert counts.activity() == (0, 20)
    assert counts._former.num_calls == 16 and counts._former.total_recv_bytes == 80


def test_the_barrier_forgets_lives_that_others_have_followed() -> None:
    leader, other = make_group(2)
    for _ in range(20):
        former = Life(other, leader)
        leader.barrier._member_lost(former)  # type: ignore[arg-type]
        assert len(leader.barrier._lost_at) == 1
        leader.barrier.member_returned(Life(other, leader))  # type: ignore[arg-type]
        assert not leader.barrier._lost_at


def test_the_barrier_takes_in_no_more_lives_that_are_over_than_it_can_use() -> None:
    leader, other = make_group(2)
    for number in range(20):
        words = Report(1, over=(f"{number:x}",))._asdict()
        kind = MessageType.SHUTDOWN_BARRIER_REQ
        leader.barrier._report_came(Message(kind, peer=leader.life_of(other), metadata=words))
    assert len(leader.barrier._over) <= 4 and "13" in leader.barrier._over


def test_who_has_not_come_to_the_shutdown_is_one_question_with_a_short_answer() -> None:
    store = HashStore()
    records = [member(f"w{rank}", rank, rank) for rank in range(300)]
    groups = [Group(store, replace(one, world_size=300)) for one in records]
    for group in groups[::3]:
        group.tell_shutdown()
    questions: list[Any] = []
    ask = HashStore._ask

    def count(self: HashStore, *request: Any) -> Any:
        questions.append(ask(self, *request))
        return questions[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HashStore, "_ask", count)
        absent = [rank for rank in range(300) if rank % 3]
        assert groups[0].not_in_shutdown() == (absent[:MOST_NAMED], 200 - MOST_NAMED)
        for group in groups:
            group.tell_shutdown()
        assert groups[0].not_in_shutdown() == ([], 0)
    assert len(questions[0]) == 1 and len(questions[0][0]) < 5 * MOST_NAMED


def test_a_store_that_is_not_there_tells_of_nobody() -> None:
    store = HashStore()
    group = join_dynamic(store, member("w0", 0, 100), 1.0)
    store.close()
    assert group.not_in_shutdown() == ([], 0)
