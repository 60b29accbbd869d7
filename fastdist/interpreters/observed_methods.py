"""Tensor methods that are not ops: their calls are reported to open profiles and recorders.

While no profile or recorder is open, Tensor has its original methods, so calls cost nothing extra.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from ..core.caller_warning import is_ours
from ..instrumentation.time_ranges import time_ranges
from ..system.forked_locks import renew_in_children
from ..tensor.tensor import Tensor
from . import tracing
from .timing import run_timed

# Method -> PyTorch's name for its event in a profile.
_EVENTS: Final = {
    "__bool__": "is_nonzero",
    "copy_": "copy_",
    "detach": "detach",
    "fill_": "fill_",
    "item": "item",
    "reshape": "reshape",
    "zero_": "zero_",
}
# Methods by which a program reads values of a tensor. A trace treats everything that the program
# computes from these values as constants.
_READING: Final = (
    *("__array__", "__bool__", "__complex__", "__float__", "__index__", "__int__", "item"),
    *("numpy", "tolist"),
)
# Guards `_num_observers` and the replaced methods of Tensor. Its holder takes no other lock.
_observers_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_observers_lock")
_num_observers = 0


def install() -> None:
    """Arrange that the methods are replaced while a profile or a recorder is open.

    Note    called once, after all methods of Tensor have been defined
    """
    names = {*_EVENTS, *_READING}
    owners = {name: next(one for one in Tensor.__mro__ if name in vars(one)) for name in names}
    plain = {name: vars(owner)[name] for name, owner in owners.items()}
    observed = {name: _observed(name, method) for name, method in plain.items()}

    def switch(is_on: bool) -> None:
        global _num_observers
        with _observers_lock:
            _num_observers += 1 if is_on else -1
            for name, method in (observed if _num_observers else plain).items():
                setattr(owners[name], name, method)

    time_ranges.watch("on", switch)
    tracing.watchers.append(switch)


def _observed(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    event, reads = _EVENTS.get(name), name in _READING

    @wraps(plain)
    def method(*args: Any, **kwargs: Any) -> Any:
        if event is not None and time_ranges.on:
            found = run_timed(f"aten::{event}", plain, args, kwargs)
        else:
            found = plain(*args, **kwargs)
        if reads and not is_ours(sys._getframe(1)):
            tracing.note_read(name.strip("_"), args[0], found)
        return found

    return method
