"""ReduceOp, and how a transport computes each reduction for each dtype."""

from __future__ import annotations

import enum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The module in which PyTorch's users, and pickles, find the classes of this file.
_PUBLIC: Final = "fastdist.distributed.distributed_c10d"


class _Operation(enum.IntEnum):
    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


class _ReduceOpMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Operation) or super().__instancecheck__(value)


class ReduceOp(metaclass=_ReduceOpMeta):
    """The operation that combines the members' values: one of the kinds below, such as SUM.

    Args:
        op: A kind, such as `ReduceOp.SUM`.
    """

    RedOpType = _Operation
    SUM = _Operation.SUM
    AVG = _Operation.AVG
    PRODUCT = _Operation.PRODUCT
    MIN = _Operation.MIN
    MAX = _Operation.MAX
    BAND = _Operation.BAND
    BOR = _Operation.BOR
    BXOR = _Operation.BXOR
    PREMUL_SUM = _Operation.PREMUL_SUM
    # For PREMUL_SUM, the factor of this member's values: a number or a tensor of one element.
    factor: Any = None

    def __init__(self, op: _Operation) -> None:
        self.op = _Operation(getattr(op, "op", op))

    def __eq__(self, other: object) -> bool:
        return self.op == getattr(other, "op", other)

    def __hash__(self) -> int:
        return hash(self.op)


_Operation.__module__ = ReduceOp.__module__ = _PUBLIC
# Pickles look the class up under this name.
_Operation.__qualname__ = "ReduceOp.RedOpType"


def premultiplied_sum(factor: Any) -> ReduceOp:
    """Return a ReduceOp that adds the members' values, each multiplied by its member's factor."""
    op = ReduceOp(ReduceOp.PREMUL_SUM)
    op.factor = factor
    return op


_BITS: Final = frozenset({ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR})
_SUMS: Final = frozenset({ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM})
_NAMES: Final[dict[int, str]] = {
    ReduceOp.SUM: "sum",
    ReduceOp.AVG: "sum",
    ReduceOp.PREMUL_SUM: "sum",
    ReduceOp.PRODUCT: "product",
    ReduceOp.MIN: "min",
    ReduceOp.MAX: "max",
    ReduceOp.BAND: "band",
    ReduceOp.BOR: "bor",
    ReduceOp.BXOR: "bxor",
}
# Booleans are reduced as bytes of 0 and 1; their sum is true if any value is true.
_NAMES_OF_BOOL: Final[dict[int, str]] = {
    ReduceOp.SUM: "bor",
    ReduceOp.MAX: "bor",
    ReduceOp.BOR: "bor",
    ReduceOp.PRODUCT: "band",
    ReduceOp.MIN: "band",
    ReduceOp.BAND: "band",
    ReduceOp.BXOR: "bxor",
}


class Reduction(NamedTuple):
    """How a transport reduces arrays of one dtype."""

    # A name such as "sum" or "avg", which is the same on all members.
    name: str
    # One of transport.REDUCTIONS.
    op: str
    # The dtype of the view that the transport reduces; None for the array's own dtype.
    seen_as: np.dtype[Any] | None
    # The factor by which this member's values are multiplied before the sum; None for no factor.
    factor: Any
    # Whether the sum is divided by the number of members afterwards.
    is_mean: bool

    def view(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the view of the array that the transport reduces, with the dtype `seen_as`."""
        return array if self.seen_as is None else array.view(self.seen_as)

    def divide(self, array: NDArray[Any], size: int) -> None:
        """Divide a sum over `size` members in place, if the reduction is a mean."""
        if self.is_mean:
            array /= np.asarray(size, array.dtype)


def reduction_of(op: Any, dtype: np.dtype[Any], what: str) -> Reduction:
    """Return the Reduction for values of dtype; errors name the collective `what`.

    Raises  TypeError if op is not a ReduceOp; ValueError if the reduction does not exist for
            complex numbers; RuntimeError if the reduction does not exist for dtype, or PREMUL_SUM
            has no factor
    """
    kind = getattr(op, "op", op)
    if kind not in _NAMES or isinstance(kind, bool):
        raise TypeError(f"{what}: op is {op!r}; expected a ReduceOp, such as ReduceOp.SUM")
    kind = _Operation(kind)
    name = kind.name.lower()
    if dtype.kind == "c":
        if kind not in _SUMS:
            raise ValueError(f"{what} does not support {kind} on complex tensors")
        seen_as: np.dtype[Any] | None = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    else:
        seen_as = None
    if dtype == np.bool_:
        if kind not in _NAMES_OF_BOOL:
            raise RuntimeError(f"{what}: {kind} is not defined for bool; convert to a float dtype")
        return Reduction(name, _NAMES_OF_BOOL[kind], np.dtype(np.uint8), None, is_mean=False)
    is_whole = dtype.kind in "iu"
    if kind in _BITS and not is_whole:
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype")
    if kind is _Operation.AVG and is_whole:
        raise RuntimeError(
            f"{what}: a mean of {dtype} is not {dtype}: use ReduceOp.SUM and divide, or convert to "
            "a float dtype"
        )
    factor = getattr(op, "factor", None)
    if kind is _Operation.PREMUL_SUM and factor is None:
        raise RuntimeError(
            f"{what}: ReduceOp.PREMUL_SUM has no factor; dist._make_nccl_premul_sum(factor) does"
        )
    return Reduction(name, _NAMES[kind], seen_as, factor, is_mean=kind is _Operation.AVG)


def supports_complex(reduceOp: Any) -> bool:
    """Return whether a reduction exists for complex numbers: sums and means do.

    Args:
        reduceOp: The reduction.
    """
    return reduceOp in _SUMS
