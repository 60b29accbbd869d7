"""The loop that starts and restarts lives of workers, on an engine whose lives end as scripted."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fastdist.core.errors import (
    AuthenticationError,
    EngineError,
    WorkerFailedError,
    WorkerLostError,
)
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import TCPStore
from fastdist.integrations import group
from fastdist.integrations.group import Hub, Run, names_of, require_seconds, supervise
from fastdist.integrations.worker import Life, Outcome, Whereabouts
from fastdist.launch.lost_workers import LostWorker

RUNS = None  # the life continues until the test ends it
# How each life ends, by rank and by the number of earlier starts of this rank.
Ends = dict[tuple[int, int], Outcome | None]


class ScriptedEngine:
    """An engine on which lives end as `ends` says; others return (rank, restart count)."""

    def __init__(self, ends: Ends, nodes: str = "aab") -> None:
        self.ends, self.nodes = ends, nodes
        self.lives: list[Life] = []
        self.ended_processes: list[list[int]] = []
        self._under_way: dict[int, Life] = {}
        self._pid = 100
        self._places: dict[int, Whereabouts] = {}

    def start(self, ranks: Sequence[int]) -> dict[int, Whereabouts]:
        for rank in ranks:
            self._pid += 1
            self._places[rank] = Whereabouts(self._pid, self.nodes[rank])
        return self._places

    def begin(self, rank: int, life: Life) -> None:
        self.lives.append(life)
        self._under_way[rank] = life

    def _end_of(self, life: Life) -> Outcome | None:
        key = (life.rank, life.restart_count)
        return self.ends.get(key, Outcome(key))

    def wait(self, timeout_s: float) -> Sequence[int]:
        return [rank for rank, life in self._under_way.items() if self._end_of(life) is not RUNS]

    def outcome(self, rank: int) -> Outcome:
        found = self._end_of(self._under_way.pop(rank))
        assert found is not RUNS
        return found

    def end(self, ranks: Sequence[int]) -> None:
        self.ended_processes.append(list(ranks))
        for rank in ranks:
            self._under_way.pop(rank, None)


class ScriptedHub:
    """Keeps a list of its calls."""

    host, port, secret = "10.0.0.1", 29500, "ab" * 32

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.lost: list[LostWorker] = []

    def tell_ended(self, rank: int, world_size: int) -> None:
        self.calls.append(f"ended {rank} of {world_size}")

    def begin_round(self) -> None:
        self.calls.append("round")

    def begin_run(self, world_size: int) -> None:
        self.calls.append("run")

    def tell_no_restarts(self) -> None:
        self.calls.append("no restarts")

    def take_lost(self) -> list[LostWorker]:
        lost, self.lost = self.lost, []
        return lost


def failed(error: Exception | None = None) -> Outcome:
    if error is None:
        return Outcome(failure="killed", is_lost=True)
    return Outcome(failure=f"Traceback: {error}", error=error)


@pytest.fixture
def hub() -> ScriptedHub:
    return ScriptedHub()


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GRACE_S", 0.01)


def run(engine: ScriptedEngine, hub: ScriptedHub, restart: str = "worker", most: int = 1) -> Any:
    return supervise(engine, hub, Run(3, most, restart, "a.1"))


def test_values_are_in_the_order_of_ranks_and_each_end_is_noted(hub: ScriptedHub) -> None:
    engine = ScriptedEngine({})
    assert run(engine, hub) == [(0, 0), (1, 0), (2, 0)]
    assert hub.calls == ["run", "ended 0 of 3", "ended 1 of 3", "ended 2 of 3"]
    assert engine.ended_processes == []


def test_a_life_has_its_place_among_those_of_its_node(hub: ScriptedHub) -> None:
    engine = ScriptedEngine({}, "bab")
    run(engine, hub)
    places = [
        (life.rank, life.local_rank, life.place.local_world_size, life.place.node_rank)
        for life in engine.lives
    ]
    assert places == [(0, 0, 2, 0), (1, 0, 1, 1), (2, 1, 2, 0)]
    place = engine.lives[0].place
    assert (place.master_address, place.master_port, place.world_size) == ("10.0.0.1", 29500, 3)


def test_a_lost_worker_comes_back_alone(hub: ScriptedHub, caplog: pytest.LogCaptureFixture) -> None:
    engine = ScriptedEngine({(1, 0): failed(), (0, 0): RUNS, (2, 0): RUNS})

    def goes_on(life: Life) -> None:
        if life.restart_count:
            engine.ends.clear()

    begin = engine.begin
    engine.begin = lambda rank, life: (begin(rank, life), goes_on(life))[0]  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert run(engine, hub) == [(0, 0), (1, 1), (2, 0)]
    assert engine.ended_processes == [[1]]
    assert "rank 1 was lost: killed\nit is started again (restart 1 of 1)" in caplog.text
    assert "round" not in hub.calls


def test_all_workers_come_back_in_a_new_round(
    hub: ScriptedHub, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine({(1, 0): failed(ValueError("x")), (0, 0): failed(), (2, 0): RUNS})
    with caplog.at_level(logging.WARNING):
        assert run(engine, hub, "group") == [(0, 1), (1, 1), (2, 1)]
    assert engine.ended_processes == [[0, 1, 2]]
    assert hub.calls[-4] == "round"
    # One message has all failures, since one restart follows them.
    (told,) = [record.getMessage() for record in caplog.records]
    assert "rank 0 was lost: killed" in told and "rank 1 raised an exception:\n" in told
    assert told.endswith("\nall workers are started again (restart 1 of 1)")


@pytest.mark.parametrize(
    ("workers", "error", "message"),
    [
        ({"a": 1}, TypeError, "workers is {'a': 1}; expected a number, or a list of workers'"),
        ("2", TypeError, "workers is '2'; expected a number, or a list"),
        (2.0, TypeError, "workers is 2.0; expected a number, or a list"),
        (["a", "b", "a"], ValueError, "workers has 'a' more than once"),
        ([0, "0"], ValueError, "workers has '0' more than once"),
    ],
)
def test_what_names_no_workers_is_refused(
    workers: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        names_of(workers)


def test_workers_are_a_number_or_named() -> None:
    assert (names_of(None), names_of(3), names_of(("a", 1))) == (None, None, ["a", 1])


def test_seconds_are_a_positive_number() -> None:
    require_seconds("start_timeout", 0.5)
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"start_timeout is {value}; expected a positive"):
            require_seconds("start_timeout", value)
    with pytest.raises(TypeError, match="start_timeout is 'x'; expected a number of seconds"):
        require_seconds("start_timeout", "x")


@pytest.mark.parametrize("restart", ["worker", "group"])
def test_the_cause_is_raised_when_no_restart_is_left(hub: ScriptedHub, restart: str) -> None:
    cause, other = ValueError("on purpose"), WorkerLostError("worker1 was lost")
    engine = ScriptedEngine({(0, 0): failed(other), (1, 0): failed(cause), (2, 0): RUNS})
    with pytest.raises(WorkerFailedError, match="rank 1 raised an exception:\nTraceback") as raised:
        run(engine, hub, restart, most=0)
    assert raised.value.rank == 1 and raised.value.__cause__ is cause
    assert engine.ended_processes == [[0, 1, 2]] and "no restarts" in hub.calls


def test_nobody_comes_back_to_a_group_whose_others_have_ended(hub: ScriptedHub) -> None:
    with pytest.raises(WorkerFailedError, match="rank 2 was lost"):
        run(ScriptedEngine({(2, 0): failed()}), hub, most=3)


def test_a_worker_that_others_declare_lost_is_replaced(hub: ScriptedHub) -> None:
    engine = ScriptedEngine({(0, 0): RUNS, (1, 0): RUNS, (2, 0): RUNS})
    begin = engine.begin

    def lost_after(rank: int, life: Life) -> None:
        begin(rank, life)
        if life.restart_count:
            engine.ends.clear()
        elif rank == 2:
            pid = engine._places[1].pid
            hub.lost += [
                LostWorker(0, pid, "worker2", "another process"),
                LostWorker(2, engine._places[2].pid, "worker0", "it computes", hangs=True),
                LostWorker(1, pid, "worker2", "no sign of life for 10 s"),
            ]

    engine.begin = lost_after  # type: ignore[method-assign]
    assert run(engine, hub) == [(0, 0), (1, 1), (2, 0)]
    assert engine.ended_processes == [[1]]


def test_an_interrupt_ends_all_processes(hub: ScriptedHub) -> None:
    engine = ScriptedEngine({(0, 0): RUNS})

    def interrupted(timeout_s: float) -> Sequence[int]:
        raise KeyboardInterrupt

    engine.wait = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run(engine, hub)
    assert engine.ended_processes == [[0, 1, 2]] and hub.calls[-1] == "no restarts"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 0, "worker"), "the number of workers is 0; expected a whole number, 1 or more"),
        ((True, 0, "worker"), "the number of workers is True"),
        ((2, -1, "worker"), "max_restarts is -1"),
        ((2, 1, "all"), "restart is 'all'; expected 'worker' or 'group'"),
    ],
)
def test_a_run_is_checked(values: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Run(*values, "a")


# ---- the hub ------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[Hub]:
    hub = Hub("127.0.0.1")
    yield hub
    hub.close()


def connect(hub: Hub, secret: str | None) -> TCPStore:
    given = None if secret is None else JobSecret.parse(secret, "the test")
    return TCPStore(hub.host, hub.port, timeout=10, secret=given)


def test_a_hub_serves_holders_of_its_secret_alone(served: Hub) -> None:
    assert served.secret is not None
    store = connect(served, served.secret)
    store.set("key", b"value")
    store.close()
    with pytest.raises(AuthenticationError):
        connect(served, "00" * 32)


def test_a_hub_of_a_job_without_security_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_SECURITY", "none")
    hub = Hub("127.0.0.1")
    try:
        assert hub.secret is None
        store = connect(hub, None)
        store.close()
    finally:
        hub.close()


def test_a_run_forgets_what_the_one_before_has_left(served: Hub) -> None:
    store = connect(served, served.secret)
    served.begin_run(2)
    served.tell_ended(1, 2)
    served.tell_no_restarts()
    assert store.check(["fastdist/ended/1", "fastdist/no_restarts"])
    served.begin_run(2)
    assert not store.check(["fastdist/ended/1"]) and not store.check(["fastdist/no_restarts"])
    store.close()


def test_the_errors_pickle() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(WorkerFailedError("rank 1 was lost", 1)))
    assert (str(error), error.rank, isinstance(error, EngineError)) == ("rank 1 was lost", 1, True)
