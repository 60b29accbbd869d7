"""The CPU: NumPy's memory, and kernels that run at once in the calling thread."""

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
# From so many elements on it pays to look whether they are few that repeat: 1e6 of a sum's gradient
# take 99 us with the rest of the pass in place of 147, 1e5 would take 20 in place of 19 (AMD EPYC).
_MANY = 1 << 18


def keep_freed_memory() -> None:
    """Let glibc hand freed blocks of up to 16 MiB out again, instead of mapping new ones.

    See Note [Freed memory].
    """
    np.empty(_KEPT_BLOCK - _MIB // 16, np.uint8)


# Note [Freed memory]
# At first glibc asks the kernel for each block over 128 KiB, returns it when it is freed, and also
# returns free memory at the heap's end beyond that size. A step of training frees what its forward
# pass kept, so the next one pays a page fault for every 4 KiB that it writes: 1100 in a step of a
# GPT of width 256, a twelfth of its CPU time. glibc raises the first bound to the largest mapped
# block that was freed (up to 32 MiB), and the second to twice that. So a block of 16 MiB that
# nobody writes is freed here: it costs 64 us and no memory, and a heap keeps at most 32 MiB of free
# memory at its end. Users who set MALLOC_TRIM_THRESHOLD_ or MALLOC_MMAP_THRESHOLD_ keep their
# bounds; other allocators are unchanged. kernels/cpu/memory.py keeps larger blocks, and more of
# them.
#
# glibc also gives each thread a separate heap, up to eight for each core, and a block goes back to
# the heap that it came from. The requests of one job are run by whatever threads of a pool are
# free, so each heap had to fault in pages that the others kept free: of 11,600 faults in 8 rounds
# of `bench jobs`, on the two workers that are called most, two heaps leave 2,800 (2.7 us each on an
# AMD EPYC, more where others use the memory too). Two, since ZeroMQ's thread allocates without the
# interpreter lock.
_HEAPS = 2
_M_ARENA_MAX = -8
keep_freed_memory()


def share_freed_memory() -> None:
    """Let threads that begin from now on share two heaps of glibc, so that one thread of a pool
    reuses memory that another one freed.

    See Note [Freed memory]. MALLOC_ARENA_MAX, or Glibc's tunable of that name, takes precedence.
    """
    told = "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", "")
    if sys.platform == "linux" and not told:
        # Other C libraries have no such function, or one that does nothing.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _HEAPS)


def compiled_draws(words: int) -> Any:
    """Return the compiled kernels of random numbers; None while few words are wanted, nothing else
    has loaded Numba, and they are not stored.
    """
    if words < philox.LARGE and not _has_compiled_draws():
        return None
    from fastdist.kernels.cpu.jit.background import (
        is_numpys_turn,  # of threads and files: not at once
    )

    return None if is_numpys_turn(_compile_draws) else import_module(_DRAWS)


_DRAWS = "fastdist.kernels.cpu.create.philox"


def _has_compiled_draws() -> bool:
    """Return whether these kernels can be used without importing Numba now."""
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
    """A point that is always passed, for work is done when its call returns."""

    __slots__ = ()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class CpuStream:
    """The order in which a thread calls: nothing is ever queued."""

    __slots__ = ()
    index = None

    def record_event(self) -> CpuEvent:
        return _EVENT

    def wait_event(self, event: Any) -> None:
        # An event of a device is waited for here and now: the next CPU work is the caller's next
        # statement.
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
        return np.array(array, order="C")  # in half the time
    made: np.ndarray = memory.empty(array.shape, array.dtype)
    made[...] = array
    return made


def _add_into(accumulator: np.ndarray, array: np.ndarray) -> None:
    if accumulator.itemsize > 2 or not add_many(array, accumulator):
        np.add(accumulator, array, accumulator)


# Silent about NaN and overflow, which are the caller's wish here. Functions, since they are called
# for each gradient that meets another one: a method would put one more frame around them.
copy_into: Callable[[np.ndarray, np.ndarray], None] = silent(_copy_into)
add_into: Callable[[np.ndarray, np.ndarray], None] = silent(_add_into)


class CpuBackend:
    """NumPy arrays, and the kernels of fastdist.kernels.cpu."""

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
        # A third of as_strided's time; memory without gaps lends its buffer.
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
        # A view of the view: what is forbidden to as_strided's own result no part of it gets back.
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
    """Return the strides in bytes of array seen as shape, 0 along repeated axes.

    Raises  ShapeError if an axis is neither 1 nor as long as asked for
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
    """Return the CPU's backend."""
    return CpuBackend()


class _Memory:
    """A pointer to memory that `base` keeps alive, in NumPy's array interface."""

    def __init__(self, base: np.ndarray, address: int) -> None:
        self.base = base
        self.__array_interface__ = {
            "version": 3,
            "shape": (1,),
            "typestr": base.dtype.str,
            "data": (address, not base.flags.writeable),
        }


def _repeats(view: np.ndarray) -> bool:
    """Return whether one place in memory stands for many elements along an axis: what is written
    there is refused, but for one number in all of them.
    """
    repeated = [n for n, s in zip(view.shape, view.strides, strict=True) if s == 0 and n > 1]
    return bool(repeated) and view.size > 0


def _starting_at(array: np.ndarray, offset_bytes: int) -> np.ndarray:
    address = int(array.__array_interface__["data"][0]) + offset_bytes
    # The interface has only the size of a dtype that is not NumPy's own, such as bfloat16.
    return np.asarray(_Memory(array, address)).view(array.dtype)
