"""Ops whose result shares the input's memory, and those in place: `t_`, `squeeze_`, `detach_`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from ..core.dense_order import dense_order
from ..core.device import CPU
from ..core.errors import DeclarationError, GraphError
from ..core.torch_function import NOT_TAKEN, mode_is_open, offer
from ..devices.backend import backend_of
from ..graph.accumulate_grad import freeze
from ..graph.lazy_conj_neg import LazyConjNeg, lazy_view
from ..graph.modes import enable_grad, modes, runs_plain, tls
from ..graph.node import next_sequence_number
from ..interpreters.batched_tensor import Batched
from ..interpreters.torch_function import overridable_by_modes
from ..tensor.layout import Layout
from ..tensor.storage import FEW_VIEWS, storage_of
from ..tensor.tensor import OWN_TANGENT, Extra, Tensor, empty_shell, layout_of, wrap
from ..tensor.view_steps import Step, ViewSteps
from .inplace import renew_edge, require_may_change, set_edge
from .op import OPS, PLAIN, Given, P, R, declarator, registrar
from .route import Route, noting_stream, outlines
from .short_path import write_short_path
from .structured import StructuredOp
from .tangents import carry_view, levels_of, store_tangent, tangent_of
from .twins import dressed_as_twin

# Note [Views of a tensor that is turned in place]
# A view knows the steps that make it from its base. `transpose_` and its kind let the base be
# another view of the same memory: living views keep their memory and shape, and steps that restore
# the base's former layout are put before theirs. Gradients, tangents and recorded in-place changes
# then pass as before. As in PyTorch, each view gets a new edge over the base's new one, so that
# hooks of the base see its gradient. A dual tensor has the same relation to the tangents of its
# views: see Note [Tangents of views] in tangents.py.


class ViewOp(StructuredOp[P, R]):
    """An op that gives another view of the same bytes; linear, so its tangent is the view of the
    tangent.

    `@op.array` registers the function (backend, array, *attributes) -> array, a view for every
    backend.
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

    # How a raw array is viewed.
    array = registrar("_array")
    # A function of (layout, *attributes) that returns how to view a raw CPU array, with everything
    # that is known beforehand precomputed; or None.
    looking = registrar("_looking")
    # The check that turns the user's arguments (input, *attributes) into canonical attributes.
    prepare = registrar("_prepare")
    # How the raw gradient of a CPU array's view becomes the array's: a function of
    # (g, input_layout, *attributes).
    raw_gradient = registrar("_raw_gradient")

    def view_array(self, array: Any, device: Any, attributes: Sequence[Any]) -> Any:
        """Return the view of a raw array."""
        return self._array(backend_of(device.type), array, *attributes)

    def run_recorded(self, route: Route, values: Given) -> Any:
        """Return the view, recorded and with tangents."""
        (input,) = values
        if input.__class__ is LazyConjNeg:
            return self._lazy_result(route, input)
        assert route.run is not None and route.steps is not None
        result = see(route.run(input._array), route.layout, route.steps, input)
        self.record((result,), values, route)
        if modes.special:
            carry_view(result, input)
        return result

    def _lazy_result(self, route: Route, input: LazyConjNeg) -> Tensor:
        """Return the view of numbers that are changed when they are read.

        Raises  RuntimeError for a view as another dtype, whose numbers would not be changed
        """
        assert route.layout is not None
        if route.layout.dtype is not input._layout.dtype:
            raise input.no_other_dtype(self.called)
        seen = lazy_view(self.run_recorded(route, (input.value,)), input.change)
        # Over the Node of input, not that of its value: gradients of input may be needed, too.
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
        # A view that keeps the dtype is defined by shape and strides.
        same = array.dtype == input._array.dtype
        route.layout = view_layout(layout, array) if same else layout_of(array, layout.device)
        return route

    def _find_short_path(self, route: Route, attributes: tuple[Any, ...]) -> None:
        write_short_path(self, self, _see=see)

    def route_of(self, layout: Layout, attributes: tuple[Any, ...]) -> Route:
        """Return the Route of canonical attributes on tensors of layout, as Nodes need it: its
        function and the result's layout are not set.
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
        """Return the view of input at index, integers and slices that change from call to call.

        With a key, which stands for the index among those of the layout, the Route is kept.

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
        route.layout = view_layout(layout, array)
        if key is not None:
            layout.routes.remember(key, route)
        return self._seen_by(route, array, input, None if unrecorded else edge)

    def again(self, input: Tensor, route: Route) -> Tensor:
        """Return the view that a kept Route of `at` makes of input, a plain tensor without
        tangents, while no interpreter is open.
        """
        array, edge = input._array[route.attributes[0]], input._edge
        if edge is None or (modes.grad_off and not tls.grad):
            # As `_seen_by`, without its call.
            return see(array, route.layout, route.steps, input)
        return self._seen_by(route, array, input, edge)

    def see_again(self, input: Tensor, route: Route) -> Tensor:
        """Return the view that a Route with a function makes of input, a plain tensor without
        tangents, while no interpreter is open.
        """
        assert route.run is not None
        array, edge = route.run(input._array), input._edge
        if edge is None or (modes.grad_off and not tls.grad):
            return see(array, route.layout, route.steps, input)
        return self._seen_by(route, array, input, edge)

    def _seen_by(self, route: Route, array: Any, input: Tensor, edge: Any) -> Tensor:
        result = see(array, route.layout, route.steps, input)
        if edge is not None and route.records:
            # As the short path does.
            result._edge = node = self.node_class()
            node.seq, node.edges, node.hooks = next_sequence_number(), (edge,), None
            node.output_layout = route.layout
            node.save(route, input, (result,))
            if route.records is not True:
                route.records(node)
        return result


def see(array: Any, layout: Layout, steps: Any, input: Tensor) -> Tensor:
    """Return a raw view of input's array, made by steps, as a Tensor that is not recorded yet."""
    result = empty_shell()
    result._array, result._layout, result._edge = array, layout, None
    storage = input._storage
    if storage is None:
        storage = storage_of(input)
    result._storage = storage
    extra = result._extra = Extra()
    of = input._extra
    # A view that was made a leaf ends the graph: it is a base, too.
    if (
        of is None
        or of.base is None
        or of.replay is None
        or (
            input._edge is not None
            and input._edge.is_accumulate
            and input._edge is not of.base._edge
        )
    ):
        extra.base, extra.replay = input, steps
    else:
        _see_further(steps, input, of, extra)
    views = storage.views
    if views is None or len(views) >= FEW_VIEWS:
        storage.add_view(result)
    else:
        views.append(ref(result))  # as add_view does, without its call
    if (modes.grad_off and not tls.grad) or (
        of is not None and of.made_in_no_grad and extra.base is not input
    ):
        extra.made_in_no_grad = True
    return result


def see_parts(input: Tensor, parts: Sequence[tuple[Any, Layout, ViewSteps]]) -> tuple[Tensor, ...]:
    """Return the views of input, a plain tensor, at several (index, layout, steps)."""
    array = input._array
    if input._extra is not None or (modes.grad_off and not tls.grad):
        return tuple([see(array[index], layout, steps, input) for index, layout, steps in parts])
    # As `see`, for a tensor that is no view itself: the questions about it are asked once.
    found: list[Tensor] = []
    storage, shell, extras = storage_of(input), empty_shell, Extra
    for index, layout, steps in parts:
        found.append(result := shell())
        result._array, result._layout, result._edge = array[index], layout, None
        result._storage = storage
        result._extra = extra = extras()
        extra.base, extra.replay = input, steps
    storage.add_views(found)
    return tuple(found)


def _see_further(steps: ViewSteps, input: Tensor, of: Extra, extra: Extra) -> None:
    """Make extra describe a view of a view."""
    assert of.replay is not None
    extra.base, extra.replay = of.base, ViewSteps(of.replay, steps.last)
    root = of.tangent_root
    if root is not None:
        extra.tangent_root = (input, len(of.replay), []) if root is OWN_TANGENT else root


def view_layout(of: Layout, array: Any) -> Layout:
    """Return the layout of a view of a tensor whose layout is `of`.

    Note    stored with the layout that it was made from: otherwise a loop that takes the same view
            again and again would make the view's layout each time
    """
    key = (array.shape, array.strides)
    layout: Layout | None = of.routes.get(key)
    if layout is None:
        layout = of.routes.remember(key, layout_of(array, of.device))
    return layout


def detach(input: Tensor) -> Tensor:
    """Return the same memory outside of any graph, and without tangents."""
    if modes.tracers and mode_is_open():
        found = offer(Tensor.detach, (input,), {})
        if found is not NOT_TAKEN:
            return found  # type: ignore[no-any-return]
    out = wrap(input._array, input._layout)
    out._storage = storage_of(input)
    return out


def view_inplace_of(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a view op in place: its first argument becomes the view that the op would return.

    Raises  RuntimeError for a leaf that requires grad, and for as_strided_ to other elements while
            a view is alive
    """

    @overridable_by_modes
    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(self, Batched | LazyConjNeg):
            other: Any = function(self, *args, **kwargs)
            self.value, self._layout, self._extra = other.value, other._layout, other._extra
            if self._storage is not None:
                self._storage.bump()
            return self
        require_may_change(self, writing=False)
        views = [] if self._storage is None else self._storage.living_views()
        views = [view for view in views if _depends_on(self, view)]
        # Recorded in no_grad as well: an edge with another shape would be of no use.
        with enable_grad():
            seen = function(self, *args, **kwargs)
        turn = _Turn(name, self._layout, seen) if views else None
        _become(self, seen)
        if turn is not None:
            for view in views:
                turn.follow(self, view)
        # Values that were saved of this tensor have another shape now.
        storage_of(self).bump()
        return self

    doc = "In-place version of {}: lets this tensor be that view, and returns it."
    return dressed_as_twin(inplace, name, function, doc)


def _become(target: Tensor, seen: Tensor) -> None:
    """Let target be its view seen, with that view's place in the graph and tangents."""
    tangents = [(level, tangent_of(seen, level)) for level in levels_of((target,))]
    if target._extra is not None and target._extra.base is not None:
        # A view of a base stays one, with one more step.
        assert seen._extra is not None and seen._extra.replay is not None
        if seen._extra.base is target._extra.base:
            target._extra.replay = seen._extra.replay
        else:  # a view that was made a leaf is a base, too
            target._extra.replay = ViewSteps(target._extra.replay, seen._extra.replay.last)
    target._array, target._layout = seen._array, seen._layout
    if target._edge is not None:
        if target._edge.is_accumulate:
            target._edge.attach(target)
        else:
            seen._edge.in_place = True
            set_edge(target, seen._edge)
    for level, tangent in tangents:
        assert tangent is not None
        store_tangent(target, tangent, level)


def _depends_on(target: Tensor, view: Tensor) -> bool:
    """Return whether the steps to a view begin at target, or those to its tangent at target's."""
    extra = view._extra
    if view is target or extra is None or extra.base is None:
        return False
    root = extra.tangent_root
    return extra.base is target or (bool(root) and root[0] is target)  # type: ignore[index]


class _Turn:
    """A change of a tensor's layout by one view op, and the steps that restore the former one.

    Raises  RuntimeError for as_strided to other elements
    """

    def __init__(self, name: str, was: Layout, seen: Tensor) -> None:
        assert seen._extra is not None and seen._extra.replay is not None
        self._done = seen._extra.replay.last
        self._undone = self._steps_back(name, was, seen._layout)

    def _steps_back(self, name: str, was: Layout, now: Layout) -> list[Step]:
        op, attributes = self._done
        if now is was:
            return []
        if op is OPS["transpose"]:
            return [self._done]
        if op is OPS["unsqueeze"]:
            return [(OPS["squeeze"], (attributes,))]
        if op is OPS["squeeze"]:
            return [(OPS["unsqueeze"], (axis,)) for axis in sorted(attributes[0])]
        if attributes[-1] == 0 and _is_dense(was) and _is_dense(now) and was.numel == now.numel:
            return [(op, (was.shape, was.strides, 0))]
        raise GraphError(
            f"{name}_: a view of this tensor is in use, and depends on its present shape "
            f"{was.shape} and strides {was.strides}; shape {now.shape} and strides {now.strides} "
            f"reach other elements. Use {name}(), or take the view afterwards"
        )

    def follow(self, target: Tensor, view: Tensor) -> None:
        """Let the steps to view begin at what target is now, and give view a new edge."""
        extra: Any = view._extra
        if extra.base is not target:
            root, skipped, before = extra.tangent_root
            extra.tangent_root = (root, skipped, self._before(before))
            return
        steps = self._before(extra.replay.after(0))
        if extra.tangent_root:
            root, skipped, before = extra.tangent_root
            extra.tangent_root = (root, skipped + len(steps) - len(extra.replay), before)
        extra.replay = None
        for step in steps:
            extra.replay = ViewSteps(extra.replay, step)
        if target._edge is None or (extra.made_in_no_grad and target._edge.is_accumulate):
            return
        with enable_grad():
            renew_edge(view, target)

    def _before(self, steps: list[Step]) -> list[Step]:
        """Return steps from the former layout as steps from the present one."""
        if len(steps) > 1 and _same_step(steps[0], self._done):
            return steps[1:]  # otherwise turning to and fro would make the chain longer each time
        return [*self._undone, *steps]


def _is_dense(layout: Layout) -> bool:
    """Return whether the elements lie in memory without gaps, none of them twice."""
    return layout.contiguous or dense_order(layout.shape, layout.strides) is not None


def _same_step(one: Step, other: Step) -> bool:
    if one[0] is not other[0]:
        return False
    if one[0] is OPS["squeeze"]:
        return set(one[1][0]) == set(other[1][0])
    return set(one[1]) == set(other[1]) if one[0] is OPS["transpose"] else one[1] == other[1]


@overridable_by_modes
def detach_(self: Tensor) -> Tensor:
    """Take this tensor out of its graph, so that it is a leaf without gradient or tangent.

    Raises  RuntimeError for a view, which its base would attach to the graph again
    """
    if isinstance(self, Batched):
        self.value = self.value.detach()  # its graph and tangents are its own
        return self
    if self._extra is not None and self._extra.base is not None:
        raise GraphError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets: the gradient of the base would still flow "
            "through this view"
        )
    if self._edge is not None and self._edge.is_accumulate:
        freeze(self)
    if self._extra is not None:
        self._extra.tangents = None
    self._edge = None
    return self


view = declarator(ViewOp)
