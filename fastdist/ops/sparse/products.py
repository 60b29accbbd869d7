"""Products of sparse matrices with dense or sparse matrices."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import int64
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...graph.modes import no_grad
from ...interpreters.sparse_rules import is_sparse, on_sparse, refusal
from ...tensor.methods import Number
from ...tensor.tensor import Tensor
from ..create.ranges import arange
from ..index.searchsorted import searchsorted
from ..shape.joining import stack
from .conversion import entries_of, masked, sparse_of, to_dense
from .coordinates import (
    coalesced,
    flat_places,
    gather_add,
    indices_of,
    own_indices,
    recorded,
    sparse_tensor,
    values_of,
)
from .indexing import meetings


@on_sparse("matmul")
def product(input: Tensor | Number, other: Tensor | Number, by_place: bool = False) -> Any:
    """Return the product of two matrices, or of a matrix and a vector. The product is sparse if
    both factors are sparse.

    If by_place is true, the gradient of a sparse factor is sparse, as in `sparse.mm`; otherwise the
    gradient is dense.
    """
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return NotImplemented
    if len(other._layout.shape) == 1:
        return product(input, other.unsqueeze(1), by_place).squeeze(1)
    if len(input._layout.shape) == 3 == len(other._layout.shape) and input._layout.is_sparse:
        return _batched(input, other)
    _require_matrices(input, other)
    if not (input._layout.is_sparse or other._layout.is_sparse):
        return input.mm(other)
    if not input._layout.is_sparse:
        return product(other.t(), input.t(), by_place).t()
    if other._layout.is_sparse:
        return _both_sparse(input, other)
    with no_grad():
        made = _rows_of_products(input, other.detach())

    def gradients(g: Tensor) -> tuple[Any, Any]:
        by_input = by_other = None
        if input._edge is not None:
            by_input = _gradient_by_sparse(g, input, other, by_place)
        if other._edge is not None:
            by_other = product(input.t(), g, by_place)
        return by_input, by_other

    name = "SparseAddmmBackward0" if by_place else "MmBackward0"
    return recorded(made, name, (input, other), gradients, _tangent, _read(input, other))


def _read(input: Any, other: Any) -> list[Any]:
    """Return each factor that is needed for the gradient of the other one."""
    pairs = ((input, other), (other, input))
    return [one for one, against in pairs if against._edge is not None]


def _tangent(tangents: list[Any], factors: list[Any]) -> Any:
    (of_first, of_second), (first, second) = tangents, factors
    if of_first is None:
        return product(first, of_second)
    found = product(of_first, second)
    return found if of_second is None else found + product(first, of_second)


def _gradient_by_sparse(g: Tensor | complex, input: Tensor, other: Any, by_place: bool) -> Any:
    """Return g @ other.T, or if by_place is true, only its elements at input's coordinates."""
    whole = g @ (to_dense(other) if is_sparse(other) else other).t()
    return masked(whole, input) if by_place else whole


def _batched(input: Any, other: Any) -> Any:
    """Return the products of a batch of sparse matrices and a batch of dense ones. They are
    computed as one product: a block-diagonal sparse matrix times the stacked dense matrices.
    """
    (batch, rows, columns), (count, inner, width) = input._layout.shape, other._layout.shape
    if other._layout.is_sparse or input._array.indices.shape[0] != 3:
        raise refusal("bmm of two sparse tensors, or of one with dense axes", input)
    if (batch, columns) != (count, inner):
        raise ShapeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {columns}] "
            f"but got: [{count}, {inner}]."
        )
    places, own, is_whole = entries_of(input)
    flat_places(places, (batch, rows, columns))  # raises for an index that is out of range
    which, row, column = places
    places = stack([which * rows + row, which * columns + column])
    whole = sparse_of(places, own, (batch * rows, batch * columns), is_coalesced=is_whole)
    found = product(whole, other.reshape(count * inner, width))
    return found.reshape(batch, rows, width)


def _require_matrices(input: Any, other: Any) -> None:
    a, b = input._layout, other._layout
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise refusal(f"matmul of {len(a.shape)} and {len(b.shape)} axes", input)
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"addmm: Expected mat1 and mat2 to have the same dtype, but got {a.dtype.name} and "
            f"{b.dtype.name}; cast one with to()"
        )


def _rows_of_products(input: Tensor, dense: Tensor) -> Any:
    """Return a sparse matrix times a dense one. Each row of the product is a weighted sum of rows
    of the dense matrix.
    """
    whole = coalesced(input.detach())
    if whole._array.values.ndim != 1:
        raise refusal("matmul of a sparse tensor with dense axes", input)
    rows, columns = indices_of(whole)
    # Only row indices are checked here. gather_add checks column indices, with which it reads rows.
    rows = flat_places(rows.unsqueeze(0), input._layout.shape[:1])
    device = rows._layout.device
    # The flat row indices are sorted, so a binary search finds where each row begins.
    asked: Any = arange(input._layout.shape[0] + 1, dtype=int64, device=device)
    starts = searchsorted(rows, asked)
    return gather_add(dense, starts, columns.contiguous(), values_of(whole))


def _both_sparse(input: Any, other: Any) -> Any:
    shape = (input._layout.shape[0], other._layout.shape[1])
    with no_grad():
        made = _expanded(coalesced(input.detach()), coalesced(other.detach()), shape)

    def gradients(g: Any) -> tuple[Any, Any]:
        dense = to_dense(g)
        return (
            masked(dense @ to_dense(other).t(), input) if input._edge is not None else None,
            masked(to_dense(input).t() @ dense, other) if other._edge is not None else None,
        )

    name = "SparseSparseMatmulBackward0"
    return recorded(made, name, (input, other), gradients, _tangent, _read(input, other))


def _expanded(a: Tensor, b: Tensor, shape: tuple[int, int]) -> Any:
    """Return the product of two coalesced matrices. Each entry of a, in column k, is multiplied by
    row k of b.

    The cost depends on the number of multiplied pairs of entries, not on the shapes.
    """
    rows, inner = own_indices(a)
    b_rows, b_columns = own_indices(b)
    device = rows._layout.device
    asked: Any = arange(b._layout.shape[0] + 1, dtype=int64, device=device)
    starts = searchsorted(b_rows.contiguous(), asked)
    begins = starts.index_select(0, inner)
    counts = starts.index_select(0, inner + 1) - begins
    who, at = meetings(begins, counts)
    places = stack([rows.index_select(0, who), b_columns.index_select(0, at)])
    products = values_of(a).index_select(0, who) * values_of(b).index_select(0, at)
    return coalesced(sparse_tensor(places.contiguous(), products, shape))


@on_sparse("linear_kernel")
def _linear(input: Tensor | Number, weight: Any, bias: Any) -> Any:
    made = product(input, weight.t())
    return made if bias is None else bias + made


@composite(homes="function", known_as="")
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, the first of which is sparse."""
    return input.mm(mat2)


@composite(homes="function", known_as="")
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, the first of which is sparse. Older name: use `mm`."""
    return input.mm(mat2)


@composite()
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """Return the product of a sparse and a dense matrix as a sparse matrix."""
    return product(input, mat).to_sparse()  # type: ignore[no-any-return]
