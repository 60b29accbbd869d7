"""Sleeps until another process changes a word of shared memory, with Linux's futexes."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Callable
from typing import Any, Final

# The number of the futex system call on processors that support shared memory (system/fence.py).
_NUMBERS: Final = {"x86_64": 202, "amd64": 202}
# FUTEX_PRIVATE_FLAG is not set, because several processes map the word.
_WAIT: Final = 0
_WAKE: Final = 1
_EVERYBODY: Final = (1 << 31) - 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))


def why_not_viable() -> str | None:
    """Return the reason why processes cannot sleep on shared words here; None if they can."""
    if sys.platform != "linux" or platform.machine().lower() not in _NUMBERS:
        return f"{sys.platform} on {platform.machine()} has no futexes that this version knows"
    return None


def wait(address: int, value: int, timeout_s: float) -> None:
    """Sleep while the 32-bit word at `address` equals `value`, for at most `timeout_s`.

    The call sometimes returns early, so callers must check again. Releases the interpreter lock.
    """
    seconds = int(timeout_s)
    span = _Timespec(seconds, int((timeout_s - seconds) * 1e9))
    _system_call()(_number(), address, _WAIT, value, ctypes.byref(span), None, 0)


def wake(address: int) -> None:
    """Wake all threads that sleep on the word at `address`."""
    _system_call()(_number(), address, _WAKE, _EVERYBODY, None, None, 0)


@functools.cache
def _number() -> int:
    return _NUMBERS[platform.machine().lower()]


@functools.cache
def _system_call() -> Callable[..., Any]:
    function = ctypes.CDLL(None).syscall
    function.restype = ctypes.c_long
    function.argtypes = [
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
    ]
    return function
