"""How a call runs: the five steps of the general path, and the short path under interpreters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ..core.dtypes import WORDS, DType
from ..core.errors import NoKernelError
from ..core.interpreter import (
    NOT_TAKEN,
    Interpreter,
    need_general_path,
    offer_call,
    open_interpreters,
)
from ..graph.accumulate_grad import extra_of
from ..graph.lazy_conj_neg import LazyConjNeg, resolved, write_through
from ..graph.modes import modes, tls
from ..graph.node import Node
from ..interpreters.autocast import (
    NAMES,
    autocast,
    cast_one,
    casts,
    is_to_cast,
    wanted_dtype,
)
from ..interpreters.sparse_rules import meet_sparse
from ..interpreters.torch_function import operator_of
from ..tensor.tensor import Tensor, empty_shell, from_users_array, wrap
from .declaration import recorded_as
from .node_writer import RecordedOp
from .op import OPS, PLAIN, Given, Op, P, R, public_function
from .route import Route, are_keys, arrays_of, layouts_of, run_silently
from .tangents import carry_one_level, has_tangents, is_recorded
from .target import NEW, First, Out, Target


class GeneralPath(RecordedOp[P, R]):
    """An op with the general path. `general` has the five steps; each kind of op defines how some
    of these steps run.

    A Route runs the op on `values`: the operands, followed by the numbers (as tensors) that the
    kernel takes. `resolves` means that the op only reads the values of its operands, so the op may
    get a computed tensor instead of a lazy conj or neg view.
    """

    resolves = True

    def general(self, operands: Given, attributes: Given, out: Any = None) -> Any:
        """Check, offer the call to open interpreters, run, record a Node, carry tangents."""
        if out is not None:
            attributes = self.attributes_for_out(out, operands, attributes)
        if modes.tracers:
            found = offer_call(self, (operands, attributes), out)
            if found is not NOT_TAKEN:
                return found
        elif out is None and LazyConjNeg in map(type, operands) and self.is_usual(attributes):
            found = self._call_resolved(operands)
            if found is not NOT_TAKEN:
                return found
        return self.run_call(operands, attributes, self.target_of(operands, out))

    def target_of(self, operands: Given, out: Any) -> Target:
        """Return the Target of a call: where its result goes."""
        return NEW if out is None else Out(self.out, out)

    def run_call(self, operands: Given, attributes: Given, target: Target) -> Any:
        """Run a call that no interpreter has taken."""
        given, operands = operands, self.accept_operands(operands)
        # Operands are compared by identity, because `in` would use ==, which is an op on Tensors.
        if any(o is NotImplemented for o in operands) or not any(
            isinstance(o, Tensor) for o in operands
        ):
            out = target.tensor if isinstance(target, Out) else None
            return meet_sparse(self.name, given, attributes, out)
        target.accept(operands)
        decomposition = self.decomposition(operands, attributes)
        if decomposition is not None:
            return target.take(decomposition(*target.before(operands)), operands)
        route, values = self.route_call(operands, attributes, self)
        return target.run(self, route, values)

    def _call_resolved(self, operands: Given) -> Any:
        """Compute the lazy conj or neg of all operands, and run the public function on the results,
        because its short path may accept these. Return NOT_TAKEN if more checks are needed.
        """
        is_public = self.resolves and OPS.get(self.name) is self
        if is_public and all(isinstance(o, Tensor | int | float | complex) for o in operands):
            return self.public(*map(resolved, operands))
        return NOT_TAKEN

    def is_one_call(self, attributes: Given) -> bool:
        """Return whether a trace shows a call as one op; False if attributes contain tensors."""
        return self.kind != "structured" or are_keys(attributes)

    def attributes_for_out(self, out: Any, operands: Given, attributes: Given) -> Given:
        """Return the attributes of a call that writes into out."""
        return attributes

    def accept_operands(self, operands: Given) -> Given:
        """Return operands in the form that the op takes, with NotImplemented in place of an operand
        that the op does not take. Unless `resolves` is set, the first operand stays a lazy conj or
        neg view.
        """
        if self.resolves or operands[0].__class__ is not LazyConjNeg:
            return tuple([as_operand_of(operand) for operand in operands])
        return (operands[0], *map(as_operand_of, operands[1:]))

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        """Return a function that calls other ops if the op has no kernel for these operands;
        otherwise None.
        """
        complex_decomposition = self.complex_decomposition
        if complex_decomposition is None or not any(
            isinstance(o, Tensor) and o._layout.dtype.is_complex for o in operands
        ):
            return None
        if self.node_namer is not None:
            return lambda *given: complex_decomposition(*given, *attributes)
        return lambda *given: recorded_as(
            self.node_name, complex_decomposition(*given, *attributes), given
        )

    def computes(self, operands: Given, attributes: Given) -> bool:
        """Return whether this op has its own kernel for the call, so that it needs no other ops."""
        return self.decomposition(operands, attributes) is None

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        """Check a call of `called`; return its Route, and the values that the Route runs on."""
        raise NotImplementedError(self.name)

    def run_recorded(self, route: Route, values: Given) -> Any:
        """Run a Route, record the call and compute tangents; return the result or the results."""
        results = self.run_route(route, values)
        special = has_tangents(values)
        if special:
            for result in results if self.several else results[:1]:
                extra_of(result)  # a Node that saves its output finds the tangents in this object
        self.record(results, values, route)
        if special:
            self.carry_tangents(results, values, route)
        return results[0] if len(results) == 1 else results

    def run_route(self, route: Route, values: Given) -> tuple[Tensor, ...]:
        """Return the new tensors that a Route computes from values."""
        found = run_silently(route.run, arrays_of(values))
        if not route.more:
            return (wrap(found, route.layout),)
        layouts = (route.layout, *route.more)
        return tuple([wrap(array, layout) for array, layout in zip(found, layouts, strict=True)])

    def record(
        self,
        results: Sequence[Tensor],
        values: Given,
        route: Route,
        attach: Callable[[Tensor, Node], None] | None = None,
    ) -> None:
        """Record the call in the graph if a gradient can flow through the call; if `attach` is
        given, always record it. The Node belongs to the first result, or to all results if the op
        has `several`.
        """
        if attach is None and not (self.may_record and route.records and is_recorded(values)):
            return
        count = len(self.tensors)
        pairs = zip(values[:count], self.node_class.op.gradients, strict=True)
        edges = tuple([v._edge if one and isinstance(v, Tensor) else None for v, one in pairs])
        if attach is None and all(edge is None for edge in edges):
            return
        numbers: list[Any] = [number._array for number in values[count:]]
        numbers += [None] * (len(self.node_class.op.number_names) - len(numbers))
        self.node_class().record(route, edges, values[:count], numbers, results, attach)

    def carry_tangents(self, results: Sequence[Tensor], values: Given, route: Route) -> None:
        """Give results the tangents that follow from the tangents of the operands."""
        raise NotImplementedError(self.name)


# The text of help() for an in-place twin.
TWIN_DOC: Final = "In-place version of {}: writes the result into this tensor and returns it."
# The attributes that an in-place op copies from the op whose result it writes.
_COPIED: Final = (
    *[name for name in Op.__slots__ if not name.startswith("__")],
    *("form", "may_record", "number_names", "usual"),
)


class InPlace(GeneralPath[P, R]):
    """A pointwise op that writes over its first operand: `x.add_(y)`, or `x += y`."""

    kind = "in-place"
    resolves = False

    def __init__(self, of: GeneralPath[P, R], operator: str = "") -> None:
        self.call_later()
        for name in _COPIED:
            setattr(self, name, getattr(of, name))
        if "homes" in vars(of):
            self.homes = of.homes
        self.name, self.known_as = f"{of.name}_", f"{of.known_as}_"
        self.has_out, self.written = False, None
        self.functional_op, self.operator = of, operator

    @cached_property
    def public(self) -> Callable[..., R]:
        made: Any = public_function(self)
        made.__wrapped__ = self.declared
        return made  # type: ignore[no-any-return]

    @property
    def doc(self) -> str:
        """The docstring that help() shows."""
        return TWIN_DOC.format(self.functional_op.name)

    def general_call(self) -> Callable[..., Any]:
        """Return the general path of the public function. An operator such as `+=` has a general
        path that returns NotImplemented for operands that no op takes, so that Python tries the
        operator of the other operand.
        """
        return operator_of(self, self.operator) if self.operator else super().general_call()

    def target_of(self, operands: Given, out: Any) -> First:
        return First(self.name, operands[0], self.functional_op)

    def run_call(self, operands: Given, attributes: Given, target: Target) -> Any:
        first, *others = operands
        if first.__class__ is LazyConjNeg:
            again = lambda numbers: self.general((numbers, *others), attributes)  # noqa: E731
            return write_through(first, again)
        return super().run_call(operands, attributes, target)

    def decomposition(self, operands: Given, attributes: Given) -> Callable[..., Any] | None:
        return self.functional_op.decomposition(operands, attributes)

    def route_call(self, operands: Given, attributes: Given, called: Op) -> tuple[Route, Given]:
        return self.functional_op.route_call(operands, attributes, called)


def as_operand_of(value: Any) -> Any:
    """Return `value` as an operand (a tensor or a number); NotImplemented if no op takes it."""
    if isinstance(value, Tensor):
        if value.__class__ is LazyConjNeg:
            return value.resolved()
        # No kernel takes sparse tensors: see interpreters/sparse_rules.py.
        return NotImplemented if value._layout.is_sparse else value
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return from_users_array(value) if isinstance(value, np.ndarray) else NotImplemented


def require_no(name: str, kind: str, dtypes: Iterable[DType]) -> None:
    """Raise NoKernelError if one of dtypes, in which an op would compute, is of this kind:
    `is_complex` or `is_float8`.
    """
    for dtype in dtypes:
        if getattr(dtype, kind):
            if kind == "is_complex":
                raise NoKernelError(
                    f'"{name}" not implemented for {WORDS[dtype]!r}: take its parts'
                )
            from .float8 import no_float8_kernel

            raise no_float8_kernel(name, dtype)


# Note [The short path and interpreters]
# Most interpreters do not affect most calls: autocast casts the operands of few ops, vmap takes
# only calls with a batched operand, and a mode of one thread does not apply to other threads.
# Therefore, while `modes.special` is not 0, the short path passes its calls to the function that
# special_call made for the op. This function casts the operands as autocast requires (looked up by
# op and layouts), carries tangents, and runs the op's short path without the checks for
# interpreters. Calls that need more go to the general path.

_layout_of = attrgetter("_layout")
TENSORS = PLAIN | {type(None)}


def special_call(op: Any, names: dict[str, Any], has_more: bool) -> Callable[..., Any]:
    """Return the function that runs op's calls on plain tensors while `modes.special` is not 0.

    `names` has two functions of op: `_general` is the general path, and `_plain` is the short path
    without the checks for interpreters and tangents. `has_more` says whether `_plain` returns
    several results.
    """
    is_cast, general = op.name in NAMES, names["_general"]

    def special(operands: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
        if modes.tracers:
            needs_general, is_casting = _manner(open_interpreters())
            if needs_general:
                return general(operands, attributes, out)
            if is_casting and is_cast:
                operands = cast_plain(op, op.name, operands)
        plain = names["_plain"]
        if modes.special != modes.tracers:
            for operand in operands:
                if operand is not None and operand._extra is not None:
                    found = carry_one_level(op, plain, operands, attributes, has_more)
                    return general(operands, attributes, out) if found is NOT_TAKEN else found
        return plain(*operands, *attributes)

    return special


@functools.cache
def _manner(listed: tuple[Interpreter, ...]) -> tuple[bool, bool]:
    """Return whether these interpreters need the general path, and whether they cast operands."""
    return need_general_path(listed), autocast in listed


def cast_plain(op: Any, name: str, operands: Sequence[Any]) -> Sequence[Any]:
    """Return plain tensors (or None), cast as autocast requires for op.

    `op` is an op or a composite, and `name` is the name of `op` in autocast's lists.

    Note    the first operand is a tensor
    """
    layout = operands[0]._layout
    lower = casts.dtypes.get(layout.device.type)
    if lower is None:
        return operands
    try:
        key = (autocast, op, lower, *map(_layout_of, operands))
    except AttributeError:  # an operand is None
        key = (autocast, op, lower, *layouts_of(operands))
    routes = layout.routes.get(key)
    if routes is None:
        routes = layout.routes.remember(key, _routes_of_casts(name, operands))
    if not routes:
        return operands
    return [
        one if route is None else _cast(one, route)
        for one, route in zip(operands, routes, strict=True)
    ]


def _routes_of_casts(name: str, operands: Sequence[Any]) -> Sequence[Route | None]:
    """Return one entry per operand: the Route that casts it, or None if it is not cast. Return ()
    if no operand is cast.
    """
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
