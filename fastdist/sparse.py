"""Sparse tensors under PyTorch's names: `sparse.mm`, `addmm`, `sum`."""

from __future__ import annotations

from typing import Any

from .core.dtypes import DType
from .core.missing import explain_missing
from .dispatch.sparse_rules import is_sparse, refusal
from .ops.sparse_products import product
from .ops.sparse_rules import total
from .tensor.tensor import Tensor


def mm(sparse: Tensor, dense: Tensor) -> Tensor:
    """Return the product of two matrices, one of them sparse; it is sparse if both are.

    Note    the gradient of a sparse factor is sparse, known at its places alone
    """
    if not (is_sparse(sparse) or is_sparse(dense)):
        return sparse.mm(dense)
    return product(sparse, dense, by_place=True)  # type: ignore[no-any-return]


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor:
    """Return beta * mat + alpha * (mat1 @ mat2)."""
    found: Any = mm(mat1, mat2)
    return mat * beta + found * alpha  # type: ignore[no-any-return]


def sum(input: Tensor, dim: Any = None, dtype: DType | None = None) -> Tensor:
    """Return the sum of a sparse tensor along axes; sparse where sparse axes are left."""
    if not is_sparse(input):
        raise refusal("_sparse_sum", input)
    return total(input, dim, dtype=dtype)  # type: ignore[no-any-return]


__all__ = ["addmm", "mm", "sum"]

explain_missing(__name__)
