"""Events of a socket's connections, as a monitor reports them."""

from __future__ import annotations

from typing import NamedTuple

CONNECTED = "connected"
CONNECT_RETRIED = "connect_retried"
LISTENING = "listening"
ACCEPTED = "accepted"
ACCEPT_FAILED = "accept_failed"
DISCONNECTED = "disconnected"
HANDSHAKE_SUCCEEDED = "handshake_succeeded"
HANDSHAKE_FAILED = "handshake_failed"
MISMATCHED = "mismatched"
REFUSED = "refused"
MONITOR_STOPPED = "monitor_stopped"


class SocketEvent(NamedTuple):
    """One event; `value` is a descriptor, an error number, or a ZAP status code."""

    kind: str
    endpoint: str
    value: int
