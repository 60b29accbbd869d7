"""Interpreters: what they are asked, and which of them are open in a thread."""

from __future__ import annotations

import functools
import threading
from typing import Any, ClassVar, Final

# Note [Interpreters of a thread]
# A call reads one tuple: the interpreters that are open in its thread, in the order in which they
# are asked. While `modes.tracers` (graph/modes.py), the number of those of all threads, is 0, no
# call reads it. The tuple may list one that has nothing open any more, after a Ctrl-C: that costs
# time. It never lacks an open one: code that opens one lists it first, code that closes one first
# restores the state.

# What an interpreter returns for a call that it does not take.
NOT_TAKEN: Final[Any] = type("NotTaken", (), {"__slots__": ()})()


class Interpreter:
    """Observes calls, or runs them in another manner.

    `order` is its place among the others; `sees_plain` says that it wants to see each call of an op
    on plain tensors, `needs_general_path` that the short path does not serve such calls for it.
    """

    order: ClassVar[int]
    sees_plain: ClassVar[bool] = True
    needs_general_path: ClassVar[bool] = True

    def call(self, op: Any, args: Any, target: Any) -> Any:
        """Return the result of a call of op that writes into target, None for a new tensor;
        NOT_TAKEN where the call goes on to the next interpreter.
        """
        return NOT_TAKEN


class _Thread(threading.local):
    interpreters: tuple[Interpreter, ...] = ()


class _Process:
    __slots__ = ("interpreters",)

    def __init__(self) -> None:
        self.interpreters: tuple[Interpreter, ...] = ()


of_thread: Final = _Thread()
# Those that see the calls of all threads.
of_process: Final = _Process()


def open_interpreters() -> tuple[Interpreter, ...]:
    """Return the interpreters that see the calls of this thread, in their order."""
    if of_process.interpreters:
        return _joined(of_thread.interpreters, of_process.interpreters)
    return of_thread.interpreters


def list_open(one: Interpreter, is_open: bool) -> None:
    """List an interpreter as open in this thread, or remove it."""
    listed = of_thread.interpreters
    if (one in listed) is not is_open:
        of_thread.interpreters = _joined(listed, (one,)) if is_open else without(listed, one)


def list_in_process(one: Interpreter, is_open: bool) -> None:
    """List an interpreter as open in all threads, or remove it.

    Note    callers hold a lock
    """
    of_process.interpreters = _joined(without(of_process.interpreters, one), (one,) * is_open)


@functools.cache
def _joined(a: tuple[Interpreter, ...], b: tuple[Interpreter, ...]) -> tuple[Interpreter, ...]:
    return tuple(sorted({*a, *b}, key=lambda one: one.order))


@functools.cache
def without(listed: tuple[Interpreter, ...], one: Interpreter) -> tuple[Interpreter, ...]:
    """Return the others."""
    return tuple([other for other in listed if other is not one])


@functools.cache
def see_plain(listed: tuple[Interpreter, ...]) -> bool:
    """Return whether one of the interpreters does."""
    return any(one.sees_plain for one in listed)


@functools.cache
def need_general_path(listed: tuple[Interpreter, ...]) -> bool:
    """Return whether one of the interpreters does."""
    return any(one.needs_general_path for one in listed)
