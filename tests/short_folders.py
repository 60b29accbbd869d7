"""Temporary folders with short names, because the path of a Unix socket has at most 103 bytes."""

from __future__ import annotations

import os
import tempfile

# The longest path of a base folder; names that tests and fastdist add use the other 63 bytes.
_LONGEST = 40


def make_short_folder() -> str:
    """Make a private folder and return its path; the caller must remove the folder."""
    return tempfile.mkdtemp(prefix="fd-", dir=_base())


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context manager that makes a folder with a short path, and finally removes it."""
    return tempfile.TemporaryDirectory(prefix="fd-", dir=_base())


def _base() -> str:
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp"
