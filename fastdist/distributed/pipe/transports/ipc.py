"""The transport between one user's processes on a machine: ZeroMQ over a Unix socket."""

from __future__ import annotations

import os
from typing import cast

import zmq

from fastdist.distributed.pipe.lane import Lane
from fastdist.distributed.pipe.listener import Listener
from fastdist.distributed.pipe.registry import IPC_TRANSPORT_PRIORITY, transports
from fastdist.distributed.sockets import Doorbell, NoSecurity, ipc_endpoint, unique_name

from .zeromq import ZmqLane, ZmqListener


class IpcTransport:
    """A Unix socket in a directory that only this user can enter, so that no keys are needed."""

    tells_peers_apart = False

    def why_not_viable(self) -> str | None:
        """Return a reason if libzmq was built without ipc; otherwise None."""
        return None if zmq.has("ipc") else "this libzmq has no ipc"

    def bind(self, listener: Listener, host: str, security: object) -> None:
        """Listen on a new socket file, unless another transport of this listener has created it."""
        if "ipc" in listener.addresses:
            return
        endpoint = ipc_endpoint(unique_name("rpc"))
        cast(ZmqListener, listener).bind("ipc", endpoint, NoSecurity())

    def reaches(self, address: str, *, same_host: bool, same_process: bool) -> bool:
        """Return whether the peer's socket file exists here and belongs to this user.

        Note    some containers of one machine share no files, and users of a machine do not trust
                each other
        """
        if not same_host:
            return False
        try:
            return os.stat(address.removeprefix("ipc://")).st_uid == os.getuid()
        except OSError:
            return False

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
        """Return a new lane to a socket file."""
        return ZmqLane("ipc", address, cast(Doorbell, closed), NoSecurity(), peer, watched=watched)


transports.register("ipc", IPC_TRANSPORT_PRIORITY, IpcTransport())
