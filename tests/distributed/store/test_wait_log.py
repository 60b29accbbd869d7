"""The line that names missing workers: its time, its place, and the worker that prints it."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import pytest

from fastdist.core.errors import StoreLostError, StoreTimeoutError
from fastdist.distributed.rendezvous import rendezvous
from fastdist.distributed.store import (
    HashStore,
    TCPStore,
    connection,
    host_store,
    tcp_store,
    wait_log,
)
from fastdist.distributed.store.wait_log import WaitLog, name_ranks, speaks_for_node
from tests.distributed.way import Way


class Terminal(io.StringIO):
    """A text stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list with one element: the time that the module `wait_log` reads."""
    now = [100.0]
    monkeypatch.setattr(wait_log, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def _wait_out(line: WaitLog, clock: list[float]) -> list[float]:
    pauses = []
    for pause in line.pauses():
        pauses.append(pause)
        clock[0] += pause
        line.tell("rank 2 of 3")
    return pauses


def test_nothing_is_told_of_a_short_wait(clock: list[float]) -> None:
    out = io.StringIO()
    with WaitLog("'w0' (rank 0)", 300.0, out):
        clock[0] += 1.9
    assert out.getvalue() == ""


def test_lines_of_a_file_get_rarer(clock: list[float]) -> None:
    out = io.StringIO()
    with WaitLog("'w0' (rank 0)", 300.0, out) as line:
        assert _wait_out(line, clock) == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 46.0]
    lines = out.getvalue().splitlines()
    assert lines[0] == "fastdist: 'w0' (rank 0) waits for rank 2 of 3 (2 of 300 s)"
    assert lines[6] == "fastdist: 'w0' (rank 0) waits for rank 2 of 3 (254 of 300 s)"
    assert lines[7:] == ["fastdist: 'w0' (rank 0) goes on after 300 s"]


@pytest.mark.parametrize(
    ("limit_s", "told"),
    [
        (wait_log.WITHOUT_LIMIT_S, "2 s"),
        (wait_log.WITHOUT_LIMIT_S - 3.7, "2 s"),
        (59.8983, "2 of 60 s"),
        (1e6, "2 of 1000000 s"),
        (2.5, "2 of 2.5 s"),
    ],
)
def test_a_limit_is_told_in_whole_seconds_and_none_where_there_is_none(
    clock: list[float], limit_s: float, told: str
) -> None:
    out = io.StringIO()
    with WaitLog("'w0' (rank 0)", limit_s, out) as line:
        clock[0] += 2.0
        line.tell("rank 2 of 3")
    assert out.getvalue().startswith(f"fastdist: 'w0' (rank 0) waits for rank 2 of 3 ({told})\n")


def test_a_terminals_line_is_redrawn_within_its_width_and_goes(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with WaitLog("'w0' (rank 0)", 5.0, out) as line:
        assert _wait_out(line, clock) == [2.0, 2.0, 1.0]
    first, *_, last = out.getvalue().split("\r\x1b[K")[1:]
    assert first == "fastdist: 'w0' (rank 0) waits for rank 2 of 3 (2 of 5 s)"[:39]
    assert last == "" and "\n" not in out.getvalue()


def test_a_dumb_terminal_gets_lines(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    with WaitLog("'w0' (rank 0)", 5.0, out) as line:
        _wait_out(line, clock)
    assert "\r" not in out.getvalue() and out.getvalue().count("\n") == 2


def test_a_process_without_stderr_waits_in_silence(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with WaitLog("'w0' (rank 0)", 5.0) as line:
        _wait_out(line, clock)


class Broken(Terminal):
    """A terminal or pipe that nobody reads any more, so that a flush fails."""

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_reader_of_stderr_that_leaves_ends_the_line_and_not_the_wait(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    out = Broken()
    with WaitLog("'w0' (rank 0)", 9.0, out) as line:
        assert len(_wait_out(line, clock)) > 2
    assert out.getvalue().count("waits for") == 1


def test_a_failed_wait_does_not_say_that_it_goes_on(clock: list[float]) -> None:
    out = io.StringIO()
    line = WaitLog("'w0' (rank 0)", 5.0, out)
    _wait_out(line, clock)
    line.__exit__(KeyError, KeyError(), None)
    assert out.getvalue() and "goes on" not in out.getvalue()


@pytest.mark.parametrize(
    ("rank", "local_rank", "missing", "speaks"),
    [
        (0, "0", [1], True),
        (1, "1", [2], False),
        (1, "1", [0], True),
        (6, "2", [4], False),  # rank 5 has joined already
        (6, "2", [4, 5], True),
        (6, "0", [1], True),
        (6, "", [1], True),
    ],
)
def test_the_first_of_a_node_that_is_there_speaks(
    rank: int, local_rank: str, missing: list[int], speaks: bool
) -> None:
    environment = {"LOCAL_RANK": local_rank} if local_rank else {}
    assert speaks_for_node(rank, missing, environment) == speaks


@pytest.mark.parametrize(
    ("ranks", "shown"),
    [
        ([2], "rank 2 of 40"),
        ([0, 4, 5, 6, 9], "ranks 0, 4-6, 9 of 40"),
        (list(range(0, 40, 2)), "ranks 0, 2, 4, 6, 8, 10, 12, 14, ... of 40"),
    ],
)
def test_ranks_that_follow_each_other_are_a_span(ranks: list[int], shown: str) -> None:
    assert name_ranks(ranks, 40) == shown


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_log, "_FIRST_S", 0.05)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


@pytest.fixture
def has_told(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set once a worker has reported the missing workers."""
    told, tell = threading.Event(), WaitLog.tell

    def tell_and_note(line: WaitLog, whom: str) -> None:
        tell(line, whom)
        told.set()

    monkeypatch.setattr(WaitLog, "tell", tell_and_note)
    return told


@pytest.mark.usefixtures("quick")
def test_who_joins_tells_who_is_missing_and_goes_on(
    capsys: pytest.CaptureFixture[str], has_told: threading.Event
) -> None:
    with HashStore() as store, ThreadPoolExecutor(1) as pool:
        joins = pool.submit(store.join, "group", 0, b"a", 2, 20.0, who="'w0' (rank 0)")
        assert has_told.wait(10)
        assert store.join("group", 1, b"b", 2) == joins.result(30) == [b"a", b"b"]
    err = capsys.readouterr().err
    assert re.match(r"fastdist: 'w0' \(rank 0\) waits for rank 1 of 2 \(\d+ of 20 s\)\n", err)
    assert "fastdist: 'w0' (rank 0) goes on after" in err


def _seconds_in(told: str, error: Exception) -> float:
    """Return the seconds in an error's text, which the first group of the pattern matches."""
    found = re.search(told, str(error))
    assert found is not None, str(error)
    return float(found[1])


@pytest.mark.usefixtures("quick")
def test_who_joins_in_vain_is_told_the_whole_time() -> None:
    began = time.monotonic()
    with HashStore() as store, pytest.raises(StoreTimeoutError) as told:
        store.join("group", 0, b"a", 3, 0.3, who="'w0' (rank 0)")
    waited_s = _seconds_in(r"2 of 3 ranks did not join within ([\d.]+) s", told.value)
    assert told.value.missing == ("1", "2")
    assert 0.3 <= waited_s <= time.monotonic() - began + 0.001  # the message rounds to 1 ms


@pytest.mark.parametrize(
    ("who", "kind", "told"),
    [
        ("'w1' (rank 1)", StoreTimeoutError, "1 of 3 ranks did not join within .*closed by its ho"),
        ("", StoreLostError, "was closed by its host; not there yet: 2$"),
    ],
)
def test_who_joins_hears_at_once_who_was_missing_when_the_host_gave_up(
    who: str, kind: type[StoreTimeoutError | StoreLostError], told: str
) -> None:
    host, port = host_store(timeout=20)
    with TCPStore("127.0.0.1", port, timeout=20) as client, ThreadPoolExecutor(1) as pool:
        joins = pool.submit(client.join, "group", 1, b"b", 3, who=who)
        _give_up_for(host, "2")
        closed = time.monotonic()
        host.close()
        with pytest.raises(kind, match=told) as error:
            joins.result(30)
        assert error.value.missing == ("2",) and time.monotonic() - closed < 5


def _give_up_for(host: TCPStore, last: str) -> None:
    """Join as rank 0 with short timeouts, until `last` is the only rank that is missing."""
    deadline = time.monotonic() + 10
    missing: tuple[str, ...] = ()
    while missing != (last,):
        assert time.monotonic() < deadline
        with pytest.raises(StoreTimeoutError) as told:
            host.join("group", 0, b"a", 3, 0.01)
        missing = told.value.missing


@pytest.mark.usefixtures("quick")
def test_who_joins_keeps_the_names_where_the_store_is_cut_off(
    has_told: threading.Event,
) -> None:
    host, port = host_store(timeout=20)
    way = Way(port)
    client = TCPStore("127.0.0.3", port, timeout=20, secret=host.job_secret)
    with host, client, closing(way), ThreadPoolExecutor(1) as pool:
        joins = pool.submit(client.join, "group", 1, b"b", 2, 4.0, who="'w1' (rank 1)")
        assert has_told.wait(10)
        way.cut()
        with pytest.raises(StoreTimeoutError, match="1 of 2 ranks did not join within") as told:
            joins.result(30)
        assert told.value.missing == ("0",)


class SlowStore:
    """A served store that answers nothing until `release` is set, and a client of this store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.release = threading.Event()
        self.store, port = host_store(timeout=20)
        server = self.store._server
        assert server is not None
        serve = server._serve_one

        def serve_late() -> None:
            self.release.wait(20)
            serve()

        self.client = TCPStore("127.0.0.1", port, timeout=20)
        monkeypatch.setattr(server, "_serve_one", serve_late)
        monkeypatch.setattr(connection, "_GRACE_S", 0.05)
        # A connection always succeeds in time, even on a busy machine; only answers are missing.
        monkeypatch.setattr(tcp_store, "_CONNECT_TO_JOIN_S", 10.0)

    def close(self) -> None:
        self.release.set()
        self.client.close()
        self.store.close()


@pytest.fixture
def slow_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStore]:
    store = SlowStore(monkeypatch)
    yield store
    store.close()


@pytest.mark.usefixtures("quick")
def test_who_joins_asks_again_where_the_store_was_slow(slow_store: SlowStore) -> None:
    late = threading.Timer(0.3, slow_store.release.set)
    late.start()
    assert slow_store.client.join("group", 0, b"a", 1, 20.0, who="'w0' (rank 0)") == [b"a"]
    late.join()


@pytest.mark.usefixtures("quick")
def test_a_store_that_never_answers_is_told_when_time_is_over(slow_store: SlowStore) -> None:
    with pytest.raises(StoreTimeoutError, match=r"did not answer join within .* stuck") as told:
        slow_store.client.join("group", 0, b"a", 2, 0.4, who="'w0' (rank 0)")
    assert told.value.missing == ()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("hosted", ["0", "1"])
def test_who_waits_for_the_store_says_whose(
    hosted: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    has_told: threading.Event,
    port: int,
) -> None:
    monkeypatch.setenv("FASTDIST_STORE_HOSTED", hosted)
    with ThreadPoolExecutor(1) as pool:
        meets = pool.submit(rendezvous, f"tcp://127.0.0.1:{port}", 1, 2, timeout=20.0)
        assert has_told.wait(10)
        with TCPStore("127.0.0.1", port, is_master=True), meets.result(30).store as found:
            assert found.timeout.total_seconds() == 20.0
    whose = "the launcher's" if hosted == "1" else "rank 0's"
    told = rf"fastdist: rank 1 waits for {whose} store at 127\.0\.0\.1:{port} \(\d+ of 20 s\)\n"
    assert re.match(told, capsys.readouterr().err)


@pytest.mark.usefixtures("quick")
def test_a_store_that_never_comes_is_told_with_the_whole_time(port: int) -> None:
    began = time.monotonic()
    with pytest.raises(StoreTimeoutError) as error:
        rendezvous(f"tcp://127.0.0.1:{port}", 1, 2, timeout=0.3)
    waited_s = _seconds_in(r"no store at .* in time: .*; waited ([\d.]+) s", error.value)
    assert 0.3 <= waited_s <= time.monotonic() - began + 0.001  # the message rounds to 1 ms
