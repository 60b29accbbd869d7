"""Memory for much data that is used once: in pages of the usual size."""

from __future__ import annotations

import mmap
from typing import Any, Final

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
# From so much on NumPy asks the system for huge pages.
_HUGE_BYTES: Final = 4 << 20


def usual_pages(size_bytes: int) -> Bytes:
    """Return memory of so many bytes, which hold anything.

    A huge page that no program has used before is made by the host of a virtual machine first: for
    1 GB that takes 1.6 to 2.5 s of CPU time, usual pages 0.45 s. Where huge ones lie ready they
    would take 0.2 s; but what is loaded is mostly loaded once, when a program starts, and what is
    saved copied to the same memory each time (AMD EPYC, Linux 6.18 in Firecracker).
    """
    if size_bytes < _HUGE_BYTES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(size_bytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.ndarray((size_bytes,), np.uint8, mmap.mmap(-1, size_bytes, flags=flags))
