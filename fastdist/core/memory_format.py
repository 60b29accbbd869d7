"""PyTorch's memory formats, which order the axes of dense memory, and its layout `strided`."""

from __future__ import annotations

from typing import Any, Final

from .errors import ShapeError
from .moved_modules import earlier_names
from .short_repr import short_repr


class MemoryFormat:
    """An order of axes in memory. `axes` has the axes in this order, slowest first. It is None for
    formats that apply to any number of axes.
    """

    __slots__ = ("axes", "name")

    def __init__(self, name: str, axes: tuple[int, ...] | None = None) -> None:
        self.name = name
        self.axes = axes

    def __repr__(self) -> str:
        return f"fastdist.{self.name}"

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)

    def require_rank(self, ndim: int) -> None:
        """Raise RuntimeError for a tensor whose number of axes does not fit this format."""
        if self.axes is not None and ndim != len(self.axes):
            raise ShapeError(
                f"required rank {len(self.axes)} tensor to use {self.name} format, got {ndim} axes"
            )

    def order(self, ndim: int) -> tuple[int, ...] | None:
        """Return the order of ndim axes in memory, slowest first; None for C order.

        Raises  RuntimeError for a number of axes that does not fit this format, and for
                preserve_format, which has no order
        """
        if self is preserve_format:
            raise ShapeError(
                "unsupported memory format Preserve: there is no tensor whose layout could be "
                "preserved; use contiguous_format"
            )
        self.require_rank(ndim)
        return self.axes


contiguous_format: Final = MemoryFormat("contiguous_format")
preserve_format: Final = MemoryFormat("preserve_format")
channels_last: Final = MemoryFormat("channels_last", (0, 2, 3, 1))
channels_last_3d: Final = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))


def axes_of(given: Any) -> tuple[int, ...] | None:
    """Return the order of axes of a memory format.

    Raises  TypeError for an object that is not a memory format
    """
    if not isinstance(given, MemoryFormat):
        raise TypeError(
            "memory_format must be a memory format such as fastdist.channels_last, not "
            f"{short_repr(given)}"
        )
    return given.axes


FORMATS: Final = {
    one.name: one for one in (contiguous_format, preserve_format, channels_last, channels_last_3d)
}


def _by_name(name: str) -> MemoryFormat:
    return FORMATS[name]


class MemoryLayout:
    """PyTorch's type for the layout of a tensor: strided or sparse."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"fastdist.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided: Final = MemoryLayout("strided")
sparse_coo: Final = MemoryLayout("sparse_coo")
# Layouts that no fastdist tensor has, for programs that compare `tensor.layout` with them.
OTHER_LAYOUTS: Final = {
    name: MemoryLayout(name)
    for name in ("jagged", "sparse_bsc", "sparse_bsr", "sparse_csc", "sparse_csr")
}


# Pickles written under as-torch contain PyTorch's class names, which are looked up here.
__getattr__ = earlier_names(__name__)
