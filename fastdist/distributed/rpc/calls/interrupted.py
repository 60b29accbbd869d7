"""Calls that a signal handler has interrupted: they make no progress until the handler returns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

from fastdist.concurrency.future import Future

from .outgoing import Call

_PACKAGE: Final = __name__.rpartition(".rpc.")[0] + "."


def find_interrupted() -> list[Call]:
    """Return the calls that outer frames of this thread make, send or wait for.

    The result is empty unless this runs in a signal handler.
    """
    found: dict[int, Call] = {}
    frame = sys._getframe().f_back
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            for call in _calls_in(frame.f_locals.values()):
                found[id(call)] = call
        frame = frame.f_back
    return [*found.values()]


def _calls_in(values: Iterable[object]) -> Iterator[Call]:
    for value in values:
        if isinstance(value, Call):
            yield value
        elif type(value) in (list, tuple):
            yield from _calls_in(value)  # type: ignore[arg-type]
        elif isinstance(value, Future) and value.done() and value.peek_error() is None:
            # RpcAgent.call_each keeps each call that it has begun in a completed Future.
            yield from _calls_in([value.value()])
