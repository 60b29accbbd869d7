"""A job that is killed repeatedly ends with the numbers of a job that was never killed."""

from __future__ import annotations

import os
import random
import re
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastdist.distributed import checkpoint
from fastdist.examples import catalogue
from fastdist.examples.resume import WORKERS
from tests.launch.forked_programs import Piped

STEPS, EVERY = 62, 2
# The job does not reach STEPS before the last kill, even if each of the five lives makes this many
# steps and two more, and runs AHEAD steps ahead.
MOST_STEPS_A_LIFE = 7
KILLS = 5
# The number of steps that the job may be ahead of the last line that was read.
AHEAD = 3
VICTIMS = (*WORKERS, "launcher")


class Life:
    """One start of the job by the launcher, until it ends or one of its processes is killed.

    With `pace`, the name of a pipe, the job is at most AHEAD steps ahead of the last line read.
    Otherwise the job could end before the kill if this process or the launcher is stopped.
    """

    def __init__(self, folder: Path, every: int = EVERY, pace: Path | None = None) -> None:
        self.folder = folder
        self.started_at = 0
        self.result: str | None = None
        self._pace: int | None = None
        command = ["demo", "resume"]
        environment = {}
        if pace is not None:
            os.mkfifo(pace)
            # Open the pipe for reading too, so that neither side waits for the other to open it.
            self._pace = os.open(pace, os.O_RDWR)
            os.write(self._pace, b"." * (AHEAD - 1))
            command = ["run", "-n", str(len(WORKERS)), "-m", "tests.examples.paced_resume"]
            environment["FASTDIST_TEST_PACE"] = str(pace)
        arguments = ["--steps", str(STEPS), "--every", str(every), "--folder", str(folder)]
        words = ["-m", "fastdist.cli", *command, *arguments]
        folder.parent.mkdir(exist_ok=True)
        self._launcher = Piped(words, folder.parent, environment)

    def live_on(self, steps: int | None = None) -> None:
        """Read the output until it contains `steps` steps, or until the job ends."""
        while steps is None or steps > 0:
            line = self._launcher.stdout.readline()
            if not line:
                return
            if found := re.search(r"goes on at step (\d+)", line):
                self.started_at = int(found[1])
            if found := re.search(r"result: after \d+ steps (\w+)", line):
                self.result = found[1]
            if re.search(r"\bstep \d+ loss", line):
                if self._pace is not None:
                    os.write(self._pace, b".")
                if steps is not None:
                    steps -= 1

    def live_on_until_it_saves(self, most_steps: int) -> None:
        """Wait until the job writes a checkpoint, but for at most `most_steps` steps."""
        for _ in range(most_steps):
            if self.is_saving():
                return
            self.live_on(1)

    def is_saving(self) -> bool:
        """Return whether any checkpoint is incomplete: its folder has no manifest yet."""
        folders = self.folder.glob("step-*")
        return any(not (path / "manifest.json").exists() for path in folders)

    def kill(self, victim: str) -> None:
        """Kill one process, and wait until the launcher and all workers have ended."""
        processes = {pid: WORKERS[rank] for rank, pid in self._launcher.workers().items()}
        pids = {self._launcher.pid: "launcher", **processes}
        descriptors = [os.pidfd_open(pid) for pid in pids]
        try:
            found = [pid for pid, name in pids.items() if name == victim]
            assert found, f"{victim} is not among {pids}: the job has ended before it was killed"
            os.kill(found[0], signal.SIGKILL)
            for descriptor in descriptors:
                assert select.select([descriptor], [], [], 30)[0], f"{pids} live on"
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def end(self) -> str:
        """Wait for the end, and return the lines about errors."""
        _, errors = self._launcher.communicate(timeout=60)
        return errors

    def close(self) -> None:
        """Kill the remaining processes."""
        self._launcher.close()
        if self._pace is not None:
            os.close(self._pace)


@contextmanager
def life(folder: Path, every: int = EVERY, pace: Path | None = None) -> Iterator[Life]:
    """Start the job, and kill its remaining processes after the `with` block."""
    started = Life(folder, every, pace)
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    with life(tmp_path_factory.mktemp("undisturbed"), every=STEPS + 1) as whole:
        whole.live_on()
        errors = whole.end()
        assert whole.result is not None, errors
        return whole.result


# Five kills hit each worker and the launcher at least once; --slow makes fifteen more.
@pytest.mark.one_in(4)
def test_a_job_killed_five_times_ends_with_the_numbers_of_one_that_was_not(
    undisturbed: str, tmp_path: Path
) -> None:
    end_of_a_killed_job_is(undisturbed, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_killed_at_other_moments_ends_with_these_numbers_too(
    seed: int, undisturbed: str, tmp_path: Path
) -> None:
    end_of_a_killed_job_is(undisturbed, seed, tmp_path)


def end_of_a_killed_job_is(undisturbed: str, seed: int, tmp_path: Path) -> None:
    """Kill the job KILLS times, and compare its result with that of the undisturbed job."""
    moments = random.Random(seed)
    folder, starts = tmp_path / "checkpoints", []
    for kill in range(KILLS):
        with life(folder, pace=tmp_path / f"pace-{kill}") as shortened:
            shortened.live_on(moments.randint(1, MOST_STEPS_A_LIFE))
            if moments.random() < 0.5:
                shortened.live_on_until_it_saves(most_steps=2)
            shortened.kill(VICTIMS[(seed + kill) % len(VICTIMS)])
            starts.append(shortened.started_at)
    with life(folder) as last:
        last.live_on()
        errors = last.end()
    assert last.result == undisturbed, (starts, errors)
    assert last.started_at > 0
    # A kill between creating a folder and writing to it leaves an empty folder.
    assert len([path for path in folder.iterdir() if any(path.iterdir())]) == 2
    assert checkpoint.latest(folder, verify=True) == str(folder / f"step-{STEPS}")


def test_the_demo_reads_its_options_before_it_starts_a_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as told:
        catalogue.run_by_name(["resume", "--every", "0"])
    assert told.value.code == 2
    assert "fastdist demo resume: --steps and --every must be 1 or more" in capsys.readouterr().err
