"""Memory that a phase of imports leaves, given back: holes in malloc's heaps, and annotations.

The import of modules allocates buffers and tables of a few kilobytes that are freed at once, and
glibc keeps what they leave between blocks that stay: 1.0 MB of each worker. Blocks of tensors are
not concerned: their size is for keep_freed_memory and kernels/cpu/memory.py.

A NamedTuple compiles the text of each annotation, which nothing evaluates: 0.9 KB a field, 0.4 MB
of each worker.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import ForwardRef

_PACKAGE = __name__.partition(".")[0]


def release_unused_memory() -> None:
    """Give whole pages that are free in malloc's heaps back to the system.

    It takes 0.3 ms after init_rpc, in half of which the heaps are locked: call it where a phase
    with many imports ends, and not for each call of an op. Other C libraries than glibc are left
    alone.

    Thread  any
    """
    _forget_compiled_annotations()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _forget_compiled_annotations() -> None:
    """Let annotations of fastdist's NamedTuples be texts, as those of other classes are."""
    for one in tuple.__subclasses__():
        if one.__module__.startswith(_PACKAGE):
            texts = getattr(one, "__annotations__", {})
            for name, text in texts.items():
                if isinstance(text, ForwardRef):
                    texts[name] = text.__forward_arg__


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
