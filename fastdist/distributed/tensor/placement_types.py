"""Placements: how a distributed tensor is stored along a dimension of its device mesh."""

from __future__ import annotations

import dataclasses

from ...core.missing import explain_missing

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The base class of placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the tensor is sharded; if `dim` is given, along that dimension."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each device has the complete tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the tensor must still be reduced; if `reduce_op` is given, by that op."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each device has a shard of the tensor along a dimension.

    Args:
        dim: The sharded dimension.
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class _StridedShard(Shard):
    """Each device has every n-th block of the tensor along a dimension.

    Args:
        dim: The sharded dimension.
        split_factor: The number of blocks on each device.
    """

    split_factor: int = dataclasses.field(kw_only=True)

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each device has the complete tensor."""

    def __str__(self) -> str:
        return "R"


@dataclasses.dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Each device has a tensor of the full shape; the value is the reduction of these tensors.

    Args:
        reduce_op: The reduction, such as "sum" or "avg".
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


explain_missing(__name__)
