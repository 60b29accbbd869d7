"""A transport that records a group's calls, and a group of three that uses it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import numpy as np

from fastdist.distributed.process_group.group import ProcessGroup

SIZE, RANK = 3, 1


class Asked:
    """A call of a transport: its Call, and its arguments as lists."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.name, self.agreed, self.line = call.name, call.agreed, call.line
        self.sequence, self.deadline = call.sequence, call.deadline
        self.arguments = arguments
        self.thread = threading.current_thread()


class Recorder:
    """A transport that records its calls, and fills each result with 10, 11, 12..."""

    def __init__(self) -> None:
        self.rank, self.size = RANK, SIZE
        self.asked: list[Asked] = []
        self.given: list[Any] = []

    def note(self, call: Any, *arguments: Any) -> None:
        self.asked.append(Asked(call, *[_listed(one) for one in arguments]))
        self.given = list(arguments)

    def all_reduce(self, call: Any, array: Any, op: str) -> None:
        self.note(call, array, op)
        _fill(array)

    def reduce(self, call: Any, array: Any, op: str, root: int) -> None:
        self.note(call, array, op, root)
        _fill(array)

    def broadcast(self, call: Any, array: Any, root: int) -> None:
        self.note(call, array, root)
        _fill(array)

    def all_gather(self, call: Any, out: Any, array: Any) -> None:
        self.note(call, list(out.shape), array)
        _fill(out)

    def reduce_scatter(self, call: Any, out: Any, array: Any, op: str) -> None:
        self.note(call, list(out.shape), array, op)
        _fill(out)

    def all_to_all(self, call: Any, outs: Any, arrays: Any) -> None:
        self.note(call, [out.size for out in outs], [one.tolist() for one in arrays])
        for out in outs:
            _fill(out)

    def gather(self, call: Any, outs: Any, array: Any, root: int) -> None:
        self.note(call, None if outs is None else len(outs), array, root)
        for out in outs or ():
            _fill(out)

    def scatter(self, call: Any, out: Any, arrays: Any, root: int) -> None:
        self.note(call, arrays if arrays is None else [one.tolist() for one in arrays], root)
        _fill(out)

    def barrier(self, call: Any) -> None:
        self.note(call)

    def send(self, call: Any, array: Any, to: int, tag: int) -> None:
        self.note(call, array, to, tag)

    def recv(self, call: Any, array: Any, sender: int | None, tag: int) -> int:
        self.note(call, array.size, sender, tag)
        _fill(array)
        return 2 if sender is None else sender

    def abort(self, error: Exception) -> None:
        pass

    def close(self) -> None:
        pass


def _listed(one: Any) -> Any:
    return one.tolist() if isinstance(one, np.ndarray) else one


def _fill(array: Any) -> None:
    array[...] = np.arange(10, 10 + array.size).reshape(array.shape)


def recorded_group() -> ProcessGroup:
    """Return member 1 of a group of 3 whose transport is a Recorder."""
    made = ProcessGroup(RANK, SIZE)
    made._carriers["gloo"] = Recorder()
    made.set_timeout(timedelta(seconds=100))
    return made


def asked_of(group: ProcessGroup) -> Asked:
    """Return the only call that the transport got, and forget it."""
    (found,) = group._carriers["gloo"].asked
    group._carriers["gloo"].asked.clear()
    return found  # type: ignore[no-any-return]
