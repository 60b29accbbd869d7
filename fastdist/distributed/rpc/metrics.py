"""The agent's counters: calls under way, bytes and errors by peer, averages over time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Final, Protocol

# In a dynamic group the number of names is unlimited; this many peers are counted by name.
MOST_PEERS: Final = 8192

_MOST_NAMED: Final = 4
_LOOK_S: Final = 0.2


class Request(Protocol):
    """A received call; its caller waits until `deadline`."""

    deadline: float | None


class TimeSeriesMetricsTracker:
    """A sum and a count of values.

    Thread  any
    """

    def __init__(self, current_sum: int = 0, current_count: int = 0) -> None:
        self._lock = threading.RLock()  # guards the two attributes below
        self._sum = current_sum
        self._count = current_count

    def add_data(self, data_point: int) -> None:
        """Count one more value."""
        with self._lock:
            self._sum += data_point
            self._count += 1

    def compute_average(self) -> float:
        """Return the average of all values, or 0 if there are none."""
        with self._lock:
            return self._sum / self._count if self._count else 0.0


@dataclass(slots=True)
class AggregatedNetworkData:
    """The traffic with one peer.

    Thread  only CallCounts writes it, under the lock of CallCounts
    """

    num_calls: int = 0
    total_sent_bytes: int = 0
    total_recv_bytes: int = 0
    total_errors: int = 0


@dataclass(frozen=True, slots=True)
class NetworkSourceInfo:
    """This worker's network identity."""

    src_rank: int
    src_machine_addr: bytes


class CallCounts:
    """Counts the calls that this worker has made or received, and those that are under way.

    Thread  any
    """

    def __init__(self) -> None:
        # Guards all attributes below. Methods enter this lock and not `_changed`, the condition of
        # the lock, because that takes a quarter of the time. They notify `_changed` if a thread
        # waits.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._num_waiting = 0
        # A set, not a count: a call that a signal handler has interrupted may be ended twice, or
        # before it was counted.
        self._own_calls: set[object] = set()
        self.server_active = 0
        self.server_active_async = 0
        # Async request whose Future is not done -> its text. Each operation on this dictionary is
        # atomic.
        self._without_value: dict[Request, str] = {}
        self._served = AggregatedNetworkData()
        # By peer name; _former has the sum for peers that were dropped.
        self._network: dict[str, AggregatedNetworkData] = {}
        self._former = AggregatedNetworkData()

    @property
    def client_active(self) -> int:
        """The number of calls that this worker has made and that have not ended."""
        return len(self._own_calls)

    def call_sent(self, call: object, peer: str, sent_bytes: int) -> None:
        """Count a call that this worker makes."""
        with self._lock:
            self._own_calls.add(call)
            network = self._network.get(peer)
            if network is None:
                network = self._network[peer] = AggregatedNetworkData()
                self._drop_oldest()
            network.num_calls += 1
            network.total_sent_bytes += sent_bytes

    def call_ended(self, call: object, peer: str, received_bytes: int, *, failed: bool) -> None:
        """Count the end of a call that this worker made."""
        with self._lock:
            self._own_calls.discard(call)
            network = self._network.get(peer, self._former)
            network.total_recv_bytes += received_bytes
            network.total_errors += failed
            if self._num_waiting and not self._own_calls:
                self._changed.notify_all()

    def forget(self, call: object) -> None:
        """Stop counting a call of this worker as under way, if it is counted."""
        self._own_calls.discard(call)

    def request_came(self) -> None:
        """Count a received call."""
        with self._lock:
            self.server_active += 1

    def request_answered(
        self, received_bytes: int = 0, sent_bytes: int = 0, *, was_async: bool = False
    ) -> None:
        """Count the end of a received call, the bytes of the call and the bytes of its answer."""
        with self._lock:
            self._served.num_calls += 1
            self._served.total_recv_bytes += received_bytes
            self._served.total_sent_bytes += sent_bytes
            self.server_active -= 1
            self.server_active_async -= was_async
            if self._num_waiting:
                self._changed.notify_all()

    def request_became_async(self, request: Request, what: str) -> None:
        """Count a received call that returned a Future; `what` names its function and caller."""
        self._without_value[request] = what
        with self._lock:
            self.server_active_async += 1

    def async_request_ended(self, request: Request) -> None:
        """Record that the Future of a call's function is done."""
        self._without_value.pop(request, None)

    def _given_up(self) -> dict[Request, str]:
        """Return the calls whose Futures are not done and whose callers have given up."""
        now, calls = time.monotonic(), list(self._without_value.items())
        return {one: what for one, what in calls if one.deadline is not None and one.deadline < now}

    def without_value(self, *, given_up: bool = False) -> str:
        """Return text: the functions whose Futures are not done, and their callers; empty if none.

        The functions are those whose callers still wait or, with `given_up`, those whose callers
        have given up.
        """
        if not self._without_value:
            return ""
        gone = self._given_up()
        names = [
            what for one, what in list(self._without_value.items()) if (one in gone) == given_up
        ]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return ", ".join(names[:_MOST_NAMED]) + more

    def wait_for_own_calls(self, timeout_s: float | None) -> bool:
        """Wait until all calls of this worker have ended; return False at the timeout."""
        return self._wait(lambda: not self._own_calls, timeout_s)

    def wait_until_idle(self, timeout_s: float | None) -> bool:
        """Wait until no call made or received here is under way; return False at the timeout.

        Calls whose Futures are not done, but whose callers have given up, do not count.
        """
        return self._wait(lambda: self._under_way() == 0, timeout_s)

    def _wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        with self._lock:
            self._num_waiting += 1
            try:
                deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
                while True:
                    left_s = deadline - time.monotonic()
                    # The end of a caller's time notifies no thread, so check regularly.
                    nap_s = min(left_s, _LOOK_S) if self._without_value else left_s
                    if self._changed.wait_for(is_over, None if nap_s == math.inf else nap_s):
                        return True
                    if nap_s == left_s:
                        return False
            finally:
                self._num_waiting -= 1

    def _under_way(self) -> int:
        num_given_up = len(self._given_up()) if self._without_value else 0
        return len(self._own_calls) + self.server_active - num_given_up

    def activity(self) -> tuple[int, int]:
        """Return the number of calls under way, and of all calls so far (made and received).

        Calls whose Futures are not done, but whose callers have given up, do not count as under
        way: they may never be completed.
        """
        with self._lock:
            under_way = self._under_way()
            begun = sum(network.num_calls for network in self._network.values())
            begun += self._former.num_calls
            return under_way, begun + self._served.num_calls + self.server_active

    def _drop_oldest(self) -> None:
        """Drop the peer whose count began first, if there are too many. The caller has the lock."""
        if len(self._network) > MOST_PEERS:
            dropped = self._network.pop(next(iter(self._network)))
            for field in fields(dropped):
                total = getattr(self._former, field.name) + getattr(dropped, field.name)
                setattr(self._former, field.name, total)

    def as_text(self) -> dict[str, str]:
        """Return the counts of calls under way, by torch's names."""
        return {
            "agent.client_active_calls": str(self.client_active),
            "agent.server_active_calls": str(self.server_active),
            "agent.server_active_async_calls": str(self.server_active_async),
        }

    def network_data(self) -> dict[str, AggregatedNetworkData]:
        """Return the traffic with each peer, by name."""
        with self._lock:
            return {peer: replace(data) for peer, data in self._network.items()}

    def served_data(self) -> AggregatedNetworkData:
        """Return the number of answered calls of other workers, and their bytes in and out."""
        with self._lock:
            return replace(self._served)
