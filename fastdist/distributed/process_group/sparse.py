"""The sum of sparse tensors over the members of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.device import CPU
from ...ops.shape.joining import cat
from ...ops.sparse.conversion import sparse_coo_tensor
from ...tensor.storage import storage_of
from ...tensor.tensor import Tensor, from_array
from .options import AllgatherOptions
from .reductions import ReduceOp
from .work import Work, finished


def all_reduce_sparse(group: Any, tensor: Tensor, options: Any) -> Work:
    """Replace a sparse tensor on all members by the coalesced sum over the members.

    All members gather all entries, and add those with equal indices in the order of the ranks.

    Raises  RuntimeError if the reduction is not a sum or a mean
    """
    kind = getattr(options.reduceOp, "op", options.reduceOp)
    if kind not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(
            f"all_reduce: unsupported reduction operation: {kind} of sparse tensors; they have "
            "SUM and AVG"
        )
    own: Any = tensor.coalesce()
    indices, values = own.indices(), own.values()
    wait = AllgatherOptions(asyncOp=False)
    counts = from_array(np.zeros(group.size(), np.int64), CPU)
    number = from_array(np.array([indices.shape[1]], np.int64), CPU)
    group._for_objects()._allgather_base(counts, number, wait)
    all_indices: list[Any] = []
    all_values: list[Any] = []
    for count in counts._array:
        all_indices.append(indices.new_empty((int(count), indices.shape[0])))
        all_values.append(values.new_empty((int(count), *values.shape[1:])))
    group.allgather([all_indices], [indices.t().contiguous()], wait)
    group.allgather([all_values], [values.contiguous()], wait)
    joined = sparse_coo_tensor(
        cat([one.t() for one in all_indices], 1), cat(all_values, 0), tensor.shape
    )
    total: Any = joined.coalesce()
    if kind == ReduceOp.AVG:
        total = total / group.size()
    _replace(tensor, total)
    return finished([tensor])


def all_reduce_sparse_list(group: Any, tensors: Sequence[Any], options: Any) -> Work:
    """Replace each of several sparse tensors by the sum of all tensors of all members."""
    total: Any = tensors[0].clone()
    for one in tensors[1:]:
        total = total + one
    all_reduce_sparse(group, total, options)
    for one in tensors:
        _replace(one, total.clone())
    return finished(list(tensors))


def _replace(tensor: Tensor, total: Tensor) -> None:
    tensor._array, tensor._layout = total._array, total._layout
    (tensor._storage or storage_of(tensor)).bump()
