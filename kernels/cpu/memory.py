"""Memory of large arrays of the CPU: it begins at a cache line, and what was freed serves again."""

# Note [Lines and blocks] NumPy's memory begins 16 bytes behind a cache line, so that every vector
# of 64 bytes crosses two of them: layer norm over 1e6 float32 takes 213 us there, and 177 at the
# line's beginning (AMD EPYC, Zen 4). And arrays larger than glibc keeps (see Note [Freed memory] in
# devices/cpu.py) come from the system each time, which makes them zero first: 3 ms for 40 MB, in
# huge pages, of which writing is 1. With kept blocks, x + y over 1e7 float32 takes 4.5 ms in place
# of 7.8, gelu with its gradient 14 in place of 22, layer norm with its own 15 in place of 21.
#
# NumPy accepts other allocators (NEP 49): a handler, a table of four C functions, is a context
# variable, and an array keeps the handler that made it, to be freed with. So these arrays are
# ordinary NumPy arrays to everybody: they own their data, have no base, and any way of sharing them
# works. A handler is set in a separate context, in which np.empty is run: 70 ns, which does not pay
# for small arrays. The handler "lines" is two functions of the C library and two of Python's;
# "blocks" is compiled (kept_blocks.py), and serves where its code is stored, or once a kernel has
# loaded the compiler.
#
# A block that serves again has its old content: `empty` is not zero. That already held for memory
# that glibc keeps; code that makes an array writes all of it before others see it.

from __future__ import annotations

import contextvars
import ctypes
import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy._core import multiarray

from fastdist.core.errors import ShapeError, raise_out_of_memory
from fastdist.core.short_repr import short_repr

if TYPE_CHECKING:
    from .kept_blocks import Keeper

Array = np.ndarray[Any, Any]
Maker = Callable[[Sequence[int], Any], Array]

LINE_BYTES: Final = 64
# From so many bytes on an array begins at a line: below, 70 ns are more than that saves.
LINES_FROM: Final = 16 << 10
# From so many on NumPy asks for huge pages. Below, glibc keeps what is freed.
BLOCKS_FROM: Final = 4 << 20
# Slots of NumPy's table of C functions: each stays where it is forever.
_SET_HANDLER: Final = 304
_RAW_DOMAIN: Final = 0
_COMPILER: Final = f"{__package__}.jit.compiler"


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array of NumPy's in C order that holds anything."""
    return maker_of(shape, dtype)(shape, dtype)


def maker_of(shape: Sequence[int], dtype: Any) -> Maker:
    """Return an allocator for arrays of one size: `empty`, with the size looked at once."""
    size_bytes = math.prod(shape) * int(dtype.itemsize)
    if size_bytes < LINES_FROM:
        return np.empty
    return _lines() if size_bytes < BLOCKS_FROM else _block


def empty_cache() -> None:
    """Give the system back what is kept of freed memory, by glibc too.

    Thread  any
    """
    if _State.drop is not None:
        _State.drop()
    trim = getattr(_python(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class _State:
    # The allocator of blocks, once the compiler is there; and the function that empties their
    # keeper.
    make: Maker | None = None
    drop: Callable[[], None] | None = None


def _block(shape: Sequence[int], dtype: Any) -> Array:
    try:
        return (_State.make or _maker_of_blocks())(shape, dtype)
    except MemoryError as error:
        raise_out_of_memory(error)
    except ValueError as error:
        raise ShapeError(
            f"Storage size calculation overflowed with sizes={short_repr(list(shape))} of {dtype}"
        ) from error


def _maker_of_blocks() -> Maker:
    """Return the allocator of blocks: NumPy, until the keeper's code is stored, or something else
    has loaded the compiler.
    """
    if _COMPILER not in sys.modules and not _is_stored():
        return np.empty
    from .jit.background import compile_later, numpy_serves

    if numpy_serves():
        compile_later("kept blocks", _load_blocks)
        return np.empty
    return _load_blocks()


@functools.cache
def _is_stored() -> bool:
    """Return whether the keeper needed no compiler at the first request for a block."""
    from .jit.kernel_cache import is_stored

    return all(is_stored("kept_block_code", name) for name in ("take", "give"))


def _load_blocks() -> Maker:
    most = _keeps_at_most()
    if _handler_of_lines() is None or not most:
        _State.make = np.empty
    else:
        from .kept_blocks import Keeper

        keeper = Keeper(most, BLOCKS_FROM, LINE_BYTES)
        _State.drop, _State.make = keeper.drop, made_by(keeper)
    return _State.make


def made_by(keeper: Keeper) -> Maker:
    """Return an allocator of a keeper's blocks; when memory runs out it frees the kept ones and
    tries again.
    """
    lines = _handler_of_lines()
    assert lines is not None
    _keep_for_ever(keeper)
    parts = lines.functions
    functions = _Functions(keeper.state, keeper.take, parts.calloc, parts.realloc, keeper.give)
    make = _through(_Handler(b"fastdist_blocks", functions))

    def make_or_drop(shape: Sequence[int], dtype: Any) -> Array:
        try:
            return make(shape, dtype)
        except MemoryError:
            keeper.drop()
            return make(shape, dtype)

    return make_or_drop


def _keeps_at_most() -> int:
    """Return how many freed bytes to keep: none where glibc is set to keep little."""
    told = os.environ.get("GLIBC_TUNABLES", "")
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "trim_threshold" in told:
        return 0
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // 16, 512 << 20)


class _Functions(ctypes.Structure):
    """NumPy's PyDataMemAllocator: each function is given the first field before all else."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("of", "malloc", "calloc", "realloc", "free")]


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("functions", _Functions),
    ]

    def __init__(self, name: bytes, functions: _Functions) -> None:
        super().__init__(name, 1, functions)


@functools.cache
def _lines() -> Maker:
    handler = _handler_of_lines()
    return np.empty if handler is None else _through(handler)


@functools.cache
def _handler_of_lines() -> _Handler | None:
    """Return a handler of functions that are there already, None where they may not fit.

    aligned_alloc takes the alignment and the size; the first argument of a handler's malloc is the
    handler's own pointer. Python's raw allocators are C's, with such an argument in front too,
    unless Python was started with others, or traces them.
    """
    raw = _Functions()
    _python().PyMem_GetAllocator(_RAW_DOMAIN, ctypes.byref(raw))
    is_usual = (
        sys.platform == "linux"
        and sys.implementation.name == "cpython"
        and getattr(sys, "_is_gil_enabled", _yes)()
        and not os.environ.get("PYTHONMALLOC")
        and raw.of is None
    )
    if not is_usual:
        return None
    aligned_alloc = ctypes.cast(_python().aligned_alloc, ctypes.c_void_p)
    functions = _Functions(LINE_BYTES, aligned_alloc, raw.calloc, raw.realloc, raw.free)
    return _Handler(b"fastdist_lines", functions)


def _yes() -> bool:
    return True


def _through(handler: _Handler) -> Maker:
    """Return np.empty with memory of a handler's. It, and what it calls, live forever: an array
    may end when all of Python's has ended.
    """
    _keep_for_ever(handler)
    table = ctypes.cast(
        _python().PyCapsule_GetPointer(multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_SET_HANDLER])
    context = contextvars.Context()
    context.run(set_handler, _python().PyCapsule_New(ctypes.byref(handler), _CAPSULE, None))
    run, plain = context.run, np.empty

    def make(shape: Sequence[int], dtype: Any) -> Array:
        try:
            return run(plain, shape, dtype)
        except RuntimeError:
            # The context is entered: a finalizer that came while np.empty ran makes an array.
            return plain(shape, dtype)

    return make


# A capsule keeps the address of its name alone.
_NAME: Final = ctypes.create_string_buffer(b"mem_handler")
_CAPSULE: Final = ctypes.cast(_NAME, ctypes.c_char_p)


@functools.cache
def _python() -> Any:
    """Return the C functions of this process, called while the interpreter's lock is held."""
    found = ctypes.PyDLL(None)
    found.PyCapsule_GetPointer.restype = ctypes.c_void_p
    found.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found.PyCapsule_New.restype = ctypes.py_object
    found.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    found.Py_IncRef.argtypes = [ctypes.py_object]
    return found


def _keep_for_ever(thing: object) -> None:
    _python().Py_IncRef(thing)
