"""What a launch is, and how CuPy runs it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from .compile import OPTIONS, header_options

THREADS: Final = 256
"""Threads of a block. Fixed, so that sums group the same elements on every GPU."""

_FOLDER: Final = Path(__file__).parent
# NumPy's dtypes as memory holds them.
C_TYPES: Final = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.uint8): "unsigned char",
    np.dtype(np.int8): "signed char",
    np.dtype(np.int16): "short",
    np.dtype(np.int32): "int",
    np.dtype(np.int64): "long long",
    np.dtype(np.float16): "__half",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}


class Struct(NamedTuple):
    """Fields that a kernel takes by value, as one NumPy element."""

    fields: np.ndarray[Any, Any]


class Scratch:
    """A contiguous array that one call needs between its launches. Compared by identity."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype


class Launch(NamedTuple):
    """One kernel of a text on a grid. Arguments are arrays, NumPy scalars, Struct and Scratch."""

    source: str
    name: str
    grid: tuple[int, int]
    args: tuple[Any, ...]


def int64_fields(*numbers: int) -> Struct:
    """Return numbers as the fields of a struct of `long long`."""
    # Viewed as one element: CuPy passes arrays of size one by value, others not at all.
    return Struct(np.array(numbers, np.int64).view(f"V{8 * len(numbers)}"))


def address_of(array: Any) -> int:
    """Return where an array of CuPy's or NumPy's begins."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


@functools.cache
def text_of(*file_names: str) -> str:
    """Return the files of this folder, one after the other."""
    # Pasted rather than included: CuPy's compile cache goes by the text alone.
    return "\n".join((_FOLDER / name).read_text("utf-8") for name in file_names)


def headers_for(dtypes: Sequence[np.dtype[Any]]) -> str:
    """Return what every text begins with that loads and stores these dtypes."""
    half = np.dtype(np.float16) in dtypes
    return text_of("memory.cuh", "half.cuh") if half else text_of("memory.cuh")


def launch(launches: Sequence[Launch]) -> None:
    """Run launches one after the other on the current stream of the device of their arrays.

    Thread  any; does not wait for the device
    """
    if not launches:
        return
    import cupy

    arrays = [arg for step in launches for arg in step.args if isinstance(arg, cupy.ndarray)]
    with arrays[0].device:
        scratch: dict[Scratch, Any] = {}
        for step in launches:
            for arg in step.args:
                if isinstance(arg, Scratch) and arg not in scratch:
                    # Freed below while the kernels still run: CuPy's pool gives the memory to later
                    # work of the same stream only.
                    scratch[arg] = cupy.empty(arg.shape, arg.dtype)
            args = tuple(_plain(arg, scratch) for arg in step.args)
            _kernel(step.source, step.name)(step.grid, (THREADS,), args)


def _plain(arg: Any, scratch: dict[Scratch, Any]) -> Any:
    if isinstance(arg, Struct):
        return arg.fields
    return scratch[arg] if isinstance(arg, Scratch) else arg


@functools.lru_cache(maxsize=4096)
def _kernel(source: str, name: str) -> Any:
    # A RawKernel compiles for the device that is current at a call, and keeps one binary for each.
    import cupy

    return cupy.RawModule(code=source, options=(*OPTIONS, *header_options())).get_function(name)
