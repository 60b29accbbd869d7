"""The view op that can also reinterpret bytes as another dtype: `x.view(fastdist.int32)`."""

from __future__ import annotations

from typing import Any, ClassVar

from ...core.dtypes import WORDS, DType
from ...core.errors import ShapeError
from ...dispatch.op import P, R, declarator
from ...dispatch.target import GivenOut
from ...dispatch.view import ViewOp
from ...graph.lazy_conj_neg import LazyConjNeg
from ...tensor.layout import Layout
from ...tensor.memory import flat_of, storage_offset, view_at
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor, layout_of, wrap


class ShapeOrDType(ViewOp[P, R]):
    """A view op that takes either sizes or a dtype. With a dtype, it reinterprets the bytes, and is
    not recorded.
    """

    also_listed: ClassVar[str | None] = "dtype"  # x.view(dtype=int32) means x.view(int32)

    def fit_attributes(self, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return attributes with 0-d tensors converted to sizes, or a single dtype unchanged."""
        (given,) = attributes
        if len(given) == 1 and isinstance(given[0], DType):
            return attributes
        return super().fit_attributes(attributes)

    def computes(self, operands: tuple[Any, ...], attributes: tuple[Any, ...]) -> bool:
        """Return True if sizes are given, and False if a dtype is given."""
        (given,) = attributes
        return not (len(given) == 1 and isinstance(given[0], DType))

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: GivenOut = None
    ) -> Any:
        """Call ViewOp.general, or `reinterpreted` if a dtype is given."""
        (given,) = attributes
        wanted = given[0] if len(given) == 1 else None
        if isinstance(wanted, DType) and isinstance(operands[0], Tensor):
            if wanted is operands[0]._layout.dtype:
                given = (operands[0]._layout.shape,)
            else:
                return reinterpreted(operands[0], wanted)
        return super().general(operands, (given,), out)


view_or_dtype = declarator(ShapeOrDType)


def reinterpreted(input: Tensor, dtype: DType) -> Tensor:
    """Return a tensor over the same bytes with another dtype. If the size of an element differs,
    the length of the last axis changes.

    Raises  RuntimeError if the memory cannot be divided into elements of that dtype
    """
    if isinstance(input, LazyConjNeg):
        raise input.no_other_dtype("view(dtype)")
    layout = input._layout
    shape, strides, offset = _cut(layout, dtype, storage_offset(input))
    array = view_at(flat_of(input), dtype.numpy, layout.device, offset, shape, strides)
    out = wrap(array, layout_of(array, layout.device))
    out._storage = storage_of(input)
    return out


def _cut(layout: Layout, dtype: DType, offset: int) -> tuple[Any, Any, int]:
    old, new = layout.dtype.itemsize, dtype.itemsize
    shape, strides = layout.shape, layout.strides
    if old == new:
        return shape, strides, offset
    words = f"to view {WORDS[layout.dtype]} as {WORDS[dtype]}"
    unlike = f"{words} (different element sizes)"
    if not shape:
        raise ShapeError(f"self.dim() cannot be 0 {unlike}")
    if strides[-1] != 1:
        raise ShapeError(f"self.stride(-1) must be 1 {unlike}, but got {strides[-1]}")
    if old > new:
        times = old // new
        longer = tuple([stride * times for stride in strides[:-1]])
        return (*shape[:-1], shape[-1] * times), (*longer, 1), offset * times
    times = new // old
    if shape[-1] % times:
        raise ShapeError(
            f"self.size(-1) must be divisible by {times} {unlike}, but got {shape[-1]}"
        )
    if offset % times:
        raise ShapeError(
            f"self.storage_offset() must be divisible by {times} {unlike}, but got {offset}"
        )
    for axis, stride in enumerate(strides[:-1]):
        if stride % times:
            raise ShapeError(
                f"self.stride({axis}) must be divisible by {times} {unlike}, but got {stride}"
            )
    shorter = tuple([stride // times for stride in strides[:-1]])
    return (*shape[:-1], shape[-1] // times), (*shorter, 1), offset // times
