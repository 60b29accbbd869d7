"""Derivatives of gradients by norms where the norm is 0: the limits of gradient / norm.

The derivative is computed by passes from the gradient back to the norm, through the graph that a
pass with create_graph records. The derivative equals the limit if the function of the norm is
smooth in the square of the norm. Three kinds of functions are rejected here, although their
gradient may be 0:
- functions with a kink at 0, such as abs: the derivative of an op at its kink is a convention;
- functions of several norms that are 0, such as (n + m)**2: their Jacobian is not diagonal;
- functions whose graph cannot be traversed: it was freed, or an op has no second derivative.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.dtypes import float_limits
from ...core.errors import OutOfMemoryError
from ...dispatch.node_writer import OpNode, ZeroSecondOrder
from ...dispatch.op import OPS
from ...graph.call_node import CallNode, kind_of
from ...graph.gradient_edge import GradientEdge
from ...graph.node import node_of
from ...tensor.layout import Layout
from ...tensor.tensor import Tensor, from_array, layout_near, wrap

# The names of the ops whose results are norms.
NORMS = frozenset({"deviation", "vector_norm"})
# The ops with a kink where their operands are equal.
_TIES = frozenset({"fmax", "fmin", "maximum", "minimum"})
# The golden ratio: the fractional parts of its multiples are distinct and well separated.
_GOLDEN = 0.6180339887498949


class NormNode(CallNode):
    """Base of Nodes that compute a norm and do not belong to an op; `out` is the saved norm."""

    __slots__ = ()
    saved_names: ClassVar[tuple[str, ...]] = ("out",)
    out: Any


class _State(threading.local):
    # Whether this thread is computing the derivative of a gradient by a norm. If so, other norms on
    # the path pass on their usual gradients, which are 0 where the norm is 0.
    is_seeking = False
    # The engine's grad(outputs, inputs, gradients, retain_graph, create_graph, allow_unused), which
    # use_engine sets for all threads.
    grad: Callable[..., Any]


_state = _State()


def use_engine(grad: Callable[..., Any]) -> None:
    """Set the engine's `grad`, which runs the passes of this file. Ops cannot import the engine."""
    _State.grad = staticmethod(grad)


def is_seeking() -> bool:
    """Return whether this thread is computing the derivative of a gradient."""
    return _state.is_seeking


def has_zeros(array: Any, layout: Layout) -> bool:
    """Return whether any element of a raw array with this layout is 0."""
    return layout.numel > 0 and bool((wrap(array, layout_near(array, layout)) == 0).any())


def is_norm_node(node: OpNode) -> bool:
    """Return whether a Node computed a norm."""
    return isinstance(node, NormNode) or _name_of(node) in NORMS


class _Place(NamedTuple):
    """A Node, and a mask of elements where its result has no derivative."""

    node: Any
    where: Tensor


def slope_at_zero(g: Tensor, norm: Tensor, is_zero: Tensor) -> Any:
    """Return the derivative of g by norm where norm is 0, or NaN where this derivative does not
    exist. Return None if the derivative is unknown, or if g does not depend on norm.

    `g` may have additional leading axes, which are batch axes.
    """
    node = node_of(norm._edge)
    found = None if node is None else _places(g._edge, node, is_zero)
    if found is None:
        return None
    same, others = found
    places = [_Place(node, is_zero), *[_Place(one, is_zero) for one in same], *others]
    _state.is_seeking = True
    try:
        return _seek(g, places, 1 + len(same))
    except OutOfMemoryError:
        raise
    except RuntimeError:
        # An op on the path has no second derivative, or the graph was freed.
        return None
    finally:
        _state.is_seeking = False


def _seek(g: Tensor, places: list[_Place], count: int) -> Any:
    """Return the derivative of g by the norm that the first `count` Nodes of `places` compute."""
    value: Any = wrap(g._array, g._layout)
    weights = value.new_zeros(g._layout.shape).requires_grad_()
    # Two backward passes are equivalent to one pass in forward mode. They multiply by the Jacobian,
    # not by its transpose, and so do not mix the rows of a batch.
    edges = [GradientEdge(one.node, 0) for one in places]
    backs = _state.grad([g], edges, [weights], True, True, True)
    ones = [one.where.to(g._layout.dtype) for one in places[:count]]
    found = _pushed(backs[:count], weights, ones, recorded=True)
    if found is None or (places[0].node.output_layout.numel == 1 and len(places) == count):
        return found
    # The row sums of a Jacobian equal its diagonal only if all other elements are 0. To check this,
    # the row sums are computed again with the columns multiplied by distinct factors. The new sums
    # must equal the diagonal times the factors.
    factors = [_factors(one.node.output_layout, one.where) for one in places]
    factors[:count] = factors[:1] * count
    wanted = found.detach() * factors[0]
    given = _pushed(backs, weights, factors, recorded=False)
    # The tolerance is at least 1e-6, because the rounding error of a smaller dtype may be 6e-8.
    tolerance = max(float(float_limits(g._layout.dtype).eps) ** 0.5, 1e-6)
    is_diagonal = (given - wanted).abs() <= wanted.abs() * tolerance
    return OPS["where"].public(is_diagonal, found, float("nan"))


def _pushed(
    backs: Sequence[Any], weights: Tensor, factors: Sequence[Any], *, recorded: bool
) -> Any:
    """Return the sum of all Jacobians times their factors; None if there are no Jacobians."""
    pairs = zip(backs, factors, strict=True)
    given = [(one, factor) for one, factor in pairs if one is not None and one._edge is not None]
    if not given:
        return None
    roots, gradients = [one for one, _ in given], [factor for _, factor in given]
    return _state.grad(roots, [weights], gradients, True, recorded, True)[0]


def _factors(layout: Layout, is_zero: Tensor) -> Any:
    """Return distinct numbers between 1 and 2 where is_zero is true, and 0 elsewhere."""
    numbers = np.modf(np.arange(1, layout.numel + 1) * _GOLDEN)[0] + 1
    made: Any = from_array(numbers.reshape(layout.shape))
    return OPS["where"].public(is_zero, made.to(layout.device).to(layout.dtype), 0.0)


def _places(edge: Any, norm: Any, is_zero: Tensor) -> tuple[list[Any], list[_Place]] | None:
    """Search the graph of a gradient. Return the other Nodes that compute the same norm, and a list
    of Nodes of other functions, each with a mask of the elements where the function has no
    derivative. Return None if the derivative by the norm is unknown.
    """
    seen = {norm, node_of(edge)}
    waiting = [*seen - {norm}]
    same: list[Any] = []
    others: list[_Place] = []
    while waiting:
        node = waiting.pop()
        name = _name_of(node)
        if _has_kink(node, name, norm):
            return None
        if is_norm_node(node):
            if node.out is None:  # the graph was freed
                return None
            if _is_same(node, norm):
                same.append(node)
            else:
                array, *_ = node.out
                if has_zeros(array, node.output_layout):
                    others.append(_Place(node, wrap(array, node.output_layout) == 0))
        elif name == "sign":
            # At a norm of 0, the sign of the norm is 0 only by convention.
            every: Any = is_zero
            fits = node.output_layout.shape == norm.output_layout.shape
            others.append(_Place(node, every if fits else every.new_ones(node.output_layout.shape)))
        for below in map(node_of, node.edges):
            if below is not None and below not in seen:
                seen.add(below)
                if not below.is_accumulate:
                    waiting.append(below)
    if any(node.hooks is not None for node in (norm, *same, *[one.node for one in others])):
        # Hooks would be called with the derivative as if it were a gradient, and may change it.
        return None
    return same, others


def _has_kink(node: Any, name: str, norm: Any) -> bool:
    """Return whether the function of a norm that a Node computes has a kink where the norm is 0."""
    if name in _TIES:
        input, other = node.input, node.other
        if input is None or other is None:
            return True
        pair = [wrap(one._array, one._layout) for one in (input, other)]
        return bool((pair[0] == pair[1]).any())
    if name == "abs":
        is_at_kink = node.input is None or has_zeros(node.input._array, node.input._layout)
        return is_at_kink and _leads_straight(node, norm)
    return isinstance(node, ZeroSecondOrder) and any(
        _leads_straight(node_of(edge), norm) for edge in node.edges[1:]
    )


def _leads_straight(node: Any, norm: Any) -> bool:
    """Return whether a path of Nodes with only one input each leads from a Node to a norm."""
    while node is not None and node is not norm:
        edges = [edge for edge in node.edges if edge is not None]
        node = node_of(edges[0]) if len(edges) == 1 else None
    return node is norm


def _is_same(node: Any, norm: Any) -> bool:
    """Return whether two Nodes compute the same norm of the same tensor."""
    if kind_of(node) is not kind_of(norm):
        return False
    if isinstance(norm, NormNode):
        return bool(node.edges[1:] == norm.edges[1:])  # the first edge differs for each call
    if node.edges != norm.edges or node.route is not norm.route:
        return False
    return node.input._array is norm.input._array


def _name_of(node: OpNode) -> str:
    """Return the name of the op of a Node; an empty string for a Node without an op."""
    return getattr(getattr(kind_of(node), "op", None), "name", "")
