"""The CPU backend: NumPy arrays, and kernels that run immediately in the calling thread."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import prod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fastdist.core.dtypes import FLOAT8
from fastdist.core.errors import ShapeError
from fastdist.kernels.cpu import float8, memory
from fastdist.kernels.cpu.halves import add_many, convert_many, in_float32
from fastdist.kernels.cpu.memory import LINES_FROM
from fastdist.kernels.cpu.pointwise.pointwise import SMALL_LIMIT
from fastdist.kernels.cpu.reduce.repeat import repeat
from fastdist.kernels.cpu.silence import silent
from fastdist.random_numbers import philox

from .backend import Backend, Result, filling
from .find_kernel import find_kernel

if TYPE_CHECKING:
    from fastdist.language.scalar import Body


_MIB = 1 << 20
_KEPT_BLOCK = 16 * _MIB
# Copies of at least this many elements check whether the source repeats elements by broadcasting.
# With this check, the backward pass of a sum of 1e6 elements takes 99 us instead of 147; for 1e5
# elements it would take 20 us instead of 19 (AMD EPYC).
_MANY = 1 << 18


def keep_freed_memory() -> None:
    """Make glibc reuse freed blocks of up to 16 MiB, instead of mapping new ones.

    See Note [Freed memory].
    """
    np.empty(_KEPT_BLOCK - _MIB // 16, np.uint8)


# Note [Freed memory]
# By default, glibc maps each block over 128 KiB from the kernel, and unmaps it when it is freed
# (the mmap threshold). glibc also returns free memory at the end of the heap to the kernel if it is
# more than 128 KiB (the trim threshold). A training step frees the memory that its forward pass
# saved, so the next step has a page fault for every 4 KiB that it writes. A step of a GPT of width
# 256 has 1100 page faults, which take a twelfth of its CPU time. When a mapped block of up to 32
# MiB is freed, glibc raises the mmap threshold to the block's size, and the trim threshold to twice
# that size. So `keep_freed_memory` allocates and frees an unused block of 16 MiB, which costs 64 us
# and no memory. Afterwards a heap keeps at most 32 MiB of free memory at its end. If users set
# MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_, their thresholds stay. Allocators other than
# glibc's are not affected. kernels/cpu/memory.py caches larger and more blocks.
#
# glibc also has several heaps (arenas), up to eight per core. Each thread allocates from one of
# them, and a freed block returns to the heap that it came from. Any free thread of a pool may run
# the next request of a job, so threads had page faults although another heap had free memory. In 8
# rounds of `bench jobs`, the two busiest workers had 11,600 page faults; with two heaps they have
# 2,800 (2.7 us each on an AMD EPYC, more under memory pressure). There are two heaps instead of
# one, because ZeroMQ's thread allocates without holding the interpreter lock.
_HEAPS = 2
_M_ARENA_MAX = -8
keep_freed_memory()


def share_freed_memory() -> None:
    """Make threads that start from now on share two heaps of glibc.

    Then one thread of a pool can reuse memory that another thread freed. See Note [Freed memory].
    The environment variable MALLOC_ARENA_MAX, or glibc's tunable `arena_max`, takes precedence.
    """
    told = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if sys.platform == "linux" and not told:
        # Other C libraries do not have this function, or ignore it.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _HEAPS)


def compiled_draws(words: int) -> Any:
    """Return the module of compiled random number kernels, or None to use NumPy.

    The result is None while kernels are being compiled in the background. It is also None for few
    words if Numba is not loaded and the disk cache has no compiled kernels.
    """
    if words < philox.LARGE and not _has_compiled_draws():
        return None
    from fastdist.kernels.cpu.jit.background import (
        is_numpys_turn,  # imported late: it loads modules for threads and files
    )

    return None if is_numpys_turn(_compile_draws) else import_module(_DRAWS)


_DRAWS = "fastdist.kernels.cpu.create.philox"


def _has_compiled_draws() -> bool:
    """Return whether the compiled kernels can be used without importing Numba."""
    modules = sys.modules
    if "fastdist.kernels.cpu.jit.compiler" in modules:
        return True
    if "fastdist.kernels.cpu.jit.kernel_cache" not in modules:
        return False
    return bool(import_module(_DRAWS).are_stored())


def _compile_draws() -> None:
    import_module(_DRAWS).compile_all()


philox.Compiled.find = staticmethod(compiled_draws)


class CpuEvent:
    """An event that is always complete, because CPU work is done when its call returns."""

    __slots__ = ()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class CpuStream:
    """A stream with nothing queued: work runs in the order of the calls."""

    __slots__ = ()
    index = None

    def record_event(self) -> CpuEvent:
        return _EVENT

    def wait_event(self, event: Any) -> None:
        # An event of another device blocks the calling thread, because the thread's next statement
        # may already be CPU work.
        event.synchronize()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def launch_host_function(self, function: Callable[[], object]) -> None:
        function()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


_EVENT = CpuEvent()
_STREAM = CpuStream()


def _copy_into(out: np.ndarray, array: np.ndarray) -> None:
    if FLOAT8 and float8.wrote(array, out):
        return
    size = out.size
    if size < SMALL_LIMIT or not (
        convert_many(array, out) or (size >= _MANY and repeat(array, out))
    ):
        np.copyto(out, array, casting="unsafe")


def copy_of(array: np.ndarray) -> np.ndarray:
    """Return a copy in C order."""
    if array.nbytes < LINES_FROM:
        return np.array(array, order="C")  # for small arrays, half the time of the lines below
    made: np.ndarray = memory.empty(array.shape, array.dtype)
    made[...] = array
    return made


def _add_into(accumulator: np.ndarray, array: np.ndarray) -> None:
    if accumulator.itemsize > 2 or not add_many(array, accumulator):
        np.add(accumulator, array, accumulator)


# NumPy's warnings about NaN and overflow are suppressed. Both names are functions, because methods
# would add a function call to each accumulation of gradients.
copy_into: Callable[[np.ndarray, np.ndarray], None] = silent(_copy_into)
add_into: Callable[[np.ndarray, np.ndarray], None] = silent(_add_into)


class CpuBackend:
    """The backend of NumPy arrays and the kernels of fastdist.kernels.cpu."""

    type = "cpu"
    copy_into = staticmethod(copy_into)
    add_into = staticmethod(add_into)

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, int | None], Callable[..., None]] = {}
        self._kernel_for: Callable[[Body], Any] | None = None
        self.tables: dict[Any, list[Any]] = {}

    def device_count(self) -> int:
        return 1

    def empty(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> np.ndarray:
        if prod(shape) * dtype.itemsize < LINES_FROM:
            return np.empty(shape, dtype)
        made: np.ndarray = memory.empty(shape, dtype)
        return made

    def maker(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> Callable[[], np.ndarray]:
        made: Callable[[], np.ndarray] = partial(memory.maker_of(shape, dtype), shape, dtype)
        return made

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> np.ndarray:
        return array

    from_constant = from_numpy

    def is_capturing(self, index: int | None = None) -> bool:
        return False

    def to_numpy(self, array: np.ndarray, *, non_blocking: bool = False) -> np.ndarray:
        return array

    def into_host(self, room: np.ndarray, array: np.ndarray) -> bool:
        return False

    def index_of(self, array: np.ndarray) -> None:
        return None

    def data_ptr(self, array: np.ndarray) -> int:
        return int(array.__array_interface__["data"][0])

    def expand(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        strides = expanded_strides(array, shape)
        if not array.flags.forc:
            return self.as_strided(array, shape, strides)
        # The constructor takes a third of the time of as_strided, but it needs the buffer
        # interface, which only contiguous arrays provide.
        view: np.ndarray = np.ndarray(shape, array.dtype, array, 0, strides)
        if _repeats(view):
            view.flags.writeable = False
        return view

    def as_strided(
        self,
        array: np.ndarray,
        shape: Sequence[int],
        strides_bytes: Sequence[int],
        offset_bytes: int = 0,
    ) -> np.ndarray:
        if offset_bytes:
            array = _starting_at(array, offset_bytes)
        view = as_strided(array, shape, strides_bytes)
        if 0 not in strides_bytes or not _repeats(view):
            return view
        # The flag is set on a view of as_strided's result, because further views of the result
        # itself would be writable again.
        view = view[...]
        view.flags.writeable = False
        return view

    def reinterpret(self, array: np.ndarray, dtype: Any) -> np.ndarray:
        return array.view(dtype)

    def pointwise(self, body: Body, arrays: Sequence[np.ndarray], out: np.ndarray) -> None:
        if self._kernel_for is None:
            self._kernel_for = import_module("fastdist.kernels.cpu.pointwise.pointwise").kernel_for
        self._kernel_for(body).run(arrays, out)

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        found = self._kernels.get((name, reads))
        if found is None:
            found = find_kernel("cpu", name)
            if reads is not None:
                found = in_float32(name, found, reads)
            self._kernels[name, reads] = found
        return found

    def making(
        self,
        kernel: str | Body,
        results: Sequence[Result],
        numbers: tuple[Any, ...] = (),
        reads: int | None = None,
        index: int | None = None,
        *,
        of_any_layout: bool = False,
    ) -> Callable[..., Any]:
        one = len(results) == 1
        empty = memory.maker_of(results[0].shape, results[0].dtype) if one else memory.empty
        return filling(self, empty, kernel, results, numbers, reads)

    def current_stream(self, index: int | None = None) -> CpuStream:
        return _STREAM

    def stream(self, index: int | None = None) -> CpuStream:
        return _STREAM

    def record_stream(self, array: np.ndarray, stream: Any) -> None:
        pass

    def synchronize(self, index: int | None = None) -> None:
        pass


def expanded_strides(array: Any, shape: Sequence[int]) -> list[int]:
    """Return the strides in bytes for array broadcast to shape, 0 along repeated axes.

    Raises  ShapeError if the length of an axis is neither 1 nor the requested one
    """
    added = len(shape) - len(array.shape)
    strides = [0] * added
    fits = added >= 0
    for length, stride, wanted in zip(array.shape, array.strides, shape[added:], strict=False):
        fits = fits and (length in (1, wanted))
        strides.append(stride if length == wanted else 0)
    if not fits:
        raise ShapeError(
            f"expand: an array of shape {array.shape} cannot be seen as {tuple(shape)}"
        )
    return strides


def load() -> Backend:
    """Return a new CPU backend."""
    return CpuBackend()


class _Memory:
    """An object with NumPy's array interface for an address inside `base`, which it keeps alive."""

    def __init__(self, base: np.ndarray, address: int) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3,
            "shape": (1,),
            "typestr": base.dtype.str,
            "data": (address, not base.flags.writeable),
        }


def _repeats(view: np.ndarray) -> bool:
    """Return whether elements share memory along an axis with stride 0.

    Such views are made read-only: in-place ops refuse them, except a fill with one number.
    """
    repeated = [n for n, s in zip(view.shape, view.strides, strict=True) if s == 0 and n > 1]
    return bool(repeated) and view.size > 0


def _starting_at(array: np.ndarray, offset_bytes: int) -> np.ndarray:
    address = int(array.__array_interface__["data"][0]) + offset_bytes
    # `view` sets the dtype, because the array interface of bfloat16 and similar dtypes gives only
    # the element size.
    return np.asarray(_Memory(array, address)).view(array.dtype)
