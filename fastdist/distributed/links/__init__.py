"""Links: what carries the collectives of the backend `zmq` (gloo is another name for it)."""

from __future__ import annotations

from .group import LinksTransport
from .joining import connect

__all__ = ["LinksTransport", "connect"]
