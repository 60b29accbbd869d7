"""Stretches of the program under names that NVIDIA's profilers show, as `nsys profile` does.

Raises  DeviceError, all of them, without CuPy or a GPU
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
    from ..devices.cuda.nvtx import nvtx  # the first use of a GPU loads its room

    return nvtx()


def range_push(msg: str) -> int:
    """Begin a range inside of this thread's open ranges; return their number."""
    _nvtx().RangePush(msg)
    _depth.value += 1
    return _depth.value - 1


def range_pop() -> int:
    """End what this thread began last by range_push; return how many stretches it is in still.

    Note    -1 where it is in none: NVTX takes that for nothing
    """
    _nvtx().RangePop()
    _depth.value = max(_depth.value - 1, -1)
    found, _depth.value = _depth.value, max(_depth.value, 0)
    return found


def range_start(msg: str) -> int:
    """Begin a stretch that any thread may end; return what range_end is given."""
    return int(_nvtx().RangeStart(msg, None))


def range_end(range_id: int) -> None:
    """End what range_start began."""
    _nvtx().RangeEnd(range_id)


def mark(msg: str) -> None:
    """Name this moment."""
    _nvtx().Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block, or decorator, that is a stretch; what else is given goes into msg.format()."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

explain_missing(__name__)
