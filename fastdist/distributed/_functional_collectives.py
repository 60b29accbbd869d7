"""PyTorch's functional collectives, under the names that tensor-parallel programs use.

Each collective returns a finished result, so `wait_tensor` returns its argument unchanged. All
functions are differentiable, as in `distributed.nn.functional`, including the functions without
`_autograd` in their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import ShapeError
from ..ops.shape.joining import cat
from ..tensor.tensor import Tensor
from . import distributed_c10d as c10d
from .nn.collective import AllGather, Exchange, carried
from .nn.functional import all_reduce as _all_reduce
from .nn.functional import broadcast as _broadcast
from .nn.functional import reduced_part, split_sizes

__all__ = [
    "AsyncCollectiveTensor", "all_gather_into_tensor_coalesced", "all_gather_single",
    "all_gather_single_autograd", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast",
    "permute_tensor", "reduce_scatter_single", "reduce_scatter_single_autograd",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]  # fmt: skip


class AsyncCollectiveTensor(Tensor):
    """The class of unfinished results in PyTorch. In fastdist no result has this class, because all
    results are finished.
    """


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor, whose value is complete already."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """Return the reduction over all members of the group.

    Args:
        self: A tensor with the same shape and dtype on all members.
        reduceOp: The operation, such as "sum", "avg" or "max".
        group: A ProcessGroup, its name, a DeviceMesh of one dimension, or (mesh, dimension).
        tag: Ignored.
    """
    return _all_reduce(self, _operation(reduceOp), group_of(group))


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """Return the reduction of each tensor: see all_reduce."""
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """Return the tensor of the member with global rank `src`; see all_reduce."""
    return _broadcast(self, src, group_of(group))


def all_gather_single(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Return the tensors of all members, concatenated along gather_dim; see all_reduce."""
    parts = carried(self, AllGather(group_of(group)))
    return cat(parts.unbind(0), gather_dim)


def reduce_scatter_single(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """Return this member's part, along scatter_dim, of the reduction; see all_reduce.

    Raises  ShapeError if the axis cannot be divided evenly among the members
    """
    found = group_of(group)
    size, op = c10d.get_world_size(found), _operation(reduceOp)
    length = self.shape[scatter_dim]
    if length % size:
        raise ShapeError(
            f"input dimension {scatter_dim} ({length}) must be a multiple of group_size {size}"
        )
    parts = self.unflatten(scatter_dim, (size, length // size))
    parts = parts.movedim(scatter_dim if scatter_dim >= 0 else scatter_dim - 1, 0)
    return reduced_part(parts, op, found)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Return the rows that all members sent to this member.

    Args:
        self: Rows along the first axis.
        output_split_sizes: The number of rows from each member; input_split_sizes if None.
        input_split_sizes: The number of rows to each member; equal parts if None.
        group: See all_reduce.
        tag: Ignored.
    """
    found = group_of(group)
    sent = split_sizes("input", self.shape, input_split_sizes, found)
    return carried(self, Exchange(found, sent, list(output_split_sizes or sent)))


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """Return the tensor that this member receives; member m sends its tensor to `src_dst[m]`."""
    found = group_of(group)
    size, rank, count = c10d.get_world_size(found), c10d.get_rank(found), self.numel()
    sent = [count if src_dst[rank] == to else 0 for to in range(size)]
    received = [count if src_dst[sender] == rank else 0 for sender in range(size)]
    came = carried(self.reshape(-1), Exchange(found, sent, received))
    return came.reshape(self.shape)


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """Return, for each tensor, the tensors of all members, concatenated along the first axis; see
    all_gather_single.
    """
    return [all_gather_single(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """Return this member's part of the reduction of each tensor; see reduce_scatter_single."""
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_single(tensor, reduceOp, dim, group) for tensor, dim in pairs]


all_gather_tensor = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_single
reduce_scatter_tensor = reduce_scatter_tensor_autograd = reduce_scatter_single
reduce_scatter_single_autograd = reduce_scatter_single
all_to_all_single_autograd = all_to_all_single


def group_of(group: Any) -> Any:
    """Return the process group for a ProcessGroup, a name, or a mesh.

    Raises  ValueError if a mesh has several dimensions and no dimension is given, or the type is
            wrong
    """
    if isinstance(group, str):
        return c10d._resolve_process_group(group)
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        return group.get_group()
    if group is not None and not isinstance(group, c10d.ProcessGroup):
        raise ValueError(
            f"group is {type(group).__name__}; expected a ProcessGroup, its name, a DeviceMesh or "
            "(DeviceMesh, dimension). A list of ranks is not a group: call new_group(ranks) once"
        )
    return group


def _operation(name: str) -> Any:
    """Return the ReduceOp of a name such as "sum"."""
    found = getattr(c10d.ReduceOp, str(name).upper(), None)
    if found is None:
        raise ValueError(f"Invalid reduce operation {name!r}; expected sum, avg, max, min, ...")
    return found
