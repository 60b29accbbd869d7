"""One worker of this node: its process, its process group, and its two pipes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from fastdist.launch.log_files import LogFile


class WorkerProcess:
    """A started worker; `status` is None while it runs, then subprocess's status (-9: SIGKILL).

    Thread  only the launcher's main thread
    """

    def __init__(self, rank: int, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.rank = rank
        self.status: int | None = None
        # The log files of stdout and stderr.
        self.logs: Sequence[LogFile | None] = (None, None)
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            process_group=0,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout = self._process.stdout
        self.stderr = self._process.stderr
        for pipe in (self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._process.pid

    def has_ended(self) -> bool:
        """Return whether the worker has just ended. If so, kill the rest of its process group."""
        if self.status is not None or not self._is_dead():
            return False
        self.send(signal.SIGKILL)
        self.status = self._process.wait()
        return True

    def _is_dead(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        # The worker is not reaped here: a dead leader keeps its id until it is reaped, so the
        # process group that is killed next cannot belong to another process.
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, options) is not None

    def is_stopped(self) -> bool:
        """Return whether a signal has stopped the worker; False if the system does not report
        that.
        """
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                # The name, in parentheses, may contain any characters; the state follows it.
                state = file.read().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return state == b"T"

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the worker and all processes that it started, if the worker still
        runs.
        """
        if self.status is not None:
            return
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            # macOS's error for a process group whose processes have all ended but are not reaped.
            return

    def ask_to_end(self, number: signal.Signals) -> None:
        """Send an ending signal to the worker alone, and continue it if it is stopped.

        Note    forked children inherit the program's handler: with the signal, each of them would
                write the checkpoint. They are killed as soon as the worker has ended.
        """
        self.pass_on(number)
        # Sent in any case: a worker that is just being stopped is not reported as stopped yet.
        self.send(signal.SIGCONT)

    def catches(self, number: signal.Signals) -> bool:
        """Return whether the program handles or ignores a signal; False if that is unknown."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
                masks = dict(line.split(":", 1) for line in file if line.startswith("Sig"))
        except OSError:
            return False
        caught = int(masks.get("SigCgt", "0"), 16) | int(masks.get("SigIgn", "0"), 16)
        return bool(caught >> (number - 1) & 1)

    def leads(self, pid: int) -> bool:
        """Return whether `pid` is this worker, or a process of its process group."""
        try:
            return self.status is None and os.getpgid(pid) == self.pid
        except ProcessLookupError:
            return False

    def thread_ticks(self) -> dict[str, int]:
        """Return the processor time of each thread except ZeroMQ's; empty if the times are unknown.

        ZeroMQ's threads answer heartbeats even while all of Python hangs.
        """
        ticks = {}
        try:
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{thread}/stat", "rb") as file:
                    head, _, rest = file.read().rpartition(b")")
                if b"(ZMQbg" not in head:
                    user, system = rest.split()[11:13]
                    ticks[thread] = int(user) + int(system)
        except OSError:
            # a thread has just ended, so the program makes progress; or there is no /proc
            return {}
        return ticks

    def speaks_by_sockets(self) -> bool:
        """Return whether ZeroMQ runs in the worker, which may then be in a call to another
        worker.
        """
        try:
            for thread in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{thread}/comm", "rb") as file:
                    if file.read().startswith(b"ZMQbg"):
                        return True
        except OSError:
            return False
        return False

    def pass_on(self, number: signal.Signals) -> None:
        """Send a signal to the worker alone: it might end processes that the worker started."""
        if self.status is None:
            # The worker is not reaped yet, so the id still belongs to it.
            os.kill(self.pid, number)

    def close(self) -> None:
        """Close the remaining pipes."""
        self.stdout.close()
        self.stderr.close()
