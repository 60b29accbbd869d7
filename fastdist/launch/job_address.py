"""Finds the stores of this user's jobs on this machine, for `fastdist top`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from fastdist.core.errors import AuthenticationError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.sockets.addresses import private_base
from fastdist.launch.job_folder import JobFolder

_NAME = "address"
_SECRET = "secret"


class RunningJob(NamedTuple):
    """A job with a launcher on this machine: its store, and the secret if the launcher made one."""

    host: str
    port: int
    launcher: int
    secret: JobSecret | None

    @property
    def address(self) -> str:
        """HOST:PORT of the store."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def leave_address(folder: JobFolder, host: str, port: int) -> None:
    """Write the address of the store to the job's folder, which is removed at the job's end."""
    folder.write_private(_NAME, f"{os.getpid()} {port} {host}\n")


def running_jobs() -> list[RunningJob]:
    """Return the jobs with a launcher on this machine, latest first."""
    found: list[tuple[float, RunningJob]] = []
    for folder in Path(private_base()).glob("fastdist-*"):
        try:
            information = folder.stat()
            if information.st_uid != os.getuid() or information.st_mode & 0o077:
                continue  # another user could have written into the folder
            pid, port, host = (folder / _NAME).read_text("ascii").split()
            os.kill(int(pid), 0)
            job = RunningJob(host, int(port), int(pid), _secret_in(folder))
        except (OSError, ValueError):  # not a job's folder, or the job has just ended
            continue
        found.append((information.st_mtime, job))
    return [job for _, job in sorted(found, key=lambda one: one[0], reverse=True)]


def _secret_in(folder: Path) -> JobSecret | None:
    path = folder / _SECRET
    if not path.exists():
        return None
    try:
        return JobSecret.read_file(str(path))
    except AuthenticationError as error:
        raise ValueError(str(error)) from error


def split_address(text: str) -> tuple[str, int]:
    """Return host and port from HOST:PORT.

    Raises  ValueError for another format
    """
    match = re.fullmatch(r"\[?([^\[\]]+?)\]?:([0-9]{1,5})", text)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:29500")
    return match[1], int(match[2])
