"""The output of workers in files of `fastdist run --log-dir`, `--redirects` and `--tee`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch.log_files import LogFile, log_options
from tests.launch.test_restarts import WORKER

_BOTH = """
    import os, sys
    print("out of", os.environ["RANK"])
    print("err of", os.environ["RANK"], file=sys.stderr)
"""
_OUT, _ERR = "stdout.log", "stderr.log"


def _logs(folder: Path) -> dict[str, str]:
    """Return the text of each log of the only run in a folder."""
    (run,) = folder.iterdir()
    return {str(path.relative_to(run)): path.read_text() for path in run.rglob("*.log")}


def test_each_stream_of_each_worker_has_a_file_and_is_shown_all_the_same(
    start_run: Any, tmp_path: Path
) -> None:
    run = start_run(_BOTH, "-n", "2", f"--log-dir={tmp_path}/new/logs")
    assert run.end() == 0
    assert _logs(tmp_path / "new" / "logs") == {
        f"attempt_0/{rank}/{name}": f"{name[3:6]} of {rank}\n"
        for rank in (0, 1)
        for name in (_OUT, _ERR)
    }
    assert sorted(run.out.splitlines()) == [b"[rank 0] out of 0", b"[rank 1] out of 1"]
    told, *err = sorted(run.err.decode().splitlines(), reverse=True)
    assert told.startswith("python -m fastdist.run: the workers' output is kept in /")
    assert err == ["[rank 1] err of 1", "[rank 0] err of 0"]


@pytest.mark.one_in(7)
def test_what_is_redirected_is_not_shown_and_what_is_teed_is(
    start_run: Any, tmp_path: Path
) -> None:
    flags = [f"--log-dir={tmp_path}/logs", "--redirects", "0:3,1:1", "-t", "1:2,2:1"]
    run = start_run(_BOTH, "-n", "3", *flags)
    assert run.end() == 0
    assert _logs(tmp_path / "logs") == {
        "attempt_0/0/stdout.log": "out of 0\n",
        "attempt_0/0/stderr.log": "err of 0\n",
        "attempt_0/1/stdout.log": "out of 1\n",
        "attempt_0/1/stderr.log": "err of 1\n",
        "attempt_0/2/stdout.log": "out of 2\n",
    }
    assert run.out == b"[rank 2] out of 2\n"
    assert sorted(run.err.splitlines()[1:]) == [b"[rank 1] err of 1", b"[rank 2] err of 2"]


def test_a_file_holds_the_bytes_as_they_came(start_run: Any, tmp_path: Path) -> None:
    text = r"""
    import os
    os.write(1, b"10 %\r20 %\r\xff\x00" + b"x" * 300_000)
    """
    run = start_run(text, f"--log-dir={tmp_path}/logs", "-r3")
    assert run.end() == 0
    (path,) = (tmp_path / "logs").rglob(_OUT)
    assert path.read_bytes() == b"10 %\r20 %\r\xff\x00" + b"x" * 300_000
    assert run.out == b""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("flags", [(), ("--restart=worker",)])
def test_each_restart_has_files_of_its_own(
    start_run: Any, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    text = "    count or os.kill(os.getpid(), signal.SIGKILL)\n"
    run = start_run(WORKER + text, "--max-restarts=1", *flags, f"--log-dir={tmp_path}/logs")
    assert run.end() == 0
    found = {name: text.split(" of ")[0] for name, text in _logs(tmp_path / "logs").items()}
    assert found == {
        f"attempt_{count}/0/{name}": f"start {count}" if name == _OUT else ""
        for count in (0, 1)
        for name in (_OUT, _ERR)
    }


def test_why_a_redirected_worker_failed_is_told_at_the_end(start_run: Any, tmp_path: Path) -> None:
    run = start_run('raise ValueError("no")', f"--log-dir={tmp_path}/logs", "--redirects=3")
    assert run.end() == 1
    assert run.err.decode().splitlines()[-1] == "ValueError: no"
    assert _logs(tmp_path / "logs")["attempt_0/0/stderr.log"].endswith("ValueError: no\n")


@pytest.mark.one_in(7)
def test_two_runs_do_not_share_a_folder(start_run: Any, tmp_path: Path) -> None:
    for _ in range(2):
        assert start_run(_BOTH, f"--log-dir={tmp_path}/logs").end() == 0
    assert len(list((tmp_path / "logs").iterdir())) == 2


@pytest.mark.one_in(7)
def test_without_a_folder_they_lie_with_temporary_files_and_the_run_says_where(
    start_run: Any, tmp_path: Path
) -> None:
    (tmp_path / "temporary").mkdir()
    run = start_run(_BOTH, "--tee=3", environment={"TMPDIR": str(tmp_path / "temporary")})
    assert run.end() == 0
    told = run.err.decode().split("the workers' output is kept in ")[1].split("\n")[0]
    assert Path(told, "attempt_0/0/stdout.log").read_text() == "out of 0\n"


def test_a_folder_that_cannot_be_made_is_an_error_before_anything_starts(
    start_run: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    run = start_run(_BOTH, f"--log-dir={tmp_path}/file")
    assert run.end() == 2
    assert b"/file: no folder can be made there: File exists" in run.err
    assert run.out == b""


def test_a_file_that_takes_no_more_leaves_its_stream_to_the_screen() -> None:
    complaints: list[str] = []
    log = LogFile("/dev/full", is_shown=False, complain=complaints.append)
    log.write(b"lost")
    log.write(b"more")
    assert log.is_shown
    (told,) = complaints
    assert told.startswith("/dev/full cannot be written (No space left on device): from now on its")


@pytest.mark.one_in(7)
def test_logs_that_cannot_be_opened_are_told_and_the_job_runs(
    start_run: Any, tmp_path: Path
) -> None:
    # In its first life, the worker writes a file in place of the folder that its second life needs.
    text = f"""
    import glob
    if not count:
        (run,) = glob.glob({str(tmp_path)!r} + "/logs/*")
        open(run + "/attempt_1", "w").close()
        sys.exit(1)
    """
    run = start_run(WORKER + text, "--max-restarts=1", f"--log-dir={tmp_path}/logs", "-r3")
    assert run.end() == 0
    assert b"[rank 0] start 1 of 0 is" in run.out
    assert run.err.count(b"from now on its worker's output is only shown here\n") == 2


def test_a_ctrl_c_keeps_what_was_written(start_run: Any, tmp_path: Path) -> None:
    run = start_run(WORKER + "    signal.pause()\n", f"--log-dir={tmp_path}/logs")
    pid = run.number_after("start 0 of 0 is")
    run.process.send_signal(signal.SIGINT)
    assert run.end(2.0) == 130
    assert _logs(tmp_path / "logs")["attempt_0/0/stdout.log"] == f"start 0 of 0 is {pid}\n"
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.parametrize("given", ["4", "x", "0:4", "2:1", "0:1,", ""])
def test_streams_that_make_no_sense_are_an_error(given: str) -> None:
    with pytest.raises(
        ValueError, match=r"--tee must be 0 \(none\), 1 \(stdout\), 2 \(stderr\) or"
    ):
        log_options(None, None, given, 2)


def test_nothing_is_kept_where_nothing_is_asked_for() -> None:
    assert log_options(None, None, None, 2) is None
    assert log_options("logs", "0", "0", 2) is None
