"""`Backend.making` for GPUs: returned functions do as little work as possible at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fastdist.core.determinism import determinism
from fastdist.kernels.cuda.pointwise.pointwise import kernel_of_body
from fastdist.kernels.cuda.prepared import PreparedTable, is_aligned, key_of
from fastdist.language.scalar import parse

from ..backend import Result
from .library import cupy, raise_as_ours

if TYPE_CHECKING:
    from fastdist.language.scalar import Body


def making(
    kernel: Callable[..., None],
    results: Sequence[Result],
    numbers: tuple[Any, ...],
    index: int,
    *,
    of_any_layout: bool,
) -> Callable[..., Any]:
    """Return a function of raw arrays that runs a kernel and returns its results as new arrays.

    Thread  any; the work goes to the calling thread's current stream of the device
    """
    library = cupy()
    empty, cuda = library.ndarray, library.cuda
    device, current_device = cuda.Device, cuda.runtime.getDevice
    found = PreparedTable(kernel, numbers)
    heeds = hasattr(kernel, "heeds_determinism")

    def fill(arrays: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        given = (*arrays, *outs)
        key = key_of(arrays, outs) if of_any_layout else is_aligned(given)
        if heeds:
            key = key, determinism.is_waived
        ready = found.get(key)
        try:
            if ready is None:
                given = (*arrays, *map(Result.as_kernels_see, results, outs))
                if not hasattr(kernel, "only_launches"):
                    kernel(*given, *numbers)
                    return
                ready = found.prepare(key, given)
            ready.run(given)
        except Exception as error:
            raise_as_ours(error)

    def make(*arrays: Any) -> Any:
        with device(index):
            outs = tuple([result.made_by(empty) for result in results])
            fill(arrays, outs)
        return outs if len(outs) > 1 else outs[0]

    if len(results) > 1 or results[0].order is not None:
        return make
    if heeds or results[0].kernel_shape != results[0].shape:

        def make_one(*arrays: Any) -> Any:
            if current_device() != index:
                return make(*arrays)
            out = empty(results[0].shape, results[0].dtype)
            fill(arrays, (out,))
            return out

        return make_one
    # In the most frequent case, even the cost of the function calls in `fill` is measurable.
    write = _of_any_layout if of_any_layout else _of_one_layout
    return write(results[0], index, found, make, fill)


Make = Callable[..., Any]
Fill = Callable[[tuple[Any, ...], tuple[Any, ...]], None]


def _of_one_layout(
    result: Result, index: int, found: PreparedTable, make: Make, fill: Fill
) -> Make:
    """Return a function that makes one result from arrays whose layouts are equal in all calls."""
    current_device, empty = cupy().cuda.runtime.getDevice, cupy().ndarray
    shape, dtype, prepared, numpy_array = result.shape, result.dtype, found.get, np.ndarray

    def make_usual(*arrays: Any) -> Any:
        if current_device() != index:
            return make(*arrays)
        out = empty(shape, dtype)
        places = out.data.ptr
        for array in arrays:
            if array.__class__ is not numpy_array and array is not None:
                places |= array.data.ptr
        ready = prepared(not places & 15)
        if ready is None:
            fill(arrays, (out,))
            return out
        try:
            ready.run((*arrays, out))
        except Exception as error:
            raise_as_ours(error)
        return out

    return make_usual


def _of_any_layout(
    result: Result, index: int, found: PreparedTable, make: Make, fill: Fill
) -> Make:
    """Return a function that makes one result from arrays of any layouts."""
    current_device, kind = cupy().cuda.runtime.getDevice, cupy().ndarray
    shape, dtype, prepared = result.shape, result.dtype, found.get

    def make_of_any_layout(*arrays: Any) -> Any:
        if current_device() != index:
            return make(*arrays)
        out = kind(shape, dtype)
        # The code of `key_of` is inlined for the most frequent arguments, two arrays: a gradient
        # and a saved value.
        if len(arrays) == 2 and arrays[0].__class__ is kind is arrays[1].__class__:
            x, y = arrays
            place = x.data.ptr | y.data.ptr | out.data.ptr
            key: Any = x.dtype, x.shape, x.strides, y.dtype, y.shape, y.strides, not place & 15
        else:
            key = key_of(arrays, (out,))
        ready = prepared(key)
        if ready is None:
            fill(arrays, (out,))
            return out
        try:
            ready.run((*arrays, out))
        except Exception as error:
            raise_as_ours(error)
        return out

    return make_of_any_layout


_ADD: Final = parse("x + y", ("x", "y"))


def adding(otherwise: Callable[[Body, Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return a function that adds an array to another array in place. Most Nodes call the function.

    `otherwise` handles arrays that are not on the current device, and raises errors for invalid
    arrays.
    """
    current_device = cupy().cuda.runtime.getDevice
    # The key has the layouts of both arrays and their alignment.
    found = PreparedTable(kernel_of_body(_ADD))

    def add_into(accumulator: Any, array: Any) -> None:
        into, kind = accumulator.data, accumulator.__class__
        # The index is read from the memory object, because each access to `array.device` creates a
        # new object.
        index = into.mem.device_id
        if (
            current_device() != index
            or array.__class__ is not kind
            or array.data.mem.device_id != index
        ):
            otherwise(_ADD, accumulator, array)
            return
        key = (
            *(accumulator.dtype, accumulator.shape, accumulator.strides),
            *(array.dtype, array.shape, array.strides, not (into.ptr | array.data.ptr) & 15),
        )
        given = accumulator, array, accumulator
        try:
            (found.get(key) or found.prepare(key, given)).run(given)
        except Exception as error:
            raise_as_ours(error)

    return add_into
