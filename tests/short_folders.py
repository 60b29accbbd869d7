"""Temporary folders with short names: the path of a Unix socket may have only 103 bytes."""

from __future__ import annotations

import os
import tempfile

# The paths below it, which tests and fastdist add, use the other 63 bytes.
_LONGEST = 40


def make_short_folder() -> str:
    """Make a private folder, and return its path; the caller removes it."""
    return tempfile.mkdtemp(prefix="fd-", dir=_base())


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context manager that makes a short folder and removes it at the end of the block."""
    return tempfile.TemporaryDirectory(prefix="fd-", dir=_base())


def _base() -> str:
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp"
