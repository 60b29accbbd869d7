"""The file store beyond the contract: killed writers, files that are not stores, and its secret."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fastdist.core.errors import (
    AuthenticationError,
    QueueEmptyError,
    StoreError,
    StoreTimeoutError,
)
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import FileStore
from fastdist.distributed.store.local_store import LocalStore
from fastdist.distributed.store.requests import Op
from tests.distributed.scripts import Script

ADDER = """
import sys
from fastdist.distributed.store import FileStore
store = FileStore(sys.argv[1])
print("ready", flush=True)
while True:
    store.add("n", 1)
    store.append("log", "x" * 1000)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.mark.one_in(3)
def test_a_killed_writer_harms_nobody(path: str) -> None:
    adders = [Script(ADDER, path) for _ in range(2)]
    with FileStore(path, timeout=20) as store:
        for adder in adders:
            adder.stdout.readline()
        before = store.add("n", 0)
        while store.add("n", 0) < before + 100:
            pass
        for adder in adders:
            adder.kill()
        total = store.add("n", 0)
        assert store.add("n", 1) == total + 1
        # Each killed writer has left at most one unfinished append.
        assert total - 2 <= len(store.get("log")) // 1000 <= total


@pytest.mark.parametrize("torn", [1, 7, 8, 9, 20])
def test_what_a_killed_writer_left_half_written_is_cut_off(path: str, torn: int) -> None:
    with FileStore(path) as first:
        first.set("whole", "kept")
        size = os.path.getsize(path)
        first.set("torn", "lost")
        os.truncate(path, size + torn)
    with FileStore(path) as second:
        assert second.check(["whole"]) and not second.check(["torn"])
        second.set("next", "fine")
    with FileStore(path) as third:
        assert third.multi_get(["whole", "next"]) == [b"kept", b"fine"]


def test_a_maker_killed_in_the_first_line_harms_nobody(path: str) -> None:
    Path(path).write_bytes(b"fastdist st")
    with FileStore(path) as store:
        store.set("key", "value")
        assert store.get("key") == b"value"


def test_a_damaged_file_is_refused_and_not_cut(path: str) -> None:
    with FileStore(path) as store:
        store.set("key", "value")
    raw = bytearray(Path(path).read_bytes())
    raw[-1] ^= 1
    Path(path).write_bytes(raw)
    with FileStore(path) as store, pytest.raises(StoreError, match="damaged at byte 17"):
        store.set("other", "value")
    assert Path(path).read_bytes() == raw


@pytest.mark.parametrize("content", [b"my thesis", b"x" * 5000])
def test_a_foreign_file_is_refused_and_left_alone(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(StoreError, match="not a fastdist store"):
        FileStore(path)
    assert Path(path).read_bytes() == content


def test_a_folder_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(StoreError, match=r"absent/store.*No such file"):
        FileStore(os.path.join(path, "absent", "store"))


def test_a_link_is_not_followed(path: str, tmp_path: Path) -> None:
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(StoreError, match="cannot open"):
        FileStore(path)


def test_a_file_that_goes_away_is_noticed(path: str) -> None:
    with FileStore(path) as store:
        os.unlink(path)
        with pytest.raises(StoreError, match="removed or replaced while it was in use"):
            store.set("key", "value")


def test_a_frozen_holder_of_the_lock_is_an_error_in_time_and_holds_up_no_reader(path: str) -> None:
    holder = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with FileStore(path, timeout=0.2) as store, ThreadPoolExecutor(1) as pool:
        store.set("there", "yes")
        fcntl.flock(holder, fcntl.LOCK_EX)
        locked = pool.submit(store.set, "key", "value")
        assert store.get("there") == b"yes"
        with pytest.raises(StoreTimeoutError, match=r"had the file locked for 0\.2 s; look for"):
            locked.result(timeout=10)
        fcntl.flock(holder, fcntl.LOCK_UN)
        store.set("key", "value")
    os.close(holder)


def test_close_ends_a_wait_for_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(path, timeout=20)
    has_tried = threading.Event()
    monkeypatch.setattr(store, "_try_lock", has_tried.set)  # returns None, as if a lock were held
    with ThreadPoolExecutor(1) as pool:
        locked = pool.submit(store.set, "key", "value")
        assert has_tried.wait(10)
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            locked.result(timeout=10)


def test_what_is_no_plain_file_is_refused(path: str) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreError, match="cannot be a store: Illegal seek"):
        FileStore(path)


def test_close_lets_go_of_a_file_that_was_replaced_and_leaves_the_other_alone(path: str) -> None:
    store = FileStore(path, 1)
    os.unlink(path)
    with FileStore(path) as other:
        store.close()
        other.set("key", "value")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(store._file)


def test_close_lets_go_of_the_file_though_the_disk_is_full(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = FileStore(path, 1)
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(StoreError, match="cannot write: No space left"):
        store.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(store._file)


def test_the_last_of_the_world_removes_the_file(path: str) -> None:
    stores = [FileStore(path, 3) for _ in range(3)]
    for store in stores[:2]:
        store.close()
        store.close()
    assert os.path.exists(path)
    stores[2].close()
    assert not os.path.exists(path)


def test_a_store_without_a_world_keeps_its_file(path: str) -> None:
    with FileStore(path) as store:
        store.set("key", "value")
    with FileStore(path) as store:
        assert store.get("key") == b"value"


def test_all_find_the_same_secret_in_the_file(path: str) -> None:
    with FileStore(path) as one, FileStore(path) as two:
        assert one.job_secret == two.job_secret == one.job_secret
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_open_to_others_is_closed_before_the_secret_goes_in(path: str) -> None:
    with FileStore(path) as store:
        os.chmod(path, 0o666)
        secret = store.job_secret
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert secret.hex() not in repr(store) + repr(secret)


def test_a_file_of_another_user_keeps_no_secret(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with FileStore(path) as store:
        monkeypatch.setattr(os, "getuid", lambda: os.stat(path).st_uid + 1)
        with pytest.raises(AuthenticationError, match="cannot keep a secret"):
            _ = store.job_secret


def test_a_given_secret_does_not_go_into_the_file(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_JOB_SECRET", "cd" * 32)
    with FileStore(path) as store:
        assert store.job_secret.hex() == "cd" * 32
        assert os.path.getsize(path) == len("fastdist store 1\n")


def test_a_secret_may_be_given_or_declined(path: str) -> None:
    secret = JobSecret.generate()
    with FileStore(path, secret=secret) as given, FileStore(path, security="none") as plain:
        assert given.job_secret == secret
        assert plain.job_secret is None


TAKER = """
import sys
from fastdist.distributed.store import FileStore
store = FileStore(sys.argv[1], timeout=20)
print("ready", flush=True)
while (value := store.queue_pop("work").decode()) != "end":
    store.queue_push("done", value)
"""


@pytest.mark.one_in(3)
def test_each_value_of_a_queue_goes_to_one_process(path: str) -> None:
    takers = [Script(TAKER, path) for _ in range(2)]
    with FileStore(path, timeout=20) as store:
        for taker in takers:
            taker.stdout.readline()
        for number in range(40):
            store.queue_push("work", str(number))
        done = [int(store.queue_pop("done")) for _ in range(40)]
        assert sorted(done) == list(range(40))
        for _ in takers:
            store.queue_push("work", "end")
        for taker in takers:
            assert taker.end() == 0
        assert store.queue_len("work") == store.queue_len("done") == 0


def test_queues_are_there_when_a_file_is_opened_again(path: str) -> None:
    with FileStore(path) as first:
        for value in ("a", b"", "c"):
            first.queue_push("q", value)
        assert first.queue_pop("q") == b"a"
    with FileStore(path, timeout=0.05) as second:
        assert second.queue_len("q") == 2 and second.check(["q"])
        assert [second.queue_pop("q", block=False), second.queue_pop("q")] == [b"", b"c"]
        size = os.path.getsize(path)
        with pytest.raises(StoreTimeoutError, match=r"1 of 1 keys .*'q'"):
            second.queue_pop("q")
        with pytest.raises(QueueEmptyError):
            second.queue_pop("q", block=False)
        assert os.path.getsize(path) == size  # a failed `queue_pop` writes nothing to the file
    with FileStore(path) as third:
        assert third.queue_len("q") == 0 and not third.check(["q"])


def test_a_value_that_another_took_meanwhile_is_waited_for_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, taken = LocalStore._ask, []

    def ask_late(self: FileStore, op: Op, *given: Any) -> list[bytes]:
        if op is Op.POP and self is slow and not taken:
            taken.append(fast.queue_pop("q", block=False))
            fast.queue_push("q", "second")
        return ask(self, op, *given)

    with FileStore(path, timeout=20) as slow, FileStore(path, timeout=20) as fast:
        monkeypatch.setattr(LocalStore, "_ask", ask_late)
        fast.queue_push("q", "first")
        assert slow.queue_pop("q") == b"second" and taken == [b"first"]
        # This time another client takes the value, and no other value follows.
        taken.clear()
        fast.queue_push("q", "third")
        slow.set_timeout(0.05)
        monkeypatch.setattr(fast, "queue_push", lambda *_: None)
        with pytest.raises(StoreTimeoutError):
            slow.queue_pop("q")


def test_a_wait_for_a_value_ends_when_the_store_closes(path: str) -> None:
    store, errors = FileStore(path, timeout=20), []

    def take() -> None:
        try:
            store.queue_pop("q")
        except StoreError as error:
            errors.append(str(error))

    thread = threading.Thread(target=take)
    thread.start()
    store.close()
    thread.join(10)
    assert len(errors) == 1 and errors[0].endswith("is closed")
