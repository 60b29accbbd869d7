"""Ops whose result shares the input's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..backends.backend import backend_of
from ..graph.modes import modes, tls
from ..tensor.layout import Layout
from ..tensor.storage import storage_of
from ..tensor.tensor import OWN_TANGENT, Extra, Tensor, layout_of, wrap
from ..tensor.view_steps import Step, ViewSteps
from .op import register
from .structured import StructuredOp
from .tangents import carry_view
from .way import Way


class ViewOp(StructuredOp):
    """An op that gives another view of the same bytes; linear, so its tangent is the view of the
    tangent.

    `@op.array` registers the function (backend, array, *attributes) -> array, a view for every
    backend.
    """

    kind = "view"

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, kernel="", linear=True, has_out=False)
        self._array: Callable[..., Any] | None = None
        self._prepare: Callable[..., tuple[Any, ...]] | None = None

    def array(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register how a raw array is viewed."""
        self._array = function
        return function

    def prepare(self, function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        """Register the check that turns the user's arguments (input, *attributes) into canonical
        attributes.
        """
        self._prepare = function
        return function

    def view_array(self, array: Any, device: Any, attributes: Sequence[Any]) -> Any:
        """Return the view of a raw array."""
        assert self._array is not None, f"{self.name} has no array function"
        return self._array(backend_of(device.type), array, *attributes)

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Check, offer to the tracer, run, record a Node, carry tangents."""
        (input,) = operands
        if not isinstance(input, Tensor):
            return NotImplemented
        if self._prepare is not None:
            attributes = self._prepare(input, *attributes)
        array = self.view_array(input.array, input.layout.device, attributes)
        result = wrap(array, view_layout(input.layout, array))
        result.storage = input.storage or storage_of(input)
        if input.edge is not None:
            self.record(result, operands, Way(attributes, (input.layout,)))
        self._remember(input, result, attributes)
        if modes.special:
            carry_view(result, input)
        return result

    def _remember(self, input: Tensor, result: Tensor, attributes: tuple[Any, ...]) -> None:
        extra = result.extra = Extra()
        step = (self, attributes)
        of = input.extra
        # A view that was made a leaf of its own is where the graph ends: a base, too.
        is_leaf = input.edge is not None and input.edge.is_accumulate
        if of is not None and of.base is not None and of.replay is not None and not is_leaf:
            extra.base, extra.replay = of.base, ViewSteps(of.replay, step)
            root = of.tangent_root
            if root is not None:
                extra.tangent_root = (input, len(of.replay)) if root is OWN_TANGENT else root
        else:
            extra.base, extra.replay = input, ViewSteps(None, step)
        if tls.grad:
            assert result.storage is not None
            result.storage.add_view(result)
        else:
            extra.made_in_no_grad = True


def view_layout(of: Layout, array: Any) -> Layout:
    """Return the layout of a view of a tensor whose layout is `of`.

    Note    kept with the layout it was made of: a loop that takes the same view again and again
            would otherwise make the view's layout anew each time
    """
    key = (array.shape, array.strides)
    layout: Layout | None = of.plans.get(key)
    if layout is None:
        layout = of.plans.remember(key, layout_of(array, of.device))
    return layout


def detach(input: Tensor) -> Tensor:
    """Return the same memory outside of any graph, and without tangents."""
    out = wrap(input.array, input.layout)
    out.storage = storage_of(input)
    return out


def view(function: Callable[..., Any]) -> ViewOp:
    """Declare a view op: the decorated function gives name, signature and docstring."""
    op = ViewOp(function)
    register(op)
    return op


def replay(tensor: Tensor, steps: Iterable[Step]) -> Tensor:
    """Return the view that steps make of tensor."""
    for op, attributes in steps:
        array = op.view_array(tensor.array, tensor.layout.device, attributes)
        result = wrap(array, layout_of(array, tensor.layout.device))
        result.storage = storage_of(tensor)
        op.record(result, (tensor,), Way(attributes, (tensor.layout,)))
        tensor = result
    return tensor


def replay_array(array: Any, device: Any, steps: Iterable[Step]) -> Any:
    """Return the view that steps make of a raw array."""
    for op, attributes in steps:
        array = op.view_array(array, device, attributes)
    return array
