"""Checks a file that a manifest names: it must be a regular file in the checkpoint's folder."""

from __future__ import annotations

import os
import stat

from .errors import CheckpointException


def require_inside(folder: str, name: str) -> os.stat_result:
    """Return the stat result of a file in a folder.

    Raises  CheckpointException for a link that leads out of the folder, and for a file that is not
            regular, such as a pipe, which would block when opened; FileNotFoundError
    """
    path = os.path.join(folder, name)
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointException(
            f"the manifest in {folder!r} names {name!r}, which is not an ordinary file"
        )
    target = os.path.realpath(path)
    if os.path.dirname(target) != os.path.realpath(folder):
        raise CheckpointException(
            f"the manifest in {folder!r} names {name!r}, which is a link to {target!r}, outside of "
            "the checkpoint: a checkpoint holds its files itself; copy the file there if you trust "
            "who made the link"
        )
    return found
