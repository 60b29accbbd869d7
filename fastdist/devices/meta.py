"""The meta device: arrays with a shape, strides and a dtype, but without memory or values.

Shapes, dtypes and strides are known before a kernel runs: a Plan describes the results, the backend
allocates memory for the results, and the kernel fills this memory. On the meta device, memory is a
`MetaArray` and every kernel does nothing. So each op computes the metadata of its results by the
same rules as on the CPU. A rule that needs values calls `to_numpy`, which on this device raises an
error that names the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from fastdist.core.errors import NoDataError, ShapeError
from fastdist.core.running_op import running_op

from .backend import Backend, Result, filling
from .cpu import CpuStream, expanded_strides

if TYPE_CHECKING:
    from fastdist.language.scalar import Body

_STREAM: Final = CpuStream()
_LARGEST: Final = (1 << 63) - 1


class MetaArray:
    """An array without values, but with NumPy's metadata and basic views.

    `base` is the array of which this array is a view; None if this array is not a view. `offset`
    is the number of bytes from the start of `base`.
    """

    __slots__ = ("__weakref__", "base", "dtype", "offset", "shape", "strides")
    __array_ufunc__ = None
    data: Final = SimpleNamespace(ptr=0)  # for code that reads CuPy's `data.ptr`; not an address
    __hash__ = object.__hash__

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...],
        base: MetaArray | None = None,
        offset: int = 0,
    ) -> None:
        self.shape, self.dtype, self.strides = shape, dtype, strides
        self.base, self.offset = base, offset

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def root(self) -> MetaArray:
        """The array of which this array is a view; for other arrays, the array itself."""
        return self if self.base is None else self.base

    def reshape(self, *shape: Any) -> MetaArray:
        """Return a view of another shape, or a new array if no view can have that shape."""
        wanted = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
        lengths = _without_wildcard(tuple(wanted), self.size)
        strides = _strides_as(self.shape, self.strides, lengths, self.dtype.itemsize)
        if strides is None:
            return new_array(lengths, self.dtype)
        return self._view(lengths, strides)

    def transpose(self, *axes: Any) -> MetaArray:
        order = axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes
        order = tuple(range(self.ndim))[::-1] if order in ((), None) else order
        shape = tuple([self.shape[axis] for axis in order])
        return self._view(shape, tuple([self.strides[axis] for axis in order]))

    def view(self, dtype: Any, /) -> MetaArray:
        """Return the same bytes as elements of another dtype; this may change the last length."""
        dtype = np.dtype(dtype)
        own = self.dtype.itemsize
        if dtype.itemsize == own:
            return MetaArray(self.shape, dtype, self.strides, self.root, self.offset)
        if (
            not self.shape
            or (self.strides[-1] != own and self.shape[-1] != 1)
            or (self.shape[-1] * own) % dtype.itemsize
        ):
            raise ShapeError(
                f"{self!r} cannot be seen as {dtype}: its last axis does not hold whole elements"
            )
        shape = (*self.shape[:-1], self.shape[-1] * own // dtype.itemsize)
        strides = (*self.strides[:-1], dtype.itemsize)
        return MetaArray(shape, dtype, strides, self.root, self.offset)

    def __getitem__(self, index: Any, /) -> MetaArray:
        """Return a view; `index` may contain only integers, slices, Ellipsis and None."""
        entries = list(index) if isinstance(index, tuple) else [index]
        taken = sum(1 for entry in entries if entry is not None and entry is not Ellipsis)
        if taken > self.ndim:
            raise IndexError(f"too many indices for {self!r}: {taken}")
        if not any(entry is Ellipsis for entry in entries):
            entries.append(Ellipsis)
        at = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
        entries[at : at + 1] = [slice(None)] * (self.ndim - taken)
        axes = iter(zip(self.shape, self.strides, strict=True))
        shape: list[int] = []
        strides: list[int] = []
        offset = self.offset
        for entry in entries:
            if entry is None:
                shape.append(1)
                strides.append(0)
                continue
            length, step = next(axes)
            if isinstance(entry, slice):
                start, stop, jump = entry.indices(length)
                count = len(range(start, stop, jump))
                offset += start * step if count else 0
                shape.append(count)
                strides.append(step * jump)
            else:
                offset += step * _place(entry, length)
        return self._view(tuple(shape), tuple(strides), offset)

    def __repr__(self) -> str:
        return f"<MetaArray of shape {self.shape}, {self.dtype}>"

    def _view(
        self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None
    ) -> MetaArray:
        start = self.offset if offset is None else offset
        return MetaArray(shape, self.dtype, strides, self.root, start)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        refuse_values()

    __array__ = __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = _refuse
    __eq__ = _refuse


def refuse_values() -> NoReturn:
    """Raise a NotImplementedError that names the op which needs values of a meta tensor."""
    op = running_op()
    if op in ("", "to", "cpu", "cuda", "copy_", "numpy", "tolist"):
        raise NoDataError("Cannot copy out of meta tensor; no data!")
    raise NoDataError(
        f"{op}: cannot run with meta tensors, which have no data: what it returns depends on "
        "values. Cannot copy out of meta tensor; no data!",
        op,
    )


def new_array(shape: Sequence[int], dtype: Any) -> MetaArray:
    """Return a new array in C order.

    Raises  RuntimeError if the size in bytes exceeds 64 bits
    """
    shape, dtype = tuple(shape), np.dtype(dtype)
    step = dtype.itemsize
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    if step > _LARGEST:
        raise ShapeError(
            f"Storage size calculation overflowed with sizes={list(shape)}: elements of {dtype} "
            "would need more bytes than a 64-bit number counts"
        )
    return MetaArray(shape, dtype, tuple(reversed(strides)))


class MetaBackend:
    """The backend of arrays without values, whose kernels do nothing."""

    type = "meta"

    def __init__(self) -> None:
        self.tables: dict[Any, list[Any]] = {}

    def device_count(self) -> int:
        return 1

    def empty(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> MetaArray:
        return new_array(shape, dtype)

    def maker(
        self, shape: Sequence[int], dtype: np.dtype[Any], index: int | None = None
    ) -> Callable[[], MetaArray]:
        return partial(new_array, shape, dtype)

    def from_numpy(
        self, array: np.ndarray, index: int | None = None, *, non_blocking: bool = False
    ) -> MetaArray:
        return new_array(array.shape, array.dtype)

    from_constant = from_numpy

    def is_capturing(self, index: int | None = None) -> bool:
        return False

    def to_numpy(self, array: MetaArray, *, non_blocking: bool = False) -> NoReturn:
        """Raise NotImplementedError, because there are no values."""
        refuse_values()

    def into_host(self, room: np.ndarray, array: MetaArray) -> bool:
        return False

    def index_of(self, array: MetaArray) -> None:
        return None

    def data_ptr(self, array: MetaArray) -> int:
        """Return the array's offset, by which two views of the same array can be compared."""
        return array.offset

    def expand(self, array: MetaArray, shape: Sequence[int]) -> MetaArray:
        return array._view(tuple(shape), tuple(expanded_strides(array, shape)))

    def as_strided(
        self,
        array: MetaArray,
        shape: Sequence[int],
        strides_bytes: Sequence[int],
        offset_bytes: int = 0,
    ) -> MetaArray:
        return array._view(tuple(shape), tuple(strides_bytes), array.offset + offset_bytes)

    def reinterpret(self, array: MetaArray, dtype: Any) -> MetaArray:
        return array.view(dtype)

    def copy_into(self, out: MetaArray, array: Any) -> None:
        expanded_strides(array, out.shape)  # raises ShapeError if `array` does not broadcast

    def pointwise(self, body: Body, arrays: Sequence[Any], out: MetaArray) -> None:
        pass

    def kernel(self, name: str, reads: int | None = None) -> Callable[..., None]:
        return _nothing

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
        return filling(self, partial(self.empty, index=index), kernel, results, numbers, reads)

    def add_into(self, accumulator: MetaArray, array: Any) -> None:
        pass

    def current_stream(self, index: int | None = None) -> CpuStream:
        return _STREAM

    def stream(self, index: int | None = None) -> CpuStream:
        return _STREAM

    def record_stream(self, array: MetaArray, stream: Any) -> None:
        pass

    def synchronize(self, index: int | None = None) -> None:
        pass


def load() -> Backend:
    """Return a new meta backend."""
    return MetaBackend()


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _place(entry: Any, length: int) -> int:
    place: int = entry.__index__()
    if not -length <= place < length:
        raise IndexError(f"index {place} is out of bounds for an axis of length {length}")
    return place % length


def _without_wildcard(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return `shape` with -1 replaced by a length. Raises ShapeError if its size is not `size`."""
    if -1 in shape:
        known = prod([length for length in shape if length != -1])
        found = size // known if known else 0
        shape = tuple([found if length == -1 else length for length in shape])
    if prod(shape) != size:
        raise ShapeError(f"an array of {size} elements cannot be seen as {shape}")
    return shape


def _strides_as(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], itemsize: int
) -> tuple[int, ...] | None:
    """Return the strides of a view of another shape, or None if there is no such view."""
    if not prod(shape):
        return new_array(wanted, np.dtype(f"V{itemsize}")).strides
    # Neighbouring axes are merged where one stride covers them. Each entry is (elements, stride),
    # the largest stride first.
    runs: list[tuple[int, int]] = []
    for length, step in zip(shape, strides, strict=True):
        if length == 1:
            continue
        if runs and runs[-1][1] == length * step:
            runs[-1] = (runs[-1][0] * length, step)
        else:
            runs.append((length, step))
    found: list[int] = []
    left, step = 1, itemsize
    for length in reversed(wanted):
        if length == 1:
            found.append(step)
            continue
        if left == 1:
            left, step = runs.pop()
        if left % length:
            return None
        found.append(step)
        left, step = left // length, step * length
    return tuple(reversed(found))
