"""`fastdist run` in poor surroundings: no stdout, a full disk, no place for files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.launch import main as launch_main
from tests.launch import forked_programs


def _run_in_shell(redirection: str, script: Path, text: str) -> subprocess.CompletedProcess[str]:
    script.write_text(text)
    return subprocess.run(
        [
            "sh",
            "-c",
            f'exec "$@" {redirection}',
            "sh",
            sys.executable,
            "-m",
            "fastdist.run",
            script,
        ],
        env={**os.environ, "PYTHONPATH": str(Path(fastdist.__file__).parents[1])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20.0,
        check=False,
    )


@pytest.mark.one_in(7)
def test_a_full_disk_behind_stdout_ends_the_job_and_is_told(tmp_path: Path) -> None:
    text = 'print("lost")\nimport signal; signal.pause()'
    done = _run_in_shell(">/dev/full", tmp_path / "prints.py", text)
    assert done.returncode == 1
    told = "python -m fastdist.run: the output could not be written: No space left on device\n"
    assert done.stderr == told


_PRINTS = 'import sys; print("out"); print("err", file=sys.stderr)'


@pytest.mark.one_in(7)
def test_nothing_takes_the_place_of_a_stdout_that_a_shell_has_closed(tmp_path: Path) -> None:
    done = _run_in_shell("<&- >&-", tmp_path / "prints.py", _PRINTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "[rank 0] err\n")


# Close the launcher's streams in its own process before it runs, as `>&-` does in a shell.
_CLOSED = """
import os, runpy, sys
names = ("stdin", "stdout", "stderr")
for number in {}:
    os.close(number)
    setattr(sys, names[number], None)
runpy.run_module("fastdist.run", run_name="__main__", alter_sys=True)
"""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("closed", [(1,), (0, 1), (2,), (0, 1, 2)])
def test_nothing_takes_the_place_of_a_closed_stdout(
    tmp_path: Path, closed: tuple[int, ...]
) -> None:
    (tmp_path / "prints.py").write_text(_PRINTS)
    done = forked_programs.run(["-c", _CLOSED.format(closed), "prints.py"], tmp_path)
    assert done.returncode == 0
    assert done.stdout == ("" if 1 in closed else "[rank 0] out\n")
    assert done.stderr == ("" if 2 in closed else "[rank 0] err\n")


@pytest.mark.one_in(7)
def test_a_terminal_that_is_closed_ends_the_job_as_its_signal_does(
    start_run: Any, watch: Callable[[int], Any]
) -> None:
    run = start_run(
        """
        import itertools, os, threading
        print("pid is", os.getpid())
        for i in itertools.count():
            print(i, end="\\r")
            threading.Event().wait(0.001)
        """,
        columns=80,
    )
    worker = watch(run.number_after("pid is"))
    run.close_stdout()  # no SIGHUP: this is not the launcher's controlling terminal
    assert run.end(5.0) == 128 + signal.SIGPIPE
    assert worker.ends_within(0.5)
    assert run.err == b""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("variable", ["TMPDIR", "XDG_RUNTIME_DIR"])
def test_a_long_path_for_temporary_files_leaves_room_for_sockets(
    start_run: Any, tmp_path: Path, variable: str
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    run = start_run(
        """
        from fastdist.distributed.sockets import ipc_endpoint
        print(ipc_endpoint("router"))
        """,
        environment={"XDG_RUNTIME_DIR": "", variable: str(long)},
    )
    assert run.end() == 0
    assert b"[rank 0] ipc:///tmp/fastdist-" in run.out


def test_no_place_for_temporary_files_is_an_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "empty.py"
    script.touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setattr(tempfile, "mkdtemp", _refuse)
    assert launch_main.main([str(script)]) == 2
    told = "fastdist run: no folder for the job's secret and sockets: Read-only file system: set "
    assert capsys.readouterr().err.startswith(told)


def test_no_process_left_for_the_watcher_is_an_error_before_anything_starts(
    tmp_path: Path,
    private: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(folder: str) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    script = tmp_path / "empty.py"
    script.touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private))
    monkeypatch.setattr(launch_main, "Guard", refuse)
    assert launch_main.main([str(script)]) == 2
    told = "fastdist run: the job's watcher could not be started: [Errno 11] Resource temporarily"
    assert capsys.readouterr().err.startswith(told)
    assert list(private.iterdir()) == []


def _refuse(*arguments: Any, **settings: Any) -> str:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("command", ["fastdist", "fastdist.cli", "fastdist.run"])
def test_a_ctrl_c_while_the_command_is_loaded_ends_it_without_words(
    command: str, tmp_path: Path
) -> None:
    # A fake numpy that never finishes, so that the signal arrives in the middle of the imports.
    (tmp_path / "numpy.py").write_text(
        "import signal, sys; print('loading', flush=True); signal.pause()"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(fastdist.__file__).parents[1])])
    process = subprocess.Popen(
        [sys.executable, "-m", command, "-n", "2", "-m", "this"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdout.readline() == b"loading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20.0)
    assert process.returncode == -signal.SIGINT
    assert errors == b""


@pytest.mark.one_in(7)
def test_a_program_that_imports_the_package_keeps_its_ctrl_c() -> None:
    text = "import signal, fastdist; print(signal.getsignal(signal.SIGINT))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": str(Path(fastdist.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=20.0,
        check=True,
    )
    assert "default_int_handler" in done.stdout
