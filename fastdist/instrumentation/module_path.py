"""The path of the module that a thread is running, such as `Net.encoder.0`, during a profile."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

module_path: Final[ContextVar[str]] = ContextVar("module_path", default="")
