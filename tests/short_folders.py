"""Temporary folders with names so short that sockets fit into them: a path of one has 103 bytes."""

from __future__ import annotations

import os
import tempfile

# The paths below it, of tests and of fastdist, take the other 63.
_LONGEST = 40


def make_short_folder() -> str:
    """Make a folder of this user's alone, and return its path; whoever asked removes it."""
    return tempfile.mkdtemp(prefix="fd-", dir=_base())


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a block's folder, which goes with the block."""
    return tempfile.TemporaryDirectory(prefix="fd-", dir=_base())


def _base() -> str:
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp"
