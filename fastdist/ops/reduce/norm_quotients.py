"""Quotients of gradients by norms where the norm is 0, for second derivatives at such points.

The derivative of a norm n of x is x / n. It has no limit at x = 0, where n passes on a gradient of
0. But the gradient of n**2 by n is g = 2n, so that g * x / n = 2x has a derivative at 0. If g is 0
and has a derivative by n, this derivative is the limit of g / n (slopes_at_zero.py). The gradient
of x is then this limit times x: it is 0, and has the correct derivative. Where the limit is
unknown, it is replaced by NaN. Then the gradient of x is still 0, but its derivatives are NaN.

A derivative of g needs the graph of g, which only a pass with create_graph records. Forward mode
uses notes instead, which are attached to tensors. Let v be the tangent of x. A norm attaches the
product x * v to its tangent x * v / n. From this product, n**2 gets the tangent 2 * x * v without a
division. The derivative of n**2 attaches the quotient g / n = 2 to the gradient g = 2n. A note
names the array of the norm for which it is valid. If the tensor is changed in place, its note is
invalid. Notes are lost where gradients of several functions of the same norm are added, and in
functions that attach no notes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.op import OPS
from ...graph.modes import may_be_differentiated, tls
from ...graph.node import Node, node_of
from ...graph.recording import begin_node
from ...interpreters.batched_tensor import Batched, batched, unbatched
from ...tensor.tensor import Tensor, layout_near, wrap
from .slopes_at_zero import has_zeros, is_norm_node, is_seeking, slope_at_zero


def may_bend(norm: Tensor) -> bool:
    """Return whether a derivative of the gradient may be needed at a norm of 0."""
    return may_be_differentiated() and not is_seeking() and has_zeros(norm._array, norm._layout)


def quotient_at_zero(g: Tensor, norm: Tensor) -> Any:
    """Return the limit of g / norm where norm is 0, and 0 elsewhere. The result is NaN where the
    limit is unknown.

    `g` is the gradient of norm, or a batch of such gradients.
    """
    is_zero = wrap(norm._array, norm._layout) == 0
    noted = noted_quotient(g, norm)
    if noted is not None:
        return OPS["where"].public(is_zero, noted, 0.0)
    base: Any = unbatched(g)
    value: Any = wrap(base._array, base._layout)
    found: Any = value.new_full((), math.nan)
    slope = slope_at_zero(base, norm, is_zero) if tls.grad and base._edge is not None else None
    if slope is not None:
        is_limit = (value == 0).logical_and(slope.isfinite())
        found = OPS["where"].public(is_limit, slope, math.nan)
    found = OPS["where"].public(is_zero, found, 0.0).expand(base._layout.shape)
    return _batched_as(g, _pruned(found))


def _batched_as(g: Tensor, base: Tensor) -> Tensor:
    """Return base as a batch with the same levels of vmap as g."""
    return batched(_batched_as(g.value, base), g.level) if isinstance(g, Batched) else base


def _pruned(quotient: Tensor) -> Tensor:
    """Return the quotient with a graph that skips gradients of 0.

    The derivatives of the quotient may be infinite at 0, and 0 times infinity would be NaN.
    """
    if quotient._edge is None:
        return quotient
    found = wrap(quotient._array, quotient._layout)
    found._extra, found._edge = quotient._extra, Pruning(quotient)
    return found


class Pruning(Node):
    """Passes a gradient on unless it is 0; a recorded gradient is always passed on."""

    __slots__ = ()

    def __init__(self, of: Tensor) -> None:
        begin_node(self, (of._edge,), of._layout)

    def apply(self, g: Tensor, keep: bool) -> tuple[Any, ...]:
        """Return g, or None if it is 0."""
        return (None if _is_nothing(wrap(g, layout_near(g, self.output_layout))) else g,)

    def apply_recorded(self, g: Any, keep: bool) -> tuple[Any, ...]:
        """Return the gradient g, a Tensor; None if g is 0 and this pass is not recorded."""
        return (None if not tls.grad and _is_nothing(unbatched(g)) else g,)


def _is_nothing(g: Tensor) -> bool:
    return not bool((wrap(g._array, g._layout) != 0).any())


def noted_quotient(g: Tensor, norm: Tensor) -> Any:
    """Return the quotient g / norm from the note of `g`, the gradient of a norm. Return None if g
    has no note.
    """
    return _noted(g, "_quotient", norm)


def note_product(tangent: Tensor, norm: Tensor, product: Tensor) -> None:
    """Attach to the tangent of a norm a note with the product of the tangent and the norm."""
    _note(tangent, "_product", norm, product)


def noting_quotients(made: Callable[..., Any], quotient: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the same derivative as `made`. The function attaches to the
    derivative a note with the quotient of the derivative and the norm.

    `made` and `quotient` take the same arguments: the first is the norm, and the last is g.
    `quotient` is linear in g, and returns None if the gradient at 0 is not a multiple of the norm.
    """

    def derive(*given: Any) -> Any:
        input, g = given[0], given[-1]
        product = _noted(g, "_product", input)
        if product is not None:
            found = quotient(*given[:-1], product)
            if found is not None:
                return found
        found = made(*given)
        if _is_norm(input):
            share = quotient(*given)
            if share is not None:
                _note(found, "_quotient", input, share)
        return found

    return derive


def _is_norm(tensor: Tensor) -> bool:
    edge = getattr(tensor, "_edge", None)
    return edge is not None and is_norm_node(node_of(edge))


def _note(tensor: Tensor, name: str, norm: Tensor, value: Tensor) -> None:
    tensor.__dict__[name] = norm._array, tensor._version, value


def _noted(tensor: Tensor, name: str, norm: Tensor) -> Any:
    note: Sequence[Any] | None = getattr(tensor, "__dict__", {}).get(name)
    if note is None or note[0] is not norm._array or note[1] != tensor._version:
        return None
    return note[2]
