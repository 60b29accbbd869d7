"""Folders of checkpoints: finds the newest complete checkpoint, and removes old checkpoints."""

from __future__ import annotations

import errno
import os
from types import TracebackType

from ...system.atomic_file import fsync_folder
from .errors import CheckpointException
from .manifest import NAME, is_half, read_manifest, saved_at
from .metadata import Metadata, TensorStorageMetadata
from .open_inside import require_inside
from .part import is_part
from .reading import Reader

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def latest(folder: str | os.PathLike[str], *, verify: bool = False) -> str | None:
    """Return the path of the newest complete checkpoint in a folder; None if there is none.

    A checkpoint is complete if the checksum of its manifest is right, and all its files exist with
    the right lengths. With `verify`, all files are read, and their checksums must be right as well.

    Args:
        folder: The folder that contains the checkpoints.
        verify: Whether to compare the checksums of all files.
    """
    parent = os.fspath(folder)
    for name in reversed(_in_order(parent)):
        path = os.path.join(parent, name)
        if _is_whole(path, verify=verify):
            return path
    return None


def _in_order(parent: str) -> list[str]:
    """Return the names of the folders with a manifest, the newest last."""
    found = [(when, name) for name in _names(parent) if (when := _saved_at(parent, name))]
    return [name for _, name in sorted(found)]


def _saved_at(parent: str, name: str) -> int | None:
    return saved_at(os.path.join(parent, name))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_whole(path: str, *, verify: bool) -> bool:
    try:
        metadata = read_manifest(path)
        for name, size in metadata.files.items():
            if require_inside(path, name).st_size != size:
                return False
        if verify:
            _read_all(path)
    except (OSError, CheckpointException):
        return False
    return True


def _read_all(path: str) -> None:
    with Reader(path) as reader:
        for key, known in reader.metadata.state_dict_metadata.items():
            if isinstance(known, TensorStorageMetadata):
                for chunk in known.chunks:
                    reader.array(key, chunk.box)
            else:
                reader.value(key)


def after_all(folder: str, now: int) -> int:
    """Return a save time for a new checkpoint that is later than those of all checkpoints in the
    same parent folder, even if the clock was set back. `now` is returned if it is late enough.
    """
    parent = os.path.dirname(os.path.abspath(folder))
    return max([now, *(1 + (_saved_at(parent, name) or 0) for name in _names(parent))])


def keep_newest(folder: str, keep: int) -> None:
    """Remove old checkpoints in the parent folder, and files of interrupted saves.

    Only files of fastdist are removed. A folder that contains other files stays, with these files.
    """
    parent = os.path.dirname(os.path.abspath(folder))
    own = os.path.basename(os.path.abspath(folder))
    ordered = _in_order(parent)
    kept = {own, *ordered[-keep:]}
    for name in _names(parent):
        path = os.path.join(parent, name)
        if name not in kept and os.path.isdir(path) and any(map(_is_ours, _names(path))):
            _remove_unless_used(path)


def _is_ours(name: str) -> bool:
    return name == NAME or is_part(name) or is_half(name)


def _remove_unless_used(path: str) -> None:
    try:
        with FolderLock(path):
            # The manifest is removed first, so that a folder is not taken for a complete checkpoint
            # while its files are removed.
            for name in sorted(filter(_is_ours, _names(path)), key=lambda name: name != NAME):
                _unlink(os.path.join(path, name))
            remove_if_empty(path)
    except CheckpointException:
        # Another save holds the folder's lock, and will keep the folder or remove it.
        return


def remove_leftovers(folder: str, metadata: Metadata | None, session: str = "") -> None:
    """Remove the workers' files in a folder that are not in its manifest: those of `session`, or
    all if `session` is empty.

    Note    the caller must hold the folder's lock, so no other save writes to the folder
    """
    named = metadata.files if metadata is not None else {}
    for name in _names(folder):
        is_part_of = is_part(name) and name.lstrip(".").startswith(session)
        if (is_part_of and name not in named) or (is_half(name) and not session):
            _unlink(os.path.join(folder, name))


def remove_if_empty(folder: str) -> None:
    """Remove a folder if it is empty."""
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        # Another job that removes files from the same folder has already removed this file.
        return


def make_folder(folder: str) -> None:
    """Create a folder for a checkpoint, and flush the parent folder's new entry to the disk."""
    parent = os.path.dirname(os.path.abspath(folder))
    if os.path.isdir(folder):
        return
    os.makedirs(folder, exist_ok=True)
    fsync_folder(parent)


class FolderLock:
    """Prevents a second save to a folder; the system releases the lock when the process dies.

    Raises  CheckpointException if another save is under way
    Note    if the system or the file system has no file locks, a second save is not prevented
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether the lock is held."""
        return self._descriptor >= 0

    def __enter__(self) -> FolderLock:
        if fcntl is None:
            return self
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise CheckpointException(
                    f"another save to {self._folder!r} is under way; workers that save one "
                    "checkpoint together pass process_group=[THEIR NAMES] to save(); other saves "
                    "need another checkpoint_id"
                ) from None
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            return self
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._descriptor >= 0:
            # Unlocked explicitly, because a forked process may still have the descriptor open.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1
