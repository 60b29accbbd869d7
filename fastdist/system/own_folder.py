"""Folders to which no other user can write, and which no other user can replace."""

# Note [Whose folder it is] Code in a cache folder runs with the rights of the user who loads it, so
# no other user may have written the code. Checking the folder alone is not enough: a user who may
# write to a parent folder can replace the folder. So the path is checked from the root. Each folder
# must belong to this user or to root. A folder that other users may write to must be sticky like
# /tmp, so that they cannot remove files of other users. The last folder must belong to this user,
# and must not be writable by others even if it is sticky. Symbolic links are followed one by one,
# because each link has an owner and leads to further folders. Missing folders are created for this
# user only. If another user creates a missing folder first, that folder is refused. A group counts
# as other users, unless it is the private group of this user (common where the umask is 002).

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence

from ..core.errors import FastdistError

_MOST_LINKS = 40
_MOST_BYTES = 256 << 20
# Flags of os.open; 0 for a flag that this system does not have.
_CLOEXEC, _NONBLOCK, _NOFOLLOW = [
    getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW")
]
_UID_MAP, _OVERFLOW_UID = "/proc/self/uid_map", "/proc/sys/kernel/overflowuid"


class ForeignFolderError(FastdistError):
    """Another user could write to a folder that must belong to this user alone."""


def make_own_folder(path: str) -> None:
    """Create a missing folder and its missing parents; check that it belongs to the user alone.

    See Note [Whose folder it is].

    Raises  ForeignFolderError if another user could write to the folder or replace it; OSError if
            the folder cannot be created
    Note    write permissions are not checked on systems without user ids
    """
    if not hasattr(os, "geteuid"):
        os.makedirs(path, 0o700, exist_ok=True)
        return
    _require_folder_of(path, (os.geteuid(),), _look_or_make)


def require_trusted_folder(path: str) -> None:
    """Check that a folder belongs to this user or to root. Its files are only read. See
    make_own_folder.

    Raises  ForeignFolderError if another user could write to the folder or replace it; OSError if
            the folder does not exist
    """
    if hasattr(os, "geteuid"):
        _require_folder_of(path, (os.geteuid(), 0), os.lstat)
    else:
        os.stat(path)


def _require_folder_of(
    path: str, owners: Sequence[int], look: Callable[[str], os.stat_result]
) -> None:
    place, found = os.sep, os.lstat(os.sep)
    parts = os.path.abspath(path).split(os.sep)[::-1]
    num_links = 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":  # from the target of a link: abspath has removed all others
            place = os.path.dirname(place)
            found = os.lstat(place)
            continue
        _require_that_what_is_in_it_stays(place, found)
        step = os.path.join(place, part)
        seen = look(step)
        _require_owner(step, seen)
        if not stat.S_ISLNK(seen.st_mode):
            place, found = step, seen
            continue
        num_links += 1
        if num_links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(step)
        parts += target.split(os.sep)[::-1]
        if os.path.isabs(target):
            place, found = os.sep, os.lstat(os.sep)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
    if found.st_uid not in owners:
        raise ForeignFolderError(
            f"{place!r} belongs to user {found.st_uid}, not to this one ({os.geteuid()})"
        )
    if _lets_others_write(found):
        raise ForeignFolderError(_open_to_others(place, found))


def read_own_file(path: str, *, or_roots: bool = False) -> bytes | None:
    """Return the content of a file that only this user (with or_roots, also root) can write.

    Other users may have had access to the folder before make_own_folder accepted it. So this
    function returns None for files of other users, files that other users can write to, pipes
    (which would block), and files larger than any kernel. It raises OSError for links, which could
    lead to a file that this user has downloaded. With or_roots, links are followed, because no
    other user could write to the folder of such a file.

    Raises  OSError if the file cannot be opened or read
    """
    flags = os.O_RDONLY | _CLOEXEC | _NONBLOCK | (0 if or_roots else _NOFOLLOW)
    with open(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
            return None
        if hasattr(os, "geteuid"):
            is_trusted = found.st_uid == os.geteuid() or (or_roots and found.st_uid == 0)
            if not is_trusted or _lets_others_write(found):
                return None
        return file.read()


def _look_or_make(path: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass  # created by another process or another user: it is checked next
        return os.lstat(path)


def _require_owner(path: str, found: os.stat_result) -> None:
    if found.st_uid in (os.geteuid(), 0) or _is_unknown_here(found.st_uid):
        return
    raise ForeignFolderError(
        f"{path!r} belongs to user {found.st_uid}, neither to this one ({os.geteuid()}) nor to root"
    )


def _require_that_what_is_in_it_stays(path: str, found: os.stat_result) -> None:
    if _lets_others_write(found) and not found.st_mode & stat.S_ISVTX:
        raise ForeignFolderError(_open_to_others(path, found))


def _open_to_others(path: str, found: os.stat_result) -> str:
    return f"{path!r}, mode {stat.S_IMODE(found.st_mode):04o}, lets others write into it"


def _lets_others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_private_group(found)


def _is_private_group(found: os.stat_result) -> bool:
    """Return whether the group of a file is this user's private group: it is the user's primary
    group, has the user's name, and has no other members.
    """
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return (
        found.st_uid == user.pw_uid
        and group.gr_gid == user.pw_gid
        and group.gr_name == user.pw_name
        and set(group.gr_mem) <= {user.pw_name}
    )


def _is_unknown_here(uid: int) -> bool:
    """Return whether `uid` is the number for all users that are unknown in this container, such as
    root of the host.
    """
    try:
        with open(_OVERFLOW_UID) as overflow, open(_UID_MAP) as lines:
            known = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
            return uid == int(overflow.read()) and not any(
                first <= uid < first + count for first, count in known
            )
    except (OSError, ValueError):
        return False
