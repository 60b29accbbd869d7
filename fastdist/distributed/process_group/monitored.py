"""monitored_barrier: a barrier whose error names the members that did not come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .arrivals import wait_for_members
from .world import member_group


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all members have called; rank 0's error names the missing ones.

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
    wait_for_members(found, timeout, wait_all_ranks)
