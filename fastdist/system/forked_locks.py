"""Renews locks in a forked child, because threads of the parent may have held them."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from . import forked_imports as forked_imports  # registers its own handler

_REENTRANT: Final = type(threading.RLock())


def renew_in_children(owner: Any, *names: str) -> None:
    """Replace the named locks of a module or class by new ones in each forked child.

    If another thread holds a lock at the fork, the child does not have that thread, and would wait
    for the lock forever. The named locks must be held only for a few assignments. Code that uses
    them must look them up by name each time.
    """

    def renew() -> None:
        for name in names:
            again = isinstance(getattr(owner, name), _REENTRANT)
            setattr(owner, name, threading.RLock() if again else threading.Lock())

    os.register_at_fork(after_in_child=renew)
