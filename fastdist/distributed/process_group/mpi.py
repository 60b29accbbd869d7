"""The backend `mpi`: carries the collectives of a group in a job that MPI started."""

# Note [MPI without blocking]
# All calls of MPI are non-blocking, and one lock of the process is held during each call. So
# MPI_THREAD_SERIALIZED and any higher thread level suffice, and a waiting thread does not keep
# other threads from calling MPI. A waiting thread polls its requests. So a wait can end at its
# deadline, or when another thread aborts the group.
#
# MPI does not compare the members' calls. So before each collective, each member sends all others a
# digest of its call (16 bytes). This takes as long as another small collective, and turns a
# mismatch into an error.
#
# MPI writes into buffers of fastdist, from which results are copied on success. After an error
# these buffers are kept forever, because MPI cannot cancel a collective that has begun.

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.distributed.links.reductions import combine

from .mpi_library import library
from .options import Place
from .transport import Call

Array = NDArray[Any]

_DIGEST_BYTES: Final = 16
_TEXT_BYTES: Final = 1024
# A waiting thread first polls _SPINS times without pauses, and then with pauses of _PAUSE_S.
_SPINS: Final = 500
_PAUSE_S: Final = 0.0002
# How long a member whose call timed out waits for the other members' notices that they gave up.
_REPORTS_S: Final = 0.5
# The MPI tag of the notice that a member gave up.
_GAVE_UP_TAG: Final = 0
# The first of the tags of send() and recv() that only fastdist itself uses.
_RESERVED: Final = 1 << 30
# A program's tag t uses two MPI tags: 2 * (t + _FIRST_TAG), and the next one.
_FIRST_TAG: Final = 16
# Held during each call of MPI in this process.
_lock = threading.RLock()
# The requests of abandoned operations, with the buffers that MPI may still write.
_abandoned: list[Any] = []
# Maps NumPy's names of dtypes to MPI's names, for the dtypes that MPI has.
_TYPES: Final = {
    "int8": "INT8_T",
    "int16": "INT16_T",
    "int32": "INT32_T",
    "int64": "INT64_T",
    "uint8": "UINT8_T",
    "uint16": "UINT16_T",
    "uint32": "UINT32_T",
    "uint64": "UINT64_T",
    "float32": "FLOAT",
    "float64": "DOUBLE",
}
# MPI's minimum of a NaN and a number may be the NaN or the number; fastdist's is always the NaN. So
# MPI computes the minimum and the maximum of integers only.
_OPS: Final = {
    "sum": "SUM", "product": "PROD", "min": "MIN", "max": "MAX",
    "band": "BAND", "bor": "BOR", "bxor": "BXOR",
}  # fmt: skip


class MpiTransport:
    """Implements Transport with an MPI communicator, for arrays in CPU memory.

    Thread  as described in Transport
    """

    def __init__(self, communicator: Any, messages: Any, name: str) -> None:
        self._mpi = library()
        self._comm, self._messages, self._name = communicator, messages, name
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._item_types: dict[int, Any] = {}
        self._most_tag = min(messages.Get_attr(self._mpi.TAG_UB) // 2, _RESERVED)

    def all_reduce(self, call: Call, array: Array, op: str) -> None:
        """Replace array by the reduction over all members."""
        self._meet(call)
        flat = array.reshape(-1)
        if (kind := self._type_of(flat, op)) is not None:
            found = np.empty_like(flat)
            self._do(call, lambda: self._comm.Iallreduce(
                [flat, kind], [found, kind], self._op(op)
            ), flat, found)  # fmt: skip
        else:
            found = self._fold_all(call, flat, op)
        flat[...] = found

    def reduce(self, call: Call, array: Array, op: str, root: int) -> None:
        """Replace root's array by the reduction over all members."""
        self._meet(call)
        flat, is_root = array.reshape(-1), self.rank == root
        if (kind := self._type_of(flat, op)) is not None:
            found = np.empty_like(flat)
            into = [found, kind] if is_root else None
            self._do(call, lambda: self._comm.Ireduce(
                [flat, kind], into, self._op(op), root
            ), flat, found)  # fmt: skip
        else:
            rows = self._gather(call, flat, root)
            found = _fold(op, rows) if is_root else flat
        if is_root:
            flat[...] = found

    def broadcast(self, call: Call, array: Array, root: int) -> None:
        """Replace array on all members by root's array."""
        self._meet(call)
        data = _bytes_of(array)
        room = data if self.rank == root else np.empty_like(data)
        kind = self._items(array.itemsize)
        self._do(call, lambda: self._comm.Ibcast([room, array.size, kind], root), room)
        if self.rank != root:
            data[...] = room

    def all_gather(self, call: Call, out: Array, array: Array) -> None:
        """Copy the array of each member into its row of out."""
        self._meet(call)
        _bytes_of(out)[...] = self._gather_all(call, array).reshape(-1)

    def reduce_scatter(self, call: Call, out: Array, array: Array, op: str) -> None:
        """Reduce the members' rows for this rank into out."""
        self._meet(call)
        flat = out.reshape(-1)
        rows = array.reshape(self.size, flat.size)
        if (kind := self._type_of(flat, op)) is not None:
            found = np.empty_like(flat)
            self._do(call, lambda: self._comm.Ireduce_scatter_block(
                [rows, kind], [found, kind], self._op(op)
            ), rows, found)  # fmt: skip
        else:
            parts = [np.empty_like(flat) for _ in range(self.size)]
            self._exchange(call, parts, list(rows))
            found = _fold(op, parts)
        flat[...] = found

    def all_to_all(self, call: Call, outs: Sequence[Array], arrays: Sequence[Array]) -> None:
        """Send `arrays[i]` to member i, and receive member i's array into `outs[i]`."""
        self._meet(call)
        sizes = np.array([one.nbytes for one in arrays], np.int64)
        came = np.empty_like(sizes)
        self._do(call, lambda: self._comm.Ialltoall(sizes, came), sizes, came)
        wrong = [member for member, out in enumerate(outs) if out.nbytes != came[member]]
        # The members exchange whether a size is wrong, so that all members raise. Otherwise a
        # member could send to a member that has raised.
        flags = self._gather_all(call, np.array([wrong[0] + 1 if wrong else 0], np.int32))
        firsts = flags.reshape(-1).view(np.int32)
        if firsts.any():
            receiver = int(np.flatnonzero(firsts)[0])
            raise CollectiveMismatchError(
                f"{call.name}, called at {call.line} by rank {self.rank}: rank "
                f"{firsts[receiver] - 1} sends rank {receiver} another size than it expects"
            )
        parts = [np.empty_like(out) for out in outs]
        self._exchange(call, parts, arrays)
        for out, part in zip(outs, parts):
            out[...] = part

    def gather(
        self, call: Call, outs: Sequence[Array] | None, array: Array, root: int
    ) -> None:  # fmt: skip
        """Copy the array of each member into root's `outs[member]`."""
        self._meet(call)
        rows = self._gather(call, array, root)
        for out, row in zip(outs or (), rows):
            out[...] = row

    def scatter(
        self, call: Call, out: Array, arrays: Sequence[Array] | None, root: int
    ) -> None:  # fmt: skip
        """Copy root's array for this member into out."""
        self._meet(call)
        room, kind = np.empty_like(_bytes_of(out)), self._items(out.itemsize)
        given = None
        if self.rank == root:
            assert arrays is not None
            given = [np.concatenate([_bytes_of(one) for one in arrays]), out.size, kind]
        self._do(
            call, lambda: self._comm.Iscatter(given, [room, out.size, kind], root), given, room
        )  # fmt: skip
        _bytes_of(out)[...] = room

    def barrier(self, call: Call) -> None:
        """Return when all members have called barrier()."""
        self._meet(call)

    def send(self, call: Call, array: Array, to: int, tag: int) -> None:
        """Send array to a member; return when the array may be changed."""
        self._require_open()
        data, kind = _bytes_of(array), self._items(array.itemsize)
        words = _text([call.sequence, call.agreed, call.line, array.size, array.itemsize])
        number = self._tag(tag)
        self._do(call, lambda: [
            self._messages.Isend([words, self._mpi.BYTE], to, number),
            self._messages.Isend([data, array.size, kind], to, number + 1),
        ], words, data)  # fmt: skip

    def recv(self, call: Call, array: Array, sender: int | None, tag: int) -> int:
        """Fill array with the next message of `sender`, or of any member if `sender` is None;
        return the sender's rank.
        """
        self._require_open()
        number, words = self._tag(tag), np.zeros(_TEXT_BYTES, np.uint8)
        source = self._mpi.ANY_SOURCE if sender is None else sender
        status = self._mpi.Status()
        self._do(
            call,
            lambda: self._messages.Irecv([words, self._mpi.BYTE], source, number),
            words,
            status=status,
        )
        came_from = int(status.Get_source())
        sequence, agreed, line, count, itemsize = _read(words)
        room, kind = np.empty(count * itemsize, np.uint8), self._items(itemsize)
        self._do(
            call, lambda: self._messages.Irecv([room, count, kind], came_from, number + 1), room
        )  # fmt: skip
        if (
            agreed != call.agreed
            or call.sequence not in (sequence, -1)
            or room.size != array.nbytes
        ):
            raise CollectiveMismatchError(
                f"rank {self.rank} receives ({call.agreed}) at {call.line} what rank {came_from} "
                f"sends ({agreed}) at {line}"
            )
        _bytes_of(array)[...] = room
        return came_from

    def abort(self, error: Exception) -> None:
        """End every wait with the error, and raise it in every later call."""
        self._error = error
        self._stopped.set()

    def close(self) -> None:
        """Free the communicators, unless the group has failed: MPI may then still use them."""
        if self._error is None:
            self._error = CollectiveError(f"process group {self._name!r} was destroyed")
            with _lock, _mpi_errors("leaving a group"):
                for one in (self._comm, self._messages):
                    one.Free()
                for kind in self._item_types.values():
                    kind.Free()

    # Parts of the collectives.

    def _meet(self, call: Call) -> None:
        """Wait for all members, and compare their calls."""
        self._require_open()
        said = f"{call.sequence}\0{call.name}\0{call.agreed}".encode()
        own = np.frombuffer(hashlib.blake2b(said, digest_size=_DIGEST_BYTES).digest(), np.uint8)
        every = self._gather_all(call, own)
        if (every == own).all():
            return
        words = self._gather_all(call, _text([*call[:4]]))
        told = []
        for rank, one in enumerate(words):
            sequence, name, agreed, line = _read(one)
            told.append(f"rank {rank} called {name} ({agreed}) at {line}, as number {sequence}")
        raise CollectiveMismatchError("members called differently: " + "; ".join(told))

    def _gather_all(self, call: Call, array: Array) -> Array:
        """Return the bytes of all members' arrays, one row per member."""
        data, kind = _bytes_of(array), self._items(array.itemsize)
        rows = np.empty((self.size, data.size), np.uint8)
        if data.size:
            self._do(call, lambda: self._comm.Iallgather(
                [data, array.size, kind], [rows, array.size, kind]
            ), data, rows)  # fmt: skip
        return rows

    def _gather(self, call: Call, array: Array, root: int) -> list[Array]:
        """Return the arrays of all members on root; on other members, an empty list."""
        data, kind = _bytes_of(array), self._items(array.itemsize)
        is_root = self.rank == root
        rows = np.empty((self.size, data.size) if is_root else 0, np.uint8)
        into = [rows, array.size, kind] if is_root else None
        self._do(
            call, lambda: self._comm.Igather([data, array.size, kind], into, root), data, rows
        )  # fmt: skip
        return [row.view(array.dtype) for row in rows] if is_root else []

    def _exchange(self, call: Call, outs: Sequence[Array], arrays: Sequence[Array]) -> None:
        kind = self._items(arrays[0].itemsize)
        sent, came = [one.size for one in arrays], [one.size for one in outs]
        given = np.concatenate([_bytes_of(one) for one in arrays])
        room = np.empty(sum(out.nbytes for out in outs), np.uint8)
        self._do(call, lambda: self._comm.Ialltoallv(
            [given, sent, _starts(sent), kind], [room, came, _starts(came), kind]
        ), given, room)  # fmt: skip
        begin = 0
        for out in outs:
            _bytes_of(out)[...] = room[begin : begin + out.nbytes]
            begin += out.nbytes

    def _fold_all(self, call: Call, flat: Array, op: str) -> Array:
        """Reduce arrays that MPI cannot reduce: each member computes one part of the result, and
        combines the members' arrays in the order of their ranks.
        """
        length = -(-flat.size // self.size)
        ends = [min(length * (rank + 1), flat.size) for rank in range(self.size)]
        begins = [min(length * rank, flat.size) for rank in range(self.size)]
        mine = np.empty(ends[self.rank] - begins[self.rank], flat.dtype)
        parts = [np.empty_like(mine) for _ in range(self.size)]
        self._exchange(call, parts, [flat[begin:end] for begin, end in zip(begins, ends)])
        padded = np.zeros(length, flat.dtype)
        padded[: mine.size] = _fold(op, parts)
        return self._gather_all(call, padded).reshape(-1).view(flat.dtype)[: flat.size]

    def _type_of(self, array: Array, op: str) -> Any:
        """Return MPI's type for the array; None if MPI lacks it, or `op` differs for it in MPI."""
        name = _TYPES.get(array.dtype.name)
        if name is None or (op in ("min", "max") and array.dtype.kind == "f"):
            return None
        return getattr(self._mpi, name)

    def _op(self, op: str) -> Any:
        return getattr(self._mpi, _OPS[op])

    def _items(self, size: int) -> Any:
        """Return an MPI type of `size` bytes, so that MPI counts elements instead of bytes: its
        counts must be below 2**31.
        """
        kind = self._item_types.get(size)
        if kind is None:
            with _lock:
                kind = self._mpi.BYTE.Create_contiguous(size)
                kind.Commit()
            self._item_types[size] = kind
        return kind

    def _tag(self, tag: int) -> int:
        """Return the first of the two MPI tags for a tag of send() or recv()."""
        if tag >= _RESERVED:
            return 2 * (tag - _RESERVED + 1)
        if not 0 <= tag < self._most_tag - _FIRST_TAG:
            raise ValueError(
                f"tag {tag}: this MPI has tags from 0 to {self._most_tag - _FIRST_TAG - 1}"
            )
        return 2 * (tag + _FIRST_TAG)

    # Requests and waits.

    def _do(
        self, call: Call, begin: Callable[[], Any], *memory: Any, status: Any = None
    ) -> None:  # fmt: skip
        """Start an operation, and wait until it is done; `memory` contains the buffers that MPI
        reads and writes.
        """
        with _lock, _mpi_errors(f"{call.name}, called at {call.line}"):
            begun = begin()
        requests = begun if isinstance(begun, list) else [begun]
        statuses = None if status is None else [status]
        pauses = 0
        while True:
            with _lock, _mpi_errors(f"{call.name}, called at {call.line}"):
                is_done = self._mpi.Request.Testall(requests, statuses)
            if is_done:
                return
            pauses += 1
            if pauses > _SPINS:
                self._stopped.wait(_PAUSE_S)
            else:
                os.sched_yield()
            if self._error is not None or time.monotonic() > call.deadline:
                _abandoned.append((requests, memory))
                self._require_open()
                self.abort(self._timeout(call))
                self._require_open()

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error

    def _timeout(self, call: Call) -> CollectiveTimeoutError:
        """Return an error that names the members that never called.

        A member that called and then gave up sends a notice to all others. So the members that
        sent no notice have never called.
        """
        note, room = np.zeros(1, np.uint8), np.zeros((self.size, 1), np.uint8)
        others = [rank for rank in range(self.size) if rank != self.rank]
        if call.name == "send":
            return CollectiveTimeoutError(
                f"rank {self.rank}: a message ({call.agreed}) at {call.line} did not pass in time"
            )
        kind = self._mpi.BYTE
        with _lock, _mpi_errors("what the members report"):
            sends = [self._messages.Isend([note, kind], rank, _GAVE_UP_TAG) for rank in others]
            waits = {
                rank: self._messages.Irecv([room[rank], kind], rank, _GAVE_UP_TAG)
                for rank in others
            }
        _abandoned.append((sends, list(waits.values()), note, room))
        deadline = time.monotonic() + _REPORTS_S
        missing = dict(waits)
        while missing and time.monotonic() < deadline:
            with _lock, _mpi_errors("what the members report"):
                missing = {rank: one for rank, one in missing.items() if not one.Test()}
            self._stopped.wait(_PAUSE_S)
        ranks = f"ranks {sorted(missing)} did not come" if missing else "all came, too late"
        return CollectiveTimeoutError(
            f"{call.name} ({call.agreed}), called at {call.line} by rank {self.rank}, did not end "
            f"within its timeout: {ranks}"
        )


@contextmanager
def _mpi_errors(what: str) -> Iterator[None]:
    """Convert MPI's exceptions in the block to CollectiveError or CollectiveLostError."""
    mpi = library()
    try:
        yield
    except mpi.Exception as error:
        lost = {getattr(mpi, name, None) for name in ("ERR_PROC_FAILED", "ERR_REVOKED")}
        kind = CollectiveLostError if error.Get_error_class() in lost else CollectiveError
        raise kind(f"{what}: MPI failed: {error}") from error
    except OverflowError as error:
        raise CollectiveError(f"{what}: MPI counts to 2**31 elements: {error}") from error


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _fold(op: str, arrays: Sequence[Array]) -> Array:
    found = np.empty_like(arrays[0])
    combine(op, arrays, found)
    return found


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:index]) for index in range(len(sizes))]


def _text(values: list[Any]) -> Array:
    """Return values as a fixed number of bytes; long texts are truncated."""
    room = np.zeros(_TEXT_BYTES, np.uint8)
    short = [value[:300] if isinstance(value, str) else value for value in values]
    data = json.dumps(short).encode()
    room[: len(data)] = np.frombuffer(data, np.uint8)
    return room


def _read(words: Array) -> list[Any]:
    found: list[Any] = json.loads(words.tobytes().rstrip(b"\0"))
    return found


def place_in_job() -> tuple[int, int]:
    """Return this process's rank and the number of processes that MPI started."""
    world = library().COMM_WORLD
    return world.Get_rank(), world.Get_size()


def connect(place: Place) -> MpiTransport:
    """Return the transport of a new group; all members of the group must call this function.

    Raises  CollectiveError if MPI allows only one thread, or this process's rank in MPI is not its
            rank in the job
    """
    mpi = library()
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise CollectiveError(
            "the backend mpi needs MPI_THREAD_SERIALIZED: let mpi4py start MPI (remove what sets "
            "mpi4py.rc.thread_level), or build MPI with threads"
        )
    world = mpi.COMM_WORLD
    if world.Get_rank() != place.ranks[place.rank]:
        raise CollectiveError(
            f"this process has rank {place.ranks[place.rank]} in the job, and {world.Get_rank()} "
            "in MPI: let MPI say the rank, or pass rank= as MPI counts"
        )
    tag = zlib.crc32(place.name.encode()) % 32768
    with _lock, _mpi_errors(f"connecting process group {place.name!r}"):
        group = world.Get_group().Incl(list(place.ranks))
        return MpiTransport(
            world.Create_group(group, tag), world.Create_group(group, tag), place.name
        )
