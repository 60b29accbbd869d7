"""The thread that watches collectives on GPUs for timeouts and failures."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fastdist.core.errors import (
    CollectiveError,
    CollectiveLostError,
    CollectiveTimeoutError,
    FastdistError,
    KernelError,
)

from .device_work import Progress

if TYPE_CHECKING:
    from fastdist.distributed.store import Store

    from .device_transport import DeviceTransport

_logger = logging.getLogger(__name__)

# The interval at which the thread checks the work under way, and the interval for the store.
_LOOK_S: Final = 0.05
_STORE_S: Final = 1.0
# The thread ends after this long without work; the next collective starts another one.
_IDLE_S: Final = 5.0
# How long the thread waits for other members' progress reports when a collective is late.
_REPORTS_S: Final = 1.5
_FAILURE: Final = "failure"


class Watch:
    """Watches the collectives of one member of a group.

    An NCCL error, or a collective that exceeds its timeout, fails all collectives of the group on
    this member. The other members read the failure from the store within about a second. While
    collectives are under way, each member writes to the store every second how many collectives it
    has called, and where it called the last one. So a timeout error can name the members that did
    not call the collective.

    Thread  any
    """

    def __init__(
        self, store: Store | None, rank: int, size: int, fail: Callable[[CollectiveError], None]
    ) -> None:
        self._store, self._rank, self._size, self._fail = store, rank, size, fail
        self._changed = threading.Condition()
        self._under_way: list[tuple[DeviceTransport, Progress]] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False
        # The number, name and line of the last collective; and the number in the last report that
        # this member wrote to the store.
        self._last: tuple[int, str, str] = (-1, "", "")
        self._reported = -1
        self._next_store_s = 0.0

    def add(self, part: DeviceTransport, work: Progress) -> None:
        """Watch a collective that was queued."""
        with self._changed:
            self._under_way.append((part, work))
            self._last = work.call.sequence, work.call.name, work.call.line
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._serve, name="fastdist NCCL watch", daemon=True
                )
                self._thread.start()
            elif len(self._under_way) == 1:
                self._changed.notify_all()

    def under_way(self) -> list[Progress]:
        """Return the collectives that the GPUs had not completed at the last check."""
        with self._changed:
            return [work for _, work in self._under_way]

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_IDLE_S)

    def report_failure(self, error: CollectiveError) -> None:
        """Write the error with which this member failed to the store, for the other members."""
        if self._store is not None and self._size > 1:
            text = json.dumps([self._rank, isinstance(error, CollectiveLostError), str(error)])
            with contextlib.suppress(FastdistError, OSError):
                self._store.set(_FAILURE, text)

    def _serve(self) -> None:
        idle_since = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait(_LOOK_S if self._under_way else _IDLE_S)
                if self._is_closed:
                    return
                if self._under_way:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since >= _IDLE_S:
                    self._thread = None
                    return
            try:
                self._look()
            except CollectiveError as error:
                _logger.error("rank %d: %s", self._rank, error)
                self._fail(error)
                with self._changed:
                    self._under_way.clear()
            except (FastdistError, OSError) as error:
                # The store or the device is gone: the program gets an error when it waits for the
                # collective.
                _logger.info("rank %d cannot look after its collectives: %s", self._rank, error)

    def _look(self) -> None:
        with self._changed:
            under_way = list(self._under_way)
        late: Progress | None = None
        still = []
        for part, work in under_way:
            if part.memory.backend.allocator.has_capture():
                return  # CUDA allows no queries during a graph capture
            if _has_ended(work):
                work.kept.clear()
                continue
            still.append((part, work))
            part.require_healthy(work.call)
            if time.monotonic() > work.call.deadline:
                late = late or work
        ended = {id(work) for _, work in under_way} - {id(work) for _, work in still}
        with self._changed:
            self._under_way = [pair for pair in self._under_way if id(pair[1]) not in ended]
        if self._store is not None and self._size > 1:
            self._exchange(self._store, is_urgent=late is not None)
        if late is not None:
            raise self._timeout(late)

    def _exchange(self, store: Store, *, is_urgent: bool) -> None:
        """Read whether another member has failed, and write this member's progress."""
        now = time.monotonic()
        if now < self._next_store_s and not is_urgent:
            return
        self._next_store_s = now + _STORE_S
        if self._last[0] != self._reported:
            store.set(f"called.{self._rank}", json.dumps(self._last))
            self._reported = self._last[0]
        if store.check([_FAILURE]):
            rank, is_lost, text = json.loads(store.get(_FAILURE))
            if rank != self._rank:
                kind = CollectiveLostError if is_lost else CollectiveError
                raise kind(f"rank {rank} of the group failed: {text}")

    def _timeout(self, work: Progress) -> CollectiveTimeoutError:
        call = work.call
        behind = self._behind(call.sequence) if self._size > 1 else []
        who = "; ".join(behind) or "all have called it, as far as they report"
        return CollectiveTimeoutError(
            f"{call.name} ({call.agreed}), collective {call.sequence} of the group, called at "
            f"{call.line} by rank {self._rank}, did not end within its timeout: {who}"
        )

    def _behind(self, sequence: int) -> list[str]:
        """Return a text about each member that has not called the collective with this number."""
        if self._store is None:
            return []
        # Wait for longer than the interval at which members report.
        deadline = time.monotonic() + _REPORTS_S
        found: dict[int, Any] = {}
        while True:
            for rank in range(self._size):
                key = f"called.{rank}"
                if self._store.check([key]):
                    found[rank] = json.loads(self._store.get(key))
            if len(found) == self._size and all(one[0] >= sequence for one in found.values()):
                return []
            if time.monotonic() > deadline:
                break
            with self._changed:
                self._changed.wait(_LOOK_S)
        texts = []
        for rank in range(self._size):
            number, name, line = found.get(rank, (-1, "", ""))
            if number < sequence:
                last = f"its last was {name} at {line}" if name else "it has called none"
                texts.append(f"rank {rank} did not come ({last})")
        return texts


def _has_ended(work: Progress) -> bool:
    try:
        return work.error is not None or work.passed()
    except KernelError:
        return True  # CUDA raises the error again when the program waits, and in later calls
