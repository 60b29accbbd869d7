"""Files of object code, one per kernel, with a hash. They are only read from trusted folders.

cache_directory decides which folders are trusted: see Compiled kernels in SECURITY.md. A file that
is incomplete, of another version, or of another kernel counts as missing, and is replaced.
"""

from __future__ import annotations

import contextlib
import functools
import os
import struct
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from fastdist.system.cache_directory import cache_directory, shipped_directory
from fastdist.system.digest import sha256
from fastdist.system.own_folder import read_own_file

# The number is increased if the format changes, or if other content is stored under a key.
_BEGIN: Final = b"fastdist object 1\n"
_SEAL_BYTES: Final = 32
_LENGTHS: Final = struct.Struct("<III")
FOLDER: Final = "objects"
SUFFIX: Final = ".object"
_WRITTEN_ASIDE: Final = ".tmp"
_LOCK: Final = ".lock"
_LEFT_AFTER_S: Final = 86_400.0
# Compiling takes seconds. After this time a process that holds the lock is assumed to hang.
_LOCKED_AT_MOST_S: Final = 120.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.05


class Stored(NamedTuple):
    """The stored form of a kernel: its object code, and notes of the process that stored it.

    If the code is empty, Numba's own cache stores the kernel.
    """

    code: bytes
    notes: str


def read(key: str) -> Stored | None:
    """Return the kernel stored under a key, in the user's folder or in the folder of an image."""
    for folder, is_shipped in ((cache_directory(FOLDER), False), (shipped_directory(FOLDER), True)):
        if folder is None:
            continue
        try:
            content = read_own_file(_path_of(folder, key), or_roots=is_shipped)
        except OSError:
            continue
        found = None if content is None else _unsealed(content, key)
        if found is not None:
            return found
    return None


def write(key: str, stored: Stored) -> None:
    """Store a kernel under a key, if there is a folder with free space."""
    import tempfile  # imported late: it takes 0.4 MB, and only processes that compile need it

    folder = cache_directory(FOLDER)
    if folder is None:
        return
    _remove_leftovers(folder)
    # Write to a temporary file and rename it, so that other processes see the whole file or none.
    # If the disk is full, or the folder was removed, the next process compiles again.
    with (
        contextlib.suppress(OSError),
        tempfile.NamedTemporaryFile(dir=folder, suffix=_WRITTEN_ASIDE, delete=False) as file,
    ):
        try:
            file.write(_sealed(stored, key))
            file.flush()
            path = _path_of(folder, key)
            with contextlib.suppress(OSError):
                os.rmdir(path)  # an empty folder of this name would prevent the rename
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


@functools.cache
def _remove_leftovers(folder: str) -> None:
    """Remove files, older than a day, of processes that were killed while compiling or writing."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.endswith((_WRITTEN_ASIDE, _LOCK)):
                with contextlib.suppress(OSError):  # another process may remove it
                    if os.lstat(path).st_mtime < time.time() - _LEFT_AFTER_S:
                        os.unlink(path)


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """Hold the lock that lets only one process of this host compile a kernel. Without a cache
    folder there is no lock.

    Note    the lock is released when the process ends; if the process hangs, others wait at most
            two minutes
    """
    folder = cache_directory(FOLDER)
    path = "" if folder is None else f"{_path_of(folder, key)}{_LOCK}"
    file = _lock_file(path) if path else None
    if file is None:
        yield
        return
    try:
        yield
    finally:
        # The lock file is removed while it is locked: processes that wait for the lock then find
        # the kernel in the store.
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(file)


def _lock_file(path: str) -> int | None:
    """Return the descriptor of a lock file that this process has locked; None if that is
    impossible.
    """
    import fcntl

    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    never = threading.Event()
    until, pause = time.monotonic() + _LOCKED_AT_MOST_S, _FIRST_PAUSE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > until:
                break
        except OSError:
            break  # the file system does not support locks
        never.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    os.close(file)
    return None


def _path_of(folder: str, key: str) -> str:
    return os.path.join(folder, f"{sha256(key.encode()).hexdigest()[:40]}{SUFFIX}")


def _sealed(stored: Stored, key: str) -> bytes:
    parts = key.encode(), stored.notes.encode(), stored.code
    content = _LENGTHS.pack(*map(len, parts)) + b"".join(parts)
    return _BEGIN + bytes(sha256(content).digest()) + content


def _unsealed(file: bytes, key: str) -> Stored | None:
    """Return the kernel in a file; None unless the file is complete and belongs to this key."""
    begin, seal = file[: len(_BEGIN)], file[len(_BEGIN) :][:_SEAL_BYTES]
    content = file[len(_BEGIN) + _SEAL_BYTES :]
    if begin != _BEGIN or seal != bytes(sha256(content).digest()):
        return None
    if len(content) < _LENGTHS.size:
        return None
    lengths = _LENGTHS.unpack_from(content)
    if _LENGTHS.size + sum(lengths) != len(content):
        return None
    ends = [_LENGTHS.size]
    for length in lengths:
        ends.append(ends[-1] + length)
    its_key, notes, code = (content[a:b] for a, b in pairwise(ends))
    if its_key != key.encode():
        return None
    return Stored(code, notes.decode("utf-8", "replace"))
