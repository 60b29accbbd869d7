"""Members of a job as threads of this process, with a transport in plain Python."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fastdist.core.errors import (
    CollectiveLostError,
    CollectiveMismatchError,
    CollectiveTimeoutError,
)
from fastdist.distributed import HashStore
from fastdist.distributed import distributed_c10d as dist
from fastdist.distributed.process_group.backends import Backend, Place, connections
from fastdist.distributed.process_group.transport import Call
from fastdist.distributed.process_group.world import World, here

T = TypeVar("T")
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


class Room:
    """The shared state of the members of one group."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        # By sequence number, then by rank: (call, the member's data).
        self.calls: dict[int, dict[int, tuple[Call, Any]]] = {}
        self.left: dict[int, int] = {}
        self.messages: dict[tuple[int, int, int], list[tuple[Call, Any]]] = {}
        self.lost: set[int] = set()
        self.error: Exception | None = None
        self.store: Any = None


class ThreadTransport:
    """Implements Transport between threads."""

    def __init__(self, room: Room, rank: int) -> None:
        self.room, self.rank, self.size = room, rank, room.size
        self.error: Exception | None = None
        # Names of the collectives that this member called, for tests.
        self.names: list[str] = []

    def meet(self, call: Call, brought: Any) -> list[Any]:
        """Wait for all members, and return the data of each."""
        room = self.room
        self.names.append(call.name)
        with room.changed:
            here_now = room.calls.setdefault(call.sequence, {})
            here_now[self.rank] = call, brought
            room.changed.notify_all()
            while True:
                calls = [one for one, _ in here_now.values()]
                if any(one[:3] != call[:3] for one in calls):
                    told = {rank: tuple(one[:4]) for rank, (one, _) in sorted(here_now.items())}
                    room.error = CollectiveMismatchError(f"members called differently: {told}")
                    room.changed.notify_all()
                self.require_whole()
                if len(here_now) == self.size:
                    return [here_now[rank][1] for rank in range(self.size)]
                left = call.deadline - time.monotonic()
                if left <= 0:
                    missing = sorted({*range(self.size)} - here_now.keys())
                    raise CollectiveTimeoutError(f"ranks {missing} did not come to {call.name}")
                room.changed.wait(left)

    def part(self, call: Call) -> None:
        """Wait until all members have read each other's data."""
        room = self.room
        with room.changed:
            room.left[call.sequence] = room.left.get(call.sequence, 0) + 1
            room.changed.notify_all()
            while room.left[call.sequence] < self.size:
                self.require_whole()
                room.changed.wait(1.0)

    def require_whole(self) -> None:
        if self.error is not None:
            raise self.error
        if self.room.lost:
            raise CollectiveLostError(f"rank {min(self.room.lost)} is lost")
        if self.room.error is not None:
            raise self.room.error

    def together(self, call: Call, brought: Any, compute: Callable[[list[Any]], Any]) -> Any:
        found = compute(self.meet(call, brought))
        self.part(call)
        return found

    def all_reduce(self, call: Call, array: Any, op: str) -> None:
        array[...] = self.together(call, array, lambda all: reduced(all, op))

    def reduce(self, call: Call, array: Any, op: str, root: int) -> None:
        total = self.together(call, array, lambda all: reduced(all, op))
        if self.rank == root:
            array[...] = total

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        array[...] = self.together(call, array, lambda all: all[root].copy())

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        out[...] = self.together(call, array, np.stack)

    def reduce_scatter(self, call: Call, out: Any, array: Any, op: str) -> None:
        total = self.together(call, array, lambda all: reduced(all, op))
        out[...] = total[self.rank]

    def all_to_all(self, call: Call, outs: Sequence[Any], arrays: Sequence[Any]) -> None:
        mine = self.together(
            call, list(arrays), lambda all: [given[self.rank].copy() for given in all]
        )
        for out, part in zip(outs, mine, strict=True):
            if out.size != part.size:
                raise CollectiveMismatchError(f"{part.size} numbers for {out.size}")
            out[...] = part

    def gather(self, call: Call, outs: Any, array: Any, root: int) -> None:
        found = self.together(call, array, lambda all: [one.copy() for one in all])
        for out, part in zip(outs or (), found):
            out[...] = part

    def scatter(self, call: Call, out: Any, arrays: Any, root: int) -> None:
        out[...] = self.together(call, arrays, lambda all: all[root][self.rank].copy())

    def barrier(self, call: Call) -> None:
        self.together(call, None, lambda all: None)

    def send(self, call: Call, array: Any, to: int, tag: int) -> None:
        room = self.room
        with room.changed:
            self.require_whole()
            room.messages.setdefault((self.rank, to, tag), []).append((call, array.copy()))
            room.changed.notify_all()

    def recv(self, call: Call, array: Any, sender: int | None, tag: int) -> int:
        room = self.room
        senders = range(self.size) if sender is None else [sender]
        with room.changed:
            while True:
                for rank in senders:
                    if queue := room.messages.get((rank, self.rank, tag)):
                        sent, values = queue.pop(0)
                        if sent.agreed != call.agreed:
                            raise CollectiveMismatchError(f"{sent.agreed} for {call.agreed}")
                        assert call.sequence in (sent.sequence, -1)
                        array[...] = values
                        return rank
                self.require_whole()
                left = call.deadline - time.monotonic()
                if left <= 0:
                    raise CollectiveTimeoutError(f"rank {sender} sent nothing")
                room.changed.wait(left)

    def abort(self, error: Exception) -> None:
        self.error = error
        with self.room.changed:
            self.room.changed.notify_all()

    def lose(self) -> None:
        """Notify the other members that this member has ended."""
        with self.room.changed:
            self.room.lost.add(self.rank)
            self.room.changed.notify_all()

    def close(self) -> None:
        """Do nothing: the room lives as long as its members."""


def reduced(arrays: list[Any], op: str) -> Any:
    """Return the reduction in rank order."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total = _OPS[op](total, array)
    return total


_rooms: dict[tuple[int, str], Room] = {}
_rooms_lock = threading.Lock()


def connect(place: Place) -> ThreadTransport:
    """Return the transport that connects a member to the room of its group."""
    prefix, store = "", place.store
    while hasattr(store, "underlying_store"):
        prefix, store = f"{store.prefix}/{prefix}", store.underlying_store
    with _rooms_lock:
        room = _rooms.setdefault((id(store), prefix), Room(place.size))
        room.store = store  # kept alive, so that its id is not reused
    return ThreadTransport(room, place.rank)


connections["threads"] = connect
Backend.backend_capability["threads"] = ["cpu", "cuda"]


def run_members(
    size: int,
    function: Callable[..., T],
    *args: Any,
    timeout_s: float = 20.0,
    backend: str = "threads",
    **options: Any,
) -> list[T]:
    """Run `function(rank, *args)` as all members of a job, and return the results by rank.

    The members use the transport of this file; with backend "gloo", the one for processes.

    Raises  the exception of the member with the lowest rank that raised
    """
    store = HashStore()
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def member(rank: int) -> None:
        here.world = World()
        try:
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, **options)
            results[rank] = function(rank, *args)
        except BaseException as error:
            error.add_note(f"on rank {rank}:\n{traceback.format_exc()}")
            errors[rank] = error
            group = here.world.default
            if group is not None:
                for one in group._carriers.values():
                    if isinstance(one, ThreadTransport):
                        one.lose()
        finally:
            dist.destroy_process_group()

    threads = [threading.Thread(target=member, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
        assert not thread.is_alive(), "a member does not end"
    with _rooms_lock:
        for key in [key for key in _rooms if key[0] == id(store)]:
            del _rooms[key]
    # A CollectiveLostError follows from another member's error, so raise the other error if any.
    found = [error for error in errors if error is not None]
    causes = [error for error in found if not isinstance(error, CollectiveLostError)]
    if found:
        raise (causes or found)[0]
    return results
