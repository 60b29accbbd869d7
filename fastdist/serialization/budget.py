"""Limits the work that reading a file can cause, and abbreviates the file's values in errors."""

# Note [What a file may cost its reader]
# Loading must take time and memory that are linear in the file size. But a file can refer to one
# value a thousand times, with a few bytes for each reference. So work that can exceed the number of
# bytes read is counted against a limit: 64 Ki items, plus one for each byte of the pickle. Three
# kinds are counted: items that are copied by calls in the pickle; parts of keys, because each use
# of a key hashes and compares its parts; and empty sets, which take 216 bytes of memory for one
# byte of the file. Filling a dict takes quadratic time if its keys have equal hashes, so a file may
# have at most 16 keys with one hash. Errors show values to one level of nesting: if each level of
# a value refers to the next level twice, its full text is exponentially long. Each byte of a
# pickle takes at most about 2 us and 160 bytes of memory (CPython 3.11, AMD EPYC, Zen 4).

from __future__ import annotations

from collections import Counter
from pickle import UnpicklingError
from typing import Any, Final

from ..core.device import Device
from ..core.dtypes import DType
from ..tensor.tensor import Tensor

_FREE: Final = 1 << 16
# The limit on copied bytes of tensors is _FREE_DATA_BYTES, plus _DATA_COPIES times the size of the
# file's tensors. Loading copies the coordinates of sparse tensors, and conjugate or negative views
# that become Parameters. Several of these may share one storage of the file.
_FREE_DATA_BYTES: Final = 1 << 20
_DATA_COPIES: Final = 16
_MOST_PARTS_OF_A_KEY: Final = 256
_MOST_OF_ONE_HASH: Final = 16
_KEYS: Final = (str, bytes, int, float, complex, DType, Device, type, Tensor)
_MOST_DIGITS: Final = 40
_MOST_LETTERS: Final = 60
_MOST_SHOWN: Final = 6


class Budget:
    """The remaining work for one file: see Note [What a file may cost its reader].

    `nbytes` is the size of the file's pickles, `data_nbytes` the size of its tensors. Each method
    raises UnpicklingError if the file exceeds a limit.
    """

    def __init__(self, nbytes: int, data_nbytes: int = 0) -> None:
        self._left = _FREE + nbytes
        self._data_left = _FREE_DATA_BYTES + _DATA_COPIES * data_nbytes
        self._keys: set[Any] = set()
        self._hashes: Counter[int] = Counter()

    def take(self, count: int) -> None:
        """Count items that are copied."""
        self._left -= count
        if self._left < 0:
            raise UnpicklingError(
                "the file asks for far more copies of its values than it has bytes"
            )

    def take_data(self, nbytes: int) -> None:
        """Count bytes of tensors that are copied."""
        self._data_left -= nbytes
        if self._data_left < 0:
            raise UnpicklingError("the file asks for far more copies of tensors than it has bytes")

    def require_key(self, value: Any) -> None:
        """Raise UnpicklingError unless `value` may be a key, such as a str, a number, or a small
        tuple of these.
        """
        parts = 0
        waiting = [value]
        while waiting:
            one = waiting.pop()
            parts += _cost_of_key(one)
            if parts > _MOST_PARTS_OF_A_KEY and (one is not value or not isinstance(one, _SPELLED)):
                raise UnpicklingError(
                    "a key of a dict or a member of a set is too large, or too deep"
                )
            if isinstance(one, tuple | frozenset):
                waiting.extend(one)
        if parts > 1:
            self.take(parts - 1)
        if type(value) not in _SPELLED and value not in self._keys:
            self._keys.add(value)
            self._hashes[hash(value)] += 1
            if self._hashes[hash(value)] > _MOST_OF_ONE_HASH:
                raise UnpicklingError(
                    f"more than {_MOST_OF_ONE_HASH} keys have one hash, which makes a dict slow"
                )


# Python randomizes the hashes of these types, so a file cannot choose values with equal hashes.
_SPELLED: Final = (str, bytes)


def _cost_of_key(one: Any) -> int:
    """Return the number of parts that a value adds to a key. The caller counts a tuple's items.

    Raises  UnpicklingError for a value that cannot be hashed
    """
    if isinstance(one, _SPELLED):
        return 1 + len(one) // 64
    if isinstance(one, int):
        return 1 + one.bit_length() // 64
    if isinstance(one, tuple | frozenset):
        # A long tuple exceeds the limit here, before the caller copies its items to a list: there
        # may be a million.
        return 1 + (len(one) if len(one) > _MOST_PARTS_OF_A_KEY else 0)
    if not isinstance(one, _KEYS) and one is not None and type(one).__hash__ is None:
        raise UnpicklingError(
            f"{type(one).__name__} cannot be a key of a dict or a member of a set"
        )
    return 1


def brief(value: Any) -> str:
    """Return a short text of a value from a file, with one level of nesting, for an error."""
    if type(value) is tuple and len(value) <= _MOST_SHOWN:
        inner = [_flat(one) for one in value]
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    return _flat(value)


def _flat(value: Any) -> str:
    kind = type(value)
    if kind in _SPELLED:
        more = "..." if len(value) > _MOST_LETTERS else ""
        return repr(value[:_MOST_LETTERS]) + more
    if kind is int and value.bit_length() > 3 * _MOST_DIGITS:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, type) or (kind.__name__.endswith("function") or kind.__name__ == "method"):
        return str(getattr(value, "__qualname__", kind.__name__))
    if value is None or kind in (int, bool, float, complex) or kind in (DType, Device):
        return repr(value)
    return f"a {kind.__name__} of {len(value)}" if kind in _SIZED else f"a {kind.__name__}"


_SIZED: Final = (tuple, list, dict, set, frozenset, bytearray)
