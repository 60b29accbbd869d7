"""The faulty agent fails and delays messages as its options say."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from tests.distributed.workers import run_group


def who() -> str:
    return rpc.get_worker_info().name


def init_faulty(**faults: Any) -> None:
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        backend=rpc.BackendType.FAULTY_TENSORPIPE,
        rpc_backend_options=rpc.faulty_agent.FaultyTensorPipeRpcBackendOptions(**faults),
    )


def calls_fail_and_are_late() -> None:
    is_first = os.environ["RANK"] == "0"
    init_faulty(
        messages_to_fail=["PYTHON_REMOTE_CALL", "SCRIPT_REMOTE_CALL", "RREF_USER_DELETE"],
        messages_to_delay={"PYTHON_CALL": 0.2 if is_first else 60.0},
        num_fail_sends=1,
    )
    if is_first:
        began = time.monotonic()
        assert rpc.rpc_sync("w1", who) == "w1"
        assert time.monotonic() - began >= 0.19
        rref = rpc.remote("w1", who)
        with pytest.raises(RpcError, match="failed on purpose"):
            rref.to_here()
        # A call of an op of fastdist is sent as another type of message than a call of `who`.
        rref = rpc.remote("w1", fastdist.add, (1, 2))
        with pytest.raises(RpcError, match=r"attempt of SCRIPT_REMOTE_CALL .* failed"):
            rref.to_here()
    else:
        with pytest.raises(RpcError, match="RPC ran for more than"):
            rpc.rpc_sync("w0", who, timeout=0.05)
    rpc.shutdown()


@pytest.mark.seed("T38")
def test_a_faulty_agent_fails_and_delays_what_it_is_told_to() -> None:
    run_group(calls_fail_and_are_late, 2)
