"""Utilities of PyTorch's compiler, which is not supported."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.caller_warning import warn_caller
from ..core.missing import explain_missing

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Return False: there is no compiler."""
    return False


# Statistics of the compiler; they stay empty.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Issue a warning, unless one with the same text was issued before."""
    warn_caller(msg, once=True)


@contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Do nothing: there is no compiler cache."""
    yield


explain_missing(__name__)
