"""`fastdist run --max-restarts` on one node: restart all workers, or only the lost one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

WORKER = """
    import os, signal, sys
    rank, count = int(os.environ["RANK"]), int(os.environ["FASTDIST_RESTART_COUNT"])
    print(f"start {count} of {rank} is", os.getpid())
"""
_WAITS = WORKER + "    signal.pause()\n"
AGAIN = "python -m fastdist.run: all workers are started again (restart {} of {})\n"


def _pids(run: Any, count: int, ranks: int) -> list[int]:
    """Wait until all workers have started for the nth time, and return their pids."""
    return [run.number_after(f"start {count} of {rank} is") for rank in range(ranks)]


@pytest.mark.one_in(7)
def test_all_workers_start_again_at_their_places_until_none_fails(start_run: Any) -> None:
    text = """
    names = "WORLD_SIZE LOCAL_RANK TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS"
    if rank == 1 and count < 2:
        sys.exit(7)  # perhaps while the others are still being started
    if count == 2:
        print(*[os.environ[name] for name in names.split()])
        assert "FASTDIST_ALLOW_RESTART" not in os.environ
    """
    run = start_run(WORKER + text, "-n", "3", "--max-restarts", "3")
    assert run.end() == 0
    lines = [line for line in run.out.decode().splitlines() if "start" not in line]
    assert sorted(lines) == [f"[rank {rank}] 3 {rank} 2 3" for rank in range(3)]
    err = run.err.decode()
    assert err.count("rank 1 failed with exit status 7 (pid ") == 2
    assert AGAIN.format(1, 3) in err and AGAIN.format(2, 3) in err
    assert AGAIN.format(3, 3) not in err


def test_each_failure_is_told_and_the_last_one_s_status_is_the_job_s(start_run: Any) -> None:
    text = WORKER + '    raise SystemExit(10 + count) if count else ValueError("first")\n'
    run = start_run(text, "--max-restarts=2")
    assert run.end() == 12
    lines = [line for line in run.err.decode().splitlines() if not line.startswith("  ")]
    told = [
        "python -m fastdist.run: rank 0 failed with exit status 1 (pid ",
        "Traceback (most recent call last):",
        "ValueError: first",
        AGAIN.format(1, 2).strip(),
        "python -m fastdist.run: rank 0 failed with exit status 11 (pid ",
        AGAIN.format(2, 2).strip(),
        "python -m fastdist.run: rank 0 failed with exit status 12 (pid ",
    ]
    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told))


@pytest.mark.one_in(7)
def test_a_worker_that_is_killed_twice_takes_its_group_along_each_time(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    run = start_run(WORKER + "    count == 2 or signal.pause()\n", "-n", "3", "--max-restarts=2")
    for count, victim in ((0, 0), (1, 2)):
        pids = _pids(run, count, 3)
        left = [watch(pid) for pid in pids]
        os.kill(pids[victim], signal.SIGKILL)
        assert all(worker.ends_within(5.0) for worker in left)
    assert run.end() == 0
    assert b"rank 0 was killed by SIGKILL" in run.err
    assert b"rank 2 was killed by SIGKILL" in run.err


@pytest.mark.one_in(4)
@pytest.mark.parametrize("url", ["env://", "tcp://{MASTER_ADDR}:{MASTER_PORT}"])
def test_a_group_that_starts_again_meets_as_if_nobody_had_been_there(
    start_run: Any, url: str
) -> None:
    # In the first round rank 1 exits with 0 before it joins; in the second, rank 2 dies after all
    # joined.
    text = f"""
    from fastdist.distributed import rpc
    options = rpc.TensorPipeRpcBackendOptions(init_method={url!r}.format(**os.environ))
    if count == 0 and rank == 1:
        sys.exit()
    rpc.init_rpc(f"worker{{rank}}", rank=rank, world_size=3, rpc_backend_options=options)
    if count == 1 and rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    assert rpc.rpc_sync("worker1", pow, (2, 3)) == 8
    rpc.shutdown()
    """
    run = start_run(WORKER + text, "-n", "3", "--max-restarts=2")
    assert run.end(60.0) == 0
    assert b"rank 1 of 3 ended without joining" in run.err
    assert b"rank 2 was killed by SIGKILL" in run.err


def test_what_is_left_of_an_earlier_round_neither_joins_nor_is_seen(start_run: Any) -> None:
    # A process that rank 0 starts outlives its round; it has the address and keys of that round.
    text = """
    import subprocess
    from fastdist.distributed.rendezvous import rendezvous
    store = rendezvous("env://").store
    stray = "from fastdist.distributed.rendezvous import rendezvous; "
    stray += "s = rendezvous('env://').store; s.set('stray', ''); s.wait(['stop'], 60)"
    if count == 0:
        subprocess.Popen([sys.executable, "-c", stray], start_new_session=True)
        store.wait(["stray"], 20)
        sys.exit(3)
    print("sees", store.check(["stray"]))
    """
    run = start_run(WORKER + text, "--max-restarts=1")
    run.wait_for("[rank 0] sees False")
    assert run.end() == 0


@pytest.mark.one_in(7)
def test_a_ctrl_c_in_a_later_round_ends_all(start_run: Any, watch: Callable[[int], Any]) -> None:
    run = start_run(_WAITS, "-n", "2", "--max-restarts=5")
    os.kill(_pids(run, 0, 2)[1], signal.SIGKILL)
    left = [watch(pid) for pid in _pids(run, 1, 2)]
    run.process.send_signal(signal.SIGINT)
    assert run.end(2.0) == 130
    assert all(worker.ends_within(0.0) for worker in left)
    assert b"ended by SIGINT" in run.err


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(("most", "status"), [(5, 130), (0, 137)])
def test_a_ctrl_c_while_a_failed_group_ends_lets_no_other_round_begin(
    start_run: Any, watch: Callable[[int], Any], most: int, status: int
) -> None:
    text = """
    signal.signal(signal.SIGTERM, lambda *_: print("is asked to end"))
    print("ready", rank)
    while True:
        signal.pause()
    """
    run = start_run(WORKER + text, "-n", "2", f"--max-restarts={most}")
    pids = _pids(run, 0, 2)
    run.wait_for("ready 0"), run.wait_for("ready 1")
    os.kill(pids[1], signal.SIGKILL)
    run.wait_for("[rank 0] is asked to end")
    run.process.send_signal(signal.SIGINT)
    assert run.end(2.0) == status
    assert b"start 1" not in run.out
    assert b"rank 1 was killed by SIGKILL" in run.err
    assert run.err.endswith(b"ended by SIGINT\n") == (most > 0)


def test_a_signal_that_is_passed_on_reaches_the_workers_of_a_later_round(start_run: Any) -> None:
    text = """
    import signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    print("ready", count)
    count or sys.exit(1)
    print("heard", signal.sigwait([signal.SIGUSR1]))
    """
    run = start_run(WORKER + text, "--max-restarts=1")
    run.wait_for("[rank 0] ready 1\n")
    run.process.send_signal(signal.SIGUSR1)
    assert run.end() == 0
    assert f"[rank 0] heard {int(signal.SIGUSR1)}\n".encode() in run.out


@pytest.mark.one_in(7)
def test_who_has_lost_its_terminal_is_not_started_again(start_run: Any) -> None:
    run = start_run(WORKER + "    while True: print(count)\n", "--max-restarts=3")
    run.wait_for("[rank 0] 0")
    run.close_stdout()
    assert run.end(5.0) == 128 + signal.SIGPIPE
    assert b"again" not in run.err
