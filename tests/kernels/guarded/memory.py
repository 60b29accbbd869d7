"""NumPy arrays between two inaccessible pages: an access beyond their end raises a signal."""

# [inaccessible page | canaries, header, data, canaries up to 16 bytes | inaccessible page]
#
# The data ends at the last page, so a read or write behind it ends the process. In front of it are
# canaries and a header with a checksum of its own fields; both are checked when NumPy frees the
# memory. New memory is filled with the canary value too, unless NumPy requests zeros, so a canary
# in a result means that an element was never written.

from __future__ import annotations

import ctypes
from typing import Any, Final

import numba
import numpy as np
from numpy._core import multiarray

from fastdist.kernels.cpu import memory
from fastdist.kernels.cpu.jit import machine
from fastdist.kernels.cpu.jit.compiler import Callback, compiled

CANARY: Final = 0xA5
_CANARIES: Final = int.from_bytes(bytes([CANARY] * 8), "little", signed=True)
_PAGE: Final = 4096
_HEADER: Final = 32
_SIGN: Final = 0x6A5DED0
# Indices of the fields of the state.
_ALLOCATIONS: Final = 0
_CHANGED: Final = 1
_LEFT: Final = 2  # allocations until one fails; -1: none will fail, -2: one has failed

_load: Any = machine.LOAD["int64"]
_store: Any = machine.STORE["int64"]
_load_byte: Any = machine.LOAD["uint8"]
_WORD: Final = numba.int64
_INT: Final = numba.int32
_c: Any = numba.types.ExternalFunction
_mmap: Any = _c("mmap", _WORD(_WORD, _WORD, _INT, _INT, _INT, _WORD))
_mprotect: Any = _c("mprotect", _INT(_WORD, _WORD, _INT))
_munmap: Any = _c("munmap", _INT(_WORD, _WORD))
_memset: Any = _c("memset", _WORD(_WORD, _INT, _WORD))
_memcpy: Any = _c("memcpy", _WORD(_WORD, _WORD, _WORD))
_READ_WRITE: Final = 3
_PRIVATE_ANONYMOUS: Final = 0x22


class Guard:
    """An allocator of guarded memory; it is never deleted, because arrays may outlive it."""

    def __init__(self) -> None:
        self._words = np.array([0, 0, -1])
        callbacks = [
            Callback(function, signature, "guarded memory")
            for function, signature in (
                (_take, _WORD(_WORD, _WORD)),
                (_take_zeros, _WORD(_WORD, _WORD, _WORD)),
                (_resize, _WORD(_WORD, _WORD, _WORD)),
                (_give, numba.void(_WORD, _WORD, _WORD)),
            )
        ]
        functions = memory._Functions(
            self._words.ctypes.data, *[callback.address for callback in callbacks]
        )
        self._handler = memory._Handler(b"guarded", functions)
        for kept in (self._words, callbacks, self._handler):
            memory._keep_for_ever(kept)

    def serve(self) -> None:
        """From now on, allocate the arrays of this thread in guarded memory."""
        memory._lines = lambda: np.empty  # type: ignore[assignment]
        memory._block = np.empty  # type: ignore[assignment]
        python: Any = memory._python()
        table = ctypes.cast(
            python.PyCapsule_GetPointer(multiarray._ARRAY_API, None),  # type: ignore[attr-defined]
            ctypes.POINTER(ctypes.c_void_p),
        )
        set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
            table[memory._SET_HANDLER]
        )
        set_handler(python.PyCapsule_New(ctypes.byref(self._handler), memory._CAPSULE, None))

    def num_allocations(self) -> int:
        """Return the number of allocations."""
        return int(self._words[_ALLOCATIONS])

    def fail_at(self, number: int | None) -> None:
        """Make one later allocation fail: the allocation with this number, counted from 0 from now
        on. If `number` is None, make none fail.
        """
        self._words[_LEFT] = -1 if number is None else number

    def has_failed(self) -> bool:
        """Return whether the allocation chosen by `fail_at` has been attempted."""
        return bool(self._words[_LEFT] == -2)

    def num_changed(self) -> int:
        """Return the number of arrays whose canaries were changed."""
        return int(self._words[_CHANGED])


def _take(state: int, size: int) -> int:
    return _map(state, size, CANARY)  # type: ignore[no-any-return]


def _take_zeros(state: int, count: int, size: int) -> int:
    if size > 0 and count > (1 << 62) // size:
        return 0
    return _map(state, count * size, 0)  # type: ignore[no-any-return]


def _resize(state: int, numbers: int, size: int) -> int:
    made = _map(state, size, CANARY)
    if numbers != 0 and made != 0:
        _memcpy(made, numbers, min(size, _load(numbers - 16, 0)))
        _unmap(state, numbers)
    return made  # type: ignore[no-any-return]


@compiled(alone=False)
def _map(state: int, size: int, value: int) -> int:
    if size < 0 or size > 1 << 62:
        return 0
    left = _load(state, _LEFT)
    if left >= 0:
        _store(state, _LEFT, left - 1 if left > 0 else -2)
        if left == 0:
            return 0
    room = (max(size, 1) + 15) // 16 * 16
    pages = (room + _HEADER + _PAGE - 1) // _PAGE
    mapping = _mmap(0, (pages + 2) * _PAGE, 0, _PRIVATE_ANONYMOUS, -1, 0)
    if mapping == -1:
        return 0
    if _mprotect(mapping + _PAGE, pages * _PAGE, _READ_WRITE) != 0:
        _munmap(mapping, (pages + 2) * _PAGE)
        return 0
    end = mapping + (pages + 1) * _PAGE
    numbers = end - room
    _memset(mapping + _PAGE, CANARY, numbers - mapping - _PAGE)
    if value != 0:  # new pages are zero already
        _memset(numbers, value, size)
    _memset(numbers + size, CANARY, room - size)
    _store(numbers - 32, 0, mapping)
    _store(numbers - 24, 0, (pages + 2) * _PAGE)
    _store(numbers - 16, 0, size)
    _store(numbers - 8, 0, _SIGN ^ mapping ^ (pages + 2) * _PAGE ^ size)
    _store(state, _ALLOCATIONS, _load(state, _ALLOCATIONS) + 1)
    return numbers  # type: ignore[no-any-return]


def _give(state: int, numbers: int, _: int) -> None:
    if numbers != 0:
        _unmap(state, numbers)


@compiled(alone=False)
def _unmap(state: int, numbers: int) -> None:
    """Check the canaries around an array, and return its memory to the system."""
    mapping, length, size = _load(numbers - 32, 0), _load(numbers - 24, 0), _load(numbers - 16, 0)
    if _load(numbers - 8, 0) != _SIGN ^ mapping ^ length ^ size:
        _store(state, _CHANGED, _load(state, _CHANGED) + 1)
        return  # the start of the mapping is unknown
    is_whole = True
    for place in range(mapping + _PAGE, numbers - _HEADER, 8):
        is_whole = is_whole and _load(place, 0) == _CANARIES
    for place in range(numbers + size, numbers + (max(size, 1) + 15) // 16 * 16):
        is_whole = is_whole and _load_byte(place, 0) == CANARY
    if not is_whole:
        _store(state, _CHANGED, _load(state, _CHANGED) + 1)
    _munmap(mapping, length)
