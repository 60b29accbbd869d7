"""Buckets: assigns parameters to shared buffers in a fixed order, and holds the buffers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.dense_order import dense_order
from ...core.device import Device
from ...core.dtypes import DType
from ...graph.modes import no_grad
from ...ops.create.creation import zeros
from ...tensor.tensor import Tensor
from ..constants import FIRST_BUCKET_BYTES


def first_bytes() -> int:
    """Return the size in bytes at which the first bucket is full.

    Programs may set it, as in PyTorch: it is the package's `_DEFAULT_FIRST_BUCKET_BYTES`.
    """
    package = sys.modules["fastdist.distributed"]
    return int(vars(package).get("_DEFAULT_FIRST_BUCKET_BYTES", FIRST_BUCKET_BYTES))


class Kind(NamedTuple):
    """The common dtype and device of the gradients in a bucket."""

    dtype: DType
    device: Device


def assign(
    parameters: Sequence[Tensor],
    order: Sequence[int],
    first_bytes: int,
    cap_bytes: int,
    sparse: frozenset[int] = frozenset(),
) -> list[list[int]]:
    """Return the buckets, each as a list of the indices of its parameters.

    Args:
        parameters: All parameters.
        order: The indices of the parameters, in the order in which their gradients are expected.
        first_bytes: The size in bytes at which the first bucket of a dtype and device is full.
        cap_bytes: The size in bytes at which all other buckets are full.
        sparse: The indices of parameters with sparse gradients; each has a separate bucket.
    """
    found: list[list[int]] = []
    open_buckets: dict[Kind, list[int]] = {}
    sizes: dict[Kind, int] = {}
    limits: dict[Kind, int] = {}
    for index in order:
        if index in sparse:
            found.append([index])
            continue
        layout = parameters[index]._layout
        kind = Kind(layout.dtype, layout.device)
        open_buckets.setdefault(kind, []).append(index)
        sizes[kind] = sizes.get(kind, 0) + layout.nbytes
        if sizes[kind] >= limits.get(kind, first_bytes):
            found.append(open_buckets.pop(kind))
            sizes[kind], limits[kind] = 0, cap_bytes
    found.extend(open_buckets.values())
    # Sort the buckets by the parameter that comes first in `order`.
    place = {index: number for number, index in enumerate(order)}
    return sorted(found, key=lambda indices: min(place[index] for index in indices))


class Bucket:
    """The gradients of some parameters, concatenated in one flat tensor."""

    def __init__(self, indices: list[int], parameters: Sequence[Tensor], *, sparse: bool) -> None:
        self.indices, self.is_sparse = indices, sparse
        self._places: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
        begin = 0
        for index in indices:
            layout = parameters[index]._layout
            is_dense = layout.contiguous or dense_order(layout.shape, layout.strides) is not None
            strides = layout.strides if is_dense else _c_strides(layout.shape)
            self._places.append((layout.shape, strides, begin))
            begin += layout.numel
        first = parameters[indices[0]]._layout
        self.nbytes = begin * first.dtype.itemsize
        self.flat = zeros(0 if sparse else begin, dtype=first.dtype, device=first.device)
        self.views = [] if sparse else self.views_of(self.flat)
        self.pending = 0
        # The Work or Future of the bucket's reduction, while it is under way.
        self.work: Any = None

    def views_of(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat tensor in the shapes and strides of the parameters."""
        source: Any = flat
        with no_grad():
            return [
                source.as_strided(shape, strides, begin) for shape, strides, begin in self._places
            ]


def _c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))
