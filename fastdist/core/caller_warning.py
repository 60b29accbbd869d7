"""Warnings that are reported at the line of user code that called fastdist."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_told: set[str] = set()
_always = False


def warn_caller(text: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn at the innermost frame outside of fastdist; with `once`, once per text and process."""
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
    """Choose whether warnings that normally appear once per process appear each time."""
    global _always
    _always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return whether warnings that normally appear once per process appear each time."""
    return _always


def forget_what_was_told() -> None:
    """Forget which warnings have appeared, so that each may appear again, as in a new process."""
    _told.clear()
