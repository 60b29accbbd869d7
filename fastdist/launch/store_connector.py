"""The connection of a node to node 0's store, and how it is made again after a break."""

from __future__ import annotations

import socket
import threading
import time

from fastdist.core.errors import StoreError, StoreTimeoutError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import TCPStore
from fastdist.distributed.store.wait_log import WaitLog

# How long to wait for an answer of the store.
ASK_S = 5.0
_TRY_S = 1.0
_PAUSE_S = 0.1


class StoreConnector:
    """Connects to the store of node 0; `closing` ends all attempts.

    Thread  used by one thread at a time
    """

    def __init__(
        self, address: str, port: int, secret: JobSecret | None, closing: threading.Event
    ) -> None:
        self._address = address
        self._port = port
        self._secret = secret
        self._closing = closing

    def find(self, line: WaitLog) -> TCPStore:
        """Connect to a store that may start later, in short attempts so that `closing` is
        noticed.
        """
        while True:
            try:
                return self._try()
            except StoreTimeoutError as error:
                if self._closing.is_set():
                    raise
                if line.is_over:
                    raise StoreTimeoutError(
                        f"node 0, which hosts the store, did not come within {line.waited_s:.0f} "
                        "s: is `fastdist run` with --node-rank 0 running on that machine? "
                        f"({error})"
                    ) from error
                line.log_now_and_again(f"node 0 at {self._address}:{self._port}")

    def find_again(self, key: str, lost: StoreError, until: float) -> TCPStore:
        """Reconnect to the store of the same job, which has `key`, if only the connection was cut.

        Raises  `lost` if nothing listens on the port any more, or if the deadline has passed
        """
        while time.monotonic() < until and not self._closing.wait(_PAUSE_S):
            try:
                store = self._try_again(key)
            except ConnectionRefusedError:
                break
            except (OSError, StoreError):
                continue  # still cut off, or cut off again
            if store is not None:
                return store
        raise lost

    def _try(self) -> TCPStore:
        store = TCPStore(self._address, self._port, timeout=_TRY_S, secret=self._secret)
        store.set_timeout(ASK_S)
        return store

    def _try_again(self, key: str) -> TCPStore | None:
        # The port is checked first, because TCPStore cannot distinguish a refused connection from a
        # missing server.
        socket.create_connection((self._address, self._port), _TRY_S).close()
        store = self._try()
        try:
            # Another job may use the port by now.
            if store.check([key]):
                return store
        except StoreError:
            store.close()
            raise
        store.close()
        return None
