"""Memory of large CPU arrays: aligned to cache lines, and reused after it was freed."""

# Note [Lines and blocks] NumPy's memory begins 16 bytes after a cache line, so each vector of 64
# bytes crosses two lines: layer norm over 1e6 float32 takes 213 us in such memory, and 177 in
# memory aligned to a line (AMD EPYC, Zen 4). If an array is larger than the memory that glibc keeps
# (see Note [Freed memory] in devices/cpu.py), its memory comes from the system each time, and the
# system fills it with zeros. For 40 MB in huge pages this takes 3 ms, while writing the array takes
# 1. With kept blocks, x + y over 1e7 float32 takes 4.5 ms instead of 7.8, gelu with its gradient 14
# instead of 22, layer norm with its gradient 15 instead of 21.
#
# NumPy accepts other allocators (NEP 49). A handler is a table of four C functions in a context
# variable. An array keeps the handler that allocated it, and is freed with this handler. So the
# arrays of this module are ordinary NumPy arrays: they own their data, have no base, and can be
# shared in any way. A handler is set in a separate context, in which np.empty runs: that costs
# 70 ns, too much for small arrays. The handler "lines" has aligned_alloc of the C library, and
# Python's functions for the rest. The functions of the handler "blocks" are compiled
# (kept_blocks.py), and are used if their code is stored, or once a kernel has loaded the compiler.
#
# A reused block has its old content, so the elements of `empty` are not zero. The same holds for
# memory that glibc keeps; code that allocates an array writes all of it before other code reads it.

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
# Arrays of at least this many bytes are aligned to a line; for smaller arrays, the 70 ns of a
# handler are too much.
LINES_FROM: Final = 16 << 10
# From this size on NumPy requests huge pages. Smaller freed arrays are kept by glibc.
BLOCKS_FROM: Final = 4 << 20
# The index of PyDataMem_SetHandler in NumPy's table of C functions, and CPython's
# PYMEM_DOMAIN_RAW.
_SET_HANDLER: Final = 304
_RAW_DOMAIN: Final = 0
_COMPILER: Final = f"{__package__}.jit.compiler"


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """Return an uninitialized NumPy array in C order."""
    return maker_of(shape, dtype)(shape, dtype)


def maker_of(shape: Sequence[int], dtype: Any) -> Maker:
    """Return the allocator that `empty` chooses for arrays of this shape and dtype."""
    size_bytes = math.prod(shape) * int(dtype.itemsize)
    if size_bytes < LINES_FROM:
        return np.empty
    return _lines() if size_bytes < BLOCKS_FROM else _block


def empty_cache() -> None:
    """Return all freed memory that fastdist and glibc keep to the system.

    Thread  any
    """
    if _State.drop is not None:
        _State.drop()
    trim = getattr(_python(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


class _State:
    # The allocator of blocks, set when the compiled code is loaded; and the function that frees the
    # kept blocks.
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
    """Return the allocator of blocks: np.empty, until the keeper's code is stored or other code has
    loaded the compiler.
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
    """Return whether the keeper's code was stored at the first request for a block."""
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
    """Return an allocator that uses a keeper's blocks. If memory runs out, it frees the kept blocks
    and tries again.
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
    """Return how many freed bytes to keep; 0 if glibc is configured to keep little."""
    told = os.environ.get("GLIBC_TUNABLES", "")
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "trim_threshold" in told:
        return 0
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // 16, 512 << 20)


class _Functions(ctypes.Structure):
    """NumPy's PyDataMemAllocator: each function gets the first field as its first argument."""

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
    """Return a handler of existing C functions; None if their arguments may not fit.

    NumPy passes two arguments to a handler's malloc: the handler's own pointer, which here is the
    alignment, and the size. aligned_alloc takes these two. Python's raw allocators call those of C,
    and ignore the handler's pointer, unless Python was started with other allocators, or traces
    allocations.
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
    """Return a function like np.empty that allocates with a handler. The handler and its functions
    are never freed, because an array may be freed after Python has shut down.
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
            # The context is in use if a finalizer that runs during np.empty allocates an array.
            return plain(shape, dtype)

    return make


# A capsule stores only the address of its name, so the name must stay alive.
_NAME: Final = ctypes.create_string_buffer(b"mem_handler")
_CAPSULE: Final = ctypes.cast(_NAME, ctypes.c_char_p)


@functools.cache
def _python() -> Any:
    """Return the C functions of this process. They are called with the GIL held."""
    found = ctypes.PyDLL(None)
    found.PyCapsule_GetPointer.restype = ctypes.c_void_p
    found.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    found.PyCapsule_New.restype = ctypes.py_object
    found.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    found.Py_IncRef.argtypes = [ctypes.py_object]
    return found


def _keep_for_ever(thing: object) -> None:
    _python().Py_IncRef(thing)
