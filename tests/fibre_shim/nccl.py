"""CuPy's bindings of NCCL, for members that are threads of one process.

These bindings are as strict as CuPy 14's. Arguments must have the declared types, numbers must be
ones that NCCL knows, and calls on an ended communicator are invalid. As NCCL documents, two members
on one GPU are rejected, and `destroy` returns when all members have called it.

Each communicator has a thread, which runs an operation once all members have queued it. Until then,
later work of the same stream waits, and an event recorded after the operation is not complete.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from tests.fibre_shim import streams

available = True
_TYPES = {
    0: np.int8, 1: np.uint8, 2: np.int32, 3: np.uint32, 4: np.int64, 5: np.uint64, 6: np.float16,
    7: np.float32, 8: np.float64, 9: ml_dtypes.bfloat16, 10: ml_dtypes.float8_e4m3fn,
    11: ml_dtypes.float8_e5m2,
}  # fmt: skip
_OPS: list[Callable[..., Any]] = [np.add, np.multiply, np.maximum, np.minimum, np.add]
_AVG = 4
_PATIENCE_S = 20.0
_numbers = itertools.count(1)
# For tests: (name, rank) of each call of communicators.
calls: list[tuple[str, int]] = []


_INVALID_ARGUMENT, _INVALID_USAGE = 4, 5
_TEXTS = {
    0: "SUCCESS",
    1: "UNHANDLED_CUDA_ERROR",
    2: "SYSTEM_ERROR",
    3: "INTERNAL_ERROR",
    4: "INVALID_ARGUMENT",
    5: "INVALID_USAGE",
    6: "REMOTE_ERROR",
}


class NcclError(RuntimeError):
    __module__ = "tests.fibre_shim.cupy"

    def __init__(self, status: int) -> None:
        self.status = status
        # A status without a text raises KeyError, as in CuPy.
        super().__init__(f"NCCL_ERROR_{_TEXTS[status]}: text of NCCL")


def _require(is_valid: bool, status: int = _INVALID_ARGUMENT) -> None:
    if not is_valid:
        raise NcclError(status)


def _require_c_types(*, sizes: Sequence[Any] = (), numbers: Sequence[Any] = ()) -> None:
    """Raise Cython's error for arguments that are not integers, or are too small for size_t."""
    for one in (*sizes, *numbers):
        if not hasattr(one, "__index__"):
            raise TypeError("an integer is required")
    if any(one < 0 for one in sizes):
        raise OverflowError("can't convert negative value to size_t")


class _World:
    """The members of one communicator."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        # By (rank, index of the collective): the value that the rank contributes.
        self.calls: dict[tuple[int, int], Any] = {}
        self.mail: dict[tuple[int, int], list[np.ndarray]] = {}
        self.came: dict[int, int] = {}  # the GPU of each rank
        self.gone: set[int] = set()
        self.left: dict[int, int] = {}


_worlds: dict[bytes, _World] = {}
_worlds_lock = threading.Lock()


def get_unique_id() -> bytes:
    # The id contains a zero byte, and a byte above 127.
    return next(_numbers).to_bytes(8, "little") + b"\xff" + bytes(119)


def get_version() -> int:
    return 22203


class _Grouped(threading.local):
    depth = 0

    def __init__(self) -> None:
        self.parts: list[tuple[NcclCommunicator, int, Callable[[], None]]] = []


_grouped = _Grouped()


def groupStart() -> None:
    _grouped.depth += 1


def groupEnd() -> None:
    _require(_grouped.depth > 0)
    _grouped.depth -= 1
    if _grouped.depth:
        return
    parts, _grouped.parts = _grouped.parts, []
    by_target: dict[tuple[Any, int], list[Callable[[], None]]] = {}
    # Run sends before receives: in a group, a send does not wait for its receive.
    for comm, stream, part in sorted(parts, key=lambda one: one[2].__qualname__, reverse=True):
        by_target.setdefault((comm, stream), []).append(part)
    for (comm, stream), works in by_target.items():
        comm._launch(stream, works)


class NcclCommunicator:
    def __init__(self, size: int, unique_id: bytes, rank: int) -> None:
        if not isinstance(unique_id, bytes):
            kind = type(unique_id).__name__
            raise TypeError(f"Argument 'commId' has incorrect type (expected bytes, got {kind})")
        if len(unique_id) != 128:
            raise ValueError(f"commId length {len(unique_id)} != 128.")
        _require_c_types(numbers=(size, rank))
        _require(0 <= rank < size)
        self.device = streams.state.device
        with _worlds_lock:
            self.world = _worlds.setdefault(unique_id, _World(size))
        self.rank, self.count = rank, 0
        self.error = 0
        self.is_open = True
        world = self.world
        with world.changed:
            assert rank not in world.came, "a rank that another member has"
            world.came[rank] = self.device
            world.changed.notify_all()
            assert world.changed.wait_for(lambda: len(world.came) == size, _PATIENCE_S)
        _require(len(set(world.came.values())) == size, _INVALID_USAGE)  # two members on one GPU
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="nccl stand-in", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def destroy(self) -> None:
        if not self.is_open:
            return
        self._jobs.put(None)
        self._thread.join(_PATIENCE_S)
        world = self.world
        with world.changed:
            self.is_open = False
            world.gone.add(self.rank)
            world.changed.notify_all()
            all_left = world.changed.wait_for(lambda: len(world.gone) == world.size, _PATIENCE_S)
        assert all_left, "a member that never comes to destroy: NCCL would wait for ever"

    def abort(self) -> None:
        with self.world.changed:
            self.is_open = False
            self.world.gone.add(self.rank)
            self.world.changed.notify_all()
        self._jobs.put(None)

    def check_async_error(self) -> None:
        _require(self.is_open)
        if self.error:
            raise NcclError(self.error)

    # Work queued on a stream.

    def _launch(self, handle: int, works: list[Callable[[], None]]) -> None:
        assert streams.state.device == self.device, "a stream of another device"
        stream = _stream_of(handle)
        if stream.captured is not None:
            stream.captured.add(lambda: self._start(stream, works), stream)
        else:
            self._start(stream, works)

    def _start(self, stream: Any, works: list[Callable[[], None]]) -> None:
        before, done = stream.unfinished(), threading.Event()

        def job() -> None:
            for one in before:
                one.wait(_PATIENCE_S)
            try:
                for work in works:
                    work()
            except _Aborted:
                pass
            finally:
                done.set()

        streams.arrive()
        stream.add_pending([done])
        self._jobs.put(job)

    def _call(
        self, name: str, stream: int, work: Callable[[], None], *used: int, count: int,
        kind: int, op: int = 0, peer: int = 0,
    ) -> None:  # fmt: skip
        _require_c_types(sizes=(count,), numbers=(*used, kind, op, peer, stream))
        _require(self.is_open)
        _require(kind in _TYPES and 0 <= op < len(_OPS) and 0 <= peer < self.world.size)
        assert not count or all(_memory_of([one]) for one in used), "memory of no GPU"
        calls.append((name, self.rank))
        # The pool reuses freed memory for later work of the stream: keep it until this work runs.
        work.kept = _memory_of(used)  # type: ignore[attr-defined]
        if _grouped.depth:
            _grouped.parts.append((self, stream, work))
        else:
            self._launch(stream, [work])

    def _all(self, name: str, brought: Any, take: Callable[[list[Any]], None]) -> None:
        """Run a collective: contribute a value, and process the values of all members."""
        world, number = self.world, self.count
        self.count += 1
        with world.changed:
            world.calls[self.rank, number] = brought
            world.changed.notify_all()
            self._wait(lambda: all((rank, number) in world.calls for rank in range(world.size)))
            take([world.calls[rank, number] for rank in range(world.size)])
            world.left[number] = world.left.get(number, 0) + 1
            world.changed.notify_all()
            self._wait(lambda: world.left[number] == world.size)

    def _wait(self, is_there: Callable[[], bool]) -> None:
        world = self.world
        # As in NCCL, after a peer has aborted an operation, this member waits until the operation
        # is aborted here too.
        assert world.changed.wait_for(lambda: is_there() or not self.is_open, _PATIENCE_S)
        if not is_there():
            raise _Aborted

    def allReduce(self, src: int, out: int, n: int, kind: int, op: int, stream: int) -> None:
        def work() -> None:
            given, room = _seen(src, n, kind).copy(), _seen(out, n, kind)
            self._all("allReduce", given, lambda all: np.copyto(room, _reduced(all, op)))

        self._call("allReduce", stream, work, src, out, count=n, kind=kind, op=op)

    def reduce(
        self, src: int, out: int, n: int, kind: int, op: int, root: int, stream: int
    ) -> None:
        def work() -> None:
            def take(all: list[Any]) -> None:
                if self.rank == root:
                    np.copyto(_seen(out, n, kind), _reduced(all, op))

            self._all("reduce", _seen(src, n, kind).copy(), take)

        self._call("reduce", stream, work, src, out, count=n, kind=kind, op=op, peer=root)

    def broadcast(self, src: int, out: int, n: int, kind: int, root: int, stream: int) -> None:
        def work() -> None:
            room = _seen(out, n, kind)
            self._all(
                "broadcast", _seen(src, n, kind).copy(), lambda all: np.copyto(room, all[root])
            )

        self._call("broadcast", stream, work, src, out, count=n, kind=kind, peer=root)

    def reduceScatter(self, src: int, out: int, n: int, kind: int, op: int, stream: int) -> None:
        def work() -> None:
            room, size = _seen(out, n, kind), self.world.size

            def take(all: list[Any]) -> None:
                np.copyto(room, _reduced(all, op).reshape(size, n)[self.rank])

            self._all("reduceScatter", _seen(src, n * size, kind).copy(), take)

        self._call("reduceScatter", stream, work, src, out, count=n, kind=kind, op=op)

    def allGather(self, src: int, out: int, n: int, kind: int, stream: int) -> None:
        def work() -> None:
            room = _seen(out, n * self.world.size, kind)
            self._all(
                "allGather",
                _seen(src, n, kind).copy(),
                lambda all: np.copyto(room, np.concatenate(all)),
            )

        self._call("allGather", stream, work, src, out, count=n, kind=kind)

    def send(self, src: int, n: int, kind: int, peer: int, stream: int) -> None:
        def work() -> None:
            with self.world.changed:
                box = self.world.mail.setdefault((self.rank, peer), [])
                box.append(_seen(src, n, kind).copy())
                self.world.changed.notify_all()

        self._call("send", stream, work, src, count=n, kind=kind, peer=peer)

    def recv(self, out: int, n: int, kind: int, peer: int, stream: int) -> None:
        def work() -> None:
            with self.world.changed:
                box = self.world.mail.setdefault((peer, self.rank), [])
                self._wait(lambda: bool(box))
                np.copyto(_seen(out, n, kind), box.pop(0))

        self._call("recv", stream, work, out, count=n, kind=kind, peer=peer)


def _memory_of(addresses: Sequence[int]) -> list[Any]:
    from tests.fibre_shim.cupy import Memory

    return [
        one
        for one in list(Memory._all)
        if any(one.ptr <= address < one.ptr + one.size for address in addresses)
    ]


class _Aborted(Exception):
    pass


def _stream_of(handle: int) -> Any:
    found = streams.all_streams.get(handle)
    assert found is not None, "a stream that is gone"
    return found


def _seen(address: int, count: int, kind: int) -> np.ndarray:
    dtype = np.dtype(_TYPES[kind])
    described = {
        "version": 3,
        "shape": (count * dtype.itemsize,),
        "typestr": "|u1",
        "strides": None,
        "data": (address, False),
    }
    return np.asarray(SimpleNamespace(__array_interface__=described)).view(dtype)


def _reduced(arrays: Sequence[np.ndarray], op: int) -> np.ndarray:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = _OPS[op](total, array)
    return total / np.asarray(len(arrays), total.dtype) if op == _AVG else total
