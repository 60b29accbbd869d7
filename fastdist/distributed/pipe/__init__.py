"""Messages between two workers: their bytes, the lanes they take, and the transports below."""

from __future__ import annotations
