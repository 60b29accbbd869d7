"""Ids of machines, namespaces and processes, by which workers find out what they share."""

from __future__ import annotations

import functools
import os


@functools.cache
def boot_id() -> str:
    """Return an id of this machine, which changes at each boot; no other machine has the same id.

    Note    the containers of one machine have the same id, whether or not they share files
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        import uuid  # not at the top: the module takes 0.1 MB, and Linux does not need it

        return f"node-{uuid.getnode():x}"


@functools.cache
def pid_namespace() -> str:
    """Return the name of the pid namespace in which this process's id is valid."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


@functools.cache
def network_namespace() -> str:
    """Return the name of the network namespace that has this process's interfaces and addresses."""
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return ""


def process_start(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot; None if it does not exist.

    Note    process ids are reused, but a process id together with a start time is unique
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def process_lives(pid: int, start: int | None) -> bool:
    """Return whether the process with this id and start time exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(fields[19]) == start and fields[0] not in (b"Z", b"X")
