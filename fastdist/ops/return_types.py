"""Results with several parts, under PyTorch's names, such as `fastdist.return_types.max`."""

from __future__ import annotations

from typing import NamedTuple

from ..tensor.tensor import Tensor


class _Printed:
    """Base of named tuples with PyTorch's repr, which has one part on each line."""

    __slots__ = ()

    def __repr__(self) -> str:
        names: tuple[str, ...] = type(self)._fields  # type: ignore[attr-defined]
        parts = ",\n".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"fastdist.return_types.{type(self).__name__}(\n{parts})"


class ValuesAndIndices(NamedTuple):
    """The values of elements, and their indices in the input."""

    values: Tensor
    indices: Tensor


class _MinAndMax(NamedTuple):
    min: Tensor
    max: Tensor


class max(_Printed, ValuesAndIndices):
    """The result of `max` along an axis."""

    __slots__ = ()


class min(_Printed, ValuesAndIndices):
    """The result of `min` along an axis."""

    __slots__ = ()


class sort(_Printed, ValuesAndIndices):
    """The result of `sort`."""

    __slots__ = ()


class topk(_Printed, ValuesAndIndices):
    """The result of `topk`."""

    __slots__ = ()


class aminmax(_Printed, _MinAndMax):
    """The result of `aminmax`."""

    __slots__ = ()


class median(_Printed, ValuesAndIndices):
    """The result of `median`."""

    __slots__ = ()


class nanmedian(_Printed, ValuesAndIndices):
    """The result of `nanmedian`."""

    __slots__ = ()


class kthvalue(_Printed, ValuesAndIndices):
    """The result of `kthvalue`."""

    __slots__ = ()


class mode(_Printed, ValuesAndIndices):
    """The result of `mode`."""

    __slots__ = ()


class cummax(_Printed, ValuesAndIndices):
    """The result of `cummax`."""

    __slots__ = ()


class cummin(_Printed, ValuesAndIndices):
    """The result of `cummin`."""

    __slots__ = ()


class _HistAndEdges(NamedTuple):
    hist: Tensor
    bin_edges: Tensor


class histogram(_Printed, _HistAndEdges):
    """The result of `histogram`."""

    __slots__ = ()


class _HistAndAllEdges(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


class histogramdd(_Printed, _HistAndAllEdges):
    """The result of `histogramdd`."""

    __slots__ = ()


class _Solved(NamedTuple):
    result: Tensor
    info: Tensor


class linalg_solve_ex(_Printed, _Solved):
    """The result of `linalg.solve_ex`."""

    __slots__ = ()


class _MantissaAndExponent(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


class frexp(_Printed, _MantissaAndExponent):
    """The result of `frexp`."""

    __slots__ = ()


class _Inverse(NamedTuple):
    inverse: Tensor
    info: Tensor


class linalg_inv_ex(_Printed, _Inverse):
    """The result of `linalg.inv_ex`."""

    __slots__ = ()


class _Factor(NamedTuple):
    L: Tensor
    info: Tensor


class linalg_cholesky_ex(_Printed, _Factor):
    """The result of `linalg.cholesky_ex`."""

    __slots__ = ()


class _SignAndLog(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class linalg_slogdet(_Printed, _SignAndLog):
    """The result of `linalg.slogdet`."""

    __slots__ = ()


class slogdet(_Printed, _SignAndLog):
    """The result of `slogdet`."""

    __slots__ = ()


class _Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eigh(_Printed, _Eigen):
    """The result of `linalg.eigh`."""

    __slots__ = ()


class linalg_eig(_Printed, _Eigen):
    """The result of `linalg.eig`."""

    __slots__ = ()


class _Singular(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class linalg_svd(_Printed, _Singular):
    """The result of `linalg.svd`."""

    __slots__ = ()


class _SingularV(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


class svd(_Printed, _SingularV):
    """The result of `svd`."""

    __slots__ = ()


class _QR(NamedTuple):
    Q: Tensor
    R: Tensor


class linalg_qr(_Printed, _QR):
    """The result of `linalg.qr`."""

    __slots__ = ()


class qr(_Printed, _QR):
    """The result of `qr`."""

    __slots__ = ()


class _PLU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class linalg_lu(_Printed, _PLU):
    """The result of `linalg.lu`."""

    __slots__ = ()


class lu_unpack(_Printed, _PLU):
    """The result of `lu_unpack`."""

    __slots__ = ()


class _Compact(NamedTuple):
    LU: Tensor
    pivots: Tensor


class linalg_lu_factor(_Printed, _Compact):
    """The result of `linalg.lu_factor`."""

    __slots__ = ()


class _CompactInfo(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


class linalg_lu_factor_ex(_Printed, _CompactInfo):
    """The result of `linalg.lu_factor_ex`."""

    __slots__ = ()


class _Symmetric(NamedTuple):
    LD: Tensor
    pivots: Tensor


class linalg_ldl_factor(_Printed, _Symmetric):
    """The result of `linalg.ldl_factor`."""

    __slots__ = ()


class _SymmetricInfo(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor


class linalg_ldl_factor_ex(_Printed, _SymmetricInfo):
    """The result of `linalg.ldl_factor_ex`."""

    __slots__ = ()


class _Least(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_lstsq(_Printed, _Least):
    """The result of `linalg.lstsq`."""

    __slots__ = ()


class _Triangular(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


class triangular_solve(_Printed, _Triangular):
    """The result of `triangular_solve`."""

    __slots__ = ()


class _Reflectors(NamedTuple):
    a: Tensor
    tau: Tensor


class geqrf(_Printed, _Reflectors):
    """The result of `geqrf`."""

    __slots__ = ()
