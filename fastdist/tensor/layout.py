"""The facts that tensors can share: dtype, device, shape, strides; equal layouts are one object."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, SupportsIndex, overload
from weakref import WeakValueDictionary

from ..core.device import CPU, Device
from ..core.dtypes import DType, float32, float64
from ..core.sequences import lengths_of
from ..kernels.cpu.pointwise.pointwise import SMALL_LIMIT
from ..system.forked_locks import renew_in_children

# Note [Ordinary and tiny tensors]
# `layout.ordinary` is true for tensors that need no further check: CPU, float32 or float64,
# contiguous, at least one dimension (NumPy turns 0-d results into scalars). `layout.tiny` also
# means that NumPy is faster than a compiled loop.
TINY_LIMIT = SMALL_LIMIT

Shape = tuple[int, ...]

# The routes for two layouts are stored on the first of them. A program with ever new shapes would
# fill the table forever, so a full one is cleared.
_ROUTES_PER_LAYOUT = 256


class RouteTable(dict[Any, Any]):
    """A dict that clears itself when it holds 256 entries."""

    __slots__ = ()

    def remember(self, key: Any, route: Any) -> Any:
        """Store and return route."""
        if len(self) >= _ROUTES_PER_LAYOUT:
            self.clear()
        self[key] = route
        return route


class Layout:
    """One dtype, device, shape and strides (in elements). Compare with `is`.

    Thread  immutable except `routes`, `uniform_routes` and `size`, whose entries are idempotent
    """

    __slots__ = (
        "__weakref__",
        "contiguous",
        "device",
        "dtype",
        "numel",
        "ordinary",
        "routes",
        "shape",
        "size",
        "steps",
        "strides",
        "tiny",
        "uniform_routes",
    )
    dtype: DType
    device: Device
    shape: Shape
    size: Shape | None  # the shape as a `Size`, once a Tensor of this layout has returned it
    strides: Shape
    steps: Shape  # strides in bytes
    numel: int
    contiguous: bool
    ordinary: bool
    tiny: bool
    # How ops run on a first operand of this layout, and other results that depend only on layouts.
    routes: RouteTable
    uniform_routes: dict[Any, Any]  # pointwise op -> its Route where all operands have this layout
    is_sparse: ClassVar[bool] = False

    _interned: ClassVar[WeakValueDictionary[tuple[Any, ...], Layout]] = WeakValueDictionary()
    # The last ones that were made live on: programs make the same temporaries again and again, and
    # a layout takes 2.7 us (AMD EPYC, Zen 4). The plans of GPUs' layouts may hold device memory.
    _recent: ClassVar[deque[Layout]] = deque(maxlen=32)
    # Re-entered by finalizers and handlers of signals that make layouts.
    _interned_lock: ClassVar[threading.RLock] = threading.RLock()

    @classmethod
    def of(cls, dtype: DType, device: Device, shape: Shape, strides: Shape | None = None) -> Layout:
        """Return the one layout of these facts; strides of None means C order."""
        key = (dtype, device, shape, strides)
        layout = cls._interned.get(key)
        if layout is None:
            layout = cls._make(dtype, device, shape, strides)
        return layout

    @classmethod
    def of_number(cls, dtype: DType) -> Layout:
        """Return the layout of a Python number that is wider than the half types next to it: it
        differs from the layout of a tensor without axes, for which calls run in another way.
        """
        return cls._interned.get((dtype,)) or cls._make(dtype, CPU, (), None, (dtype,))

    @classmethod
    def _make(
        cls,
        dtype: DType,
        device: Device,
        shape: Shape,
        strides: Shape | None,
        given: tuple[Any, ...] = (),
    ) -> Layout:
        is_number = bool(given)
        given = given or (dtype, device, shape, strides)
        c_order = contiguous_strides(shape)
        contiguous = strides is None or strides == c_order or _same_walk(shape, strides, c_order)
        if contiguous:
            # One object for all forms of C order (strides of axes of length 0 or 1 are never used).
            strides = None
        key = given if is_number else (dtype, device, shape, strides)
        layout = cls._interned.get(key)
        if layout is None:
            layout = object.__new__(cls)
            layout.dtype, layout.device, layout.shape = dtype, device, shape
            layout.strides = c_order if strides is None else strides
            layout.steps = tuple([step * dtype.itemsize for step in layout.strides])
            layout.numel = count_elements(shape)
            layout.contiguous = contiguous
            layout.ordinary = (
                contiguous
                and device is CPU
                and (dtype is float32 or dtype is float64)
                and len(shape) > 0
            )
            layout.tiny = layout.ordinary and layout.numel <= TINY_LIMIT
            layout.routes, layout.uniform_routes, layout.size = RouteTable(), {}, None
        # Stored last: a finalizer or a signal handler may run at any line, also under the lock, and
        # may have stored an equal layout.
        with cls._interned_lock:
            layout = cls._interned.setdefault(key, layout)
            # Arrays of devices always have their strides: the next one finds the layout at once.
            cls._interned[given] = layout
        if device is CPU:
            cls._recent.append(layout)
        return layout

    @classmethod
    def forget_routes(cls) -> None:
        """Drop all plans: their assumptions, such as the default dtype, have changed."""
        with cls._interned_lock:
            layouts = list(cls._interned.values())
        for layout in layouts:
            # New tables: another thread that is adding a route adds it to the old table.
            layout.routes, layout.uniform_routes = RouteTable(), {}

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take, without gaps."""
        return self.numel * self.dtype.itemsize

    def has_memory_order(self, axes: tuple[int, ...]) -> bool:
        """Return whether elements have no gaps, with their axes in this order from the slowest to
        the fastest.
        """
        step = 1
        for axis in reversed(axes):
            if self.shape[axis] != 1 and self.strides[axis] != step:
                return False
            step *= self.shape[axis]
        return True

    def with_shape(self, shape: Shape) -> Layout:
        """Return the contiguous layout of the same dtype and device."""
        return Layout.of(self.dtype, self.device, shape)

    def with_dtype(self, dtype: DType) -> Layout:
        """Return the layout of the same geometry with another dtype."""
        return Layout.of(dtype, self.device, self.shape, None if self.contiguous else self.strides)

    def __repr__(self) -> str:
        walk = "" if self.contiguous else f", strides={self.strides}"
        return f"Layout({self.dtype.name}, {self.device}, {self.shape}{walk})"


renew_in_children(Layout, "_interned_lock")


def count_elements(shape: Shape) -> int:
    """Return the product of the axes' lengths."""
    n = 1
    for length in shape:
        n *= length
    return n


def contiguous_strides(shape: Shape) -> Shape:
    """Return C-order strides in elements, as PyTorch counts them (an empty axis counts as 1)."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _same_walk(shape: Shape, strides: Shape, c_order: Shape) -> bool:
    if 0 in shape:
        return True
    # Not a generator: from Python 3.14 on a Ctrl-C during its close is reported, and lost.
    for length, stride, packed in zip(shape, strides, c_order, strict=True):
        if length != 1 and stride != packed:
            return False
    return True


def memory_order(layout: Layout) -> list[int] | None:
    """Return the axes from the slowest to the fastest in memory; None for C order and for memory
    that is walked twice or backwards.
    """
    if layout.contiguous:
        return None
    shape, strides = layout.shape, layout.strides
    order = sorted(range(len(shape)), key=lambda i: -strides[i])
    return None if any(strides[i] <= 0 and shape[i] > 1 for i in order) else order


def strides_of(shape: Shape, order: Sequence[int] | None) -> Shape | None:
    """Return the strides of memory whose axes are in such an order, slowest first; None for C
    order.
    """
    if order is None:
        return None
    packed = contiguous_strides(tuple([shape[axis] for axis in order]))
    return tuple([packed[order.index(axis)] for axis in range(len(shape))])


def view_strides(layout: Layout, shape: Shape) -> Shape | None:
    """Return the strides of layout's elements seen as shape, or None if no view can do that.

    Walks both shapes from the last axis: only a run of gapless axes may be split in another way.
    """
    if layout.contiguous:
        return Layout.of(layout.dtype, layout.device, shape).strides
    old = [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]
    strides = [0] * len(shape)
    i = len(shape) - 1
    while old:
        length, step = old.pop()
        base = step
        while old and old[-1][1] == length * base:
            length *= old.pop()[0]
        room = 1
        while i >= 0 and (room < length or shape[i] == 1):
            strides[i] = step
            step *= shape[i]
            room *= shape[i]
            i -= 1
        if room != length:
            return None
    return tuple(strides) if i < 0 else None


class Size(tuple[int, ...]):
    """A shape; a tuple that prints as PyTorch's does.

    Args:
        sizes: The lengths of the axes.

    Example:
        >>> torch.zeros(2, 3).shape
        fastdist.Size([2, 3])
        >>> torch.Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = (), /) -> Self:
        """Return the shape of sizes. Raises ValueError for an iterable that does not end."""
        return tuple.__new__(cls, lengths_of(sizes))

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if found.__class__ is tuple else found

    def __add__(self, other: Any) -> Size:
        return tuple.__new__(Size, tuple.__add__(self, other))

    def numel(self) -> int:
        """Return the number of elements of this shape."""
        n = 1
        for length in self:
            n *= length
        return n

    def __repr__(self) -> str:
        return f"fastdist.Size({list(self)})"

    __str__ = __repr__
