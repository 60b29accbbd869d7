"""The module whose call a thread is in, while a profile wants to know: `Net.encoder.0`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

module_path: Final[ContextVar[str]] = ContextVar("module_path", default="")
