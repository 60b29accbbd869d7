"""NumPy's calls that count, which wrap around where there are more numbers than memory can have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .errors import ShapeError

Array = np.ndarray[Any, Any]
# So many numbers of eight bytes are more than addresses reach.
_TOO_MANY: Final = 1 << 60


def require_countable(count: float) -> None:
    """Raise if memory cannot have so many numbers."""
    if count >= _TOO_MANY:
        shown = count if isinstance(count, int) else f"{count:g}"
        raise ShapeError(f"Storage size calculation overflowed with sizes=[{shown}]")


def count_up(start: int, end: int, dtype: Any = np.int64) -> Array:
    """Return np.arange(start, end), which is empty from some 2**63 - 512 numbers on."""
    require_countable(end - start)
    return np.arange(start, end, dtype=dtype)


def repeat_each(values: Array, times: Array) -> Array:
    """Return np.repeat of as many times as values, which writes into foreign memory where their
    sum overflows.
    """
    require_countable(float(times.sum(dtype=np.float64)))
    return np.repeat(values, times)
