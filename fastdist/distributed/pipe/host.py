"""Properties of the machine and the process that tell two workers whether they share a machine."""

from __future__ import annotations

import functools
import os


@functools.cache
def boot_id() -> str:
    """Return an id that only the processes of this machine have, until its next boot.

    Note    containers of one machine have the same id; looking for files shows whether they share
            files
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        import uuid  # a module of 0.1 MB, which Linux does not need

        return f"node-{uuid.getnode():x}"


@functools.cache
def pid_namespace() -> str:
    """Return the pid namespace, in which this process's id is valid."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


@functools.cache
def network_namespace() -> str:
    """Return the network namespace: this process's interfaces and addresses."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def process_start(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot; None if it does not exist.

    Note    a process id is reused; together with the start time it is unique
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def process_lives(pid: int, start: int | None) -> bool:
    """Return whether the process with this start time exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == start and fields[0] not in (b"Z", b"X")
