"""`fastdist run` reports the worker that failed first, if several fail at different speeds."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastdist.launch import main as launch_main
from fastdist.launch import output
from fastdist.launch.failure_text import FailureText
from tests.launch import forked_programs

# Two workers that fail in a fixed order: they meet at a named pipe, and wait until the other ends.
_TOOLS = """
import array, atexit, fcntl, os, sys, termios, threading
from fastdist.core.errors import WorkerLostError

rank = int(os.environ["RANK"])
folder = os.path.dirname(os.path.abspath(__file__))
lock = open(folder + "/lock", "w")

def meet(name):
    open(folder + "/" + name, "w" if rank else "r").close()

def hold_lock_to_my_end():
    fcntl.flock(lock, fcntl.LOCK_EX)

def wait_for_the_others_end():
    fcntl.flock(lock, fcntl.LOCK_EX)

def write(text):
    print(text, file=sys.stderr, flush=True)

def wait_until_that_is_read():
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(2, termios.FIONREAD, left)
        threading.Event().wait(0.01)
"""


# A launcher that gives workers this many seconds to end, and holds back their text for 20 s.
_LAUNCH = """
import sys
from fastdist.launch import job, main, output
job.SPARED_S, output.HELD_TEXT_S = {}, 20.0
sys.exit(main.main())
"""


@pytest.fixture
def run_two(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that runs a job of two workers and returns the lines of its stderr.

    Rank 0 runs the first text and rank 1 the second one. The launcher gives the workers `spared_s`
    seconds to end.
    """

    def run(zero: str, one: str, spared_s: float = 20.0) -> list[str]:
        for name in ("go", "back"):
            os.mkfifo(tmp_path / name)
        texts = [textwrap.indent(textwrap.dedent(text), "    ") for text in (zero, one)]
        script = tmp_path / "two.py"
        script.write_text(f"{_TOOLS}\nif rank == 0:\n{texts[0]}\nelse:\n{texts[1]}")
        words = ["-c", _LAUNCH.format(spared_s), "-n", "2", str(script)]
        done = forked_programs.run(words, tmp_path)
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()

    return run


def test_lines_after_a_traceback_and_a_late_end_do_not_take_its_place(start_run: Any) -> None:
    run = start_run(
        """
        import atexit, sys, threading
        def say_goodbye():
            print("a log line", file=sys.stderr, flush=True)
            threading.Event().wait(1.5)
            print("another", file=sys.stderr, flush=True)
        atexit.register(say_goodbye)
        raise ValueError("user bug")
        """
    )
    assert run.end() == 1
    lines = run.err.decode().splitlines()
    assert lines[0].startswith("python -m fastdist.run: rank 0 failed with exit status 1 (pid ")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-3:] == ["ValueError: user bug", "a log line", "another"]


_EARLY = """
    @atexit.register
    def end_last():
        wait_until_that_is_read()
        meet("go")
        wait_for_the_others_end()
        write("a log line")
    raise ValueError("early")
"""
_LATE = """
    hold_lock_to_my_end()
    meet("go")
    raise KeyError("late")
"""


@pytest.mark.one_in(6, each=True)
@pytest.mark.parametrize("early", [0, 1])
def test_who_wrote_its_traceback_first_is_named_even_if_it_ended_last(
    run_two: Callable[..., list[str]], early: int
) -> None:
    lines = run_two(_LATE, _EARLY) if early else run_two(_EARLY, _LATE)
    assert lines[0].startswith(f"fastdist run: later, rank {1 - early} failed: KeyError: 'late' (")
    assert lines[2].startswith(f"fastdist run: rank {early} failed with exit status 1 (pid ")
    assert lines[-2:] == ["ValueError: early", "a log line"]
    assert lines.count("Traceback (most recent call last):") == 1


@pytest.mark.one_in(7)
def test_who_lost_a_worker_is_named_after_it_even_if_it_was_first_in_all(
    run_two: Callable[..., list[str]],
) -> None:
    lines = run_two(
        """
        hold_lock_to_my_end()
        @atexit.register
        def wait_for_the_cause():
            meet("go"), meet("back")
        raise WorkerLostError("worker 'worker1' (rank 1) was lost: it died")
        """,
        """
        meet("go")
        @atexit.register
        def end_last():
            meet("back")
            wait_for_the_others_end()
        raise ValueError("cause")
        """,
    )
    lost = "fastdist run: later, rank 0 failed: fastdist.core.errors.WorkerLostError: "
    assert lines[0].startswith(lost)
    assert lines[2].startswith("fastdist run: rank 1 failed with exit status 1 (pid ")
    assert lines[-1] == "ValueError: cause"


@pytest.mark.one_in(7)
def test_a_traceback_is_not_cut_because_another_worker_ends(
    run_two: Callable[..., list[str]],
) -> None:
    slow = """
    write("Traceback (most recent call last):")
    wait_until_that_is_read()
    meet("go")
    wait_for_the_others_end()
    threading.Event().wait(0.3)
    write('  File "worker.py", line 1')
    write("ValueError: slow")
    os._exit(1)
    """
    lines = run_two(_LATE, slow)
    assert lines[0].startswith("fastdist run: later, rank 0 failed: KeyError: 'late' (at two.py:")
    assert lines[-1] == "ValueError: slow"


@pytest.mark.one_in(7)
def test_a_worker_that_had_caught_its_error_is_not_said_to_have_failed(
    run_two: Callable[..., list[str]],
) -> None:
    lives_on = """
    write("Traceback (most recent call last):")
    write("ValueError: caught")
    meet("go")
    threading.Event().wait()
    """
    lines = run_two(_LATE, lives_on, spared_s=0.1)
    assert lines[:2] == [
        "[rank 1] Traceback (most recent call last):",
        "[rank 1] ValueError: caught",
    ]
    assert lines[2].startswith("fastdist run: rank 0 failed with exit status 1 (pid ")
    assert lines[-1] == "KeyError: 'late'"


def test_the_text_of_an_exit_is_referred_to(start_run: Any) -> None:
    run = start_run("import sys; sys.exit('give --data FOLDER')")
    assert run.end() == 1
    said, headline, reference = run.err.decode().splitlines()
    assert said == "[rank 0] give --data FOLDER"
    assert "rank 0 failed with exit status 1 (pid " in headline
    assert reference == "the last line that it wrote is above"


def test_a_traceback_that_had_to_be_shown_is_referred_to(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "HELD_TEXT_S", 0.1)
    os.mkfifo(tmp_path / "shown")
    shown, release = os.open(tmp_path / "shown", os.O_RDWR), FailureText.release

    def release_and_tell(text: FailureText) -> list[bytes]:
        held = release(text)
        if held:
            os.write(shown, b"!")
        return held

    monkeypatch.setattr(FailureText, "release", release_and_tell)
    script = tmp_path / "ends_late.py"
    script.write_text(
        "import atexit, select, sys\n"
        # The traceback is written in one piece: it is held back for too short a time for two.
        "sys.stderr = open(2, 'w', buffering=1 << 16, closefd=False)\n"
        f"shown = open({str(tmp_path / 'shown')!r})\n"
        "atexit.register(select.select, [shown], [], [], 20)\n"
        # Python 3.13 does not write the traceback out itself.
        "atexit.register(sys.stderr.flush)\n"
        "raise ValueError('user bug')\n"
    )
    assert launch_main.main([str(script)]) == 1
    os.close(shown)
    lines = capfd.readouterr().err.splitlines()
    assert "[rank 0] ValueError: user bug" in lines
    assert lines[-1] == "the last traceback that it wrote is above: ValueError: user bug"
