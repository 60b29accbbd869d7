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


class _Solved(NamedTuple):
    result: Tensor
    info: Tensor


class linalg_solve_ex(_Printed, _Solved):
    """What `linalg.solve_ex` returns."""

    __slots__ = ()


class _MantissaAndExponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


class frexp(_Printed, _MantissaAndExponent):
    """What `frexp` returns."""

    __slots__ = ()


class _Inverse(NamedTuple):
    inverse: Tensor
    info: Tensor


class linalg_inv_ex(_Printed, _Inverse):
    """What `linalg.inv_ex` returns."""

    __slots__ = ()


class _Factor(NamedTuple):
    L: Tensor
    info: Tensor


class linalg_cholesky_ex(_Printed, _Factor):
    """What `linalg.cholesky_ex` returns."""

    __slots__ = ()


class _SignAndLog(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class linalg_slogdet(_Printed, _SignAndLog):
    """What `linalg.slogdet` returns."""

    __slots__ = ()


class slogdet(_Printed, _SignAndLog):
    """What `slogdet` returns."""

    __slots__ = ()


class _Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eigh(_Printed, _Eigen):
    """What `linalg.eigh` returns."""

    __slots__ = ()


class linalg_eig(_Printed, _Eigen):
    """What `linalg.eig` returns."""

    __slots__ = ()


class _Singular(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class linalg_svd(_Printed, _Singular):
    """What `linalg.svd` returns."""

    __slots__ = ()


class _SingularV(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


class svd(_Printed, _SingularV):
    """What `svd` returns."""

    __slots__ = ()


class _QR(NamedTuple):
    Q: Tensor
    R: Tensor


class linalg_qr(_Printed, _QR):
    """What `linalg.qr` returns."""

    __slots__ = ()


class qr(_Printed, _QR):
    """What `qr` returns."""

    __slots__ = ()


class _PLU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class linalg_lu(_Printed, _PLU):
    """What `linalg.lu` returns."""

    __slots__ = ()


class lu_unpack(_Printed, _PLU):
    """What `lu_unpack` returns."""

    __slots__ = ()


class _Compact(NamedTuple):
    LU: Tensor
    pivots: Tensor


class linalg_lu_factor(_Printed, _Compact):
    """What `linalg.lu_factor` returns."""

    __slots__ = ()


class _CompactInfo(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


class linalg_lu_factor_ex(_Printed, _CompactInfo):
    """What `linalg.lu_factor_ex` returns."""

    __slots__ = ()


class _Symmetric(NamedTuple):
    LD: Tensor
    pivots: Tensor


class linalg_ldl_factor(_Printed, _Symmetric):
    """What `linalg.ldl_factor` returns."""

    __slots__ = ()


class _SymmetricInfo(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor


class linalg_ldl_factor_ex(_Printed, _SymmetricInfo):
    """What `linalg.ldl_factor_ex` returns."""

    __slots__ = ()


class _Least(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_lstsq(_Printed, _Least):
    """What `linalg.lstsq` returns."""

    __slots__ = ()


class _Triangular(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


class triangular_solve(_Printed, _Triangular):
    """What `triangular_solve` returns."""

    __slots__ = ()


class _Reflectors(NamedTuple):
    a: Tensor
    tau: Tensor


class geqrf(_Printed, _Reflectors):
    """What `geqrf` returns."""

    __slots__ = ()
