"""Descriptions of kernel launches, and how CuPy runs them."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from fastdist.core.dtypes import FLOAT8, WIDE
from fastdist.core.errors import KernelError

from .compile import OPTIONS, header_options

THREADS: Final = 256
"""Threads of a block, unless a launch has others. Fixed, so that sums group the same elements on
every GPU.
"""

_FOLDER: Final = Path(__file__).parent


class _Types(dict["np.dtype[Any]", str]):
    """NumPy's dtypes -> the C types in which their elements are stored in memory."""

    def __missing__(self, dtype: np.dtype[Any]) -> str:
        # These dtypes exist in NumPy only after ml_dtypes was imported.
        if dtype in WIDE:
            return "__nv_bfloat16"
        if is_float8(dtype):
            return dtype.name
        raise KernelError(
            f"no CUDA kernel loads or stores {dtype.name}: move the tensor with .cpu(), or cast it"
        )


C_TYPES: Final = _Types(
    {
        np.dtype(np.bool_): "bool",
        np.dtype(np.uint8): "unsigned char",
        np.dtype(np.int8): "signed char",
        np.dtype(np.int16): "short",
        np.dtype(np.int32): "int",
        np.dtype(np.int64): "long long",
        np.dtype(np.float16): "__half",
        np.dtype(np.float32): "float",
        np.dtype(np.float64): "double",
        np.dtype(np.uint16): "unsigned short",
        np.dtype(np.uint32): "unsigned int",
        np.dtype(np.uint64): "unsigned long long",
        np.dtype(np.complex64): "Complex<float>",
        np.dtype(np.complex128): "Complex<double>",
    }
)


def computing_type(dtype: np.dtype[Any]) -> str:
    """Return the C type in which a kernel computes elements of dtype."""
    return C_TYPES[WIDE.get(dtype, dtype)]


def adding_type(dtype: np.dtype[Any]) -> str:
    """Return the C type in which a kernel adds elements of dtype: integers and bool in 64 bits."""
    return "long long" if is_whole(dtype) else computing_type(dtype)


def is_float8(dtype: np.dtype[Any]) -> bool:
    """Return whether dtype is a float8 type: a real type of one byte."""
    return dtype in FLOAT8 and dtype.itemsize == 1


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of dtype are integers or bool."""
    return dtype.kind in "biu"


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of dtype are real floating numbers."""
    return dtype.kind == "f" or dtype in WIDE


class Struct(NamedTuple):
    """The fields of a struct that a kernel takes by value, as one NumPy element."""

    fields: np.ndarray[Any, Any]


class Scratch:
    """A contiguous array that the launches of one call share. Instances are compared by identity.

    `base` is the Scratch that owns the memory: this one, or the Scratch that this one is a view of.
    """

    __slots__ = ("base", "dtype", "ndim", "shape", "size", "strides")
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    size: int

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.base, self.dtype = self, dtype
        _lay_out(self, shape, None)

    def seen_as(self, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Scratch:
        """Return a view of the same memory with another shape. If no strides are given, the view is
        in C order.
        """
        return _lay_out(copy.copy(self), shape, strides)


class Slot:
    """A placeholder of an array in later calls, with the array's layout and its index among the
    arrays of a call. `launches` collects the kernel launches that use the slot.

    A slot can also stand for a number that is passed by value.
    """

    def __init__(
        self, place: int, like: Any, launches: list[Launch | Call], *, aligned: bool
    ) -> None:
        self.place, self.launches = place, launches
        self.dtype, self.shape, self.strides = like.dtype, tuple(like.shape), tuple(like.strides)
        self.ndim, self.size = like.ndim, like.size
        self.by_value = is_number(like)
        # Kernel functions use the address `data.ptr` only to check whether an array is aligned.
        self.data, self.ptr = self, 0 if aligned else 1

    def seen_as(self, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Slot:
        """Return a slot for a view of the same memory with another shape. If no strides are given,
        the view is in C order.
        """
        return _lay_out(copy.copy(self), shape, strides)


_T = TypeVar("_T", Slot, Scratch)


def _lay_out(array: _T, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> _T:
    array.shape, array.ndim, array.size = shape, len(shape), math.prod(shape)
    if strides is None:
        axes = range(1, len(shape) + 1)
        strides = tuple([array.dtype.itemsize * math.prod(shape[axis:]) for axis in axes])
    array.strides = strides
    return array


def is_number(array: Any) -> bool:
    """Return whether a kernel takes `array` by value: a 0-d NumPy array, or a slot for one."""
    if isinstance(array, Slot):
        return array.by_value
    return isinstance(array, np.ndarray) and array.shape == ()


class ByValue(NamedTuple):
    """An argument of a launch: the number for which `slot` stands, passed with the dtype `kind`."""

    slot: Slot
    kind: type[np.generic]


class Launch(NamedTuple):
    """One launch of a kernel. Its arguments are arrays, NumPy scalars, Structs and Scratch arrays.
    In prepared launches a Slot stands for an array, and a ByValue for a number.
    """

    source: str
    name: str
    grid: tuple[int, int]
    args: tuple[Any, ...]
    threads: int = THREADS


class Call(NamedTuple):
    """A step of prepared launches that calls a library or works on parts of arrays. `library` is
    called like a compiled kernel: with a grid and a block, which it ignores, and a call's arrays.
    """

    library: Callable[[Any, Any, tuple[Any, ...]], None]
    args: tuple[Slot | Scratch, ...]


def int64_fields(*numbers: int) -> Struct:
    """Return numbers as the fields of a struct of `long long`."""
    # Viewed as one element, because CuPy passes NumPy arrays of size one by value, and rejects
    # larger ones.
    return Struct(np.array(numbers, np.int64).view(f"V{8 * len(numbers)}"))


def address_of(array: Any) -> int:
    """Return the address of a CuPy or NumPy array; 0 for Scratch, which is always aligned."""
    if isinstance(array, Scratch):
        return 0
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def addresses_of(arrays: Sequence[Any]) -> list[int]:
    """Return the addresses of arrays, which are either all CuPy's or all NumPy's. For many arrays
    this is faster than address_of.
    """
    if arrays and isinstance(arrays[0], np.ndarray):
        return [address_of(array) for array in arrays]
    return [array.data.ptr for array in arrays]


@functools.cache
def text_of(*file_names: str) -> str:
    """Return the contents of files of this folder, one after the other."""
    # Concatenated instead of #included: CuPy's compile cache depends only on the source text.
    return "\n".join((_FOLDER / name).read_text("utf-8") for name in file_names)


def headers_for(dtypes: Sequence[np.dtype[Any]]) -> str:
    """Return the first lines of sources that load and store these dtypes."""
    halves = [C_TYPES[dtype] for dtype in dtypes if dtype in WIDE]
    files = ["headers/memory.cuh", *["headers/half.cuh"] * bool(halves)]
    files += ["headers/bfloat16.cuh"] * ("__nv_bfloat16" in halves)
    files += ["headers/float8.cuh"] * any(is_float8(dtype) for dtype in dtypes)
    return text_of(*["headers/complex.cuh"] * any(dtype.kind == "c" for dtype in dtypes), *files)


def launch(launches: Sequence[Launch], on: Any = None) -> None:
    """Run launches one after the other on the current stream of a device: the device of the array
    `on` if it is given, otherwise that of the launches' arrays.

    Thread  any; does not wait for the device
    Note    launches on slots are only recorded: see Note [Prepared launches]
    """
    if not launches:
        return
    slot = next((arg for step in launches for arg in step.args if isinstance(arg, Slot)), None)
    if slot is not None:
        slot.launches.extend(launches)
        return
    import cupy

    if on is None:
        given = (arg for step in launches for arg in step.args)
        on = next(arg for arg in given if isinstance(arg, cupy.ndarray))
    with on.device:
        scratch: dict[Scratch, Any] = {}
        for step in launches:
            for arg in step.args:
                if isinstance(arg, Scratch) and arg.base not in scratch:
                    # Freed when this function returns, while the kernels may still run: CuPy's pool
                    # reuses the memory only for later work of the same stream.
                    scratch[arg.base] = cupy.empty(arg.base.shape, arg.dtype)
            args = tuple(_plain(arg, scratch) for arg in step.args)
            kernel_of(step.source, step.name)(step.grid, (step.threads,), args)


def _plain(arg: Any, scratch: dict[Scratch, Any]) -> Any:
    if isinstance(arg, Struct):
        return arg.fields
    return scratch[arg.base] if isinstance(arg, Scratch) else arg


@functools.lru_cache(maxsize=4096)
def kernel_of(source: str, name: str) -> Any:
    """Return a kernel of a source; it is compiled when it is first launched."""
    # A RawKernel compiles for the device that is current at a call, and keeps one binary per
    # device.
    import cupy

    return cupy.RawModule(code=source, options=(*OPTIONS, *header_options())).get_function(name)
