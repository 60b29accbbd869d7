"""The claim: who leaves takes no answer along that its callers have not read yet."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from fastdist.distributed import rpc
from fastdist.distributed.pipe.transports.zeromq import ZmqLane
from fastdist.distributed.rpc import peer, zmq_agent
from tests.distributed.workers import run_group

has_come = threading.Event()
may_leave = threading.Event()


def come() -> None:
    has_come.set()


def answer_and_leave() -> str:
    may_leave.set()
    return "the last answer"


def read_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that waits for an answer sleep until its peer has gone, or for a while."""
    has_gone = threading.Event()
    receive, say = ZmqLane.receive, peer.Peer._die

    def receive_late(self: ZmqLane, deadline: float | None) -> list[Any]:
        has_gone.wait(0.3)
        return receive(self, deadline)

    def die(self: peer.Peer, action: Any) -> None:
        has_gone.set()
        say(self, action)

    monkeypatch.setattr(ZmqLane, "receive", receive_late)
    monkeypatch.setattr(peer.Peer, "_die", die)


def leave_early() -> None:
    rank = int(os.environ["RANK"])
    store = f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}"
    with pytest.MonkeyPatch.context() as monkeypatch:
        # However slow the machine is, nobody gives up waiting.
        monkeypatch.setattr(peer, "_SETTLE_S", 30.0)
        monkeypatch.setattr(zmq_agent, "_LINGER_S", 30.0)
        options = rpc.TensorPipeRpcBackendOptions(init_method=store, rpc_timeout=20)
        rpc.init_rpc(f"w{rank}", rank=rank, rpc_backend_options=options)
        if rank == 1:
            rpc.rpc_sync("w0", come)
            assert may_leave.wait(30)
            rpc.shutdown()
            return
        assert has_come.wait(30)
        read_late(monkeypatch)
        assert rpc.rpc_sync("w1", answer_and_leave) == "the last answer"
        rpc.shutdown()


def test_the_answer_of_a_worker_that_leaves_is_read_though_late() -> None:
    run_group(leave_early, 2)
