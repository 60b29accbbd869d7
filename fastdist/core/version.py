"""The version: what the wheel, the handshake between workers and `fastdist version` say."""

from __future__ import annotations

__version__ = "0.1.0"
