"""Calls on the short path while interpreters are open in some thread, or tangents exist."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..core.interpreter import Interpreter, need_general_path, open_interpreters
from ..core.torch_function import NOT_TAKEN
from ..graph.modes import modes, tls
from ..instrumentation.time_ranges import clock
from ..interpreters.autocast import (
    NAMES,
    autocast,
    cast_one,
    cast_operands,
    casts,
    is_to_cast,
    wanted_dtype,
)
from ..interpreters.timing import note_op, profiles, reporting
from ..tensor.tensor import Tensor, empty_shell
from .op import OPS, PLAIN
from .route import Route, layouts_of
from .tangents import carry_one_level

# Note [The short path and interpreters]
# Most interpreters leave most calls as they are: autocast casts the operands of few ops, vmap takes
# the calls that have a batch among their operands, and a mode of another thread sees nothing of
# this one. The short path therefore sends such calls here, where the dtypes that autocast wants
# are looked up by the op and the layouts, tangents are carried, and the op's short path runs
# without looking again. Calls that need more go to the general path.

_layout_of = attrgetter("_layout")
_TENSORS = PLAIN | {type(None)}


def special_call(
    op: Any,
    general: Callable[..., Any],
    make_plain: Callable[[Callable[..., Any]], Callable[..., Any]],
    has_more: bool,
) -> Callable[..., Any]:
    """Return the function that serves a call on plain tensors while `modes.special` is not zero.

    make_plain returns the short path of op that looks for neither interpreters nor tangents, given
    its general path; has_more says that it returns more than one result.
    """
    is_cast = op.name in NAMES
    event = None if op.event_namer is not None else op.event((), ())
    plain: Callable[..., Any] | None = None
    general_reported = reporting(general)

    def special(operands: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
        if modes.tracers:
            listed = open_interpreters()
            if listed:
                is_general, casts, times = _manner(listed)
                if is_general or (times and modes.special != modes.tracers):
                    return general(operands, attributes, out)
                if times:
                    found, start_ns = NOT_TAKEN, clock()
                    try:
                        found = run(operands, attributes, out)
                    finally:
                        note_op(event or op.event(operands, attributes), start_ns, found)
                    return found
                if casts and is_cast:
                    operands = cast_plain(op, operands)
        return run(operands, attributes, out)

    def run(operands: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
        nonlocal plain
        if plain is None:
            plain = make_plain(general_reported)
        for operand in operands if modes.special != modes.tracers else ():
            if operand is not None and operand._extra is not None:
                found = carry_one_level(op, plain, operands, attributes, has_more)
                if found is NOT_TAKEN:
                    return general_reported(operands, attributes, out)
                return found
        return plain(*operands, *attributes)

    return special


@functools.cache
def _manner(listed: tuple[Interpreter, ...]) -> tuple[bool, bool, bool]:
    """Return whether these interpreters need the general path, whether calls are cast, and whether
    they are timed.
    """
    casts, times = autocast in listed, profiles in listed
    # The casts of a call are events of their own.
    return need_general_path(listed) or (casts and times), casts, times


def cast_plain(op: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Return plain tensors, None among them, as autocast wants them for op: an op, or a composite
    of the lists.

    Note    the first operand is a tensor
    """
    layout = operands[0]._layout
    lower = casts.dtypes.get(layout.device.type)
    if lower is None:
        return operands
    try:
        key = (autocast, op, lower, *map(_layout_of, operands))
    except AttributeError:  # one is not given
        key = (autocast, op, lower, *layouts_of(operands))
    routes = layout.routes.get(key)
    if routes is None:
        routes = layout.routes.remember(key, _routes_of_casts(op.name, operands))
    if not routes:
        return operands
    return [
        one if route is None else _cast(one, route)
        for one, route in zip(operands, routes, strict=True)
    ]


class CastComposite:
    """Casts the arguments of a composite of autocast's lists, as its ops would see them."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the arguments in the dtype of the lists."""
        if not kwargs and args and args[0] is not None and _TENSORS.issuperset(map(type, args)):
            return cast_plain(self, args), kwargs
        # Together: the widest dtype is that of all.
        found = cast_operands(self.name, (*args, *kwargs.values()))
        return found[: len(args)], dict(zip(kwargs, found[len(args) :], strict=True))


def casting(name: str) -> CastComposite | None:
    """Return what casts the arguments of a composite of this name, if it is in the lists."""
    return CastComposite(name) if name in NAMES else None


def _routes_of_casts(name: str, operands: Sequence[Any]) -> Sequence[Route | None]:
    """Return how each operand is cast, None for one that is not; nothing where none is."""
    wanted = wanted_dtype(name, operands)
    op: Any = OPS["cast"]
    routes = [
        op.route_call((one,), (wanted,), op)[0] if is_to_cast(one, wanted) else None
        for one in operands
    ]
    return routes if any(routes) else ()


def _cast(tensor: Tensor, route: Route) -> Tensor:
    edge, layout = tensor._edge, route.layout
    if edge is not None and edge.is_accumulate:
        return cast_one(tensor, layout.dtype)
    if tensor._extra is None and (edge is None or not tls.grad):
        out = empty_shell()
        assert route.run is not None
        out._array, out._layout = route.run(tensor._array), layout
        out._edge = out._extra = out._storage = None
        return out
    return cast_one(tensor, layout.dtype)
