"""`fastdist run` as users see it: output, failures, Ctrl-C, and leftovers."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch import main as launch_main
from fastdist.launch.worker_process import WorkerProcess
from tests.standstill import freeze

_PIDS = """
    import os, signal
    print("pid of", os.environ["RANK"], "is", os.getpid())
    signal.pause()
"""


@pytest.mark.one_in(7)
def test_each_worker_is_told_its_place(start_run: Any) -> None:
    run = start_run(
        """
        import os
        names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR FASTDIST_STORE_HOSTED"
        print(*[os.environ[name] for name in names.split()], os.environ["FASTDIST_ADDRESS"])
        assert os.environ["TORCHELASTIC_RUN_ID"] == "none"
        assert 0 < int(os.environ["MASTER_PORT"]) < 65536
        """,
        "-n",
        "2",
    )
    assert run.end() == 0
    assert sorted(run.out.decode().splitlines()) == [
        "[rank 0] 0 2 0 2 127.0.0.1 1 127.0.0.1",
        "[rank 1] 1 2 1 2 127.0.0.1 1 127.0.0.1",
    ]


def test_what_another_launcher_said_of_its_own_job_is_not_said_of_this_one(start_run: Any) -> None:
    outer = {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "3",
        "FASTDIST_RESTART_COUNT": "2",
        "FASTDIST_ALLOW_RESTART": "worker",
    }
    text = """
    from fastdist.distributed.rendezvous import from_env, rendezvous
    rendezvous("env://").store.close()
    print(from_env().incarnation)
    """
    run = start_run(text, environment=outer)
    assert run.end() == 0
    assert run.out == b"[rank 0] 0\n"


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize(
    ("flags", "address"), [([], "127.0.0.2"), (["--local-addr=127.0.0.3"], "127.0.0.3")]
)
def test_workers_listen_at_the_address_in_the_environment_unless_an_option_gives_one(
    start_run: Any, flags: list[str], address: str
) -> None:
    text = 'import os; print(os.environ["FASTDIST_ADDRESS"], os.environ["MASTER_ADDR"])'
    run = start_run(text, *flags, environment={"FASTDIST_ADDRESS": "127.0.0.2"})
    assert run.end() == 0
    assert run.out.decode() == f"[rank 0] {address} 127.0.0.1\n"


def test_the_secret_is_a_private_file_that_goes_with_the_job(start_run: Any) -> None:
    run = start_run(
        """
        import os, stat
        path = os.environ["FASTDIST_JOB_SECRET_FILE"]
        print("mode", oct(stat.S_IMODE(os.stat(path).st_mode)))
        print("bytes", len(bytes.fromhex(open(path).read().strip())))
        print("path", path)
        assert "FASTDIST_JOB_SECRET" not in os.environ
        """
    )
    assert run.end() == 0
    out = run.out.decode()
    assert "mode 0o600" in out
    assert "bytes 32" in out
    assert not os.path.exists(out.split("path ")[1].strip())


@pytest.mark.one_in(7)
def test_a_module_and_its_arguments_are_passed_on(run_command: Any) -> None:
    run = run_command("-m", "timeit", "-n", "1", "-r", "1", "print('called')")
    assert run.end() == 0
    assert b"[rank 0] called\n" in run.out


def test_a_bar_is_drawn_on_a_terminal_of_the_width_that_workers_are_told(
    start_run: Any, tmp_path: Path
) -> None:
    run = start_run(
        """
        import os, sys
        width = int(os.environ["FASTDIST_TERMINAL_WIDTH"])
        print("told", width, os.environ["COLUMNS"])
        sys.stdout.write("=" * 100 + "\\r")
        print("done")
        """,
        columns=40,
    )
    assert run.end() == 0
    assert b"[rank 0] told 40 40\r\n" in run.out
    bar = b"\r\x1b[K" + b"=" * 39
    assert bar in run.out
    assert run.out.endswith(b"[rank 0] done\r\n" + b"=" * 39 + b"\r\x1b[K")


def test_workers_are_not_told_a_width_where_there_is_no_terminal(start_run: Any) -> None:
    run = start_run('import os; print("FASTDIST_TERMINAL_WIDTH" in os.environ)')
    assert run.end() == 0
    assert run.out == b"[rank 0] False\n"


@pytest.mark.one_in(7)
def test_unicode_and_long_lines_come_through_whole(start_run: Any) -> None:
    run = start_run('print("ü✓" * 300_000); print("end")')
    assert run.end() == 0
    assert run.out.decode() == "[rank 0] " + "ü✓" * 300_000 + "\n[rank 0] end\n"


def test_a_worker_may_close_its_stdout(start_run: Any) -> None:
    run = start_run(
        """
        import os, sys
        print("before", flush=True)
        os.close(1)
        print("still here", file=sys.stderr)
        sys.stdout = None
        """,
        starts_workers=True,
    )
    assert run.end() == 0
    assert run.out == b"[rank 0] before\n"
    assert run.err == b"[rank 0] still here\n"


@pytest.mark.one_in(7)
def test_the_first_failure_ends_the_job_with_its_traceback_once(start_run: Any) -> None:
    run = start_run(
        """
        import os, signal
        if os.environ["RANK"] == "1":
            try:
                raise ValueError("too small")
            except ValueError as error:
                raise RuntimeError("no good") from error
        signal.pause()
        """,
        "-n",
        "3",
    )
    assert run.end() == 1
    err = run.err.decode()
    assert err.count("ValueError: too small") == 1
    assert err.count("RuntimeError: no good") == 1
    assert "python -m fastdist.run: rank 1 failed with exit status 1 (pid " in err
    assert err.rstrip().endswith("RuntimeError: no good")


def test_a_traceback_behind_a_bar_of_a_worker_is_told_whole_at_the_end(start_run: Any) -> None:
    run = start_run(
        """
        import sys
        sys.stderr.write("\\r 10 %|#         |")
        raise ValueError("no")
        """
    )
    assert run.end() == 1
    bar, _, traceback, *_, last = run.err.decode().splitlines()
    assert (bar, last) == ("[rank 0]  10 %|#         |", "ValueError: no")
    assert traceback == "Traceback (most recent call last):"


@pytest.mark.one_in(7)
def test_a_script_that_cannot_be_read_by_python_is_shown_once(start_run: Any) -> None:
    run = start_run("print(1", "-n", "3")
    assert run.end() == 1
    assert run.err.decode().count("SyntaxError: '(' was never closed") == 1
    assert "failed with exit status 1 (pid " in run.err.decode()


def test_the_exit_status_is_the_first_failures(start_run: Any) -> None:
    run = start_run("import sys; sys.exit(7)")
    assert run.end() == 7


def test_a_traceback_of_a_worker_that_lives_on_is_shown(start_run: Any) -> None:
    run = start_run(
        """
        import signal, traceback
        try:
            raise ValueError("caught")
        except ValueError:
            traceback.print_exc()
        signal.pause()
        """
    )
    run.wait_for("[rank 0] ValueError: caught\n", of="err")


@pytest.mark.one_in(7)
def test_a_killed_worker_ends_the_job_within_five_seconds_and_is_named(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    run = start_run(_PIDS, "-n", "3")
    pids = [run.number_after(f"pid of {rank} is") for rank in range(3)]
    others = [watch(pids[0]), watch(pids[2])]
    os.kill(pids[1], signal.SIGKILL)
    assert run.end(5.0) == 128 + signal.SIGKILL
    assert "rank 1 was killed by SIGKILL" in run.err.decode()
    assert f"(pid {pids[1]})" in run.err.decode()
    assert all(other.ends_within(0.0) for other in others)


@pytest.mark.one_in(7)
def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    run = start_run(
        """
        import os, signal
        if os.environ["RANK"] == "0":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("pid of", os.environ["RANK"], "is", os.getpid())
        while True:
            signal.pause()
        """,
        "-n",
        "2",
        "--shutdown-timeout=1",
    )
    stubborn, other = (run.number_after(f"pid of {rank} is") for rank in (0, 1))
    watched = watch(stubborn)
    os.kill(other, signal.SIGKILL)
    assert run.end(5.0) == 128 + signal.SIGKILL
    assert watched.ends_within(0.0)


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ending_signal_ends_all_within_two_seconds_and_leaves_nothing(
    start_run: Any, watch: Callable[[int], Any], number: signal.Signals, private: Path
) -> None:
    run = start_run(
        """
        import os, signal, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        open(os.environ["FASTDIST_RUNTIME_DIR"] + "/left", "w").close()
        print("child of", os.environ["RANK"], "is", child.pid)
        print("pid of", os.environ["RANK"], "is", os.getpid())
        child.wait()
        """,
        "-n",
        "2",
        environment={"XDG_RUNTIME_DIR": str(private)},
    )
    pids = [
        run.number_after(f"{what} of {rank} is") for what in ("pid", "child") for rank in (0, 1)
    ]
    left = [watch(pid) for pid in pids]
    assert len(list(private.glob("fastdist-*/left"))) == 1
    run.process.send_signal(number)
    assert run.end(2.0) == 128 + number
    assert all(process.ends_within(0.5) for process in left)
    assert b"Traceback" not in run.err
    assert f"ended by {number.name}" in run.err.decode()
    assert list(private.glob("fastdist-*")) == []


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_what_a_scheduler_says_to_the_job_reaches_the_workers_programs_alone(
    start_run: Any, number: signal.Signals
) -> None:
    run = start_run(
        f"""
        import os, signal, subprocess, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}])
        # As a DataLoader's worker it does not expect the signal, and would end by it.
        wait = "import signal, sys; signal.pthread_sigmask(signal.SIG_UNBLOCK, [{int(number)}]);"
        child = subprocess.Popen(
            [sys.executable, "-c", wait + "print(end='.', flush=True); sys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        child.stdout.read(1)
        print("pid of", os.environ["RANK"], "is", os.getpid())
        print("heard", signal.sigwait([{int(number)}]))
        child.stdin.close()
        print("its child ended with", child.wait())
        """,
        "-n",
        "2",
    )
    for rank in (0, 1):
        run.number_after(f"pid of {rank} is")
    run.process.send_signal(number)
    assert run.end(5.0) == 0
    for rank in (0, 1):
        assert f"[rank {rank}] heard {int(number)}\n" in run.out.decode()
        assert f"[rank {rank}] its child ended with 0\n" in run.out.decode()


@pytest.mark.one_in(7)
def test_a_ctrl_z_suspends_the_workers_until_the_job_goes_on(start_run: Any) -> None:
    run = start_run(
        """
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        print("pid of", os.environ["RANK"], "is", os.getpid())
        signal.sigwait([signal.SIGUSR1])
        """,
        "-n",
        "2",
        is_child=True,
    )
    pids = [run.number_after(f"pid of {rank} is") for rank in (0, 1)]
    run.process.send_signal(signal.SIGTSTP)
    os.waitid(os.P_PID, run.process.pid, os.WSTOPPED)
    for pid in pids:
        until = time.monotonic() + 5.0
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < until, f"worker {pid} runs on"
        os.kill(pid, signal.SIGUSR1)  # the worker waits for this signal
    run.process.send_signal(signal.SIGCONT)
    assert run.end(5.0) == 0


def test_socket_files_of_a_killed_worker_go_with_the_job(start_run: Any) -> None:
    run = start_run(
        """
        import os, signal
        from fastdist.distributed.sockets import ipc_endpoint
        path = ipc_endpoint("router").removeprefix("ipc://")
        open(path, "w").close()
        print("path", path)
        print("pid is", os.getpid())
        signal.pause()
        """
    )
    os.kill(run.number_after("pid is"), signal.SIGKILL)
    path = run.out.decode().split("path ")[1].split()[0]
    assert os.path.exists(path)
    assert run.end(5.0) == 128 + signal.SIGKILL
    assert not os.path.exists(path)


def test_a_frozen_worker_does_not_hold_up_a_ctrl_c(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    run = start_run(_PIDS)
    pid = run.number_after("pid of 0 is")
    frozen = watch(pid)
    freeze(pid)
    run.process.send_signal(signal.SIGINT)
    assert run.end(2.0) == 130
    assert frozen.ends_within(0.0)


def test_workers_die_with_their_launcher(
    start_run: Any, watch: Callable[[int], Any], private: Path
) -> None:
    environment = {"XDG_RUNTIME_DIR": str(private)}
    run = start_run(_PIDS, "-n", "2", environment=environment, starts_workers=True)
    workers = [watch(run.number_after(f"pid of {rank} is")) for rank in range(2)]
    pid = run.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    family = [watch(int(child)) for child in children]
    assert len(family) == 3  # the workers and their watcher
    assert list(private.glob("fastdist-*"))
    run.process.kill()
    assert all(process.ends_within(5.0) for process in workers + family)
    assert list(private.glob("fastdist-*")) == []


def test_a_reader_that_is_stuck_does_not_hold_up_a_ctrl_c(start_run: Any) -> None:
    run = start_run('print("first", flush=True)\nwhile True: print("x" * 1000)')
    run.wait_for("first")
    run.process.send_signal(signal.SIGINT)
    # Nothing reads the pipes any more, and both are full.
    assert run.process.wait(3.0) == 130


@pytest.mark.one_in(7)
def test_a_reader_that_leaves_ends_the_job(start_run: Any, watch: Callable[[int], Any]) -> None:
    run = start_run('print("first")\nwhile True: print("x" * 1000)')
    run.wait_for("first")
    run.close_stdout()
    assert run.end(5.0) == 128 + signal.SIGPIPE


def test_a_worker_that_cannot_be_started_ends_those_that_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class OneProcess(WorkerProcess):
        def __init__(self, rank: int, command: Sequence[str], environment: Any) -> None:
            if rank == 1:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
            super().__init__(rank, command, environment)

    script = tmp_path / "waits.py"
    script.write_text("import signal; signal.pause()")
    monkeypatch.setattr(launch_main, "WorkerProcess", OneProcess)
    assert launch_main.main(["-n", "3", "--max-restarts=2", str(script)]) == 1
    told = "fastdist run: rank 1 could not be started: [Errno 11] Resource temporarily unavailable"
    err = capfd.readouterr().err
    assert err.startswith(told)
    assert "again" not in err
