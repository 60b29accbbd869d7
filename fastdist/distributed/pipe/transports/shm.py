"""The transport between processes of one machine by rings in shared memory, and by ZeroMQ."""

from __future__ import annotations

import logging
import os
from typing import cast

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.listener import Listener
from fastdist.distributed.pipe.registry import SHM_TRANSPORT_PRIORITY, transports
from fastdist.distributed.pipe.ring import meeting
from fastdist.distributed.pipe.ring.lane import RingLane
from fastdist.distributed.pipe.ring.watched import WatchedRingLane
from fastdist.distributed.sockets import Doorbell, NoSecurity, Pulse, max_frame_bytes

from .ipc import IpcTransport
from .zeromq import ZmqLane, ZmqListener

_logger = logging.getLogger(__name__)


class ShmTransport(IpcTransport):
    """Rings for lanes; ZeroMQ's ipc carries everything that rings cannot."""

    def why_not_viable(self) -> str | None:
        """Return a reason if the system has no rings, or libzmq no ipc; otherwise None."""
        return meeting.why_not_viable() or super().why_not_viable()

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Listen on a new socket file, and accept rings on a second one."""
        super().bind(listener, host, security)
        endpoint = listener.addresses["shm"] = listener.addresses["ipc"]
        cast(ZmqListener, listener).open_rings(meeting.path_of(endpoint))

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return whether the peer's files exist here and belong to this user."""
        return super().reaches(address, same_host=same_host, same_process=same_process) and (
            os.path.exists(meeting.path_of(address))
        )

    def connect(
        self,
        address: str,
        closed: object,
        security: object,
        peer: str,
        *,
        watched: bool,
        unreachable_ms: int,
    ) -> Lane:
        """Return a new lane: a ring, or a ZeroMQ lane if the peer does not accept a ring."""
        bell, path = cast(Doorbell, closed), meeting.path_of(address)

        def by_zeromq(
            pulse: Pulse | None = None, *, watched: bool = False, instead: bool = True
        ) -> Lane:
            way = ("shm", address, bell, NoSecurity(), peer)
            return ZmqLane(*way, watched=watched, pulse=pulse, instead=instead)

        try:
            if watched:
                knock_at = address.removeprefix("ipc://")
                return WatchedRingLane(path, knock_at, bell, max_frame_bytes(), by_zeromq)
            return RingLane(path, bell, max_frame_bytes(), by_zeromq)
        except OSError as error:
            _logger.info("no ring to %s; messages to it go over ZeroMQ: %s", peer, error)
            return by_zeromq(watched=watched, instead=False)


transports.register("shm", SHM_TRANSPORT_PRIORITY, ShmTransport())
