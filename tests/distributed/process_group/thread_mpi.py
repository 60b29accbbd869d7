"""The part of mpi4py that fastdist uses, for members that are threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


class MPIError(Exception):
    """An MPI error."""

    def __init__(self, text: str, kind: int) -> None:
        super().__init__(text)
        self._kind = kind

    def Get_error_class(self) -> int:
        """Return MPI's error class."""
        return self._kind


class Datatype:
    """A datatype of some bytes, or a NumPy dtype."""

    num_open = 0

    def __init__(self, size: int, dtype: Any = np.uint8) -> None:
        self.size, self.dtype = size, dtype

    def Create_contiguous(self, count: int) -> Datatype:
        """Return a datatype of several elements."""
        Datatype.num_open += 1
        return Datatype(self.size * count)

    def Commit(self) -> None:
        """Do nothing."""

    def Free(self) -> None:
        """Count this datatype as freed."""
        Datatype.num_open -= 1


class Request:
    """A request that is complete when `try_it` returns true."""

    def __init__(self, try_it: Callable[[], Any]) -> None:
        self._try_it, self._found = try_it, None

    def Test(self) -> bool:
        """Return whether the request is complete."""
        if self._found is None:
            self._found = self._try_it()
        return self._found is not None

    @staticmethod
    def Testall(requests: list[Request], statuses: list[Any] | None = None) -> bool:
        """Return whether all requests are complete."""
        done = min([one.Test() for one in requests])
        if done and statuses is not None:
            statuses[0].source = requests[0]._found
        return done


class Status:
    """The status of a receive, which names the sender of the message."""

    source = -1

    def Get_source(self) -> int:
        """Return the sender."""
        return self.source


class World:
    """The shared state of all communicators of one job of threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        # By (communicator, number), then by rank: the member's data.
        self.calls: dict[Any, dict[int, Any]] = {}
        self.mail: dict[Any, list[tuple[int, int, bytes]]] = {}
        # The error that the next call raises.
        self.failure: MPIError | None = None
        self.names: list[str] = []


_ANY = -2


class Comm:
    """One member's end of a communicator."""

    def __init__(self, world: World, key: Any, ranks: list[int], rank: int) -> None:
        self.world, self.key, self.ranks = world, key, ranks
        self.rank, self.count, self.made = ranks.index(rank), 0, 0

    def Get_rank(self) -> int:
        """Return the rank."""
        return self.rank

    def Get_size(self) -> int:
        """Return the number of members."""
        return len(self.ranks)

    def Get_attr(self, name: int) -> int:
        """Return the largest tag (the only attribute that is read)."""
        return (1 << 20) + name * 0

    def Get_group(self) -> Any:
        """Return an object whose `Incl` returns the given ranks."""
        return SimpleNamespace(Incl=lambda ranks: ranks)

    def Create_group(self, ranks: list[int], tag: int) -> Comm:
        """Return a communicator of some members."""
        self.made += 1
        return Comm(self.world, (tuple(ranks), tag, self.made), ranks, self.rank)

    def Free(self) -> None:
        """Do nothing."""

    def _all(self, name: str, brought: Any, take: Callable[[list[Any]], None]) -> Request:
        if (failure := self.world.failure) is not None:
            raise failure
        self.world.names.append(name)
        calls = self.world.calls.setdefault((self.key, self.count), {})
        self.count += 1
        calls[self.rank] = name, brought
        size = len(self.ranks)

        def try_it() -> bool | None:
            if len(calls) < size:
                return None
            assert {one for one, _ in calls.values()} == {name}, "MPI would hang here"
            take([calls[rank][1] for rank in range(size)])
            return True

        return Request(try_it)

    def Iallgather(self, given: Any, room: Any) -> Request:
        """Gather equal parts on all members."""
        out = _bytes(room, len(self.ranks))
        return self._all("allgather", _bytes(given).copy(), lambda all: _fill(out, all))

    def Iallreduce(self, given: Any, room: Any, op: Any) -> Request:
        """Reduce on all members."""
        out = _numbers(room)
        return self._all("allreduce", _numbers(given).copy(), lambda all: _put(out, _fold(op, all)))

    def Ireduce(self, given: Any, room: Any, op: Any, root: int) -> Request:
        """Reduce on one member."""

        def take(all: list[Any]) -> None:
            if self.rank == root:
                _put(_numbers(room), _fold(op, all))

        return self._all("reduce", _numbers(given).copy(), take)

    def Ireduce_scatter_block(self, given: Any, room: Any, op: Any) -> Request:
        """Reduce, and give each member its part."""
        out = _numbers(room)

        def take(all: list[Any]) -> None:
            _put(out, _fold(op, all).reshape(len(all), -1)[self.rank])

        return self._all("reduce_scatter_block", _numbers(given).reshape(-1).copy(), take)

    def Ibcast(self, room: Any, root: int) -> Request:
        """Copy from one member to all."""
        out = _bytes(room)
        return self._all("bcast", out.copy(), lambda all: _put(out, all[root]))

    def Igather(self, given: Any, room: Any, root: int) -> Request:
        """Gather on one member."""

        def take(all: list[Any]) -> None:
            if self.rank == root:
                _fill(_bytes(room, len(all)), all)

        return self._all("gather", _bytes(given).copy(), take)

    def Iscatter(self, given: Any, room: Any, root: int) -> Request:
        """Give each member a part."""
        out = _bytes(room)
        size = len(self.ranks)
        brought = _bytes(given, size).copy() if self.rank == root else None

        def take(all: list[Any]) -> None:
            _put(out, all[root].reshape(size, -1)[self.rank])

        return self._all("scatter", brought, take)

    def Ialltoall(self, given: Any, room: Any) -> Request:
        """Exchange one number between each pair of members."""

        def take(all: list[Any]) -> None:
            room[:] = [one[self.rank] for one in all]

        return self._all("alltoall", given.copy(), take)

    def Ialltoallv(self, given: Any, room: Any) -> Request:
        """Exchange parts between each pair of members."""
        data, sent, starts, kind = given
        out, came, begins, _ = room
        parts = [
            data[begin * kind.size : (begin + count) * kind.size].copy()
            for begin, count in zip(starts, sent)
        ]

        def take(all: list[Any]) -> None:
            for begin, count, one in zip(begins, came, all):
                out[begin * kind.size : (begin + count) * kind.size] = one[self.rank]

        return self._all("alltoallv", parts, take)

    def Isend(self, given: Any, to: int, tag: int) -> Request:
        """Send a message."""
        box = self.world.mail.setdefault((self.key, to), [])
        box.append((self.rank, tag, _bytes(given).tobytes()))
        return Request(lambda: self.rank + 1)

    def Irecv(self, room: Any, source: int, tag: int) -> Request:
        """Receive a message."""
        box = self.world.mail.setdefault((self.key, self.rank), [])
        out = _bytes(room)

        class Receiving(Request):
            def Test(self) -> bool:
                if self._found is None:
                    self._found = _take(box, out, source, tag)
                return self._found is not None

        return Receiving(lambda: None)


def _take(box: list[Any], out: Any, source: int, tag: int) -> Any:
    for place, (sender, sent_tag, data) in enumerate(box):
        if sent_tag == tag and source in (_ANY, sender):
            del box[place]
            out[: len(data)] = np.frombuffer(data, np.uint8)
            return sender
    return None


def _bytes(buffer: Any, times: int = 1) -> Any:
    array = buffer[0].reshape(-1).view(np.uint8)
    if len(buffer) > 2:
        assert array.size == buffer[1] * buffer[2].size * times
    return array


def _numbers(buffer: Any) -> Any:
    array, kind = buffer
    assert array.dtype == kind.dtype
    return array.reshape(-1)


def _put(out: Any, values: Any) -> None:
    out[...] = values


def _fill(out: Any, parts: list[Any]) -> None:
    out[...] = np.concatenate([one.reshape(-1) for one in parts])


def _fold(op: Any, arrays: list[Any]) -> Any:
    total = arrays[0].copy()
    for one in arrays[1:]:
        total = op(total, one)
    return total


class _Here(threading.local):
    world: Any = None


here = _Here()
_TYPES = {
    "INT8_T": np.int8, "INT16_T": np.int16, "INT32_T": np.int32, "INT64_T": np.int64,
    "UINT8_T": np.uint8, "UINT16_T": np.uint16, "UINT32_T": np.uint32, "UINT64_T": np.uint64,
    "FLOAT": np.float32, "DOUBLE": np.float64,
}  # fmt: skip


class _Library:
    """A replacement for the module mpi4py.MPI; each thread has a separate COMM_WORLD."""

    THREAD_SERIALIZED, ERR_PROC_FAILED = 2, 101
    ANY_SOURCE, TAG_UB = _ANY, 0
    SUM, PROD, MIN, MAX = np.add, np.multiply, np.minimum, np.maximum
    BAND, BOR, BXOR = np.bitwise_and, np.bitwise_or, np.bitwise_xor
    BYTE = Datatype(1)
    Exception, Request, Status = MPIError, Request, Status
    thread_level = 3

    def __init__(self) -> None:
        for name, dtype in _TYPES.items():
            setattr(self, name, Datatype(np.dtype(dtype).itemsize, dtype))

    @property
    def COMM_WORLD(self) -> Comm:
        """The communicator of all members."""
        return here.world  # type: ignore[no-any-return]

    def Query_thread(self) -> int:
        """Return the thread level."""
        return self.thread_level


MPI = _Library()
