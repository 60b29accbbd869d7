"""Ops whose result shares the input's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..core.device import CPU
from ..core.errors import DeclarationError
from ..devices.backend import backend_of
from ..graph.lazy_conj_neg import LazyConjNeg, lazy_view
from ..graph.modes import modes, runs_plain, tls
from ..graph.node import next_sequence_number
from ..graph.views import see, view_layout
from ..tensor.layout import Layout
from ..tensor.tensor import Tensor, layout_of
from ..tensor.view_steps import ViewSteps
from .op import PLAIN, Given, P, R, declarator, registrar
from .route import Route, noting_stream, outlines
from .structured import StructuredOp
from .tangents import carry_view


class ViewOp(StructuredOp[P, R]):
    """An op that returns a view of its input. The op is linear: the tangent of the view is the same
    view of the input's tangent.

    `@op.array` registers the function (backend, array, *attributes) -> array, which makes the view
    on every backend.
    """

    kind = "view"
    resolves = False
    _array: Callable[..., Any]
    _prepare: Callable[..., tuple[Any, ...]] | None = None
    _looking: Callable[..., Any] | None = None
    _raw_gradient: Callable[..., Any] | None = None

    def __init__(
        self,
        function: Callable[P, R],
        homes: str | None = None,
        *,
        batch: str = "",
        known_as: str = "",
    ) -> None:
        super().__init__(
            *(function, ""), linear=True, has_out=False, homes=homes, batch=batch, known_as=known_as
        )
        if len(self.tensors) != 1:
            raise DeclarationError(
                f"{self.name}: a view is of one tensor, but the parameters name "
                f"{', '.join(self.tensors) or 'none'}"
            )

    # Registers the function that makes a view of a raw array.
    array = registrar("_array")
    # Registers a function of (layout, *attributes). It computes everything that the layout defines,
    # and returns a fast function that makes the view of a raw CPU array. It may also return None.
    looking = registrar("_looking")
    # Registers the function that checks the user's arguments (input, *attributes) and returns the
    # canonical attributes.
    prepare = registrar("_prepare")
    # Registers a function of (g, input_layout, *attributes). On the CPU, it computes the raw
    # gradient of the input from g, the gradient of the view.
    raw_gradient = registrar("_raw_gradient")

    def view_array(self, array: Any, device: Any, attributes: Sequence[Any]) -> Any:
        """Return the view of a raw array."""
        return self._array(backend_of(device.type), array, *attributes)

    def run_recorded(self, route: Route, values: Given) -> Any:
        (input,) = values
        if input.__class__ is LazyConjNeg:
            return self._lazy_result(route, input)
        assert route.run is not None and route.steps is not None
        result = see(route.run(input._array), route.layout, route.steps, input)
        self.record((result,), values, route)
        carry_view(result, input)
        return result

    def _lazy_result(self, route: Route, input: LazyConjNeg) -> Tensor:
        """Return a lazy view of a lazy tensor: reading values computes the conjugation or negation.

        Raises  RuntimeError for a view as another dtype, which would bypass the conjugation or
                negation
        """
        assert route.layout is not None
        if route.layout.dtype is not input._layout.dtype:
            raise input.no_other_dtype(self.called)
        seen = lazy_view(self.run_recorded(route, (input.value,)), input.change)
        # The edge goes to input's Node, not to the Node of input.value: gradients of input may be
        # needed.
        self.record((seen,), (input,), route)
        return seen

    def _new_route(
        self, operands: Sequence[Any], attributes: tuple[Any, ...], *, kept: bool = False
    ) -> Route:
        (input,) = operands
        layout, prepared = input._layout, attributes
        if self._prepare is not None:
            (seen,) = outlines(self.name, self.tensors, operands) if kept else operands
            prepared = self._prepare(seen, *attributes)
        if not hasattr(self, "_array"):
            raise DeclarationError(
                f"{self.name} has no function that views an array: register one with "
                f"@{self.name}.array"
            )
        route = self.route_of(layout, prepared)
        route.run = self._look_from(layout, prepared)
        array = self.view_array(input._array, layout.device, prepared)
        # If the view keeps the dtype, its layout follows from shape and strides.
        same = array.dtype == input._array.dtype
        route.layout = view_layout(layout, array) if same else layout_of(array, layout.device)
        return route

    def route_of(self, layout: Layout, attributes: tuple[Any, ...]) -> Route:
        """Return a Route with canonical attributes on tensors of layout. It has everything that a
        Node needs, but `run` and `layout` are not set.
        """
        route = Route(self, attributes, (layout,))
        route.steps = ViewSteps(None, (self, attributes))
        raw = self._raw_gradient
        if layout.device is not CPU:
            route.records = noting_stream(layout.device)
        elif raw is not None:
            route.gradients = (lambda g: raw(g, layout, *attributes),)
        return route

    def _look_from(self, layout: Layout, attributes: tuple[Any, ...]) -> Callable[[Any], Any]:
        if self._looking is not None and layout.device is CPU:
            found: Callable[[Any], Any] | None = self._looking(layout, *attributes)
            if found is not None:
                return found
        look, backend = self._array, backend_of(layout.device.type)
        return lambda array: look(backend, array, *attributes)

    def at(self, input: Tensor, index: tuple[Any, ...], key: Any = None) -> Tensor:
        """Return input[index] as a view, for integers and slices that change from call to call.

        `key`, if given, identifies the index for input's layout, and the Route is cached under
        `key`.

        Raises  IndexError for an index that is out of range
        """
        layout = input._layout
        is_special = modes.special and not runs_plain()
        if input.__class__ not in PLAIN or is_special or layout.is_sparse:
            return self.general((input,), (index,))  # type: ignore[no-any-return]
        array, edge = input._array[index], input._edge
        unrecorded = edge is None or (modes.grad_off and not tls.grad)
        if key is None and unrecorded:
            steps = ViewSteps(None, (self, (index,)))
            return see(array, view_layout(layout, array), steps, input)
        route = self.route_of(layout, (index,))
        route.run, route.layout = itemgetter(index), view_layout(layout, array)
        if key is not None:
            layout.routes.remember(key, route)
        return self._seen_by(route, array, input, None if unrecorded else edge)

    def again(self, input: Tensor, route: Route) -> Tensor:
        """Return the view that a cached Route makes of a plain tensor. No interpreter may be open
        during the call.
        """
        array, edge = route.run(input._array), input._edge  # type: ignore[misc]
        if edge is None or (modes.grad_off and not tls.grad):
            # `_seen_by` would do the same, at the cost of a call.
            return see(array, route.layout, route.steps, input)
        return self._seen_by(route, array, input, edge)

    def _seen_by(self, route: Route, array: Any, input: Tensor, edge: Any) -> Tensor:
        result = see(array, route.layout, route.steps, input)
        if edge is not None and route.records:
            # These lines do the same as the generated code of the short path.
            result._edge = node = self.node_class()
            node.seq, node.edges, node.hooks = next_sequence_number(), (edge,), None
            node.output_layout = route.layout
            node.save(route, input, (result,))
            if route.records is not True:
                route.records(node)
        return result


view = declarator(ViewOp)
