"""A job whose ranks share no secret: each rank proves its identity with a certificate."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import FastdistError
from fastdist.distributed import rpc
from fastdist.distributed.rpc import agent as agents
from fastdist.distributed.store import connection
from tests.distributed.certificates import make_certificates
from tests.distributed.members import members
from tests.distributed.workers import Group, open_gate, run_group, wait_at, wait_for_arrivals


def who() -> str:
    return rpc.get_worker_info().name


def double(x: Any) -> Any:
    return x + x


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_certificates(tmp_path_factory.mktemp("job") / "certificates", 3)


@pytest.fixture(scope="module")
def group(certificates: str) -> Iterator[Group]:
    environment = {"FASTDIST_SECURITY": "certs", "FASTDIST_CERTIFICATES": certificates}
    with members(__file__, 3, environment) as group:
        yield group


def call_everybody() -> list[str]:
    for name in ("w0", "w1", "w2"):
        assert rpc.rpc_sync(name, double, (fastdist.ones(3),)).tolist() == [2.0, 2.0, 2.0]
    return [rpc.rpc_async(name, who).wait() for name in ("w0", "w1", "w2")]


def ways() -> list[str]:
    info = rpc._get_debug_info()
    return sorted(info[key] for key in info if key.startswith("agent.peer."))


def test_calls_go_over_tcp_with_keys(group: Group) -> None:
    assert group.run_all(call_everybody) == [["w0", "w1", "w2"]] * 3
    (*others, own) = sorted(group[0].run(ways), key=lambda way: "inproc" in way)
    assert "by inproc" in own and all("by uv" in way for way in others)


def addresses() -> tuple[dict[str, str], int]:
    me: Any = rpc._get_current_rpc_agent()
    return dict(me.me.addresses), int(me.me.incarnation)


def speak_as(folder: str, me: int, claimed: int, address: str, theirs: int, mine: int) -> list[str]:
    """Introduce rank `me`, with its own key, as rank `claimed`, then call; return the answers."""
    import zmq

    from fastdist.distributed.rpc.message.message import Message, decode
    from fastdist.distributed.sockets import (
        CertificateFolder,
        CertificateSecurity,
        connect,
        make_socket,
    )

    lane = make_socket(zmq.DEALER, "lane that poses")
    lane.set(zmq.SNDTIMEO, 10_000)
    lane.set(zmq.RCVTIMEO, 10_000)
    security = CertificateSecurity.for_rank(CertificateFolder(folder), me, 3)
    connect(lane, address, security, "rank:1")
    hello = Message(0x181, source=claimed, incarnation=mine, metadata={"to": f"{theirs:x}"})
    lane.send(hello.encode()[0])
    lane.send(Message(0x102, 5, source=claimed, incarnation=mine).encode()[0])
    answers = [decode([lane.recv()]) for _ in range(2)]
    lane.close()
    return [str((answer.metadata or {}).get("message", hex(answer.type))) for answer in answers]


def test_a_rank_that_poses_as_another_is_not_heard(group: Group, certificates: str) -> None:
    reached, theirs = group[1].run(addresses)
    _, of_rank_0 = group[0].run(addresses)
    assert sorted(reached) == ["inproc", "uv"]
    refused, unknown = group[2].run(
        *(speak_as, certificates, 2, 0, reached["uv"], theirs, of_rank_0)
    )
    assert "has proved to be rank 2, but says that it is rank 0" in refused
    assert unknown == "0x291"  # the worker asked for an introduction first, so the call did not run
    assert group[0].run(call_everybody) == ["w0", "w1", "w2"]


def start_with(security: str, folder: str, timeout_s: float = 30.0) -> str:
    options = rpc.TensorPipeRpcBackendOptions(
        security=security, certificates=folder or None, init_timeout=timeout_s
    )
    connection._GRACE_S = 30.0  # so that a stopped process still gets the store's answer
    try:
        rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)
    except FastdistError as error:
        return f"{type(error).__name__}: {error}"
    return "started"


def begin_to_start(folder: str) -> None:
    """Start with certificates, and block after the store exists, before the others can join."""
    agents.add_hooks(lambda worker_id: wait_at("gate"), lambda: None)

    def start() -> None:
        outcomes.append(start_with("certs", folder, timeout_s=1.0))

    starting.append(threading.Thread(target=start))
    starting[0].start()
    wait_for_arrivals("gate", 1)


starting: list[threading.Thread] = []
outcomes: list[str] = []


def end_of_start() -> str:
    open_gate("gate")
    starting[0].join()
    return outcomes[0]


def test_ranks_that_protect_themselves_differently_do_not_meet(certificates: str) -> None:
    group = Group(__file__, 2, {"FASTDIST_JOB_SECRET": "ab" * 32})
    try:
        group[0].run(begin_to_start, certificates)
        second = group[1].run(start_with, "curve", "")
        assert second.startswith("AuthenticationError: the store at tcp://127.0.0.1:")
        first = group[0].run(end_of_start)
        assert first.startswith("StoreTimeoutError") and "1 of 2 ranks did not join" in first
        assert group.end() == [0, 0]
    finally:
        group.kill()


@pytest.mark.one_in(8)
def test_a_rank_without_its_secret_key_says_which_file_is_missing(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path / "certificates", 1)
    os.unlink(os.path.join(folder, "rank-0.key_secret"))
    (text,) = run_group(start_with, 1, "certs", folder)
    assert text.startswith("AuthenticationError: cannot read the certificate")
    assert "rank-0.key_secret" in text
