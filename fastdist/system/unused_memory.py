"""Memory that is free inside malloc's heaps, given back to the system after a phase of imports.

The import of modules allocates buffers and tables of a few kilobytes that are freed at once, and
glibc keeps what they leave between blocks that stay: 1.0 MB of each worker. Blocks of tensors are
not concerned: their size is for keep_freed_memory and kernels/cpu/memory.py.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def release_unused_memory() -> None:
    """Give whole pages that are free in malloc's heaps back to the system.

    It takes 0.15 ms after init_rpc, in which the heaps are locked: call it where a phase with many
    imports ends, and not for each call of an op. Other C libraries than glibc are left alone.

    Thread  any
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
