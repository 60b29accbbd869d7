"""TCPStore beyond the contract of all stores: admission, strangers, and lost processes."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fastdist.core.errors import AuthenticationError, StoreError, StoreLostError, StoreTimeoutError
from fastdist.distributed.sockets import (
    JobSecret,
    authenticator,
    open_socket_names,
    runtime_directory,
)
from fastdist.distributed.sockets import security as security_module
from fastdist.distributed.sockets.authenticator import Verdict
from fastdist.distributed.sockets.published_secret import (
    publish_secret,
    read_published_secret,
)
from fastdist.distributed.sockets.pulse import MOST_MISSED_BEATS
from fastdist.distributed.store import (
    TCPStore,
    connection,
    host_store,
    tcp_store,
    wait_log,
)
from fastdist.distributed.store.access import client_security
from fastdist.distributed.store.connection import Connection
from fastdist.distributed.store.requests import Op
from fastdist.distributed.store.wait_log import WaitLog
from tests.distributed.scripts import Script
from tests.distributed.store.conftest import assert_serves, end_waits_once_connected
from tests.distributed.way import Way
from tests.ports import ipv6_loopback
from tests.standstill import Standstill, freeze

IPV6 = [form for host in ipv6_loopback() for form in (host, f"[{host}]")]


def test_a_wrong_secret_is_refused_within_two_seconds(served: TCPStore) -> None:
    with Standstill() as stood:
        started = time.monotonic()
        with pytest.raises(AuthenticationError, match="job secret"):
            TCPStore("127.0.0.1", served.port, secret=JobSecret.generate())
    assert time.monotonic() - started - stood.seconds < 2
    assert_serves(served)


def test_another_job_id_is_refused(served: TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = served.job_secret
    monkeypatch.setenv("FASTDIST_JOB_ID", "another job")
    with pytest.raises(AuthenticationError, match="FASTDIST_JOB_ID"):
        TCPStore("127.0.0.1", served.port, secret=secret)


def test_who_comes_just_as_the_store_closes_is_not_told_that_its_secret_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served, port = host_store(secret=JobSecret.generate())
    somebody_came, judge = threading.Event(), authenticator._judge

    def judge_late(question: list[bytes]) -> Verdict:
        if not somebody_came.is_set():
            # Simulate a store that closes before libzmq has finished a handshake with a client.
            with monkeypatch.context() as patch:
                patch.setattr(authenticator, "_zap_domains", {})
                verdict = judge(question)
            somebody_came.set()
            return verdict
        deadline = time.monotonic() + 20
        while authenticator._zap_domains:
            assert time.monotonic() < deadline
        return judge(question)

    monkeypatch.setattr(authenticator, "_judge", judge_late)
    with ThreadPoolExecutor() as pool:
        coming = pool.submit(TCPStore, "127.0.0.1", port, secret=served.job_secret, timeout=1)
        assert somebody_came.wait(20)
        served.close()
        with pytest.raises(StoreTimeoutError, match="the process that listens there hangs up"):
            coming.result(20)


def test_a_plain_client_is_refused_by_a_secured_store(served: TCPStore) -> None:
    with pytest.raises(AuthenticationError, match="security='none'"):
        TCPStore("127.0.0.1", served.port, security="none", timeout=5)


def test_a_secured_client_is_told_that_the_store_is_plain() -> None:
    plain, port = host_store(security="none")
    with plain, pytest.raises(AuthenticationError, match="security='none'"):
        TCPStore("127.0.0.1", port, secret=JobSecret.generate(), timeout=5)


def test_two_seconds_suffice_to_refuse_something_that_is_no_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        answers = threading.Thread(target=answer_like_http, args=(other,))
        answers.start()
        with Standstill() as stood:
            started = time.monotonic()
            with pytest.raises(AuthenticationError, match="not a fastdist store"):
                TCPStore("127.0.0.1", other.getsockname()[1], secret=JobSecret.generate())
        assert time.monotonic() - started - stood.seconds < 2
        answers.join()


def answer_like_http(server: socket.socket) -> None:
    server.settimeout(10)
    peer, _ = server.accept()
    with peer:
        peer.settimeout(10)
        peer.recv(1024)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def test_nobody_there_names_the_address_and_keeps_the_time(port: int) -> None:
    with Standstill() as stood:
        started = time.monotonic()
        with pytest.raises(StoreTimeoutError, match=f":{port} in time: nothing answers"):
            TCPStore("127.0.0.1", port, timeout=0.2, secret=JobSecret.generate())
    waited_s = time.monotonic() - started
    assert waited_s > 0.19 and waited_s - stood.seconds < 2


def test_a_silent_listener_is_told_from_an_empty_port(monkeypatch: pytest.MonkeyPatch) -> None:
    end_waits_once_connected(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StoreTimeoutError, match="something listens there, but does not answer"):
            TCPStore("127.0.0.1", port, timeout=10, secret=JobSecret.generate())


def test_a_client_may_come_before_the_store(port: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(TCPStore, "127.0.0.1", port, timeout=10)
        with host_store(port=port)[0] as served, early.result(10) as client:
            client.set("key", "value")
            assert served.get("key") == b"value"


def test_the_owner_leaves_its_secret_to_this_user_alone_and_takes_it_back() -> None:
    store, port = host_store()
    path = os.path.join(runtime_directory(), f"store-127.0.0.1-{port}.secret")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(runtime_directory()).st_mode) == 0o700
    store.close()
    assert not os.path.exists(path)


def test_a_stale_secret_is_read_again(port: int) -> None:
    os.close(publish_secret("127.0.0.1", port, JobSecret.generate()))  # as if its owner were killed
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(TCPStore, "127.0.0.1", port, timeout=10)
        with host_store(port=port)[0] as served, early.result(10) as client:
            assert client.job_secret == served.job_secret


def test_a_given_secret_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_JOB_SECRET", "ab" * 32)
    store, port = host_store()
    with store, TCPStore("localhost", port, timeout=5) as client:
        assert client.job_secret == JobSecret.parse("ab" * 32, "test")
        assert not [name for name in os.listdir(runtime_directory()) if name.endswith("secret")]


def test_off_loopback_a_secret_is_demanded() -> None:
    with pytest.raises(AuthenticationError, match="no job secret for the store at '10"):
        TCPStore("10.0.0.7", 4410, is_master=True)


def test_plaintext_off_loopback_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_module, "_warned_of_plaintext", False)
    with pytest.warns(RuntimeWarning, match="neither encrypted nor authenticated") as caught:
        speak_in_the_clear_twice()
    assert len(caught) == 1


def speak_in_the_clear_twice() -> None:
    for _ in range(2):
        with pytest.raises(StoreTimeoutError):
            TCPStore("192.0.2.1", 4410, security="none", timeout=0)


def test_a_port_that_is_taken_is_named(served: TCPStore) -> None:
    with pytest.raises(StoreError, match=f"port {served.port} of "):
        host_store(port=served.port)


def test_an_address_of_another_machine_cannot_host() -> None:
    with pytest.raises(StoreError, match=r"'192\.0\.2\.1' is not an address of this machine"):
        host_store("192.0.2.1", secret=JobSecret.generate())


@pytest.mark.one_in(3)
def test_a_closed_store_gives_its_port_back_at_once() -> None:
    for _ in range(30):  # if the port were freed a moment later, one in four such runs would fail
        first, port = host_store()
        first.close()
        second, _ = host_store(port=port)
        second.close()


def test_a_connection_that_broke_while_it_idled_is_made_anew(served: TCPStore) -> None:
    way = Way(served.port)
    client = TCPStore("127.0.0.3", served.port, timeout=20, secret=served.job_secret)
    client.set("key", "value")
    way.cut()
    assert way.was_tried.wait(10)  # the client has noticed the broken connection
    way.mend()
    assert client.get("key") == b"value"
    client.close()
    way.close()


def test_a_call_that_does_not_end_does_not_keep_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_store, "_CLOSE_S", 0.05)
    store, port = host_store(timeout=10)
    connection = store._borrow_connection(time.monotonic() + 10)
    try:
        with pytest.raises(StoreError, match="1 calls did not end"):
            store.close()
        # A thread of libzmq frees the port a moment after the store was closed.
        deadline = time.monotonic() + 5
        while not can_be_taken(port):
            assert time.monotonic() < deadline
    finally:
        store._drop(connection)
        store._bell.close()


def can_be_taken(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


@pytest.mark.one_in(3)
def test_a_client_hosts_the_store_instead_of_one_that_was_killed_and_the_secret_stays(
    port: int,
) -> None:
    with killed_at_the_end(Script(HOSTS_UNTIL_KILLED, str(port))) as host:
        assert host.stdout.readline() == "hosts\n"
        with TCPStore("127.0.0.1", port) as first, TCPStore("127.0.0.1", port) as second:
            secret = first.job_secret
            with pytest.raises(StoreError, match="is taken"):
                first.host_instead()
            host.kill()
            assert first.host_instead() and not first.host_instead()
            with pytest.raises(StoreError, match="is taken"):
                second.host_instead()
            for store in (first, second):
                assert_serves(store)
            with TCPStore("127.0.0.1", port) as third:
                assert_serves(third)
                assert third.job_secret == second.job_secret == secret
        with pytest.raises(StoreError, match="is closed"):
            first.host_instead()
    assert can_be_taken(port) and read_published_secret("127.0.0.1", port) is None


def test_a_host_that_goes_on_keeps_the_secret_of_one_that_was_killed(port: int) -> None:
    with killed_at_the_end(Script(HOSTS_UNTIL_KILLED, str(port))) as host:
        assert host.stdout.readline() == "hosts\n"
        secret = read_published_secret("127.0.0.1", port)
    with TCPStore("127.0.0.1", port, is_master=True, goes_on=True) as again:
        assert again.job_secret == secret
        assert_serves(again)
    with TCPStore("127.0.0.1", port, is_master=True, goes_on=True) as anew:
        assert anew.job_secret not in (None, secret)


HOSTS_UNTIL_KILLED = """
import sys, threading
from fastdist.distributed.store import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True)
print("hosts", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("port", [-1, 65_536, "80", True, 0])
def test_a_wrong_port_is_named(port: int) -> None:
    with pytest.raises(StoreError, match=r"port is .*(expected|only is_master)"):
        TCPStore("127.0.0.1", port)


@pytest.mark.parametrize("host", ["", "*", "two words", "node7/24", None])
def test_a_wrong_host_is_named(host: str) -> None:
    with pytest.raises(StoreError, match=r"host is .*; expected the name or address of one"):
        TCPStore(host, 4410)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "[::]", "0", "0x0", "::0.0.0.0", "::ffff:0.0.0.0"]
)
@pytest.mark.parametrize("is_master", [True, False])
def test_a_store_is_at_one_address_and_never_at_all_of_them(host: str, is_master: bool) -> None:
    secret = JobSecret.generate()
    with pytest.raises(StoreError, match=r"stands for all addresses of a machine; give the one"):
        TCPStore(host, 4410, is_master=is_master, secret=secret, timeout=1)


def test_a_name_without_an_address_is_named() -> None:
    with pytest.raises(StoreTimeoutError, match=r"no\.\.name:4410 in time: its name cannot be"):
        TCPStore("no..name", 4410, secret=JobSecret.generate(), timeout=0.1)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", *IPV6])
def test_a_store_is_found_by_each_way_to_write_this_machine(host: str) -> None:
    with host_store(host, timeout=10)[0] as store:
        with TCPStore(host, store.port, timeout=10) as client:
            client.set("key", "value")
        assert store.get("key") == b"value"


def test_an_unknown_security_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_SECURITY", "tls")
    with pytest.raises(StoreError, match="FASTDIST_SECURITY is 'tls'; known: curve, certs, none"):
        TCPStore("127.0.0.1", 4410)


def test_the_constructor_waits_for_all_workers(port: int) -> None:
    with ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(TCPStore, "127.0.0.1", port, 3, is_master=i == 0, timeout=10)
            for i in range(3)
        ]
        stores = [job.result(15) for job in jobs]
    for store in reversed(stores):
        store.close()


def test_the_constructor_names_how_many_workers_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "_GRACE_S", 10.0)
    with pytest.raises(StoreTimeoutError, match="2 of 3 ranks did not join"):
        TCPStore("127.0.0.1", 0, 3, is_master=True, timeout=0.1)


def test_a_wrong_world_size_is_told_to_its_owner_and_the_right_ones_go_on(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        hosting = pool.submit(TCPStore, "127.0.0.1", port, 2, is_master=True, timeout=20)
        for _ in range(2):
            with pytest.raises(
                StoreError,
                match=r"the world has 1 members, but (rank 0|its host) says 2; start all with the",
            ):
                TCPStore("127.0.0.1", port, 1, timeout=20)
        with TCPStore("127.0.0.1", port, 2, timeout=20) as right, hosting.result(20) as master:
            right.set("key", "value")
            assert master.get("key") == b"value"
            with pytest.raises(StoreError, match="all 2 places are taken"):
                TCPStore("127.0.0.1", port, 2, timeout=20)
            assert right.get("key") == b"value"
    assert (
        sum("one that tried to join was refused" in one.getMessage() for one in caplog.records) == 1
    )


def test_what_the_host_says_of_the_world_counts_before_it_has_joined(port: int) -> None:
    host = TCPStore("127.0.0.1", port, 2, is_master=True, wait_for_workers=False, timeout=20)
    with host, pytest.raises(StoreError, match="has 1 members, but its host says 2; start all"):
        TCPStore("127.0.0.1", port, 1, timeout=20)
    assert host.port == port


@pytest.fixture
def has_asked(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set after the first GET request, when the client has a connection."""
    asked, send = threading.Event(), Connection.send

    def send_and_tell(self: Connection, op: Op, arguments: list[bytes], timeout_s: float) -> int:
        request_id = send(self, op, arguments, timeout_s)
        if op is Op.GET:
            asked.set()
        return request_id

    monkeypatch.setattr(Connection, "send", send_and_tell)
    return asked


def test_who_waits_hears_at_once_that_the_store_is_gone(has_asked: threading.Event) -> None:
    host, _ = host_store()
    client = TCPStore("127.0.0.1", host.port, timeout=30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, "never")
        assert has_asked.wait(10)
        host.close()
        with pytest.raises(StoreError, match="lost: its host ended"):
            waiting.result(5)
    client.close()


HOST = """
import sys
from fastdist.distributed.store import host_store
store, port = host_store()
print(port, flush=True)
sys.stdin.read()
"""


@contextmanager
def killed_at_the_end(script: Script) -> Iterator[Script]:
    try:
        yield script
    finally:
        script.kill()


@pytest.fixture
def host() -> Iterator[Script]:
    with killed_at_the_end(Script(HOST)) as script:
        yield script


def port_of(host: Script) -> int:
    return int(host.stdout.readline())


def test_a_killed_host_fails_who_waits_within_a_second(
    host: Script, has_asked: threading.Event
) -> None:
    port = port_of(host)
    with TCPStore("127.0.0.1", port, timeout=30) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, "never")
        assert has_asked.wait(10)
        with Standstill() as stood:
            killed = time.monotonic()
            host.kill()
            with pytest.raises(StoreError, match=f":{port} is lost"):
                waiting.result(5)
        assert time.monotonic() - killed - stood.seconds < 1
    os.unlink(os.path.join(runtime_directory(), f"store-127.0.0.1-{port}.secret"))


@pytest.mark.slow
def test_a_frozen_host_fails_who_waits_within_four_seconds(
    host: Script, has_asked: threading.Event
) -> None:
    port = port_of(host)
    with TCPStore("127.0.0.1", port, timeout=30) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, "never")
        assert has_asked.wait(10)
        with Standstill() as stood:
            freeze(host.process.pid)
            frozen = time.monotonic()
            with pytest.raises(StoreError, match="froze"):
                waiting.result(10)
        assert time.monotonic() - frozen - stood.seconds < 4
    os.unlink(os.path.join(runtime_directory(), f"store-127.0.0.1-{port}.secret"))


def test_a_busy_host_is_waited_for_as_much_longer_as_workers_share_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, port = host_store()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(12 * len(os.sched_getaffinity(0))))
    with host, TCPStore("127.0.0.1", port, timeout=30) as client:
        (idle,) = client._idle
        assert idle._pulse.most_missed_beats == 3 * MOST_MISSED_BEATS


def test_who_was_there_before_does_not_wait_for_a_store_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, port = host_store()
    with TCPStore("127.0.0.1", port, timeout=30) as client:
        monkeypatch.setattr(client, "_pause", lambda _: pytest.fail("it waits"))
        (idle,) = client._idle
        host.close()
        # The client must know that the connection is broken. Otherwise it would send the request,
        # and lose it.
        assert idle._events is not None and idle._events.socket.poll(10_000)
        with pytest.raises(StoreLostError, match="its owner has withdrawn its secret"):
            client.get("key")


@pytest.mark.one_in(3)
def test_a_host_that_exits_normally_leaves_no_secret_behind() -> None:
    # Run a new program instead of a forked process, so that an interpreter exits normally.
    ran = subprocess.run(
        [sys.executable, "-c", HOST], input="", capture_output=True, text=True, check=True
    )
    assert f"store-127.0.0.1-{int(ran.stdout)}.secret" not in os.listdir(runtime_directory())


FORKING_HOST = """
import os, sys
from fastdist.distributed.store import host_store
store, port = host_store()
child = os.fork()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    print(port, flush=True)
    sys.stdin.read()
"""


def test_a_forked_child_that_exits_does_not_close_its_parents_store() -> None:
    parent = Script(FORKING_HOST)
    try:
        with TCPStore("127.0.0.1", port_of(parent), timeout=10) as client:
            client.set("alive", "yes")
    finally:
        parent.end()


def test_nothing_of_the_secret_is_shown(served: TCPStore) -> None:
    secret = served.job_secret
    assert secret is not None
    shown = f"{served!r} {secret!r} {secret} {client_security(secret)!r} {open_socket_names()}"
    assert secret.hex() not in shown and secret.hex()[:8] not in shown


def test_who_joins_hears_that_the_store_went_between_two_of_its_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, port = host_store()
    monkeypatch.setattr(wait_log, "_FIRST_S", 0.05)
    # Close the store when the client waits between an answer and its next request.
    monkeypatch.setattr(WaitLog, "tell", lambda line, whom: host.close())
    with (
        TCPStore("127.0.0.1", port, timeout=60, secret=host.job_secret) as client,
        pytest.raises(StoreTimeoutError, match="is lost") as info,
    ):
        client.join("g", 0, b"", 2, who="me")
    assert info.value.missing == ("1",)
