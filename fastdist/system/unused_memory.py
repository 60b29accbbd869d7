"""Releases memory that imports leave behind: free blocks in malloc's heaps, and annotations.

Importing modules allocates buffers and tables of a few kilobytes that are freed immediately.
glibc keeps these freed blocks between live blocks: 1.0 MB in each worker. Memory of tensors is not
affected: keep_freed_memory and kernels/cpu/memory.py handle blocks of that size.

The class NamedTuple compiles the text of each annotation, although nothing evaluates the compiled
code. It takes 0.9 KB per field, 0.4 MB in each worker.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import ForwardRef

_PACKAGE = __name__.partition(".")[0]


def release_unused_memory() -> None:
    """Drop compiled annotations, and return whole free pages in malloc's heaps to the system.

    This takes 0.3 ms after init_rpc, and locks the heaps for half of that time. So call this
    function after many imports, and not for each call of an op. Pages are returned only with glibc,
    not with other C libraries.

    Thread  any
    """
    _forget_compiled_annotations()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


def _forget_compiled_annotations() -> None:
    """Replace compiled annotations of fastdist's NamedTuples by strings, as in other classes."""
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
