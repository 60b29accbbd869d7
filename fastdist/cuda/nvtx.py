"""NVTX: named ranges of the program, shown by NVIDIA's profilers, such as `nsys profile`.

Raises  DeviceError, from every function, without CuPy or a GPU
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.missing import explain_missing


class _Depth(threading.local):
    value = 0


_depth = _Depth()


def _nvtx() -> Any:
    from ..devices.cuda.nvtx import nvtx  # imported late: it loads CuPy

    return nvtx()


def range_push(msg: str) -> int:
    """Begin a range inside this thread's innermost range; return its depth (0: the outermost)."""
    _nvtx().RangePush(msg)
    _depth.value += 1
    return _depth.value - 1


def range_pop() -> int:
    """End this thread's innermost range; return the range's depth.

    Note    returns -1 if no range is open, as NVTX does
    """
    _nvtx().RangePop()
    _depth.value = max(_depth.value - 1, -1)
    found, _depth.value = _depth.value, max(_depth.value, 0)
    return found


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; return its id for range_end."""
    return int(_nvtx().RangeStart(msg, None))


def range_end(range_id: int) -> None:
    """End the range that `range_start` began."""
    _nvtx().RangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark this moment with a message."""
    _nvtx().Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Run a `with` block or decorated function in a range named `msg.format(*args, **kwargs)`."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

explain_missing(__name__)
