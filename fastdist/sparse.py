"""PyTorch's module of sparse tensors: `mm`, `sum`, `softmax` and the legacy constructors."""

from __future__ import annotations

from typing import Any

from .core.dtypes import DType, int64
from .core.folded_frames import fold_public
from .core.missing import explain_missing
from .interpreters.sparse_rules import is_sparse, refusal
from .namespace.typed_tensors import typed_sparse_tensors
from .ops.create.ranges import arange
from .ops.shape.joining import stack
from .ops.sparse.conversion import sparse_coo_tensor
from .ops.sparse.products import product
from .ops.sparse.rules import total
from .ops.sparse.softmax import normalized
from .tensor.tensor import Tensor


def mm(sparse: Tensor, dense: Tensor) -> Tensor:
    """Return the product of two matrices, which is sparse if both matrices are sparse.

    Note    the gradient of a sparse factor is sparse: it has values only where the factor has
            entries
    """
    if not (is_sparse(sparse) or is_sparse(dense)):
        return sparse.mm(dense)
    return product(sparse, dense, by_place=True)  # type: ignore[no-any-return]


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """Return beta * mat + alpha * (mat1 @ mat2)."""
    found: Any = mm(mat1, mat2)
    return mat * beta + found * alpha  # type: ignore[no-any-return]


def sum(input: Tensor, dim: Any = None, dtype: DType | None = None) -> Tensor:
    """Return the sum of a sparse tensor along axes. The sum is sparse if sparse axes remain."""
    if not is_sparse(input):
        raise refusal("_sparse_sum", input)
    return total(input, dim, dtype=dtype)  # type: ignore[no-any-return]


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """Return the sparse matrix whose diagonals are the rows of `diagonals`. `offsets` are the
    diagonals' distances from the main diagonal.

    Shape   element j of each row of `diagonals` is in column j of the result
    Raises  RuntimeError for repeated offsets
    """
    rows, shifts = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1)
    if len(set(shifts.tolist())) < shifts.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    columns: Any = arange(rows.shape[1]).expand(rows.shape[0], -1)
    places: Any = columns - shifts.to(int64).reshape(-1, 1)
    inside = (places >= 0) & (places < shape[0]) & (columns < shape[1])
    indices = stack([places[inside], columns[inside]])
    return sparse_coo_tensor(indices, rows[inside], tuple(shape))


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the softmax along an axis. Elements that are not specified count as -inf."""
    return _along("_sparse_softmax", input, dim, dtype, is_log=False)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Return the logarithm of the softmax. Elements that are not specified count as -inf."""
    return _along("_sparse_log_softmax", input, dim, dtype, is_log=True)


def _along(name: str, input: Tensor, dim: int, dtype: DType | None, *, is_log: bool) -> Tensor:
    if not is_sparse(input):
        raise refusal(name, input)
    return normalized(input if dtype is None else input.to(dtype), dim, is_log)


_TYPES = typed_sparse_tensors()
ByteTensor = _TYPES["ByteTensor"]
CharTensor = _TYPES["CharTensor"]
DoubleTensor = _TYPES["DoubleTensor"]
FloatTensor = _TYPES["FloatTensor"]
HalfTensor = _TYPES["HalfTensor"]
IntTensor = _TYPES["IntTensor"]
LongTensor = _TYPES["LongTensor"]
ShortTensor = _TYPES["ShortTensor"]

__all__ = [
    "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor", "addmm", "log_softmax", "mm", "softmax", "spdiags", "sum",
]  # fmt: skip

fold_public(__name__)
explain_missing(__name__)
