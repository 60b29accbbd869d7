"""Safe conversion of users' sequences to lists, because NumPy would read endless ones forever."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from .errors import raise_out_of_memory

# The maximal number of axes of a NumPy array.
MOST_AXES: Final = 64
# The number of 8-byte numbers that fit into the machine's memory.
_MOST_NUMBERS: Final = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8
_MOST_ITEMS: Final = 1 << 16
_ARRAY_PROTOCOLS: Final = ("__array__", "__array_interface__", "__array_struct__", "__buffer__")
_ENDING: Final = (list, tuple, str, bytes, bytearray, memoryview, range, Mapping)


def reads_by_index(kind: type) -> bool:
    """Return whether NumPy reads instances of a class by index until an IndexError, which may never
    come.
    """
    return (
        hasattr(kind, "__len__")
        and hasattr(kind, "__getitem__")
        and not issubclass(kind, _ENDING)
        and not any(hasattr(kind, name) for name in _ARRAY_PROTOCOLS)
    )


def as_lists(data: Any) -> Any:
    """Return `data` with each sequence of a user's class replaced by a list of `len` items.

    Raises  ValueError for data nested deeper than an array has axes, MemoryError for more numbers
            than fit into memory
    """
    found = _as_lists(data, 0, {})
    require_memory(found)
    return found


def _as_lists(data: Any, depth: int, known: dict[int, Any]) -> Any:
    """Return as_lists(data). `known` caches the lists that were converted, for shared sublists."""
    if isinstance(data, list | tuple):
        require_depth(depth, data)
        before = known.get(id(data))
        if before is not None:
            return before[1]
        items = items_of(data)
        types = set(map(type, items))
        found = data
        if any(issubclass(one, list | tuple) or reads_by_index(one) for one in types):
            found = [_as_lists(one, depth + 1, known) for one in items]
        # The original is kept alive with its entry, so that its id is not reused.
        known[id(data)] = data, found
        return found
    if not reads_by_index(type(data)) or _is_buffer(data):
        return data
    require_depth(depth, data)
    read: list[Any] = [None] * len(data)
    for i, _ in enumerate(read):
        read[i] = _as_lists(data[i], depth + 1, known)
    return read


def require_memory(data: Any) -> None:
    """Raise OutOfMemoryError if nested lists have more numbers than fit into memory.

    This happens if lists share sublists: 45 levels with two items each have 2**45 numbers. NumPy
    would visit each number before it allocates memory.
    """
    count, level = 1, data
    while type(level) in (list, tuple) and level:
        count *= len(level)
        level = level[0]
        if count > _MOST_NUMBERS:
            raise_out_of_memory(
                MemoryError(f"the lists nest to more than {_MOST_NUMBERS} numbers of 8 bytes each")
            )


def all_of(items: Iterable[Any]) -> list[Any]:
    """Return the items of a list or a tuple, or of a short iterable.

    Raises  ValueError for any other iterable with more than 65,536 items, because it may be endless
    """
    if isinstance(items, list | tuple):
        return list(items_of(items))
    return _bounded_list(items, _MOST_ITEMS, "expected a short sequence")


def finite_list(items: Iterable[Any], most: int = _MOST_ITEMS) -> list[Any]:
    """Return the items of an iterable, exactly `len` of them if it has a length.

    Raises  ValueError for an iterable without a length that has more than `most` items, because
            it may be endless, and for one whose iterator disagrees with its length
    """
    kind: Any = type(items)
    if hasattr(kind, "__len__"):
        if hasattr(kind, "__iter__"):
            return list(items_of(items))
        by_index: Any = items
        return [by_index[i] for i in range(len(by_index))]
    return _bounded_list(items, most, "expected an iterable that ends", ": pass a list")


def _bounded_list(items: Iterable[Any], most: int, expected: str, advice: str = "") -> list[Any]:
    """Return the items of an iterable; raise ValueError if it has more than `most`."""
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise ValueError(
            f"{expected}, but a {type(items).__name__!r} gives more than {most} items{advice}"
        )
    return found


def items_of(data: Any) -> Any:
    """Return a list or a tuple unchanged; for a subclass, return a list of `len` items.

    Raises  ValueError if iterating over a subclass gives more or fewer items
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
    """Raise ValueError if a sequence is nested deeper than an array can have axes."""
    if depth >= MOST_AXES:
        raise ValueError(
            f"too many dimensions {type(data).__name__!r}: sequences may be nested at most "
            f"{MOST_AXES} deep"
        )


def _is_buffer(data: Any) -> bool:
    # Before Python 3.12, classes written in C do not have `__buffer__`.
    try:
        memoryview(data)
    except TypeError:
        return False
    return True


_INT = frozenset({int})


def lengths_of(sizes: Iterable[Any]) -> Iterable[int]:
    """Return sizes as integers; a size may be a tensor with one element.

    Raises  TypeError for a value that is not an integer, ValueError for an endless iterable
    """
    given = sizes if type(sizes) in (tuple, list) else all_of(sizes)
    if _INT.issuperset(map(type, given)):
        return given
    for place, one in enumerate(given):
        if not hasattr(one, "__index__"):
            raise TypeError(
                f"torch.Size() takes an iterable of 'int' (item {place} is {type(one).__name__!r})"
            )
    return [one if isinstance(one, int) else one.__index__() for one in given]
