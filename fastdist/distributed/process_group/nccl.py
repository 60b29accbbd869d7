"""The backend `nccl`: carries the collectives of a group between GPUs."""

# Note [Collectives on GPUs]
# A collective is queued on a stream of the group, after the work that is already queued on the
# current stream, and the call returns. The wait() of the returned Work makes the current stream
# wait, not the program. So an error of a collective appears later: in wait(), at the next call, or
# in the log. A collective on the CPU does not change the result if it fails; a collective on a GPU
# may have written a part of the result.
#
# NCCL does not compare the members' calls. After a mismatch, results are wrong, or a GPU waits
# until the timeout. If the members compared their calls before each launch, every member would wait
# for the slowest one, and could not queue work ahead of its GPU. The comparison would also add 16
# to 67 us for two processes on one machine (through their store 380 to 520 us), where a call takes
# 48 us in all (AMD EPYC). So the members compare their calls only with
# TORCH_DISTRIBUTED_DEBUG=DETAIL; otherwise a launch sends no message.

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import numpy as np

from fastdist.core.errors import CollectiveError, CollectiveTimeoutError, StoreTimeoutError

from ...core.device import Device, current_gpu
from ...devices.backend import backend_of
from ...devices.cuda import nccl
from ...tensor.tensor import Tensor
from .arrays import require_readable, require_target
from .carriers import Message, QueueingCarrier
from .debug_level import DebugLevel, current_level
from .device_transport import Act, DeviceTransport
from .device_watch import Watch
from .device_work import DeviceWork
from .options import Connect, Place
from .transport import Call, Transport
from .work import Work, destroyed

# How long a member that leaves waits for its GPU's work before it aborts that work.
_CLOSE_S: Final = 2.0
_EMPTY: Final = np.zeros(0, np.uint8)


class NcclCarrier(QueueingCarrier):
    """The communicators of one member of a group.

    There is one communicator per GPU, and another one for each peer with which this member
    exchanges messages outside of batches.

    Thread  any; calls from several threads are queued one at a time
    """

    def __init__(self, place: Place, connect_checks: Connect) -> None:
        self.rank, self.size = place.rank, place.size
        self.count = 0
        self._place, self._connect_checks = place, connect_checks
        self._lock = threading.RLock()
        # Maps (GPU index, None) to the transport of collectives, and (GPU index, peer) to the
        # transport of messages.
        self._parts: dict[tuple[int, int | None], DeviceTransport] = {}
        # Counts the communicators created so far for each set of members: "all" or "pair.0.1".
        self._meetings: dict[str, Iterator[int]] = defaultdict(itertools.count)
        # Counts the messages that were compared, by direction and peer.
        self._messages: dict[tuple[str, int], Iterator[int]] = defaultdict(itertools.count)
        self._last_index: int | None = None
        self._error: Exception | None = None
        self._checks: Transport | None = None
        self._watch = Watch(place.store, place.rank, place.size, self._fail)

    def start(
        self, call: Call, act: Act, result: list[Any], device: Device | None, *, is_async: bool
    ) -> Work:
        """Queue a collective, and return its Work.

        Unless is_async is set, the current stream waits for the collective. `call.sequence` is
        ignored: this class counts the calls.
        """
        with self._lock:
            self._require_open()
            part = self._part(self._device(result, device), None, call)
            call = call._replace(sequence=self.count)
            self.count += 1
            if current_level() is DebugLevel.DETAIL and self.size > 1:
                self._checks_now().barrier(call)
            work = self._run(part, act, call, result)
        return _waited(work, is_async=is_async)

    def start_message(self, call: Call, message: Message, *, is_async: bool) -> Work:
        """Queue a send or a receive on the communicator of this member and the peer."""
        device = message.tensor._layout.device
        with self._lock:
            self._require_open()
            part = self._part(device, message.peer, call)
            self._check_messages(call, [message])
            work = self._run(part, _exchange([message], self._peer_in_pair), call, [message.tensor])
            work._source = self._place.ranks[message.peer]
        return _waited(work, is_async=is_async)

    def start_batch(self, call: Call, messages: Sequence[Message]) -> Work:
        """Queue sends and receives together, on the communicator of all members."""
        device = messages[0].tensor._layout.device
        with self._lock:
            self._require_open()
            part = self._part(device, None, call)
            self._check_messages(call, messages)
            tensors = [one.tensor for one in messages]
            return self._run(part, _exchange(messages, int), call, tensors)

    def connect(self, device: Device, seconds: float) -> None:
        """Create the communicator of a GPU now, for init_process_group(device_id=...)."""
        with self._lock:
            call = Call(0, "init_process_group", "", "", time.monotonic() + seconds)
            self._part(device, None, call)

    def abort(self, error: Exception) -> None:
        """Fail all work under way with the error, and raise it in every later call."""
        with_failure = isinstance(error, CollectiveError)
        self._stop(error if with_failure else CollectiveError(str(error)))

    def close(self) -> None:
        """Wait for the work under way, and close the communicators."""
        under_way = self._watch.under_way()
        self._watch.close()
        if self._error is None:
            self._error = destroyed(self._place.name)
            for part in list(self._parts.values()):
                part.close([one for one in under_way if one.device is part.device], _CLOSE_S)
        self._parts.clear()
        if self._checks is not None:
            self._checks.close()

    def _run(
        self, part: DeviceTransport, act: Act, call: Call, result: list[Any]
    ) -> DeviceWork:  # fmt: skip
        work = part.run(act, call, result)
        if not work.progress.is_captured:
            self._watch.add(part, work.progress)
        return work

    def _fail(self, error: CollectiveError) -> None:
        """Fail all work of this member, because NCCL failed, a collective is late, or another
        member has failed.
        """
        if self._error is None:
            self._watch.report_failure(error)
            self._stop(error)

    def _stop(self, error: Exception) -> None:
        self._error = error
        for progress in self._watch.under_way():
            progress.fail(error)
        for part in list(self._parts.values()):
            part.abort()
        if self._checks is not None:
            self._checks.abort(error)

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error

    def _device(self, result: Sequence[Any], bound: Device | None) -> Device:
        while result:
            first = result[0]
            if isinstance(first, Tensor):
                return first._layout.device
            result = first
        if bound is not None:
            return bound
        index = self._last_index
        if index is None:
            index = current_gpu() or int(os.environ.get("LOCAL_RANK", "0"))
        backend: Any = backend_of("cuda")
        return Device("cuda", index % backend.device_count())

    def _part(self, device: Device, peer: int | None, call: Call) -> DeviceTransport:
        index = device.index or 0
        self._last_index = index
        part = self._parts.get((index, peer))
        if part is None:
            if device.type != "cuda":
                raise RuntimeError(
                    f"{call.name}: NCCL has no tensors on {device}; copy it to a GPU"
                )
            members = range(self.size) if peer is None else sorted((self.rank, peer))
            part = self._parts[index, peer] = self._connect(index, members, call)
        return part

    def _connect(self, index: int, members: Sequence[int], call: Call) -> DeviceTransport:
        backend: Any = backend_of("cuda")
        if backend.is_capturing(index):
            raise CollectiveError(
                f"{call.name}, called at {call.line}: members cannot connect while a graph is "
                "captured; call a collective on this GPU before the capture"
            )
        store, rank = self._place.store, members.index(self.rank)
        if len(members) == 1 and store is None:
            unique_id = nccl.new_unique_id()
        else:
            unique_id = self._meet(index, members, call)
        with backend.current_stream(index).native_device:
            communicator = nccl.Communicator(len(members), unique_id, rank)
        return DeviceTransport(Device("cuda", index), communicator, rank, len(members))

    def _meet(self, index: int, members: Sequence[int], call: Call) -> bytes:
        """Return the id of a new communicator, after all `members` have called this method."""
        store = self._place.store
        assert store is not None
        is_pair = len(members) < self.size
        name = f"pair.{members[0]}.{members[1]}" if is_pair else "all"
        prefix = f"{name}.{next(self._meetings[name])}"
        if self.rank == members[0]:
            store.set(f"{prefix}.id", nccl.new_unique_id())
        backend: Any = backend_of("cuda")
        uuid = backend.properties(index).get("uuid", b"")
        store.set(f"{prefix}.{self.rank}", bytes(uuid) or b"?")
        keys = [f"{prefix}.{rank}" for rank in members]
        left = timedelta(seconds=max(call.deadline - time.monotonic(), 0.001))
        try:
            store.wait(keys, left)
        except StoreTimeoutError as error:
            missing = [rank for rank, key in zip(members, keys) if not store.check([key])]
            raise CollectiveTimeoutError(
                f"{call.name}, called at {call.line}: ranks {missing} did not come to connect "
                "their GPUs; NCCL needs a first call of all members"
            ) from error
        self._require_own_gpus(members, [bytes(one) for one in store.multi_get(keys)], index)
        return bytes(store.get(f"{prefix}.id"))

    def _require_own_gpus(self, members: Sequence[int], uuids: list[bytes], index: int) -> None:
        mine = uuids[members.index(self.rank)]
        others = [
            rank
            for rank, uuid in zip(members, uuids)
            if uuid == mine != b"?" and rank != self.rank
        ]  # fmt: skip
        if others:
            raise CollectiveError(
                f"Duplicate GPU detected: rank {self.rank} and rank {others[0]} both use the GPU "
                f"cuda:{index} of this process; give each process its own with "
                "cuda.set_device(int(os.environ['LOCAL_RANK']))"
            )

    def _peer_in_pair(self, peer: int) -> int:
        return int(peer > self.rank)

    def _check_messages(self, call: Call, messages: Sequence[Message]) -> None:
        """Compare messages with the peers' calls, if the debug level is DETAIL."""
        if current_level() is not DebugLevel.DETAIL:
            return
        checks = self._checks_now()
        for one in sorted(messages, key=lambda one: not one.is_send):
            direction = ("send" if one.is_send else "recv", one.peer)
            layout = one.tensor._layout
            agreed = f"{layout.dtype.name}, {layout.numel} numbers"
            number = next(self._messages[direction])
            compared = call._replace(sequence=number, name="send", agreed=agreed)
            if one.is_send:
                checks.send(compared, _EMPTY, one.peer, 0)
            else:
                checks.recv(compared, _EMPTY, one.peer, 0)

    def _checks_now(self) -> Transport:
        if self._checks is None:
            from fastdist.distributed.store import PrefixStore

            store = self._place.store
            assert store is not None
            self._checks = self._connect_checks(
                self._place._replace(store=PrefixStore("checks", store))
            )
        return self._checks


def _exchange(messages: Sequence[Message], rank_of: Any) -> Act:
    def act(part: DeviceTransport, call: Call) -> None:
        targets = []
        memory = part.memory
        prepared: list[tuple[Message, Any]] = []
        for one in messages:
            if one.is_send:
                require_readable("send", "tensor", one.tensor)
                prepared.append((one, memory.flat(one.tensor)))
            else:
                require_target("recv", "tensor", one.tensor)
                target = memory.target(one.tensor, reads=False)
                targets.append(target)
                prepared.append((one, target._array))
        with part.grouped():
            for one, array in prepared:
                if one.is_send:
                    part.send(call, array, rank_of(one.peer), 0)
                else:
                    part.recv(call, array, rank_of(one.peer), 0)
        for target in targets:
            target.done()

    return act


def _waited(work: DeviceWork, *, is_async: bool) -> DeviceWork:
    if not is_async:
        work.wait()
    return work
