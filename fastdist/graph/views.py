"""Views of tensors: makes them from raw memory, or by applying their view ops to a base again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import ref

from ..tensor.layout import Layout
from ..tensor.storage import FEW_VIEWS, storage_of
from ..tensor.tensor import OWN_TANGENT, Extra, Tensor, empty_shell, layout_of, wrap
from ..tensor.view_steps import Step, ViewSteps
from .modes import modes, tls


def see(array: Any, layout: Layout, steps: Any, input: Tensor) -> Tensor:
    """Return `array`, the view of input's array by `steps`, as a Tensor that has no edge yet."""
    result = empty_shell()
    result._array, result._layout, result._edge = array, layout, None
    storage = input._storage
    if storage is None:
        storage = storage_of(input)
    result._storage = storage
    extra = result._extra = Extra()
    of = input._extra
    # If `input` is a view that became a leaf, it counts as a base, because the graph ends there.
    if (
        of is None
        or of.base is None
        or of.replay is None
        or ((edge := input._edge) is not None and edge.is_accumulate and edge is not of.base._edge)
    ):
        extra.base, extra.replay = input, steps
    else:
        _see_further(steps, input, of, extra)
    views = storage.views
    if views is None or len(views) >= FEW_VIEWS:
        storage.add_view(result)
    else:
        views.append(ref(result))  # inlined from add_view
    if (modes.grad_off and not tls.grad) or (
        of is not None and of.made_in_no_grad and extra.base is not input
    ):
        extra.made_in_no_grad = True
    return result


def see_parts(input: Tensor, parts: Sequence[tuple[Any, Layout, ViewSteps]]) -> tuple[Tensor, ...]:
    """Return one view of input, a plain tensor, for each (index, layout, steps) in `parts`."""
    array = input._array
    if input._extra is not None or (modes.grad_off and not tls.grad):
        return tuple([see(array[index], layout, steps, input) for index, layout, steps in parts])
    # Like `see` for a tensor that is not a view, but with one look-up of each name for all parts.
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
    """Set the attributes of `extra`, the Extra of a view of the view `input`."""
    assert of.replay is not None
    extra.base, extra.replay = of.base, ViewSteps(of.replay, steps.last)
    root = of.tangent_root
    if root is not None:
        extra.tangent_root = (input, len(of.replay), []) if root is OWN_TANGENT else root


def view_layout(of: Layout, array: Any) -> Layout:
    """Return the layout of a view of a tensor whose layout is `of`.

    Note    the layout is cached in `of`, so that a loop that makes the same view repeatedly makes
            the layout only once
    """
    key = (array.shape, array.strides)
    layout: Layout | None = of.routes.get(key)
    if layout is None:
        layout = of.routes.remember(key, layout_of(array, of.device))
    return layout


def view_of(tensor: Tensor, steps: Iterable[Any]) -> Tensor:
    """Return the view that these steps make from `tensor`. The general path runs each step."""
    for op, attributes in steps:
        tensor = op.general((tensor,), attributes)
    return tensor


def replay(tensor: Tensor, steps: Iterable[Step]) -> Tensor:
    """Return the view that these steps make from `tensor`. Record the steps, but do not offer them
    to interpreters.
    """
    for op, attributes in steps:
        array = op.view_array(tensor._array, tensor._layout.device, attributes)
        result = wrap(array, layout_of(array, tensor._layout.device))
        result._storage = storage_of(tensor)
        op.record((result,), (tensor,), op.route_of(tensor._layout, attributes))
        tensor = result
    return tensor


def replay_array(array: Any, device: Any, steps: Iterable[Step]) -> Any:
    """Return the view that these steps make from a raw array."""
    for op, attributes in steps:
        array = op.view_array(array, device, attributes)
    return array
