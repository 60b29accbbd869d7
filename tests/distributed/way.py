"""A simulated network link between two machines: a TCP proxy whose traffic can be cut."""

from __future__ import annotations

import socket
import threading
from functools import partial
from selectors import EVENT_READ, DefaultSelector

_LOOK_S = 0.02


class Way:
    """Forwards connections from 127.0.0.3 to 127.0.0.1 at the same port.

    Thread  a separate thread forwards data; the test's thread calls `cut`, `mend` and `close`
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = threading.Event()
        self._is_over = threading.Event()
        self.was_tried = threading.Event()  # set by an attempt to connect while the link was cut
        self._waiting: list[socket.socket] = []
        # Connections made before the other end listens, as if its machine had not started yet.
        self._early: list[socket.socket] = []
        self._has_reached = False
        self._selector = DefaultSelector()
        self._server = socket.create_server(("127.0.0.3", port))
        self._selector.register(self._server, EVENT_READ, self._accept)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def cut(self) -> None:
        """End all connections. Until `mend`, the proxy accepts new ones, but forwards nothing."""
        self._is_cut.set()

    def mend(self) -> None:
        """Close the connections that were accepted meanwhile, and forward new connections again."""
        self._is_cut.clear()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._end_all()
        for end in (self._server, *self._waiting, *self._early):
            end.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            if self._is_cut.is_set():
                self._end_all()
            elif self._waiting:
                self._waiting.pop().close()
            elif self._early:
                self._carry_on(self._early.pop(0))
            for key, _ in self._selector.select(_LOOK_S):
                key.data()

    def _accept(self) -> None:
        near, _ = self._server.accept()
        if self._is_cut.is_set():
            self._waiting.append(near)
            self.was_tried.set()
            return
        self._carry_on(near)

    def _carry_on(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            if self._has_reached:
                near.close()  # the process at the other end has ended
            else:
                self._early.append(near)
            return
        self._has_reached = True
        for one, other in ((near, far), (far, near)):
            self._selector.register(one, EVENT_READ, partial(self._carry, one, other))

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        try:
            chunk = one.recv(1 << 16)
            if chunk:
                other.sendall(chunk)
                return
        except OSError:
            pass  # one side was closed, so the other is closed too
        self._end(one)
        self._end(other)

    def _end_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._server:
                self._end(key.fileobj)

    def _end(self, end: socket.socket) -> None:
        if end.fileno() >= 0:
            self._selector.unregister(end)
            end.close()
