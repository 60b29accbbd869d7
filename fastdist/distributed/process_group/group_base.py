"""The base of ProcessGroup: its members, its backends and its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from fastdist.core.errors import CollectiveError

from ...instrumentation.time_ranges import clock, time_ranges
from ..constants import default_pg_timeout
from .arrays import settle
from .backends import Backend, BackendConfig, Place, make_carrier
from .caller import caller_line
from .carriers import QueueingCarrier
from .debug_level import DebugLevel, current_level
from .transport import Call, ClosesQuietly, Transport
from .work import Lane, Work, destroyed, finished

if TYPE_CHECKING:
    from fastdist.distributed.store import Store

    from ...core.device import Device
    from ...tensor.tensor import Tensor

Act = Callable[[Transport, Call], None]
Direction = tuple[str, int | None, int]

# How long a member that leaves waits for its queued work.
_DRAIN_S: Final = 2.0

# A program's subclass may define these methods of PyTorch's backends; each is mapped to the name
# that ProcessGroup uses for it.
_GIVEN_METHODS: Final = {
    "getRank": "rank",
    "getSize": "size",
    "getBackendName": "name",
    "setGroupName": "_set_group_name",
    "setGroupDesc": "_set_group_desc",
}
_GIVEN_PROPERTIES: Final = {"getGroupName": "group_name", "getGroupDesc": "group_desc"}


def _ignore_value(group: Any, value: str) -> None:
    """Ignore an assigned name or description, because the subclass's method returns another."""


class GroupBase:
    """The members of a group, its transports, and the threads that run its collectives."""

    bound_device_id: Any = None
    # Whether the group's collectives are methods of a registered backend: see foreign.py.
    is_foreign: ClassVar[bool] = False

    def __init_subclass__(cls, **named: Any) -> None:
        """Accept subclasses that define methods of PyTorch's backends, such as getRank."""
        super().__init_subclass__(**named)
        for given, name in _GIVEN_METHODS.items():
            if given in vars(cls):
                setattr(cls, name, vars(cls)[given])
        for given, name in _GIVEN_PROPERTIES.items():
            if given in vars(cls):
                setattr(cls, name, property(vars(cls)[given], _ignore_value))

    def __init__(self, *place: Any) -> None:
        if len(place) not in (2, 3):
            raise TypeError("ProcessGroup takes (rank, size) or (store, rank, size)")
        *store, rank, size = place
        self._rank, self._size = int(rank), int(size)
        self._store: Store | None = store[0] if store else None
        self._ranks = tuple(range(self._size))
        self._world_size = self._size
        self._config = BackendConfig(None)
        self._backend_name = ""
        self._timeout = default_pg_timeout
        self._options: Any = None
        # Maps a backend to its transport.
        self._carriers: dict[str, Any] = {}
        self._carriers_lock = threading.Lock()
        self._lane = Lane("fastdist collectives")
        self._pairs: dict[Direction, Lane] = {}
        # Counts the messages of each direction, which is a tuple of kind ("send"), peer and tag.
        self._messages: dict[Direction, int] = {}
        self._pairs_lock = threading.Lock()
        self._coalesced: Any = None
        # The group that transfers objects if this group has no backend for the CPU.
        self._companion: Any = None
        self._companion_lock = threading.Lock()
        self._error: BaseException | None = None
        # For monitors: num_bytes is the total size of the tensors in all collectives so far.
        # under_way describes the running collective: its name, the line of its call, and its start
        # in time.monotonic().
        self.num_bytes = 0
        self.under_way: tuple[str, str, float] | None = None
        self.group_name = ""
        self.group_desc = ""

    def rank(self) -> int:
        """Return this process's rank in the group, 0 to size() - 1."""
        return self._rank

    def size(self) -> int:
        """Return the number of members."""
        return self._size

    def name(self) -> str:
        """Return the name of the backend, such as "gloo"."""
        return self._backend_name

    def get_group_store(self) -> Store | None:
        """Return the group's part of the store; None for a group that needs no store."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of collectives, sends and receives that are called from now on.

        Args:
            timeout: A timedelta.
        """
        self._timeout = timeout

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    @property
    def _device_types(self) -> list[Device]:
        from ...core.device import Device

        return [Device(kind) for kind in self._config.device_backend_map]

    def _get_backend_name(self) -> str:
        return self._backend_name

    def _get_backend(self, device: Any) -> Any:
        """Return this group, which has the methods of PyTorch's backends."""
        self._backend_for(str(getattr(device, "type", device)).partition(":")[0])
        return self

    def _get_sequence_number_for_group(self) -> int:
        """Return the number of collectives that this member has called."""
        return self._lane.count + sum(
            carrier.count
            for carrier in self._carriers.values()
            if isinstance(carrier, QueueingCarrier)
        )

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: the numbers start at 0 on all members."""

    def _set_group_name(self, name: str) -> None:
        self.group_name = name

    def _set_group_desc(self, description: str) -> None:
        self.group_desc = description

    def _join(
        self, config: BackendConfig, name: str, place: Place, options: Any, *, desc: str
    ) -> None:
        """Become a member of a group, and connect the transport for the CPU."""
        self._store, self._ranks, self._timeout = place.store, place.ranks, place.timeout
        self._world_size = place.world_size
        self._config, self._backend_name, self._options = config, name, options
        self.group_name, self.group_desc = place.name, desc
        self._lane = Lane(f"fastdist group {place.name}")
        kinds = config.device_backend_map
        self._carrier(kinds.get("cpu") or next(iter(kinds.values())))

    def _bind(self, device: Any) -> None:
        """Store the GPU of this process; with nccl, connect it with the other members' GPUs."""
        from ...core.device import Device

        if device is None:
            return
        self.bound_device_id = Device("cuda", device) if isinstance(device, int) else Device(device)
        backend = self._config.device_backend_map.get(self.bound_device_id.type)
        carrier = self._carrier(backend) if backend == Backend.NCCL else None
        if isinstance(carrier, QueueingCarrier):
            carrier.connect(self.bound_device_id, self._timeout.total_seconds())

    def _for_objects(self) -> Any:
        """Return a group that transfers bytes in CPU memory: this one, or a companion group."""
        if "cpu" in self._config.device_backend_map or self.is_foreign:
            return self
        with self._companion_lock:
            if self._companion is None:
                made = type(self)(self._store, self._rank, self._size)
                place = self._place(self._store_of("objects"))
                config = BackendConfig(f"cpu:{Backend.GLOO}")
                made._join(config, Backend.GLOO, place, None, desc=f"objects of {self.group_desc}")
                self._companion = made
            return self._companion

    def _backend_for(self, device_type: str) -> str:
        backend = self._config.device_backend_map.get(device_type)
        if backend is None:
            raise RuntimeError(
                f"No backend type associated with device type {device_type}: the group's backends "
                f"are {self._config!r}; give init_process_group or new_group "
                f'"...,{device_type}:BACKEND"'
            )
        return backend

    def _carrier(self, backend: str) -> Any:
        carrier = self._carriers.get(backend)
        if carrier is not None:
            return carrier
        with self._carriers_lock:
            if self._error is not None:
                raise self._error
            if backend not in self._carriers:
                self._carriers[backend] = self._make_carrier(backend)
            return self._carriers[backend]

    def _make_carrier(self, backend: str) -> Any:
        return make_carrier(backend, self._place(self._store_of(backend)), self._options)

    def _store_of(self, part: str) -> Store | None:
        if self._store is None:
            return None
        from fastdist.distributed.store import PrefixStore

        return PrefixStore(part, self._store)

    def _place(self, store: Store | None) -> Place:
        return Place(
            store=store,
            rank=self._rank,
            size=self._size,
            ranks=self._ranks,
            name=self.group_name,
            timeout=self._timeout,
            world_size=self._world_size,
        )

    def _transport(self, tensor: Tensor | None) -> Transport:
        kind = "cpu" if tensor is None else tensor._layout.device.type
        if tensor is None and kind not in self._config.device_backend_map:
            kind = next(iter(self._config.device_backend_map))
        return self._carrier(self._backend_for(kind))  # type: ignore[no-any-return]

    def _run(
        self,
        what: str,
        agreed: str,
        act: Act,
        result: list[Any],
        options: Any,
        inputs: Sequence[Tensor] | None = None,
    ) -> Work:
        """Run a collective, or queue it.

        `result` begins with the tensors that the collective fills. A profile shows the shapes of
        `inputs`; if `inputs` is None, it shows the shape of the first tensor in `result`.
        """
        first = _first_tensor(result)
        transport = self._transport(first)
        line, timeout = caller_line(), options.timeout or self._timeout
        seconds = timeout.total_seconds()
        if isinstance(transport, QueueingCarrier):
            call = Call(0, what, agreed, line, time.monotonic() + seconds)
            device = self._gpu_of(options)
            return transport.start(call, act, result, device, is_async=options.asyncOp)
        settle(first)
        if first is not None:
            self.num_bytes += sum(map(_num_bytes, inputs or result))

        def job(number: int) -> None:
            start_ns = clock() if time_ranges.on else 0
            now = time.monotonic()
            self.under_way = what, line, now
            try:
                act(transport, Call(number, what, agreed, line, now + seconds))
            finally:
                self.under_way = None
            if start_ns:
                given = inputs or ([] if first is None else [first])
                self._note_time(what, start_ns, given)

        # With DETAIL, raise errors on the line of the call, like PyTorch's wrapper.
        if options.asyncOp and current_level() is not DebugLevel.DETAIL:
            return self._lane.start(job, Work(result))
        self._lane.run(job)
        return finished(result)

    def _note_time(self, what: str, start_ns: int, tensors: Sequence[Tensor]) -> None:
        """Report the duration of a collective or message to the profiler."""
        shapes = tuple(_shown_shape(one, what) for one in tensors)
        name = f"{self._backend_name}:{what}"
        time_ranges.add(name, "collective", start_ns, is_async=True, shapes=shapes)

    def _gpu_of(self, options: Any) -> Any:
        """Return the GPU of a barrier: from its options, or this process's GPU if it is known."""
        from ...core.device import Device

        chosen = getattr(options, "device_ids", None)
        return Device("cuda", int(chosen[0])) if chosen else self.bound_device_id

    def _pair(self, direction: Direction) -> Lane:
        with self._pairs_lock:
            if self._error is not None:
                raise self._error
            lane = self._pairs.get(direction)
            if lane is None:
                how, peer, tag = direction
                lane = Lane(f"fastdist group {self.group_name}: {how} {peer}, tag {tag}")
                self._pairs[direction] = lane
            return lane

    def _next_message(self, direction: Direction) -> int:
        with self._pairs_lock:
            number = self._messages.get(direction, 0)
            self._messages[direction] = number + 1
            return number

    def shutdown(self) -> None:
        """Leave the group: later calls raise CollectiveError. A second call has no effect.

        Queued collectives and sends have 2 s to end, and fail after that. Receives fail
        immediately.

        Threads: any; waits of other threads end with an error if their work does not end in time.
        """
        self._end(destroyed(self.group_name), aborts=False)

    def abort(self) -> None:
        """Fail all collectives of this member with a CollectiveError, and leave the group.

        Other members that wait for this one get an error.

        Threads: any; it ends the waits of other threads.
        """
        self._end(destroyed(self.group_name), aborts=True)

    def _end(self, error: CollectiveError, *, aborts: bool) -> None:
        with self._carriers_lock, self._pairs_lock:
            if self._error is not None:
                return
            self._error = error
            carriers = list(self._carriers.values())
            lanes = [self._lane, *self._pairs.values()]
            drained = [self._lane]
            drained += [lane for (how, _, _), lane in self._pairs.items() if how == "send"]
            self._pairs.clear()
            companion, self._companion = self._companion, None
        if companion is not None:
            companion._end(error, aborts=aborts)
        try:
            until = time.monotonic() + (0.0 if aborts else _DRAIN_S)
            for lane in drained:
                lane.drain(until)
        finally:
            aborts = aborts or any(lane.is_busy() for lane in drained)
            self._close(lanes, carriers, error, aborts=aborts)

    def _close(
        self, lanes: list[Lane], carriers: list[Any], error: CollectiveError, *, aborts: bool
    ) -> None:
        receives = any(lane.is_busy() for lane in lanes)
        for lane in lanes:
            lane.close(error)
        for carrier in carriers:
            is_ended = aborts or (receives and not isinstance(carrier, ClosesQuietly))
            self._end_carrier(carrier, error if is_ended else None)
        for lane in lanes:
            lane.join()

    def _end_carrier(self, carrier: Any, error: CollectiveError | None) -> None:
        """Close a carrier, and fail its work first if there is an error."""
        if error is not None:
            carrier.abort(error)
        carrier.close()

    def __repr__(self) -> str:
        ranks = list(self._ranks)
        return (
            f"<fastdist.distributed.distributed_c10d.ProcessGroup {self.group_name!r}: rank "
            f"{self._rank} of {self._size}, {self._config!r}, global ranks {ranks}>"
        )


def _shown_shape(tensor: Tensor, what: str) -> tuple[int, ...]:
    """Return the shape for a profile, in which a collective's complex numbers count as pairs."""
    layout = tensor._layout
    is_pair = layout.dtype.is_complex and what not in ("send", "recv", "recvAnySource")
    return (*layout.shape, 2) if is_pair else tuple(layout.shape)


def _num_bytes(one: Any) -> int:
    return one.nbytes if hasattr(one, "_layout") else 0


def _first_tensor(result: Sequence[Any]) -> Tensor | None:
    for one in result:
        while isinstance(one, list | tuple) and one:
            one = one[0]
        if hasattr(one, "_layout"):
            return one  # type: ignore[no-any-return]
    return None
