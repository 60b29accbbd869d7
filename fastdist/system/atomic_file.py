"""Writes files atomically: the old content stays until the new content is on the disk.

The bytes are written to a temporary file in the same folder and flushed to the disk. Then a rename
replaces the old file. On systems with unnamed files (Linux's O_TMPFILE), the temporary file gets a
name only at the end. On these systems, a process that is killed earlier leaves no temporary file.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

_BUFFER_BYTES: Final = 1 << 20
# Errors of systems and file systems without unnamed files.
_NO_NAMELESS: Final = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT))


# The disk is full, or a quota or file size limit is exceeded.
_FULL: Final = frozenset((errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)))


@contextmanager
def atomic_file(path: str | os.PathLike[str], size: int | None = None) -> Iterator[BinaryIO]:
    """Open a binary file for writing. When the `with` block ends without an error, the file
    replaces `path`.

    `size` is the number of bytes that will be written. The error of a full disk shows this number.

    Raises  FileNotFoundError, IsADirectoryError, PermissionError; OSError with the path, the size
            and the free space if the disk is full. After any error, including one in the block, the
            old file is unchanged
    Note    permissions and owner of an old file are kept; a new file gets the defaults
            of open(). If `path` is a symbolic link, the link stays and its target is replaced. A
            special file, such as a pipe, is written directly
    """
    target = os.path.realpath(path)
    old = _stat(target)
    if old is not None and stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with full_disk_named(target, size), open(target, "wb") as file:
            yield file
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    try:
        with _Replacement(target, old) as replacement:
            with os.fdopen(replacement.descriptor, "wb", _BUFFER_BYTES, closefd=False) as file:
                yield file
            replacement.finish()
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise _no_room(error, target, size, _free_beside(target)) from error


@contextmanager
def full_disk_named(name: str, size: int | None = None) -> Iterator[None]:
    """If the `with` block raises the error of a full disk, add `name` and `size` to the error."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise _no_room(error, name, size, "") from error


def _free_beside(path: str) -> str:
    """Return a text with the free space in the folder of `path`; "" if that is unknown."""
    try:
        return f", and {shutil.disk_usage(os.path.dirname(path)).free} bytes are free there"
    except OSError:
        return ""


def _no_room(error: OSError, path: str, size: int | None, free: str) -> OSError:
    """Return the error of a full disk, with the path, the size and the free space."""
    wanted = "a file" if size is None else f"a file of {size} bytes"
    number = error.errno or errno.ENOSPC
    return OSError(number, f"{os.strerror(number)}: {wanted} could not be written{free}", path)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


class _Replacement:
    """A temporary file in the target's folder, which replaces the target."""

    def __init__(self, target: str, old: os.stat_result | None) -> None:
        self._target = target
        self._old = old
        self._folder, base = os.path.split(target)
        # File names have at most 255 bytes. A name that is cut inside a character is still valid.
        start = os.fsdecode(os.fsencode(base)[:200])
        self._name = os.path.join(self._folder, f".{start}.{secrets.token_hex(8)}.tmp")
        self._has_name = False
        self.descriptor = -1

    def __enter__(self) -> _Replacement:
        nameless = getattr(os, "O_TMPFILE", 0)
        # An unnamed file can only get a name through /proc.
        if nameless and os.path.isdir("/proc/self/fd"):
            try:
                self.descriptor = os.open(self._folder, nameless | os.O_RDWR | os.O_CLOEXEC, 0o666)
            except OSError as error:
                if error.errno not in _NO_NAMELESS:
                    raise self._told(error) from error
        if self.descriptor < 0:
            self._open_by_name()
        return self

    def _open_by_name(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        # Set before the file exists, so that a Ctrl-C right after os.open does not leave the file.
        self._has_name = True
        try:
            self.descriptor = os.open(self._name, flags, 0o666)
        except OSError as error:
            raise self._told(error) from error

    def _told(self, error: OSError) -> OSError:
        if not isinstance(error, PermissionError):
            return error
        return PermissionError(
            error.errno,
            f"{os.strerror(error.errno or errno.EACCES)}: cannot create a file in the folder "
            f"{self._folder!r}. A file is replaced by a new one in the same folder, so that it "
            "is never half written: make the folder writable, or pass an open file",
            self._target,
        )

    def finish(self) -> None:
        """Flush the temporary file to the disk, and rename it to the target."""
        if self._old is not None:
            self._keep_what_the_old_one_was(self._old)
        os.fsync(self.descriptor)
        if not self._has_name:
            self._has_name = True
            own = f"/proc/self/fd/{self.descriptor}"
            # With any src_dir_fd, Python calls linkat, which follows the symbolic link in /proc.
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.link(own, self._name, src_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        os.replace(self._name, self._target)
        self._has_name = False
        fsync_folder(self._folder)

    def _keep_what_the_old_one_was(self, old: os.stat_result) -> None:
        if not hasattr(os, "fchmod"):
            return
        new = os.fstat(self.descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            try:
                os.fchown(self.descriptor, old.st_uid, old.st_gid)
            except PermissionError:
                # Only root may change the owner. Otherwise the new file belongs to this user, who
                # was allowed to write the old one.
                pass
        os.fchmod(self.descriptor, stat.S_IMODE(old.st_mode))

    def __exit__(self, *_: object) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
        if self._has_name:
            try:
                os.unlink(self._name)
            except FileNotFoundError:
                pass


def fsync_folder(folder: str) -> None:
    """Flush a folder's list of file names to the disk."""
    # Windows cannot open folders; on Windows the file system alone makes a rename durable.
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush folders; the contents of the files are flushed.
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
