"""Facts about the machine and the process, by which two workers know whether they share them."""

from __future__ import annotations

import functools
import os


@functools.cache
def boot_id() -> str:
    """Return an id that all processes of this machine share since it started, and no others.

    Note    containers of one machine share it; a look at the files shows whether they share these
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        import uuid  # 0.1 MB, which Linux does not need

        return f"node-{uuid.getnode():x}"


@functools.cache
def pid_namespace() -> str:
    """Return the namespace in which this process's id has a meaning."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


@functools.cache
def network_namespace() -> str:
    """Return the namespace whose network this process has: interfaces, addresses, cables."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def process_start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is not there.

    Note    a process id is given again; with its start time it is not
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def process_lives(pid: int, start: int | None) -> bool:
    """Return whether the process that started then is there, and is more than its exit code."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == start and fields[0] not in (b"Z", b"X")
