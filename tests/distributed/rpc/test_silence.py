"""A worker that lives but does not answer is told of, and is not taken for dead."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time

from fastdist.distributed import rpc
from fastdist.distributed.rpc import peer
from fastdist.distributed.rpc.peer_state import Patience
from tests.distributed.workers import run_group

told: list[tuple[str, str]] = []
was_told = threading.Event()


def note(worker: rpc.WorkerInfo, why: str) -> None:
    told.append((worker.name, why))
    was_told.set()


def hold_the_interpreter(seconds: float) -> None:
    """Keep all of this worker's Python from running, as a library does that never lets go."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def wait_for_a_stuck_worker() -> list[tuple[str, str]]:
    peer.BEAT_S = 0.2
    peer.Patience = functools.partial(Patience, unresponsive_s=1.0)  # type: ignore[assignment,misc]
    rpc.add_silence_hook(note)
    rpc.init_rpc(f"w{os.environ['RANK']}")
    if os.environ["RANK"] == "0":
        future = rpc.rpc_async("w1", hold_the_interpreter, (4.0,))
        assert was_told.wait(3.5)
        assert "its Python does not answer" in rpc._get_debug_info()["agent.peer.w1"]
        future.wait()
        deadline = time.monotonic() + 10
        while "connected" not in rpc._get_debug_info()["agent.peer.w1"]:
            assert time.monotonic() < deadline
    rpc.shutdown()
    return told


def test_a_worker_whose_python_is_stuck_is_told_of_and_its_call_ends_well() -> None:
    by_w0, by_w1 = run_group(wait_for_a_stuck_worker, 2)
    (name, why) = by_w0[0]
    assert name == "w1" and "its Python has not answered for 1 s" in why
    assert len(by_w0) == 1
    assert [entry for entry in by_w1 if "Python" in entry[1]] == []
