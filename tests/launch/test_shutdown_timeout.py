"""The time that workers have after a signal, for example to write a checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch.ending import CTRL_C_S, SHUTDOWN_S, grace_s
from fastdist.launch.options import parse_options
from tests.launch.test_nodes import job_at
from tests.standstill import freeze

# A signalled worker exits with 0 after SIGUSR1, which stands for a written checkpoint.
SAVES = """
    import os, signal, sys
    rank = int(os.environ["RANK"])
    def save(number, frame):
        print("asked", rank, "by", int(number))
        signal.sigwait([signal.SIGUSR1])
        print("saved", rank)
        sys.exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, save)
    print("pid of", rank, "is", os.getpid())
    while True:
        signal.pause()
"""
_IGNORES = """
    import os, signal
    signal.signal(signal.SIGTERM, lambda *_: print("asked", os.environ["RANK"]))
    print("pid of", os.environ["RANK"], "is", os.getpid())
    while True:
        signal.pause()
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("number", "status", "told"),
    [
        (signal.SIGTERM, 0, "stopped on request (SIGTERM): all workers have exited with status 0"),
        pytest.param(
            *(
                signal.SIGHUP,
                0,
                "stopped on request (SIGHUP): all workers have exited with status 0",
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(signal.SIGINT, 130, "ended by SIGINT", marks=pytest.mark.slow),
    ],
)
def test_workers_have_time_to_save_after_a_signal(
    start_run: Any, number: signal.Signals, status: int, told: str
) -> None:
    run = start_run(SAVES, "-n", "2")
    pids = [run.number_after(f"pid of {rank} is") for rank in (0, 1)]
    run.process.send_signal(number)
    for rank in (0, 1):
        run.wait_for(f"asked {rank} by {int(number)}\n")
    # The launcher prints this after one second. Without the option it would kill the workers then.
    run.wait_for(f"{number.name} came; waits for ranks 0-1 (pid {pids[0]}, {pids[1]})", of="err")
    os.kill(pids[0], signal.SIGUSR1)
    run.wait_for("saved 0\n")
    os.kill(pids[1], signal.SIGUSR1)
    assert run.end() == status
    assert run.out.count(b"asked") == run.out.count(b"saved") == 2
    assert run.err.endswith(f"python -m fastdist.run: {told}\n".encode())


@pytest.mark.one_in(7)
def test_the_others_have_time_to_save_after_a_worker_s_failure(start_run: Any) -> None:
    run = start_run(SAVES, "-n", "2")
    pids = [run.number_after(f"pid of {rank} is") for rank in (0, 1)]
    os.kill(pids[1], signal.SIGKILL)
    run.wait_for("asked 0 by 15\n")
    run.wait_for("; waits for rank 0 (pid", of="err")
    os.kill(pids[0], signal.SIGUSR1)
    assert run.end() == 137
    assert b"saved 0\n" in run.out
    assert b"rank 1 was killed by SIGKILL" in run.err.splitlines()[-1]


@pytest.mark.slow
def test_workers_have_time_to_save_before_they_start_again(start_run: Any) -> None:
    text = SAVES.replace("while True", 'while os.environ["FASTDIST_RESTART_COUNT"] == "0"')
    run = start_run(text, "-n", "2", "--max-restarts=1")
    pids = [run.number_after(f"pid of {rank} is") for rank in (0, 1)]
    os.kill(pids[1], signal.SIGKILL)
    run.wait_for("; waits for rank 0 (pid", of="err")
    os.kill(pids[0], signal.SIGUSR1)
    assert run.end() == 0
    assert b"saved 0\n" in run.out


@pytest.mark.one_in(7)
def test_a_worker_that_fails_to_save_is_reported_and_decides_the_status(start_run: Any) -> None:
    run = start_run(
        SAVES.replace('print("saved", rank)', 'rank and open("/no/such/folder")'), "-n2"
    )
    pids = [run.number_after(f"pid of {rank} is") for rank in (0, 1)]
    run.process.send_signal(signal.SIGTERM)
    for rank in (0, 1):
        run.wait_for(f"asked {rank} by")
        os.kill(pids[rank], signal.SIGUSR1)
    assert run.end() == 143
    later, *_, last = run.err.splitlines()[-3:]
    assert b"fastdist.run: later, rank 1 failed: FileNotFound" in later
    assert last.endswith(b"fastdist.run: ended by SIGTERM")


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(
    "second", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_second_signal_ends_at_once(start_run: Any, second: signal.Signals) -> None:
    run = start_run(_IGNORES)
    run.number_after("pid of 0 is")
    run.process.send_signal(signal.SIGTERM)
    run.wait_for("asked 0\n")
    run.process.send_signal(second)
    assert run.end(3.0) == 143
    assert b"killed rank 0 (pid " in run.err


@pytest.mark.one_in(7)
def test_a_signal_by_way_of_timeout_is_one_signal_though_it_comes_twice(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(SAVES))
    process = subprocess.Popen(
        ["timeout", "60", sys.executable, "-m", "fastdist.run", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        pid = int(process.stdout.readline().split()[-1])
        process.send_signal(signal.SIGTERM)
        assert "asked 0 by 15" in process.stdout.readline()
        # The launcher prints this after a second; by then the other signal has arrived.
        assert "SIGTERM came; waits for rank 0" in process.stderr.readline()
        os.kill(pid, signal.SIGUSR1)
        assert "saved 0" in process.stdout.readline()
        assert "stopped on request (SIGTERM)" in process.stderr.readline()


@pytest.mark.one_in(7)
def test_workers_that_stay_are_killed_when_the_time_is_over(start_run: Any) -> None:
    run = start_run(_IGNORES, "--shutdown-timeout=0.2")
    pid = run.number_after("pid of 0 is")
    run.process.send_signal(signal.SIGTERM)
    assert run.end(5.0) == 143
    told = f"killed rank 0 (pid {pid}), still running 0 s after SIGTERM\n"
    assert told in run.err.decode()


def test_the_launcher_s_signal_reaches_a_worker_and_not_what_it_started(start_run: Any) -> None:
    text = SAVES.replace(
        '    print("pid of"',
        """
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, b".")  # it has the worker's handler, and would save as well
        while True:
            signal.pause()
    os.read(reader, 1)
    print("pid of\"""",
    )
    run = start_run(text)
    pid = run.number_after("pid of 0 is")
    run.process.send_signal(signal.SIGTERM)
    run.wait_for("asked 0 by")
    os.kill(pid, signal.SIGUSR1)
    assert run.end() == 0
    assert run.out.count(b"asked") == 1


def test_a_stopped_worker_is_woken_to_save(start_run: Any) -> None:
    run = start_run(SAVES)
    pid = run.number_after("pid of 0 is")
    freeze(pid)
    run.process.send_signal(signal.SIGTERM)
    run.wait_for("asked 0 by")
    os.kill(pid, signal.SIGUSR1)
    assert run.end() == 0


@pytest.mark.one_in(7)
def test_a_call_to_a_failed_worker_ends_with_its_error_before_the_caller_is_asked_to_end(
    tmp_path: Path,
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, signal\n"
        "from fastdist.core.errors import WorkerLostError\n"
        "from fastdist.distributed import rpc\n"
        "rank = int(os.environ['RANK'])\n"
        "rpc.init_rpc(f'worker{rank}')\n"
        "try:\n"
        "    rank or rpc.rpc_sync('worker1', os.kill, (rpc.rpc_sync('worker1', os.getpid), 9))\n"
        "except WorkerLostError:\n"
        "    print('saved')\n"
        "    os._exit(0)\n"
        "signal.pause()\n"
    )
    # A busy machine may take long to detect the loss.
    launch = (
        "import sys, fastdist.launch.job as job, fastdist.run\n"
        "job.NOTICES_S = 20.0\n"
        "sys.exit(fastdist.run.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", launch, "-n", "2", str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 137
    assert done.stdout == "[rank 0] saved\n"


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("node", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_scheduler_s_signal_to_one_node_stops_both_and_lets_all_save(
    start_run: Any, port: int, node: int
) -> None:
    start = job_at(port, start_run)
    nodes = [start(number, SAVES) for number in (0, 1)]
    pids = [nodes[rank // 2].number_after(f"pid of {rank} is") for rank in range(3)]
    nodes[node].process.send_signal(signal.SIGTERM)
    # All workers get the signal at the same time, before one has ended.
    for rank in range(3):
        nodes[rank // 2].wait_for(f"asked {rank} by 15\n")
    for pid in pids:
        os.kill(pid, signal.SIGUSR1)
    assert [each.end() for each in nodes] == [0, 0]
    assert b"stopped on request (SIGTERM): all" in nodes[node].err
    told = f"stopped on request (node {node} (127.0.0.{node + 1}) ended: ended by SIGTERM): all"
    assert told.encode() in nodes[1 - node].err


@pytest.mark.slow
def test_a_node_that_was_stopped_says_so_where_another_s_workers_did_not_end_well(
    start_run: Any, port: int
) -> None:
    start = job_at(port, start_run)
    waits = "    import os, signal; print('pid of 2 is', os.getpid()); signal.pause()\n"
    nodes = [start(0, SAVES), start(1, waits)]
    pids = [nodes[0].number_after(f"pid of {rank} is") for rank in (0, 1)]
    nodes[1].number_after("pid of 2 is")
    nodes[0].process.send_signal(signal.SIGTERM)
    for rank, pid in enumerate(pids):
        nodes[0].wait_for(f"asked {rank} by 15\n")
        os.kill(pid, signal.SIGUSR1)
    assert [each.end() for each in nodes] == [143, 143]


@pytest.mark.slow
def test_workers_of_all_nodes_are_asked_as_soon_as_one_worker_has_failed(
    start_run: Any, port: int
) -> None:
    start = job_at(port, start_run)
    nodes = [start(number, SAVES) for number in (0, 1)]
    pids = [nodes[rank // 2].number_after(f"pid of {rank} is") for rank in range(3)]
    os.kill(pids[0], signal.SIGKILL)
    nodes[0].wait_for("asked 1 by 15\n")
    nodes[1].wait_for("asked 2 by 15\n")
    for pid in pids[1:]:
        os.kill(pid, signal.SIGUSR1)
    assert [each.end() for each in nodes] == [137, 137]
    assert nodes[1].err.count(b"node 0 (127.0.0.1) ended: rank 0 was killed by SIGKILL") >= 1
    assert b"later, " not in nodes[1].err


_LEAVES_IN_HANDLER = """
    import os, signal, sys, threading
    from fastdist.distributed import rpc
    rank = int(os.environ["RANK"])
    def leave(number, frame):
        rpc.shutdown()
        print("left")
        sys.exit(0)
    def serve():
        print("serves")
        threading.Event().wait()
    rank or signal.signal(signal.SIGTERM, leave)
    rpc.init_rpc(f"worker{rank}")
    rank or rpc.rpc_sync("worker1", serve)
    signal.pause()
"""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("flags", [[], ["--max-restarts=1", "--restart=worker"]])
def test_a_handler_that_leaves_rpc_in_the_middle_of_a_call_does_not_wait_for_lost_workers(
    start_run: Any, flags: list[str]
) -> None:
    # The signal kills the other worker, so its answer never arrives, and no new worker starts.
    run = start_run(_LEAVES_IN_HANDLER, "-n", "2", *flags)
    run.wait_for("serves\n")
    run.process.send_signal(signal.SIGTERM)
    assert run.end(10.0) == 143
    assert b"[rank 0] left\n" in run.out


@pytest.mark.parametrize(
    ("flags", "variable", "expected"),
    [
        ([], None, None),
        (["--shutdown-timeout", "40"], None, 40.0),
        (["--shutdown_timeout=0"], "7", 0.0),
        ([], "2.5", 2.5),
        ([], "", None),
    ],
)
def test_the_time_is_given_by_an_option_or_a_variable(
    flags: list[str],
    variable: str | None,
    expected: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable is not None:
        monkeypatch.setenv("FASTDIST_SHUTDOWN_TIMEOUT", variable)
    assert parse_options([*flags, __file__]).shutdown_timeout_s == expected


@pytest.mark.parametrize("given", ["-1", "soon", "nan", "inf", ""])
def test_what_is_no_time_is_an_error(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options([f"--shutdown-timeout={given}", __file__])
    err = capsys.readouterr().err
    assert f"--shutdown-timeout is {given!r}; expected seconds, such as 25 (0: kill at" in err


def test_a_variable_that_is_no_time_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FASTDIST_SHUTDOWN_TIMEOUT", "soon")
    with pytest.raises(SystemExit):
        parse_options([__file__])
    assert "FASTDIST_SHUTDOWN_TIMEOUT is 'soon'; expected seconds" in capsys.readouterr().err


def test_a_given_time_is_that_of_every_end_and_ctrl_c_has_less_by_default() -> None:
    assert {grace_s(number, 7.0) for number in (signal.SIGINT, signal.SIGTERM)} == {7.0}
    assert SHUTDOWN_S == 25.0 and grace_s(signal.SIGTERM, None) == grace_s(signal.SIGHUP, None)
    assert SHUTDOWN_S < grace_s(signal.SIGTERM, None) < SHUTDOWN_S + 2.0
    assert grace_s(signal.SIGINT, None) == CTRL_C_S == 5.0


def test_workers_find_the_given_time_in_their_environment(
    start_run: Callable[..., Any],
) -> None:
    text = "import os; print(os.environ.get('FASTDIST_SHUTDOWN_TIMEOUT'))"
    run = start_run(text, "--shutdown-timeout=40")
    assert run.end() == 0
    assert run.out == b"[rank 0] 40\n"
