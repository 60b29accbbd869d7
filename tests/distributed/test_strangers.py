"""Strangers that connect to the ports of a running job's workers and store have no effect."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from fastdist.distributed import rpc
from fastdist.distributed.rpc.message.message import Message, decode
from fastdist.distributed.sockets import (
    CurveSecurity,
    JobSecret,
    Security,
    connect,
    make_socket,
    split_tcp_endpoint,
)
from fastdist.distributed.store.access import client_security
from tests.distributed.workers import Group

SECRET = "5a" * 32
JOB = JobSecret.parse(SECRET, "test")
# The time within which members must get their answers while strangers connect.
PATIENCE_S = 5.0

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f\3\0"


def greeting(mechanism: bytes) -> bytes:
    return (GREETING + mechanism.ljust(20, b"\0")).ljust(64, b"\0")


def client_hello() -> bytes:
    """Return the first bytes that a TLS client sends."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(coming, going, server_hostname="worker")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return going.read()


CURVE_HELLO = b"\5HELLO\1\0" + bytes(72) + os.urandom(32) + bytes(8) + os.urandom(80)
RAW: dict[str, bytes] = {
    "silence": b"",
    "half a greeting": GREETING[:11],
    "HTTP": b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n" * 20,
    "TLS": client_hello(),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(500),
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "random": os.urandom(5000),
    "ZMTP 1": b"\1\0" * 500,
    "ZMTP 2": b"\xff\0\0\0\0\0\0\0\1\x7f\1\5\0\0" + b"\0\5hello" * 50,
    "NULL": greeting(b"NULL") + b"\4\x26\5READY\x0bSocket-Type\0\0\0\6DEALER\x08Identity\0\0\0\0",
    "PLAIN": greeting(b"PLAIN") + b"\4\x10\5HELLO\4user\4word",
    "CURVE and rubbish": greeting(b"CURVE") + os.urandom(2000),
    "CURVE and a HELLO of zeros": greeting(b"CURVE") + b"\4\xc8" + CURVE_HELLO[:200],
    "a command of 2^63 bytes": greeting(b"CURVE") + b"\6" + struct.pack(">Q", 2**63 - 1),
    "a message of 2^40 bytes": greeting(b"CURVE") + b"\2" + struct.pack(">Q", 2**40) + bytes(100),
}


def init() -> None:
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(_transports=["uv"]),
    )


def leave() -> None:
    rpc.shutdown()


def who() -> str:
    return rpc.get_worker_info().name


def ask(to: str) -> str:
    return rpc.rpc_sync(to, who, timeout=PATIENCE_S)


def ask_the_store() -> int:
    agent: Any = rpc._get_current_rpc_agent()
    return int(agent.store.add("asked", 1))


def state() -> tuple[str, int, int, int]:
    """Return this worker's address, incarnation, and counts of dropped messages and descriptors."""
    agent: Any = rpc._get_current_rpc_agent()
    dropped = int(rpc._get_debug_info()["agent.messages_dropped_as_rubbish"])
    descriptors = len(os.listdir("/proc/self/fd"))
    return agent.me.addresses["uv"], agent.me.incarnation, dropped, descriptors


class Job:
    """Two workers over TCP; the first one serves the store."""

    def __init__(self) -> None:
        self.group = Group(__file__, 2, {"FASTDIST_JOB_SECRET": SECRET})

    def port(self, which: str) -> int:
        if which == "store":
            return self.group.port.number
        return split_tcp_endpoint(self.group[1].run(state)[0])[1]

    def assert_well(self) -> None:
        """Call in both directions, and read the store, all within PATIENCE_S.

        Also check that Python has received no message of a stranger.
        """
        began = time.monotonic()
        assert [self.group[0].run(ask, "w1"), self.group[1].run(ask, "w0")] == ["w1", "w0"]
        assert self.group[1].run(ask_the_store) > 0
        assert time.monotonic() - began < PATIENCE_S
        assert [self.group[rank].run(state)[2] for rank in (0, 1)] == [0, 0]


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    job = Job()
    try:
        job.group.run_all(init)
        yield job
        job.group.run_all(leave)
        assert job.group.end() == [0, 0]
    finally:
        job.group.kill()


def knock(port: int, words: bytes, count: int) -> list[socket.socket]:
    """Connect `count` times, and send the bytes over each connection."""
    strangers = []
    for _ in range(count):
        stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
        strangers.append(stranger)
        try:
            stranger.sendall(words)
        except ConnectionError:
            pass  # the peer closed the connection first
    return strangers


@pytest.mark.one_in(4)
@pytest.mark.parametrize("which", ["worker", "store"])
@pytest.mark.parametrize("words", RAW.values(), ids=RAW)
def test_whatever_strangers_say_the_job_goes_on(job: Job, which: str, words: bytes) -> None:
    strangers = knock(job.port(which), words, 20)
    job.assert_well()
    for stranger in strangers:
        stranger.close()
    job.assert_well()


@pytest.mark.one_in(3)
def test_nine_hundred_that_say_nothing_are_served_beside_and_hung_up_on(
    job: Job, many_descriptors: None
) -> None:
    # A worker and the store close a silent connection after the same time, HANDSHAKE_IVL.
    before = [worker.run(state)[3] for worker in job.group[:2]]
    strangers = [*knock(job.port("store"), b"", 900), *knock(job.port("worker"), b"", 900)]
    job.assert_well()
    for stranger in strangers:
        stranger.settimeout(15)
        while stranger.recv(4096):
            pass  # the ZMTP greeting; after HANDSHAKE_IVL the peer closes
        stranger.close()
    deadline = time.monotonic() + 10
    for worker, count in zip(job.group[:2], before):
        while worker.run(state)[3] > count + 5:
            assert time.monotonic() < deadline
    job.assert_well()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Raise the limit of this process to 4,096 descriptors if possible; a test connects 1,800
    times.
    """
    limits = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def leave_descriptors(count: int | None) -> None:
    """Allow this worker to open `count` more descriptors; None restores the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = hard if count is None else len(os.listdir("/proc/self/fd")) + count
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_strangers_that_use_up_all_descriptors_hold_up_those_alone_who_come_anew(job: Job) -> None:
    worker = job.group[1]
    job.assert_well()
    before, port = worker.run(resident_bytes), job.port("worker")
    worker.run(leave_descriptors, 15)
    strangers = []
    for _ in range(30):
        strangers.append(socket.socket())
        strangers[-1].setblocking(False)
        strangers[-1].connect_ex(("127.0.0.1", port))
    for _ in range(3):
        assert [job.group[0].run(ask, "w1"), worker.run(ask, "w0")] == ["w1", "w0"]
    # libzmq tries to accept the remaining strangers in vain, until it has closed the first ones
    # after HANDSHAKE_IVL.
    for stranger in strangers:
        stranger.settimeout(20)
        while stranger.recv(4096):
            pass
        stranger.close()
    worker.run(leave_descriptors, None)
    assert worker.run(resident_bytes) - before < 30 << 20
    assert heard_as(job, rank=1)[1] == 0x291  # a new connection is served
    job.assert_well()


def member(rank: int, secret: JobSecret = JOB, job_id: str = "") -> Security:
    return CurveSecurity.for_rank(secret, job_id, rank, 2)


def posing() -> Security:
    """Return a Security with a stranger's own key, which knows the public keys of members."""
    stranger = CurveSecurity.for_rank(JobSecret.generate(), "", 0, 2)
    stranger._secret = JOB
    return stranger


def words_of_rank(rank: int, incarnation: int, to: int) -> list[bytes]:
    hello = Message(0x181, source=rank, incarnation=incarnation, metadata={"to": f"{to:x}"})
    call = Message(0x102, 5, source=rank, incarnation=incarnation)
    return [bytes(*hello.encode()), bytes(*call.encode())]


def answers_to(
    port: int, security: Security, peer: str, words: list[bytes], patience_s: float = 1.0
) -> list[bytes]:
    lane = make_socket(zmq.DEALER, "lane of a stranger", options={zmq.IMMEDIATE: 0})
    connect(lane, f"tcp://127.0.0.1:{port}", security, peer)
    for word in words:
        lane.send(word)
    answers = []
    while len(answers) < len(words) and lane.poll(round(1000 * patience_s)):
        answers.append(lane.recv())
    lane.close()
    return answers


def heard_as(job: Job, rank: int, incarnation: int | None = None) -> tuple[str, int]:
    """Claim rank 0 with the key of `rank`; return the answers to the greeting and to a call."""
    _, theirs, _, _ = job.group[1].run(state)
    _, of_rank_0, _, _ = job.group[0].run(state)
    words = words_of_rank(0, incarnation or of_rank_0, theirs)
    greeting, call = answers_to(job.port("worker"), member(rank), "rank:1", words, patience_s=20.0)
    return str(decode([greeting]).metadata), decode([call]).type


STRANGERS: dict[str, Callable[[], tuple[Security, str]]] = {
    "another secret": lambda: (member(0, JobSecret.generate()), "rank:1"),
    "another job": lambda: (member(0, job_id="other"), "rank:1"),
    "the server's key alone": lambda: (posing(), "rank:1"),
    "a rank beyond the world": lambda: (CurveSecurity.for_rank(JOB, "", 7, 8), "rank:1"),
    "a client of the store": lambda: (client_security(JOB), "rank:1"),
}


@pytest.mark.parametrize("who", STRANGERS.values(), ids=STRANGERS)
def test_who_does_not_prove_to_be_a_member_is_not_heard(
    job: Job, who: Callable[[], tuple[Security, str]]
) -> None:
    _, theirs, _, _ = job.group[1].run(state)
    _, of_rank_0, _, _ = job.group[0].run(state)
    security, peer = who()
    assert answers_to(job.port("worker"), security, peer, words_of_rank(0, of_rank_0, theirs)) == []
    job.assert_well()


def test_a_member_whose_header_claims_another_rank_is_refused(job: Job) -> None:
    said, of_the_call = heard_as(job, rank=1)
    assert "has proved to be rank 1, but says that it is rank 0" in said
    assert of_the_call == 0x291  # the call has not run: the answer requests a greeting first
    job.assert_well()


@pytest.mark.one_in(3)
def test_a_member_of_another_life_is_refused(job: Job) -> None:
    said, of_the_call = heard_as(job, rank=0, incarnation=12_345)
    assert "was replaced" in said and of_the_call == 0x291
    job.assert_well()
