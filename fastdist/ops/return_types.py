"""Results of several parts, under PyTorch's names: `fastdist.return_types.max` and kin."""

from __future__ import annotations

from typing import NamedTuple

from ..tensor.tensor import Tensor


class _Printed:
    """Prints as PyTorch's do, a part a line."""

    __slots__ = ()

    def __repr__(self) -> str:
        names: tuple[str, ...] = type(self)._fields  # type: ignore[attr-defined]
        parts = ",\n".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"fastdist.return_types.{type(self).__name__}(\n{parts})"


class ValuesAndIndices(NamedTuple):
    """Elements, and from where they came."""

    values: Tensor
    indices: Tensor


class _MinAndMax(NamedTuple):
    min: Tensor
    max: Tensor


class max(_Printed, ValuesAndIndices):
    """What `max` along an axis returns."""

    __slots__ = ()


class min(_Printed, ValuesAndIndices):
    """What `min` along an axis returns."""

    __slots__ = ()


class sort(_Printed, ValuesAndIndices):
    """What `sort` returns."""

    __slots__ = ()


class topk(_Printed, ValuesAndIndices):
    """What `topk` returns."""

    __slots__ = ()


class aminmax(_Printed, _MinAndMax):
    """What `aminmax` returns."""

    __slots__ = ()


class median(_Printed, ValuesAndIndices):
    """What `median` returns."""

    __slots__ = ()


class nanmedian(_Printed, ValuesAndIndices):
    """What `nanmedian` returns."""

    __slots__ = ()


class kthvalue(_Printed, ValuesAndIndices):
    """What `kthvalue` returns."""

    __slots__ = ()


class mode(_Printed, ValuesAndIndices):
    """What `mode` returns."""

    __slots__ = ()


class cummax(_Printed, ValuesAndIndices):
    """What `cummax` returns."""

    __slots__ = ()


class cummin(_Printed, ValuesAndIndices):
    """What `cummin` returns."""

    __slots__ = ()


class _HistAndEdges(NamedTuple):
    hist: Tensor
    bin_edges: Tensor


class histogram(_Printed, _HistAndEdges):
    """What `histogram` returns."""

    __slots__ = ()


class _HistAndAllEdges(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


class histogramdd(_Printed, _HistAndAllEdges):
    """What `histogramdd` returns."""

    __slots__ = ()


class _MantissaAndExponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


class frexp(_Printed, _MantissaAndExponent):
    """What `frexp` returns."""

    __slots__ = ()
