"""Warnings that point at the line of the user's own by which fastdist was called."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_told: set[str] = set()
_always = False


def warn_caller(text: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn at the innermost line outside of fastdist; with once, in this process only once."""
    if once:
        if text in _told and not _always:
            return
        _told.add(text)
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and is_ours(frame):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def is_ours(frame: FrameType) -> bool:
    """Return whether a frame runs code of fastdist."""
    name = frame.f_globals.get("__name__")
    return name is None or str(name).startswith("fastdist")  # None: see kernels/cpu/silence.py


def set_warn_always(b: bool) -> None:
    """Show warnings that are given once each time, or no longer."""
    global _always
    _always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return whether warnings that are given once are shown each time."""
    return _always


def forget_what_was_told() -> None:
    """Let warnings that are given once be given again, as in a new process."""
    _told.clear()
