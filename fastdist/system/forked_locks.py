"""Locks that a forked child finds open, whatever the other threads of its parent held."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from . import forked_imports as forked_imports  # registers its own handler

_REENTRANT: Final = type(threading.RLock())


def renew_in_children(owner: Any, *names: str) -> None:
    """Give a module, or class, new locks by these names in each process that is forked.

    A thread that held one while another forked is not in the child, which would wait forever. The
    lock must be one that is held for a few assignments, and looked up by its name each time.
    """

    def renew() -> None:
        for name in names:
            again = isinstance(getattr(owner, name), _REENTRANT)
            setattr(owner, name, threading.RLock() if again else threading.Lock())

    os.register_at_fork(after_in_child=renew)
