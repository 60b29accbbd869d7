"""Layout: dtype, device, shape and strides of a tensor. Equal layouts are one object."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, SupportsIndex, overload
from weakref import WeakValueDictionary

from ..core.device import CPU, Device
from ..core.dtypes import DType, float32, float64
from ..core.folded_frames import fold
from ..core.sequences import lengths_of
from ..kernels.cpu.pointwise.pointwise import SMALL_LIMIT
from ..system.forked_locks import renew_in_children

# Note [Ordinary and tiny tensors]
# `layout.ordinary` is true for tensors that need no further check: on the CPU, float32 or float64,
# contiguous, with at least one dimension (NumPy turns 0-d results into scalars). `layout.tiny` is
# true for ordinary tensors so small that NumPy is faster than a compiled loop.
TINY_LIMIT = SMALL_LIMIT

Shape = tuple[int, ...]

# The routes for a pair of operand layouts are stored in the first layout's table. If the shapes of
# a program always change, the table would grow without limit. So a full table is cleared.
_ROUTES_PER_LAYOUT = 256


class RouteTable(dict[Any, Any]):
    """A dict that `remember` clears when it holds 256 entries."""

    __slots__ = ()

    def remember(self, key: Any, route: Any) -> Any:
        """Store `route` under `key`, and return it."""
        if len(self) >= _ROUTES_PER_LAYOUT:
            self.clear()
        self[key] = route
        return route


class Layout:
    """A dtype, a device, a shape and strides (in elements). Compare layouts with `is`.

    Thread  immutable except `routes`, `uniform_routes` and `size`, which cache recomputable values
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
    # The routes of ops whose first operand has this layout, and other cached results that depend on
    # layouts alone.
    routes: RouteTable
    uniform_routes: dict[Any, Any]  # pointwise op -> its Route where all operands have this layout
    is_sparse: ClassVar[bool] = False

    _interned: ClassVar[WeakValueDictionary[tuple[Any, ...], Layout]] = WeakValueDictionary()
    # Keeps recently made layouts alive: programs create the same temporaries repeatedly, and making
    # a layout takes 2.7 us (AMD EPYC, Zen 4). It has only layouts on the CPU, because the plans of
    # GPU layouts may hold device memory.
    _recent: ClassVar[deque[Layout]] = deque(maxlen=32)
    # Reentrant: a finalizer or a signal handler may make a layout while its thread holds the lock.
    _interned_lock: ClassVar[threading.RLock] = threading.RLock()

    @classmethod
    def of(cls, dtype: DType, device: Device, shape: Shape, strides: Shape | None = None) -> Layout:
        """Return the unique layout with these properties; None for strides means C order."""
        key = (dtype, device, shape, strides)
        layout = cls._interned.get(key)
        if layout is None:
            layout = cls._make(dtype, device, shape, strides)
        return layout

    @classmethod
    def of_number(cls, dtype: DType) -> Layout:
        """Return the layout for a Python number next to tensors of a half type; `dtype` is wider.
        It is not the layout of a 0-d tensor of `dtype`, because ops treat 0-d tensors differently.
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
            # Strides of axes of length 0 or 1 are never used, so one layout represents all strides
            # that are in C order.
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
        # Stored last, with setdefault: a finalizer or signal handler may run on any line, even
        # while this thread holds the lock, and may have stored an equal layout.
        with cls._interned_lock:
            layout = cls._interned.setdefault(key, layout)
            # GPU arrays always report strides. With `given` as a second key, the next array with
            # these strides finds the layout directly.
            cls._interned[given] = layout
        if device is CPU:
            cls._recent.append(layout)
        return layout

    @classmethod
    def forget_routes(cls) -> None:
        """Drop all cached routes, after a change of a setting on which they depend, such as the
        default dtype.
        """
        with cls._interned_lock:
            layouts = list(cls._interned.values())
        for layout in layouts:
            # Assign new tables, because another thread may be adding a route to an old table.
            layout.routes, layout.uniform_routes = RouteTable(), {}

    @property
    def nbytes(self) -> int:
        """Number of bytes of the elements, without gaps."""
        return self.numel * self.dtype.itemsize

    def has_memory_order(self, axes: tuple[int, ...]) -> bool:
        """Return whether the elements are contiguous in memory in the order of `axes`, from the
        axis with the largest stride to the axis with the smallest.
        """
        step = 1
        for axis in reversed(axes):
            if self.shape[axis] != 1 and self.strides[axis] != step:
                return False
            step *= self.shape[axis]
        return True

    def with_shape(self, shape: Shape) -> Layout:
        """Return the contiguous layout of another shape with the same dtype and device."""
        return Layout.of(self.dtype, self.device, shape)

    def with_dtype(self, dtype: DType) -> Layout:
        """Return the layout with the same device, shape and strides, and another dtype."""
        return Layout.of(dtype, self.device, self.shape, None if self.contiguous else self.strides)

    def __repr__(self) -> str:
        walk = "" if self.contiguous else f", strides={self.strides}"
        return f"Layout({self.dtype.name}, {self.device}, {self.shape}{walk})"


renew_in_children(Layout, "_interned_lock")


def count_elements(shape: Shape) -> int:
    """Return the product of the lengths of the axes."""
    n = 1
    for length in shape:
        n *= length
    return n


def contiguous_strides(shape: Shape) -> Shape:
    """Return C-order strides in elements. As in PyTorch, an axis of length 0 counts as length 1."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


def _same_walk(shape: Shape, strides: Shape, c_order: Shape) -> bool:
    if 0 in shape:
        return True
    # A loop, not all() of a generator: since Python 3.14, a KeyboardInterrupt that is raised while
    # a generator closes is printed and then ignored.
    for length, stride, packed in zip(shape, strides, c_order, strict=True):
        if length != 1 and stride != packed:
            return False
    return True


def memory_order(layout: Layout) -> list[int] | None:
    """Return the axes in memory order, from the largest stride to the smallest. Return None for C
    order, and for memory with repeated elements or negative strides.
    """
    if layout.contiguous:
        return None
    shape, strides = layout.shape, layout.strides
    order = sorted(range(len(shape)), key=lambda i: -strides[i])
    return None if any(strides[i] <= 0 and shape[i] > 1 for i in order) else order


def strides_of(shape: Shape, order: Sequence[int] | None) -> Shape | None:
    """Return the strides of memory without gaps whose axes are in `order`, the largest stride
    first. Return None if `order` is None, which means C order.
    """
    if order is None:
        return None
    packed = contiguous_strides(tuple([shape[axis] for axis in order]))
    return tuple([packed[order.index(axis)] for axis in range(len(shape))])


def view_strides(layout: Layout, shape: Shape) -> Shape | None:
    """Return the strides of a view of `layout` with another shape; None if there is no such view.

    Walks both shapes from the last axis. Consecutive axes can be split or merged in another way
    only if their elements are without gaps.
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
    """A shape: a tuple with the repr of PyTorch's Size.

    Raises  TypeError if a length is not an integer

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
        """Return the shape with these sizes. Raises ValueError for an endless iterable."""
        try:
            return tuple.__new__(cls, lengths_of(sizes))
        except Exception as error:
            fold(error)
            raise

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
