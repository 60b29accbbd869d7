"""The digits demo: its three workers, guarantees and pictures, and how it ends."""

from __future__ import annotations

import compileall
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import fastdist
from fastdist.distributed.rpc.leaving import notices as logger
from fastdist.examples import digits
from tests.launch import forked_programs
from tests.launch.forked_programs import Piped
from tests.standstill import Standstill

_ROOT = str(Path(fastdist.__file__).parents[1])
_WORKERS = ("trainer", "worker1", "worker2")
# So many epochs that no machine completes them while a test observes the first one.
_ENDLESS = ("--epochs", "1000000")


# The epochs of the demo that most tests examine, and the number of its steps. Starting its
# interpreters takes 2.5 s of CPU, and 25 epochs take 5 s.
_EPOCHS, _STEPS = 3, 135


class Done(NamedTuple):
    """A demo that has ended without an error: its output, and its folder."""

    output: str
    folder: Path


def _start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fastdist.cli", "demo", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": _ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Piped]]:
    """Yield a function that starts a demo like `_start`, but in forked processes."""
    started: list[Piped] = []

    def begin(*arguments: str) -> Piped:
        started.append(Piped(["-m", "fastdist.cli", "demo", *arguments], tmp_path))
        return started[-1]

    yield begin
    for process in started:
        process.close()


def _errors_of(launcher: Piped) -> tuple[str, float]:
    """Wait until the launcher ends; return its stderr, and how long the wait took.

    Time in which this process was stopped does not count.
    """
    with Standstill() as stood:
        began = time.monotonic()
        errors = launcher.communicate(timeout=60)[1]
        took_s = time.monotonic() - began
    return errors, took_s - stood.seconds


def _run(folder: Path, *arguments: str) -> Done:
    """Run a demo in new interpreters until it ends, like a user."""
    # A worker that compiles the package's sources keeps 0.7 MB of memory for this. Only the first
    # run in a clone would compile them, so compile them here.
    for package in ("fastdist", "kernels"):
        compileall.compile_dir(f"{_ROOT}/{package}", quiet=1)
    process = _start(folder, *arguments)
    output, errors = process.communicate(timeout=110)
    assert process.returncode == 0, output + errors
    return Done(output, folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    return _run(tmp_path_factory.mktemp("demo"), "--epochs", str(_EPOCHS), "--out", "elsewhere")


def _accuracies(done: Done) -> list[float]:
    return [float(text) for text in re.findall(r"test accuracy +([\d.]+)%", done.output)]


@pytest.mark.one_in(5)
def test_the_whole_demo_learns_and_its_memory_does_not_grow(tmp_path: Path) -> None:
    done = _run(tmp_path)
    accuracies = _accuracies(done)
    assert len(accuracies) == 25
    assert accuracies[-1] >= 95.0
    assert (done.folder / "fastdist-demo" / "loss.svg").exists()
    found = re.search(r"memory growth +(.*) MB from step 200 to step 1,000\n", done.output)
    assert found is not None
    assert len(found[1].split(", ")) == 3
    assert max(float(growth) for growth in found[1].split(", ")) <= 2.0


def test_a_shortened_demo_learns_and_promises_no_accuracy(done: Done) -> None:
    accuracies = _accuracies(done)
    assert len(accuracies) == _EPOCHS + 1  # the last one is that of the summary
    assert accuracies[0] < accuracies[-1]
    assert 80.0 <= accuracies[-1] < 95.0


def test_gradients_are_those_of_one_process_and_of_numpy(done: Done) -> None:
    found = re.search(r"first gradients +within (\S+) of one process, (\S+) of NumPy", done.output)
    assert found is not None
    assert max(float(found[1]), float(found[2])) <= 1e-10


def test_the_loss_after_an_epoch_is_that_of_one_process(done: Done) -> None:
    found = re.search(r"loss after epoch 1 +\S+ held out, within (\S+) of one process", done.output)
    assert found is not None
    assert float(found[1]) <= 1e-8


@pytest.mark.parametrize("worker", _WORKERS)
def test_time_calls_bytes_and_memory_of_each_worker_are_told(done: Done, worker: str) -> None:
    found = re.search(rf"{worker}((?: +[\d.,]+){{8}})\n", done.output)
    assert found is not None
    forward, backward, optimiser, calls, answers, sent, received, memory = (
        float(text.replace(",", "")) for text in found[1].split()
    )
    assert forward > 0.0 and backward > 0.0 and (optimiser > 0.0) == (worker != "trainer")
    # In each step the trainer makes two forward calls, sends two gradients and requests two
    # optimizer steps. Each of the two workers receives half of these messages. The gradients of the
    # workers may return to the trainer as calls or in answers.
    most = calls if worker == "trainer" else answers
    assert most >= (6 if worker == "trainer" else 3) * _STEPS
    # The tensors of a step take 16 KB in each direction.
    assert min(sent, received) > 0.01 * _STEPS
    # Without compiled Numba kernels the bound is 60 MB, of which 16 MB are pages of libraries.
    assert 0 < memory < 44


def test_every_line_fits_a_terminal(done: Done) -> None:
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.parametrize("name", ["loss.svg", "timeline.svg"])
def test_the_pictures_are_there(done: Done, name: str) -> None:
    picture = ElementTree.fromstring((done.folder / "elsewhere" / name).read_text())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert f"elsewhere/{name}" in done.output


def test_the_time_line_of_all_workers_is_a_page_with_the_critical_path(done: Done) -> None:
    page = (done.folder / "elsewhere" / "timeline.html").read_text()
    assert "elsewhere/timeline.html" in done.output
    assert "try `fastdist demo --list`\n" in done.output
    (found,) = re.findall(r"const data = (\{.*\});\n", page)
    shown = json.loads(found)
    assert {worker for worker, _ in shown["lanes"]} == set(_WORKERS)
    events = shown["events"]
    passes = [event for event in events if event[1] == "torch::distributed::autograd::backward"]
    assert len(passes) == 3 and shown["arrows"]
    critical = {shown["lanes"][event[0]][0] for event in events if event[5]}
    assert critical == set(_WORKERS)


@pytest.mark.one_in(3)
def test_a_killed_worker_ends_the_demo_and_is_named(start: Callable[..., Piped]) -> None:
    process = start(*_ENDLESS)
    assert "epoch  1/1000000" in process.stdout.readline()
    os.kill(process.workers()[2], signal.SIGKILL)
    errors, took_s = _errors_of(process)
    assert took_s < 5.0, errors
    assert process.returncode == 128 + signal.SIGKILL
    assert "fastdist demo: rank 2 was killed by SIGKILL" in errors


@pytest.mark.one_in(3)
def test_ctrl_c_ends_the_demo_and_all_its_workers(start: Callable[..., Piped]) -> None:
    # The job's four processes use both cores for a third of a second. If other processes use the
    # cores, one end may take longer than 2 s, but not the fastest of three ends.
    least_s = math.inf
    for _ in range(3):
        process = start(*_ENDLESS)
        assert "epoch  1/1000000" in process.stdout.readline()
        workers = process.workers().values()
        assert len(workers) == 3
        # Like a terminal, signal the whole process group.
        os.killpg(process.pid, signal.SIGINT)
        errors, took_s = _errors_of(process)
        assert process.returncode == 128 + signal.SIGINT
        assert "Traceback" not in errors
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
        least_s = min(least_s, took_s)
        if least_s < 2.0:
            break
    assert least_s < 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "--epochs and --batch-size must be at least 1, got 0 and 32"),
        (["--lr", "nan"], "--lr must be more than 0, and finite, got nan"),
        (["--seed", "-1"], "--seed must be 0 or more, and fit into 63 bits, got -1"),
        (["--epoch", "3"], "unknown: --epoch 3; did you mean --epochs?"),
        (["--lr", "fast"], "argument --lr: invalid float value: 'fast'"),
        (["--out", "/dev/null"], "no pictures can be written to '/dev/null': File exists; name"),
        (["--out", "/proc/x/y"], "no pictures can be written to '/proc/x/y': No such file or"),
    ],
)
def test_a_wrong_setting_is_told_before_anything_starts(
    arguments: list[str], message: str, start: Callable[..., Piped]
) -> None:
    process = start(*arguments)
    output, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert f"fastdist demo: {message}" in errors
    assert "rank" not in errors + output


@pytest.mark.one_in(3)
def test_a_folder_that_cannot_be_written_to_is_told_by_the_job_itself(tmp_path: Path) -> None:
    job = "-m fastdist.run -n 3 -m fastdist.examples.digits --out /dev/null"
    done = forked_programs.run(job.split(), tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("no pictures can be written to '/dev/null'") == 1
    assert "epoch" not in done.stdout


def test_the_job_says_how_to_start_it(tmp_path: Path) -> None:
    alone = forked_programs.run(["-m", "fastdist.examples.digits"], tmp_path)
    assert alone.returncode == 1
    assert "start it with `fastdist run -n 3 -m fastdist.examples.digits`" in alone.stderr


def test_workers_say_nothing_of_their_wait_for_the_trainer() -> None:
    level = logger.level
    try:
        assert logger.isEnabledFor(logging.WARNING)
        digits.expect_to_wait()
        assert not logger.isEnabledFor(logging.WARNING)
    finally:
        logger.setLevel(level)
