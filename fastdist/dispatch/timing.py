"""Ops that hand in what they took, while somebody listens to core/time_ranges.py.

A profile lets every op go its general way, where `modes.tracers` is looked at in any case: who does
not listen pays nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from ..core.time_ranges import time_range, time_ranges


class _Within(threading.local):
    # The op whose range was opened, and which has not been entered since.
    op: Any = None


_within: Final = _Within()


def to_be_timed(op: Any) -> bool:
    """Return whether the call of op that begins here is to go through `timed`: not if it comes from
    there.

    Note    called where modes.tracers is not zero
    """
    if not time_ranges.on:
        return False
    if _within.op is op:
        _within.op = None
        return False
    return True


def timed(op: Any, name: str, call: Callable[..., Any], *args: Any) -> Any:
    """Return call(*args), which asks to_be_timed(op) first, and hand in the time that it took."""
    with time_range(f"aten::{name}", "op"):
        _within.op = op
        try:
            return call(*args)
        finally:
            _within.op = None
