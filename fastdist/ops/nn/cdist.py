"""Distances between all pairs of rows."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ...core.device import CPU
from ...core.dtypes import WORDS
from ...core.errors import DTypeError, ShapeError
from ...dispatch.composite import composite
from ...graph.modes import modes
from ...graph.recording import begin_node
from ...graph.saved_tensors import pack_saved
from ...graph.unpacking import unpack_input, unpack_output
from ...interpreters.batched_tensor import Batched, base_of, level_of, levels, unbatched
from ...tensor.broadcast import broadcast_shapes
from ...tensor.tensor import Tensor, wrap
from ..index.triangle_indices import triu_indices
from ..reduce.norm_quotients import may_bend, quotient_at_zero
from ..reduce.norms import distance_root, product_at_zero, vector_norm
from ..reduce.slopes_at_zero import NormNode

_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
# Up to this number of rows, distances are computed from differences of rows, which is more precise
# than a matrix product.
_FEW = 25


@composite(homes="function", node="cdist")
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Return the distance of order p between each row of x1 and each row of x2.

    Shape   (..., n, m), (..., r, m) -> (..., n, r)
    Note    for equal rows, the gradient is 0, and second derivatives are correct for functions
            that are smooth in the squares of Euclidean distances and NaN for other functions. For
            equal rows, forward mode supports only squares, unless create_graph records a gradient
    Raises  RuntimeError if the last axes differ, the batches do not broadcast, or p is negative

    Args:
        x1: The first points, one in each row.
        x2: The second points, of shape (..., m, d), with the d of x1; batches broadcast.
        p: The order of the norm.
        compute_mode: Whether distances of order 2 come from a matrix product, or from differences
            of rows, which is more precise. By default, up to 25 rows use differences.

    Example:
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
    _require_rows(x1, x2, p)
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode: {_MODES}")
    rows = max(x1._layout.shape[-2], x2._layout.shape[-2])
    by_product = compute_mode == _MODES[1] or (compute_mode == _MODES[0] and rows > _FEW)
    if p == 2 and by_product:
        return _by_product(x1, x2)
    broadcast_shapes("cdist", [x1._layout.shape[:-2], x2._layout.shape[:-2]])
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _norm(difference: Tensor, p: float) -> Tensor:
    if p == math.inf and not difference._layout.shape[-1]:
        return difference.sum(-1)
    return vector_norm(difference, p, -1)


def _by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """Return Euclidean distances as roots of |a|^2 + |b|^2 - 2 a b. The products a b are computed
    by a matrix product, which is fast.
    """
    squares = [x.square().sum(-1, True) for x in (x1, x2)]
    found = squares[0] + squares[1].transpose(-1, -2) - 2 * x1.matmul(x2.transpose(-1, -2))
    distances = distance_root(found)
    if distances.__class__ is Batched or distances._edge is not None:
        return _knowing_rows(distances, x1, x2)
    return distances


def _knowing_rows(distances: Tensor, x1: Tensor, x2: Tensor) -> Tensor:
    """Return `distances`, whose Node is replaced by a Node that also saves the rows x1 and x2."""
    if distances.__class__ is not Batched and x1._layout.shape[:-2] == x2._layout.shape[:-2]:
        distances._edge = RowDistances(distances, x1, x2)
        return distances
    depth = level_of((distances,))
    base = unbatched(distances)
    if base._edge is None or base._layout.shape[:depth] != levels.sizes[:depth]:
        return distances
    layout, rows = base._layout, []
    for x in (x1, x2):
        shape = x._layout.shape
        whole: Any = base_of(x, depth)
        ones = (1,) * (len(layout.shape) - len(whole._layout.shape))
        if ones:
            whole = whole.reshape(*whole._layout.shape[: -len(shape)], *ones, *shape)
        rows.append(whole.expand(*layout.shape[:-2], *shape[-2:]))
    node = base._edge = RowDistances(base, *rows)
    begin_node(node, node.edges, node.output_layout)  # again, because the Node has new edges
    return distances


class RowDistances(NormNode):
    """Replaces the Node of the square root of squared distances. Where a distance is 0, second
    derivatives with respect to the rows follow from the difference of the rows. They cannot be
    derived from the squared distance.
    """

    __slots__ = ()
    fresh = True
    saved_names: ClassVar[tuple[str, ...]] = ("out", "x1", "x2", "versions", "root")
    x1: Any
    x2: Any
    versions: tuple[int, int]
    root: Any

    def __init__(self, distances: Tensor, x1: Tensor, x2: Tensor) -> None:
        root = distances._edge
        self.root, self.out = root, root.out
        self.x1, self.x2, self.versions = x1, x2, (x1._version, x2._version)
        edges = (root.edges[0], x1._edge, x2._edge)
        if modes.tracers or root.output_layout.device is not CPU:
            begin_node(self, edges, root.output_layout)
            pack_saved(self, ("x1", "x2"), (x1, x2))
            self.out = root.out
        else:
            self.edges, self.output_layout = edges, root.output_layout
            self.hooks, self.seq = None, root.seq

    def apply(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the squared distances only."""
        (found,) = self.root.apply(g, keep)
        if not keep:
            self.out = self.x1 = self.x2 = None
        return found, None, None

    def apply_recorded(self, g: tuple[Tensor | None, ...], keep: bool) -> tuple[Any, ...]:
        """Return the gradient of the squared distances, and zeros that carry the derivatives of
        the gradients of the rows.
        """
        distances = unpack_output(self, self.out, self.output_layout, self)
        parts: tuple[Any, ...] = (None, None)
        if may_bend(distances):
            saved = zip((self.x1, self.x2), self.versions, self.edges[1:], strict=True)
            parts = _slopes_at_zero(g, distances, *[unpack_input(self, *one) for one in saved])
        (found,) = self.root.apply_recorded(g, keep)
        if not keep:
            self.out = self.x1 = self.x2 = None
        return found, *parts

    def release(self) -> None:
        """Release the saved tensors."""
        self.root.release()
        self.out = self.x1 = self.x2 = None


def _slopes_at_zero(g: Any, distances: Tensor, x1: Tensor, x2: Tensor) -> tuple[Any, Any]:
    """Return two tensors of zeros with the shapes of x1 and x2. Their derivatives are the second
    derivatives with respect to x1 and x2 that come from distances equal to 0. g is the gradient of
    the distances.
    """
    width, across = x1._layout.shape[-1], distances._layout.shape[-1]
    whole = x1._layout.shape[-2] * across
    zeros = wrap(distances._array, distances._layout) == 0
    places: Any = zeros.flatten()
    places = places.nonzero().squeeze(-1)
    quotient = quotient_at_zero(g, distances).reshape(-1).index_select(0, places).unsqueeze(-1)
    numbers = (places // across, places // whole * across + places % across)
    first, second = (
        x.reshape(-1, width).index_select(0, number)
        for x, number in zip((x1, x2), numbers, strict=True)
    )
    difference = first - second
    # `difference` minus its own value is exactly 0, and keeps the derivative of `difference`.
    # `difference` alone could be a small rounding error.
    part = product_at_zero(quotient, difference - wrap(difference._array, difference._layout))
    by = [
        x.new_zeros((x._layout.numel // width, width))
        .index_add(0, number, one)
        .reshape(x._layout.shape)
        for x, number, one in zip((x1, x2), numbers, (part, -part), strict=True)
    ]
    return by[0], by[1]


def _require_rows(x1: Tensor, x2: Tensor, p: float) -> None:
    for name, one in (("X1", x1), ("X2", x2)):
        layout = one._layout
        if len(layout.shape) < 2:
            raise ShapeError(
                f"cdist only supports at least 2D tensors, {name} got: {len(layout.shape)}D"
            )
        if not layout.dtype.is_floating_point:
            raise DTypeError(
                f"cdist only supports floating-point dtypes, {name} got: {WORDS[layout.dtype]}"
            )
    if x1._layout.shape[-1] != x2._layout.shape[-1]:
        raise ShapeError(
            "X1 and X2 must have the same number of columns. "
            f"X1: {x1._layout.shape[-1]} X2: {x2._layout.shape[-1]}"
        )
    if x1._layout.dtype is not x2._layout.dtype:
        words = [WORDS[x._layout.dtype] for x in (x1, x2)]
        raise DTypeError(f"expected scalar type {words[0]} but found {words[1]}")
    if p < 0:
        raise ShapeError(f"cdist only supports non-negative p values, got {p}")


@composite(homes="function functional", node="_pdist")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distance of order p between each row of input and each later row."""
    layout = input._layout
    if len(layout.shape) != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {len(layout.shape)}D")
    if not layout.dtype.is_floating_point:
        raise DTypeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise ShapeError(f"pdist only supports non-negative p values, got {p}")
    n = layout.shape[0]
    first, second = triu_indices(n, n, 1, device=layout.device)
    return _norm(input.index_select(0, first) - input.index_select(0, second), p)
