"""Composites: functions that call ops, with their names and where users find them.

An op is one declaration with a kernel and derivatives. A composite is a Python function that calls
ops: `clamp`, for example, chooses among three ops. A composite is differentiated through the ops
that it calls. Users find ops and composites in the same modules and classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from ..core.errors import DeclarationError
from ..core.folded_frames import fold
from ..core.interpreter import interpreters_of_call, of_process, offer_to
from ..core.torch_function import NOT_TAKEN, offer
from ..graph.modes import modes
from ..graph.node import Edge
from ..interpreters.autocast import NAMES as CAST_NAMES
from ..interpreters.autocast import autocast, cast_operands
from ..interpreters.timing import time_composite
from ..interpreters.torch_function import IGNORED, LOOKING, MANY, any_overrides, classes_in_lists
from ..tensor.tensor import Tensor
from .call import TENSORS, TWIN_DOC, cast_plain
from .declaration import (
    LateSignature,
    OutRule,
    event_of_function,
    homes_of,
    node_named,
    recorded_as,
)
from .op import OPS, Op
from .signature import NUMPY_NAMES, UNCLEAR, ArgumentError, explain, fault_of_call, require_kinds
from .target import First, Out

F = TypeVar("F", bound=Callable[..., Any])


class Composite(NamedTuple):
    """One function of the table, its name, and where users find it (`homes`, keys of HOMES)."""

    name: str
    call: Callable[..., Any]
    homes: frozenset[str]


COMPOSITES: dict[str, Composite] = {}


def composite(
    *,
    name: str | None = None,
    homes: str = "function method",
    out: str = "",
    memory: str = "anywhere",
    early: bool = True,
    known_as: str | None = None,
    node: str = "",
    of_one: Op | None = None,
    quick: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Add the decorated function to the table of composites. It replaces an op of the same name.
    The names of functions in `linalg` and `fft` begin with `linalg.` and `fft.`.

    `out`, a key of OUT_WORDS, adds a parameter `out` (a tensor or a tuple of tensors), see
    OutRule. `early=False` skips the composite's check of arguments, for functions where the time of
    the check is measurable: the ops that it calls check their own arguments. `of_one` is the op to
    call if a single tensor is the only argument. `quick` gets each call first, while no interpreter
    is open and no tangent exists. For calls that `quick` does not handle, it returns NOT_TAKEN or
    raises TypeError. `known_as` and `node` are PyTorch's names for the function, see
    declaration.py.
    """

    def declare(call: F) -> F:
        known = name or call.__name__
        found_in = homes_of(known, homes)
        if found_in & {"fft", "linalg"}:
            known = f"{homes}.{known}"
        if known in COMPOSITES:
            raise DeclarationError(f"{known} is declared twice")
        made = checked(
            call,
            known,
            early=early,
            known_as=known if known_as is None else known_as,
            node=node_named(node),
            out=OutRule(known, out, memory) if out else None,
            of_one=None if of_one is None else of_one.public,
            quick=quick,
        )
        if out:
            made.__signature__ = LateSignature(call, has_out=True)  # type: ignore[attr-defined]
        COMPOSITES[known] = Composite(known, made, found_in)
        return made

    return declare


def late(module: str, name: str) -> Callable[..., Any]:
    """Return a function, for `quick`, that imports the function `name` of a module when it is first
    called.
    """
    found: Callable[..., Any] | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal found
        if found is None:
            found = getattr(import_module(module), name)
        return found(*args, **kwargs)

    return call


def before(quick: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[F], F]:
    """Replace the public function of the decorated composite by the faster function
    `quick(composite)`.

    The fast function calls the composite for all arguments that the fast function does not handle
    itself. A call that it handles costs one call of a Python function, and its arguments are not
    checked. The module has the fast function under the composite's name, so that pickle finds it.
    """

    def declare(general: F) -> F:
        made: Any = wraps(general)(quick(general))
        general.offered_as = made  # type: ignore[attr-defined]
        name = general.__name__
        COMPOSITES[name] = COMPOSITES[name]._replace(call=made)
        return made  # type: ignore[no-any-return]

    return declare


def checked(
    function: F,
    cast_as: str = "",
    *,
    early: bool = True,
    known_as: str | None = None,
    node: str = "",
    out: OutRule | None = None,
    of_one: Callable[..., Any] | None = None,
    quick: Callable[..., Any] | None = None,
) -> F:
    """Wrap `function` so that errors name the wrong argument; `cast_as` is its autocast name."""
    fitted = set[Any]()
    many = not MANY.isdisjoint(function.__code__.co_varnames) and function.__name__ not in LOOKING

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if quick is not None and not modes.special:
                try:
                    found = quick(*args, **kwargs) if kwargs else quick(*args)
                    if found is not NOT_TAKEN:
                        return _named(found, node) if node else found
                except TypeError:
                    pass  # the checks below name the wrong argument
            if out is not None and kwargs and (into := kwargs.pop("out", None)) is not None:
                return _write_into(Out(out, into), op, args, kwargs)
            if modes.tracers:
                found, args, kwargs = _ask_interpreters(op, args, kwargs)
                if found is not NOT_TAKEN:
                    return found
            elif of_one and not kwargs and len(args) == 1 and args[0].__class__ is Tensor:
                return of_one(args[0])
            if early:
                classes: tuple[Any, ...] = (*map(type, args),)
                if kwargs:
                    classes += (*kwargs, *map(type, kwargs.values()))
                if many:
                    classes += (*classes_in_lists((*args, *kwargs.values())),)
                if classes not in fitted:
                    if may_override := any_overrides(classes) and not op.is_ignored:
                        found = offer(op.offered, args, kwargs)
                        if found is not NOT_TAKEN:
                            return found
                    known = set() if may_override else fitted
                    args, kwargs = require_kinds(function, args, kwargs, known, classes)
            try:
                found = function(*args, **kwargs)
                return _named(found, node, args) if node else found
            except UNCLEAR as error:
                ours = _in_our_names(function, args, kwargs) if kwargs else None
                if ours is None:
                    explain(error, lambda: fault_of_call(function, args, kwargs))
                    raise
            return call(*ours[0], **ours[1])  # `function` ran nothing: Python rejected the keywords
        except Exception as error:
            fold(error)
            raise

    op = CompositeCall(call, function.__name__, known_as, cast_as)
    return wraps(function)(call)  # type: ignore[return-value]


def _named(found: Any, node: str, args: Sequence[Any] = ()) -> Any:
    """Return `found`, the result of a composite; name its Node, if it has one, `node`."""
    if found.__class__ is not Tensor:
        return recorded_as(node, found, args)
    if (edge := found._edge) is not None and not (args and args[0] is found):
        (edge.node if edge.__class__ is Edge else edge)._called = node
    return found


def _write_into(target: Out, op: CompositeCall, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a composite, write the result to the tensor passed as `out=`, and return that tensor."""
    found = offer(op.offered, args, {**kwargs, "out": target.tensor})
    if found is not NOT_TAKEN:
        return found
    return target.take(op.call(*args, **kwargs), (*args, *kwargs.values()))


class CompositeCall:
    """A composite in the form that interpreters receive, with the attributes that ops have."""

    __slots__ = ("call", "cast_as", "event_name", "is_ignored", "name")
    kind = "composite"

    def __init__(self, call: Any, name: str, known_as: str | None, cast_as: str) -> None:
        self.call, self.name = call, name
        # The composite's name in autocast's lists, or an empty string if no list has it.
        self.cast_as = cast_as if cast_as in CAST_NAMES else ""
        self.event_name = event_of_function(name if known_as is None else known_as)
        self.is_ignored = name in IGNORED

    def event(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        return self.event_name

    @property
    def offered(self) -> Any:
        """The function that users call."""
        return getattr(self.call, "offered_as", self.call)

    def general(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: None) -> Any:
        return self.call(*args, **kwargs)

    def cast(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return the arguments, cast to the dtype that autocast requires."""
        if not kwargs and args and args[0] is not None and TENSORS.issuperset(map(type, args)):
            return cast_plain(self, self.cast_as, args), kwargs
        # One call casts all arguments, because the widest dtype is chosen among all of them.
        found = cast_operands(self.cast_as, (*args, *kwargs.values()))
        return found[: len(args)], dict(zip(kwargs, found[len(args) :], strict=True))


def _ask_interpreters(
    op: CompositeCall, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Offer the call to interpreters. Return the result or NOT_TAKEN, and the arguments, which
    autocast may have cast.
    """
    if modes.special == modes.timed:
        return time_composite(op, args, kwargs), args, kwargs
    listed = interpreters_of_call(op)
    if not listed:
        return NOT_TAKEN, args, kwargs
    # If autocast is the only interpreter, casting here saves a second call of the composite. If a
    # profile is open too, it must show the casts, so autocast runs them as ops.
    if len(listed) == 1 and listed[0] is autocast and not of_process.interpreters:
        if op.cast_as:
            args, kwargs = op.cast(args, kwargs)
        return NOT_TAKEN, args, kwargs
    return offer_to(listed, op, (args, kwargs)), args, kwargs


def _in_our_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments with NumPy's names replaced by PyTorch's (`axis` by `dim`). If the
    parameter is `*size`, `size=(2, 3)` is passed by position. Return None if nothing changed.
    """
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    listed = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    if listed in kwargs and len(args) == list(parameters).index(listed):
        rest = {key: value for key, value in kwargs.items() if key != listed}
        return (*args, kwargs[listed]), rest
    names = {
        alias: name
        for name, alias in NUMPY_NAMES.items()
        if alias in kwargs and alias not in parameters and name in parameters
    }
    if not names:
        return None
    for alias, name in names.items():
        if name in kwargs:
            raise TypeError(
                f"{function.__name__}() got both {name!r} and {alias!r}, two names of one argument"
            )
    return args, {names.get(key, key): value for key, value in kwargs.items()}


def inplace_of(name: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the in-place twin of `function`: it writes the result to its first argument."""

    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            found = offer(inplace, (self, *args), kwargs)
            if found is not NOT_TAKEN:
                return found  # type: ignore[no-any-return]
            if not isinstance(self, Tensor):
                fault = f"must be Tensor, not {type(self).__name__}"
                raise ArgumentError(f"{name}_(): argument 'input' (position 1) {fault}")
            target, operands = First(f"{name}_", self), (self, *args, *kwargs.values())
            target.accept(operands)
            result = function(target.before(operands)[0], *args, **kwargs)
            if result is NotImplemented:
                raise TypeError(f"{name}_(): unsupported arguments")
            return target.take(result, operands)
        except Exception as error:
            fold(error)
            raise

    return dressed_as_twin(inplace, name, function, TWIN_DOC)


def dressed_as_twin(
    inplace: Any, name: str, function: Callable[..., Any], doc: str
) -> Callable[..., Tensor]:
    """Give `inplace`, an in-place twin, its name, its docstring, and the signature of `function`
    without `out=`; return it. `function` is the public function of an op or a composite. `doc` is
    the docstring, with `{}` for the name.
    """
    inplace.__name__ = inplace.__qualname__ = f"{name}_"
    inplace.__doc__ = doc.format(name)
    op = OPS.get(name)
    if op is not None and op.__dict__.get("public") is function:
        declared = op.declared
    else:
        declared = getattr(function, "__wrapped__", function)
    inplace.__wrapped__ = declared
    if "out" in (declared.__kwdefaults__ or ()):
        signature = inspect.signature(declared)
        taken = [p for p in signature.parameters.values() if p.name != "out"]
        inplace.__signature__ = signature.replace(parameters=taken)
    return inplace  # type: ignore[no-any-return]
