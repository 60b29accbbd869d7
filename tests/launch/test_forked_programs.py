"""A forked program has `python`'s output and exit code; workers belong to their launcher."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.launch import forked_programs
from tests.launch.forked_programs import Piped


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "status", "out", "err"),
    [
        ("import sys; print(sys.argv, __name__)", 0, "['-c', 'more'] __main__\n", ""),
        ("raise SystemExit(3)", 3, "", ""),
        ("raise SystemExit('why')", 1, "", "why\n"),
        ("import atexit; atexit.register(print, 'at exit'); 1 / 0", 1, "at exit\n", "by zero\n"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "", "KeyboardInterrupt\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, "", ""),
    ],
)
def test_a_program_ends_as_python_does(
    text: str, status: int, out: str, err: str, tmp_path: Path
) -> None:
    done = forked_programs.run(["-c", text, "more"], tmp_path)
    assert (done.returncode, done.stdout) == (status, out)
    assert done.stderr.endswith(err) and bool(done.stderr) == bool(err)


def test_a_script_finds_what_is_beside_it_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import os\nHERE = os.getcwd()\n")
    (tmp_path / "script.py").write_text("import beside, sys\nprint(beside.HERE, sys.argv)\n")
    done = forked_programs.run(["script.py", "7"], tmp_path)
    assert done.stdout == f"{tmp_path} ['script.py', '7']\n", done.stderr


def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    text = (
        "import os, threading; open('pid', 'w').write(str(os.getpid())); threading.Event().wait()"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        forked_programs.run(["-c", text], tmp_path, timeout_s=1.0)
    path = tmp_path / "pid"
    assert not path.exists() or not Path(f"/proc/{path.read_text()}").exists()


@pytest.mark.one_in(7)
def test_workers_are_children_of_their_launcher_and_lead_their_groups(tmp_path: Path) -> None:
    text = "import os, threading; print(os.getppid(), os.getpgrp(), flush=True); "
    (tmp_path / "wait.py").write_text(text + "threading.Event().wait()")
    job = Piped(["-m", "fastdist.run", "-n", "2", "wait.py"], tmp_path)
    try:
        lines = sorted(job.stdout.readline() for _ in range(2))
        workers = job.workers()
        assert lines == [f"[rank {rank}] {job.pid} {pid}\n" for rank, pid in workers.items()]
        os.kill(workers[1], signal.SIGKILL)
        _, errors = job.communicate(timeout=60)
        assert job.returncode == 128 + signal.SIGKILL
        assert "rank 1 was killed by SIGKILL" in errors
    finally:
        job.close()
