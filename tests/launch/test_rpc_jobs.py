"""Jobs started by `fastdist run` whose workers call each other."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

_JOB = """
    import os
    from fastdist.distributed import rpc

    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    print("pid of", rank, "is", os.getpid())
    calls = 0
    while rank == 0 and calls != CALLS:
        assert rpc.rpc_sync("worker2", divmod, args=(7, 2)) == (3, 1)
        calls += 1
    rpc.shutdown()
    print("done")
"""
_SHORT = _JOB.replace("CALLS", "10")
ENDLESS = _JOB.replace("CALLS", "-1")


@pytest.mark.one_in(7)
def test_three_workers_meet_and_call(start_run: Any) -> None:
    run = start_run(_SHORT, "-n", "3", starts_workers=True)
    assert run.end() == 0, run.err
    assert run.out.count(b"done") == 3


@pytest.mark.one_in(7)
def test_who_waits_says_for_whom(start_run: Any) -> None:
    wait = """
    from fastdist.distributed.store import wait_log
    wait_log._FIRST_S = 0.2
    if rank != 0:
        print("before", rank, "comes, it is", os.getpid())
        signal.sigwait([signal.SIGUSR1])
    """
    text = _SHORT.replace("    rpc.init_rpc", wait + "rpc.init_rpc", 1)
    text = text.replace(
        "import os",
        "import os, signal\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
        1,
    )
    run = start_run(text, "-n", "3")
    one, two = [run.number_after(f"before {rank} comes, it is") for rank in (1, 2)]
    run.wait_for("[rank 0] fastdist: 'worker0' (rank 0) waits for ranks 1-2 of 3 (", of="err")
    os.kill(two, signal.SIGUSR1)
    run.wait_for("[rank 0] fastdist: 'worker0' (rank 0) waits for rank 1 of 3 (", of="err")
    os.kill(one, signal.SIGUSR1)
    assert run.end() == 0
    assert b"[rank 0] fastdist: 'worker0' (rank 0) goes on after " in run.err
    assert b"[rank 2] fastdist" not in run.err


@pytest.mark.one_in(7)
def test_a_killed_worker_is_named_and_ends_the_job(start_run: Any) -> None:
    run = start_run(ENDLESS, "-n", "3")
    pids = [run.number_after(f"pid of {rank} is") for rank in range(3)]
    os.kill(pids[2], signal.SIGKILL)
    assert run.end(5.0) == 128 + signal.SIGKILL
    assert b"rank 2 was killed by SIGKILL" in run.err


EARLY = """
    import os, sys
    if os.environ["RANK"] == "RANK_THAT_ENDS":
        sys.exit()
    from fastdist.distributed import rpc
    from fastdist.distributed.rpc.workers import joining
    joining.TELL_S = 0.1
    rpc.init_rpc("worker" + os.environ["RANK"])
"""


@pytest.mark.one_in(7)
def test_who_waits_for_a_worker_that_has_ended_is_told_at_once(start_run: Any) -> None:
    run = start_run(EARLY.replace("RANK_THAT_ENDS", "1"), "-n", "2")
    assert run.end() == 1
    assert b"rank 1 of 2 ended without joining" in run.err
