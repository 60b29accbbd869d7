"""How many descriptors a group takes of each worker, and what follows for how it connects."""

# libzmq ends a process that cannot accept at its unix socket for want of a descriptor. Strangers
# are kept from using them up (sockets/connections.py); members must not be able to, either.

from __future__ import annotations

import os
from typing import Final

from fastdist.core.errors import RpcError
from fastdist.distributed.pipe.pipe import MAX_OWN_LANES
from fastdist.distributed.sockets import descriptor_limit

from .record import Record

# One peer takes: lane 0, its ring and its monitor, a bell, a handle of its process, and what comes
# from it.
_PER_PEER: Final = 9
# One more lane each way: a socket and its connection here, and a connection from there.
_PER_LANE: Final = 3
_AT_LEAST_FREE: Final = 16


def own_lanes_between(me: Record, other: Record) -> int:
    """Return how many lanes of its own a worker may open to another, so that half of what either
    may open would do for the whole group.
    """
    if not me.world_size:
        return MAX_OWN_LANES
    share = min(me.descriptors, other.descriptors) // 2 // max(1, me.world_size - 1)
    return max(0, min(MAX_OWN_LANES, (share - _PER_PEER) // _PER_LANE))


def require_descriptors(world_size: int) -> None:
    """Check that this process may open what a group of this size takes at least.

    Raises  RpcError saying how many that is
    """
    limit, there = descriptor_limit(), _num_open()
    needed = there + _AT_LEAST_FREE + _PER_PEER * max(0, world_size - 1)
    if needed > limit:
        raise RpcError(
            f"a group of {world_size} workers takes {needed} descriptors of each, of which {there} "
            f"are open here already, and this process may have {limit}: raise the limit with "
            f"`ulimit -n {max(1024, 2 * needed)}`, the hard one as well"
        )


def _num_open() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except FileNotFoundError:
        return 0  # a system without /proc
