"""Engines that start jobs, as tests use them: their requirements, and how each starts N workers."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import fastdist
from tests.integrations import slurm
from tests.launch import mpirun

ROOT: Final = str(Path(fastdist.__file__).parents[1])
_PACKAGES: Final = {"ray": "ray", "dask": "distributed", "torchrun": "torch"}
# This bound only ends a test that hangs. Other tests check the guarantees with tighter bounds.
BOUND_S: Final = 110.0
# How often an engine may restart a worker, if the engine restarts workers.
RESTARTS: Final = 3


def why_not(name: str) -> str | None:
    """Return why an engine cannot be used here, or None if it can."""
    if name in _PACKAGES:
        package = _PACKAGES[name]
        if importlib.util.find_spec(package) is None:
            return f"engines: {package} is not installed (pip install {package})"
    if name == "slurm" and not all(slurm.path_of(one) for one in slurm.COMMANDS):
        return "engines: there is no Slurm (apt-get install slurm-wlm munge)"
    if name in ("openmpi", "mpich"):
        return mpirun.no_command(name)
    return None


class Command:
    """A process that starts workers, or is itself a worker."""

    def __init__(self, words: Sequence[str], environment: dict[str, str], folder: Path) -> None:
        self.words, self.environment, self.folder = words, environment, folder
        self.starts = 0
        self.is_expected_to_end = False
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start or restart the process; its output is appended to a file."""
        self.starts += 1
        with open(self.folder / "output", "ab") as out:
            self.process = subprocess.Popen(
                self.words,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": ROOT, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
            )
        return self.process


class Job:
    """The commands of a job. With `replaces`, killed commands start again, as by a kubelet."""

    def __init__(self, folder: Path, *, replaces: bool = False) -> None:
        self.folder = folder
        self._replaces = replaces
        self._commands: list[Command] = []

    def start(self, *words: str, environment: dict[str, str] | None = None) -> Command:
        """Start a command."""
        self._commands.append(Command(words, environment or {}, self.folder))
        return self._commands[-1]

    @property
    def output(self) -> str:
        """The output of all commands."""
        return (self.folder / "output").read_text(errors="replace")

    def look(self) -> None:
        """Restart killed processes if the engine replaces them; fail if a command has failed."""
        for command in self._commands:
            status = command.process.poll()
            if status == -signal.SIGKILL and self._replaces and command.starts <= RESTARTS:
                command.start()
            elif not command.is_expected_to_end:
                assert status in (None, 0), f"ended with {status}:\n{self.output}"

    def wait_until(self, holds: Callable[[], bool], bound_s: float = BOUND_S) -> float:
        """Wait until a condition holds, and return how long that took."""
        began, pause = time.monotonic(), threading.Event()
        while not holds():
            self.look()
            assert time.monotonic() - began < bound_s, f"it did not come to pass:\n{self.output}"
            pause.wait(0.05)
        return time.monotonic() - began

    def end(self) -> str:
        """Wait until all commands have ended without an error, and return their output."""
        self.wait_until(lambda: all(one.process.poll() is not None for one in self._commands))
        self.look()
        return self.output

    def close(self) -> None:
        """End the remaining commands."""
        for command in self._commands:
            if command.process.poll() is None:
                os.killpg(command.process.pid, signal.SIGTERM)
        for command in self._commands:
            try:
                command.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(command.process.pid, signal.SIGKILL)
                command.process.wait()


# ---- how each engine starts `python -m MODULE ARGUMENTS` in some workers ------------------------


def _python(*words: str) -> list[str]:
    return [sys.executable, "-m", *words]


def _fastdist_run(job: Job, size: int, port: int, words: Sequence[str]) -> None:
    again = ("--max-restarts", str(RESTARTS), "--restart", "worker")
    job.start(*_python("fastdist", "run", "-n", str(size), *again, "-m", *words))


def _torchrun(job: Job, size: int, port: int, words: Sequence[str]) -> None:
    flags = ("--nproc-per-node", str(size), "--master-port", str(port))
    again = ("--max-restarts", str(RESTARTS))
    job.start(*_python("torch.distributed.run", *flags, *again, "-m", *words))


def _mpi(kind: str) -> Callable[[Job, int, int, Sequence[str]], None]:
    def start(job: Job, size: int, port: int, words: Sequence[str]) -> None:
        command, environment = mpirun.command_of(kind, size)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if kind == "mpich":
            for name, value in place.items():
                command += ["-genv", name, value]
        job.start(*command, *_python(*words), environment=environment)

    return start


def _kubernetes(job: Job, size: int, port: int, words: Sequence[str]) -> None:
    for index in range(size):
        job.start(
            *_python(*words),
            environment={
                "JOB_COMPLETION_INDEX": str(index),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "FASTDIST_ALLOW_RESTART": "worker",
            },
        )


def _driver(engine: str) -> Callable[[Job, int, int, Sequence[str]], None]:
    def start(job: Job, size: int, port: int, words: Sequence[str]) -> None:
        job.start(*_python("tests.integrations.drive", engine, str(size), str(RESTARTS), *words))

    return start


STARTS: Final = {
    "fastdist run": _fastdist_run,
    "torchrun": _torchrun,
    "openmpi": _mpi("openmpi"),
    "mpich": _mpi("mpich"),
    "kubernetes": _kubernetes,
    "ray": _driver("ray"),
    "dask": _driver("dask"),
}
# Engines that restart a killed worker.
RESTARTING: Final = ("fastdist run", "kubernetes", "ray", "dask")
# Engines that restart all workers.
RESTARTING_ALL: Final = ("torchrun",)


@contextmanager
def started(engine: str, size: int, port: int, words: Sequence[str], folder: Path) -> Iterator[Job]:
    """Start a job, and end the rest of it after the block."""
    job = Job(folder, replaces=engine == "kubernetes")
    try:
        STARTS[engine](job, size, port, words)
        yield job
    finally:
        job.close()
