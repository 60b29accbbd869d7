"""The place of this process in a new group, which backends connect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fastdist.distributed.store import Store


class Place(NamedTuple):
    """The place of this process in a new group."""

    # The group's own part of the store; None where the members need none to meet.
    store: Store | None
    rank: int
    size: int
    # The members' ranks in the job.
    ranks: tuple[int, ...]
    name: str
    timeout: timedelta
    world_size: int


# Makes the transport of a group; for nccl, a NcclCarrier with a transport for each GPU.
Connect = Callable[[Place], Any]
