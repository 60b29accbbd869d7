"""Lists in place of sequences whose end NumPy would look for, and the depth to which lists nest."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

# NumPy's arrays have at most so many axes.
MOST_AXES: Final = 64
_ARRAY_PROTOCOLS: Final = ("__array__", "__array_interface__", "__array_struct__", "__buffer__")
_ENDING: Final = (list, tuple, str, bytes, bytearray, memoryview, range, Mapping)


def reads_by_index(kind: type) -> bool:
    """Return whether NumPy reads instances of a class by index, up to an IndexError that may never
    come.
    """
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not issubclass(kind, _ENDING)
        and not any(hasattr(kind, name) for name in _ARRAY_PROTOCOLS)
    )


def as_lists(data: Any, depth: int = 0) -> Any:
    """Return data with a list in place of each sequence of a user's class, as long as `len` says.

    Raises  ValueError for what nests deeper than an array has axes, MemoryError for a length that
            the machine does not hold
    """
    if isinstance(data, list | tuple):
        require_depth(depth, data)
        items = items_of(data)
        types = set(map(type, items))
        if not any(issubclass(one, list | tuple) or reads_by_index(one) for one in types):
            return data
        return [as_lists(one, depth + 1) for one in items]
    if not reads_by_index(type(data)) or _is_buffer(data):
        return data
    require_depth(depth, data)
    found = [None] * len(data)
    for i, _ in enumerate(found):
        found[i] = as_lists(data[i], depth + 1)
    return found


def items_of(data: Any) -> Any:
    """Return the items of a list or a tuple; those of a subclass in a list, as long as `len` says.

    Raises  ValueError where iterating over a subclass gives more items or fewer
    """
    if type(data) in (list, tuple):
        return data
    found = [None] * len(data)
    count = 0
    for count, one in enumerate(islice(iter(data), len(found) + 1), 1):
        if count <= len(found):
            found[count - 1] = one
    if count != len(found):
        given = "more" if count > len(found) else count
        raise ValueError(
            f"expected sequence of length {len(found)}, which is the length of this "
            f"{type(data).__name__!r}, but iterating over it gives {given} items"
        )
    return found


def require_depth(depth: int, data: Any) -> None:
    """Raise ValueError if a sequence lies in as many others as an array has axes."""
    if depth >= MOST_AXES:
        raise ValueError(
            f"too many dimensions {type(data).__name__!r}: sequences may be nested at most "
            f"{MOST_AXES} deep"
        )


def _is_buffer(data: Any) -> bool:
    # Classes written in C have no `__buffer__` before Python 3.12.
    try:
        memoryview(data)
    except TypeError:
        return False
    return True
