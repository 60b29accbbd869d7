"""CuPy's bindings of NCCL, for members that are threads of one process.

Each communicator has a thread of its own that does what a stream was given, when all members have
come: until then later work of that stream waits, and an event behind it is not passed.
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
    7: np.float32, 8: np.float64, 9: ml_dtypes.bfloat16,
}  # fmt: skip
_OPS: list[Callable[..., Any]] = [np.add, np.multiply, np.maximum, np.minimum, np.add]
_AVG = 4
_PATIENCE_S = 20.0
_numbers = itertools.count(1)
# What tests count: (name, rank) of each call that communicators were given.
calls: list[tuple[str, int]] = []


class NcclError(RuntimeError):
    __module__ = "tests.fibre_shim.cupy"

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"NCCL_ERROR {status}")


class _World:
    """The members of one communicator."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        # (rank, number of the launch) -> (name, what it does there).
        self.calls: dict[tuple[int, int], Any] = {}
        self.mail: dict[tuple[int, int], list[np.ndarray]] = {}
        self.came: set[int] = set()
        self.left: dict[int, int] = {}


_worlds: dict[tuple[int, ...], _World] = {}
_worlds_lock = threading.Lock()


def get_unique_id() -> tuple[int, ...]:
    number = next(_numbers)
    # NCCL's bytes are signed.
    return tuple([number % 128, -(number // 128) - 1] + [0] * 126)


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
    _grouped.depth -= 1
    if _grouped.depth:
        return
    parts, _grouped.parts = _grouped.parts, []
    by_target: dict[tuple[Any, int], list[Callable[[], None]]] = {}
    # They run at once; nothing that is sent waits for what is received.
    for comm, stream, part in sorted(parts, key=lambda one: one[2].__qualname__, reverse=True):
        by_target.setdefault((comm, stream), []).append(part)
    for (comm, stream), works in by_target.items():
        comm._launch(stream, works)


class NcclCommunicator:
    def __init__(self, size: int, unique_id: tuple[int, ...], rank: int) -> None:
        assert len(unique_id) == 128 and all(-128 <= one < 128 for one in unique_id)
        self.device = streams.state.device
        with _worlds_lock:
            self.world = _worlds.setdefault(unique_id, _World(size))
        self.rank, self.count = rank, 0
        self.error = 0
        self.is_open = True
        world = self.world
        with world.changed:
            world.came.add(rank)
            world.changed.notify_all()
            assert world.changed.wait_for(lambda: len(world.came) == size, _PATIENCE_S)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="nccl stand-in", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def destroy(self) -> None:
        if self.is_open:
            self.is_open = False
            self._jobs.put(None)
            self._thread.join(_PATIENCE_S)

    def abort(self) -> None:
        with self.world.changed:
            self.is_open = False
            self.world.changed.notify_all()
        self._jobs.put(None)

    def check_async_error(self) -> None:
        if self.error:
            raise {6: KeyError(6)}.get(self.error, NcclError(self.error))

    # What a stream is given.

    def _launch(self, handle: int, works: list[Callable[[], None]]) -> None:
        assert self.is_open, "a communicator that is closed"
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

    def _call(self, name: str, stream: int, work: Callable[[], None], *used: int) -> None:
        calls.append((name, self.rank))
        # The pool gives what is freed to later work of the same stream: it is there until then.
        work.kept = _memory_of(used)  # type: ignore[attr-defined]
        if _grouped.depth:
            _grouped.parts.append((self, stream, work))
        else:
            self._launch(stream, [work])

    def _all(self, name: str, brought: Any, take: Callable[[list[Any]], None]) -> None:
        """Do a collective: bring something, and take what all have brought."""
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
        # As NCCL: what a peer has aborted goes on waiting here, until it is aborted here as well.
        assert world.changed.wait_for(lambda: is_there() or not self.is_open, _PATIENCE_S)
        if not is_there():
            raise _Aborted

    def allReduce(self, src: int, out: int, n: int, kind: int, op: int, stream: int) -> None:
        def work() -> None:
            given, room = _seen(src, n, kind).copy(), _seen(out, n, kind)
            self._all("allReduce", given, lambda all: np.copyto(room, _reduced(all, op)))

        self._call("allReduce", stream, work, src, out)

    def reduce(
        self, src: int, out: int, n: int, kind: int, op: int, root: int, stream: int
    ) -> None:
        def work() -> None:
            def take(all: list[Any]) -> None:
                if self.rank == root:
                    np.copyto(_seen(out, n, kind), _reduced(all, op))

            self._all("reduce", _seen(src, n, kind).copy(), take)

        self._call("reduce", stream, work, src, out)

    def broadcast(self, src: int, out: int, n: int, kind: int, root: int, stream: int) -> None:
        def work() -> None:
            room = _seen(out, n, kind)
            self._all(
                "broadcast", _seen(src, n, kind).copy(), lambda all: np.copyto(room, all[root])
            )

        self._call("broadcast", stream, work, src, out)

    def reduceScatter(self, src: int, out: int, n: int, kind: int, op: int, stream: int) -> None:
        def work() -> None:
            room, size = _seen(out, n, kind), self.world.size

            def take(all: list[Any]) -> None:
                np.copyto(room, _reduced(all, op).reshape(size, n)[self.rank])

            self._all("reduceScatter", _seen(src, n * size, kind).copy(), take)

        self._call("reduceScatter", stream, work, src, out)

    def allGather(self, src: int, out: int, n: int, kind: int, stream: int) -> None:
        def work() -> None:
            room = _seen(out, n * self.world.size, kind)
            self._all(
                "allGather",
                _seen(src, n, kind).copy(),
                lambda all: np.copyto(room, np.concatenate(all)),
            )

        self._call("allGather", stream, work, src, out)

    def send(self, src: int, n: int, kind: int, peer: int, stream: int) -> None:
        def work() -> None:
            with self.world.changed:
                box = self.world.mail.setdefault((self.rank, peer), [])
                box.append(_seen(src, n, kind).copy())
                self.world.changed.notify_all()

        self._call("send", stream, work, src)

    def recv(self, out: int, n: int, kind: int, peer: int, stream: int) -> None:
        def work() -> None:
            with self.world.changed:
                box = self.world.mail.setdefault((peer, self.rank), [])
                self._wait(lambda: bool(box))
                np.copyto(_seen(out, n, kind), box.pop(0))

        self._call("recv", stream, work, out)


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
