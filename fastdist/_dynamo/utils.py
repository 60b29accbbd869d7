"""Questions to PyTorch's compiler, which is switched off."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.caller_warning import warn_caller
from ..core.missing import explain_missing

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Return False: nothing is compiled for any device."""
    return False


# How often the compiler did what: nothing is compiled, so nothing is counted.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, once for each text."""
    warn_caller(msg, once=True)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Do nothing for the block: nothing is compiled and cached."""
    yield


explain_missing(__name__)
