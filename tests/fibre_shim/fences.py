"""Guard zones around the memory of a launch, which detect a kernel's writes outside of its arrays.

Reads of a guard zone give a garbage value. A launch works on copies of the memory that its arrays
span, and changed bytes are copied back. Views inside larger memory are therefore guarded too.
Memory is not guarded if a kernel finds its address in other memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

_WIDTH: Final = 256
# This byte, repeated, is -1e34 as a float and -1e268 as a double: visible in sums, and invalid as
# an index.
_RUBBISH: Final = 0xF7
# The alignment of the copies, because kernels check the alignment of their arrays.
_ALIGNMENT: Final = 64


class _Span(NamedTuple):
    """The bytes that arrays span, their guarded copy, and their original values."""

    begin: int
    end: int
    copy: np.ndarray[Any, Any]
    at: int
    before: np.ndarray[Any, Any]

    @property
    def inside(self) -> np.ndarray[Any, Any]:
        return self.copy[self.at : self.at + self.end - self.begin]


class Fences:
    """Guarded copies of the memory that the array arguments span (see the file's docstring)."""

    def __init__(self, args: Sequence[Any]) -> None:
        reaches = sorted(_reach(arg) for arg in args if isinstance(arg, np.ndarray) and arg.size)
        joined: list[tuple[int, int]] = []
        for begin, end in reaches:
            if joined and begin < joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((begin, end))
        self._spans = [_fenced(begin, end) for begin, end in joined]

    def address_of(self, array: np.ndarray[Any, Any]) -> int:
        """Return the address of an array's guarded copy."""
        begin = int(array.__array_interface__["data"][0])
        for span in self._spans:
            if span.begin <= begin < span.end:
                return int(span.inside.__array_interface__["data"][0]) + begin - span.begin
        return begin

    def take_down(self) -> str | None:
        """Copy the changes back; return a description of writes outside the arrays, if any."""
        found = None
        for span in self._spans:
            inside = span.inside
            changed = np.flatnonzero(inside != span.before)
            # Write only changed bytes, since other threads may write to bytes between the elements
            # of a view.
            _bytes_at(span.begin, span.end - span.begin)[changed] = inside[changed]
            for side, fence in (
                ("before", span.copy[: span.at]),
                ("behind", span.copy[span.at + len(inside) :]),
            ):
                wrong = int((fence != _RUBBISH).sum())
                if wrong:
                    found = f"{wrong} bytes were written {side} {len(inside)} bytes of arrays"
        return found


def _reach(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    begin = end = int(array.__array_interface__["data"][0])
    for length, step in zip(array.shape, array.strides, strict=True):
        most = (length - 1) * step
        begin, end = min(begin, begin + most), max(end, end + most)
    return begin, end + array.itemsize


def _fenced(begin: int, end: int) -> _Span:
    size = end - begin
    copy = np.full(size + 2 * _WIDTH + _ALIGNMENT, _RUBBISH, np.uint8)
    start = int(copy.__array_interface__["data"][0]) + _WIDTH
    at = _WIDTH + (begin - start) % _ALIGNMENT
    before = _bytes_at(begin, size).copy()
    copy[at : at + size] = before
    return _Span(begin, end, copy, at, before)


def _bytes_at(address: int, size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
