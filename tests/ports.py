"""Find out whether this machine has IPv6."""

from __future__ import annotations

import socket


def ipv6_loopback() -> list[str]:
    """Return ["::1"] if this machine has IPv6, else []: IPv6 may be missing or switched off."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return ["::1"]
    except OSError:
        return []
