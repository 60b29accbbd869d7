"""monitored_barrier: a barrier whose error names the members that did not come."""

from __future__ import annotations

import time
import warnings
from datetime import timedelta
from typing import Any, Final

import numpy as np

from fastdist.core.errors import CollectiveError

from .caller import caller_line
from .transport import Call, Transport
from .world import member_group

# Programs use tags from 0 on.
_ARRIVAL: Final = 1 << 30
_RELEASE: Final = _ARRIVAL + 1
# Rank 0 reports a failure to those that came within this.
_REPORT_S: Final = 1.0


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all members have called; rank 0's error names those that have not.

    Args:
        group: The members; the default group if None.
        timeout: The longest wait; the group's by default.
        wait_all_ranks: Whether rank 0 waits for all, to name each that is missing, and not only
            the first.

    Raises:
        RuntimeError: On rank 0, members did not come in time; on the others, rank 0 reported it,
            or did not come itself.
    """
    found = member_group("monitored_barrier", group)
    if found is None:
        return
    if timeout is not None and not isinstance(timeout, timedelta):
        warnings.warn(
            "Please specify timeout arg as a timedelta. Converting current value of "
            f"{timeout} assuming it represents seconds",
            stacklevel=2,
        )
        timeout = timedelta(seconds=timeout)
    if found.size() == 1:
        return
    found = found._for_objects()
    wait = timeout or found._timeout
    check = _Check(found, wait, wait_all_ranks)
    found._lane.run(check.run)


class _Check:
    """One monitored barrier of this member."""

    def __init__(self, group: Any, timeout: timedelta, waits_for_all: bool) -> None:
        self._group = group
        self._transport: Transport = group._transport(None)
        self._line = caller_line()
        self._seconds = timeout.total_seconds()
        self._deadline = time.monotonic() + self._seconds
        self._waits_for_all = waits_for_all

    def run(self, number: int) -> None:
        """Arrive, and wait to be released; on rank 0, wait for all and release them."""
        if self._group.rank():
            self._arrive()
        else:
            self._watch()

    def _arrive(self) -> None:
        rank = self._group.rank()
        note = np.zeros(1, np.uint8)
        try:
            self._transport.send(self._call("send", 0, _ARRIVAL), note, 0, _ARRIVAL)
            # Rank 0 may wait its whole timeout for others before it reports.
            late = self._deadline + self._seconds + _REPORT_S
            self._transport.recv(self._call("recv", 0, _RELEASE, late), note, 0, _RELEASE)
        except CollectiveError as error:
            raise self._reported(rank) from error
        if not note[0]:
            raise self._reported(rank)

    def _reported(self, rank: int) -> RuntimeError:
        return CollectiveError(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting "
            "for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        )

    def _watch(self) -> None:
        missing, causes = [], []
        arrived = []
        for rank in range(1, self._group.size()):
            note = np.zeros(1, np.uint8)
            try:
                call = self._call("recv", rank, _ARRIVAL)
                self._transport.recv(call, note, rank, _ARRIVAL)
            except CollectiveError as error:
                missing.append(rank)
                causes.append(error)
                if not self._waits_for_all:
                    break
            else:
                arrived.append(rank)
        self._release(arrived, is_good=not missing)
        if not missing:
            return
        who = ", ".join(map(str, missing))
        word = "Rank" if len(missing) == 1 else "Ranks"
        raise CollectiveError(
            f"[Rank 0]: {word} {who} failed to pass monitoredBarrier in {self._seconds * 1000:g} ms"
            f"; called at {self._line}"
        ) from causes[0]

    def _release(self, ranks: list[int], *, is_good: bool) -> None:
        for rank in ranks:
            note = np.array([is_good], np.uint8)
            late = max(self._deadline, time.monotonic() + _REPORT_S)
            try:
                call = self._call("send", rank, _RELEASE, late)
                self._transport.send(call, note, rank, _RELEASE)
            except CollectiveError:
                if is_good:
                    raise

    def _call(self, how: str, peer: int, tag: int, deadline: float | None = None) -> Call:
        number = self._group._next_message((how, peer, tag))
        late = self._deadline if deadline is None else deadline
        return Call(number, "send", "a monitored barrier", self._line, late)
