"""The base class of interpreters, and for each thread the tuple of its open interpreters."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

# Note [Interpreters of a thread]
# A call reads one tuple: the interpreters that are open in its thread, in the order in which the
# call is offered to them. While `modes.tracers` (graph/modes.py) is 0, no interpreter is open in
# any thread, and calls do not read the tuple. After a KeyboardInterrupt the tuple may still list an
# interpreter that has been closed, which only costs time. An open interpreter is never missing:
# code that opens one lists it first, and code that closes one removes it last.

# Returned by an interpreter that leaves the call to the next one.
NOT_TAKEN: Final[Any] = type("NotTaken", (), {"__slots__": ()})()


Interpreters: TypeAlias = "tuple[Interpreter, ...]"


class Interpreter:
    """An object that observes calls, or replaces them.

    `order` is the position of the interpreter among all interpreters. An interpreter with
    `sees_plain` gets each call of an op on plain tensors. While an interpreter with
    `needs_general_path` is open, such calls must not take the short path.
    """

    order: ClassVar[int]
    sees_plain: ClassVar[bool] = True
    needs_general_path: ClassVar[bool] = True

    def call(self, op: Any, args: Any, target: Any, rest: Interpreters) -> Any:
        """Return the result of a call of an op or a composite, or NOT_TAKEN to pass the call on to
        the next interpreter. An interpreter can make the call itself by `resumed` with `rest`.

        For an op, `args` are its operands and attributes; for a composite, its positional and named
        arguments. `op.kind` distinguishes the two. `target` is the tensor to write the result into;
        None means a new tensor.
        """
        return NOT_TAKEN


class _Thread(threading.local):
    interpreters: Interpreters = ()
    # An op, and the interpreters that get its next call; see `resumed`.
    resuming: tuple[Any, Interpreters] | None = None


class _Process:
    __slots__ = ("interpreters",)

    def __init__(self) -> None:
        self.interpreters: Interpreters = ()


of_thread: Final = _Thread()
# The interpreters that see the calls of all threads.
of_process: Final = _Process()


def open_interpreters() -> Interpreters:
    """Return the interpreters that see the calls of this thread, in their order."""
    if of_process.interpreters:
        return _joined(of_thread.interpreters, of_process.interpreters)
    return of_thread.interpreters


def interpreters_of_call(op: Any) -> Interpreters:
    """Return the interpreters that get this call of `op`."""
    resuming = of_thread.resuming
    if resuming is not None and resuming[0] is op:
        of_thread.resuming = None
        return resuming[1]
    return open_interpreters() if of_process.interpreters else of_thread.interpreters


def offer_call(op: Any, args: Any, target: Any = None) -> Any:
    """Return the result of the first interpreter that takes a call of `op`. If none takes it,
    return NOT_TAKEN; the caller must then run the op.
    """
    return offer_to(interpreters_of_call(op), op, args, target)


def offer_to(listed: Interpreters, op: Any, args: Any, target: Any = None) -> Any:
    """Return the result of the first interpreter that takes a call of `op`, or NOT_TAKEN."""
    for place, one in enumerate(listed, 1):
        found = one.call(op, args, target, listed[place:])
        if found is not NOT_TAKEN:
            return found
    return NOT_TAKEN


def resumed(
    op: Any, rest: Interpreters, call: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Return call(*args, **kwargs). The first call of `op` inside of `call` is offered only to the
    interpreters in `rest`.
    """
    before, of_thread.resuming = of_thread.resuming, (op, rest)
    try:
        return call(*args, **kwargs)
    finally:
        of_thread.resuming = before


def list_open(one: Interpreter, is_open: bool) -> None:
    """List an interpreter as open in this thread, or remove it."""
    listed = of_thread.interpreters
    if (one in listed) is not is_open:
        of_thread.interpreters = _joined(listed, (one,)) if is_open else without(listed, one)


def list_in_process(one: Interpreter, is_open: bool) -> None:
    """List an interpreter as open in all threads, or remove it.

    Note    the caller must hold a lock
    """
    of_process.interpreters = _joined(without(of_process.interpreters, one), (one,) * is_open)


@functools.cache
def _joined(a: Interpreters, b: Interpreters) -> Interpreters:
    return tuple(sorted({*a, *b}, key=lambda one: one.order))


@functools.cache
def without(listed: Interpreters, one: Interpreter) -> Interpreters:
    """Return the interpreters in `listed`, without the interpreter `one`."""
    return tuple([other for other in listed if other is not one])


@functools.cache
def see_plain(listed: Interpreters) -> bool:
    """Return whether any of the interpreters has `sees_plain`."""
    return any(one.sees_plain for one in listed)


@functools.cache
def need_general_path(listed: Interpreters) -> bool:
    """Return whether any of the interpreters has `needs_general_path`."""
    return any(one.needs_general_path for one in listed)
