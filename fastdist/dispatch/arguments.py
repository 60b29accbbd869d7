"""Names the argument of a call that is of the wrong kind, in the user's terms.

Classes that no call has used before are checked against the signature first (`argument_kinds.py`).
The contents of tuples, and numbers that no dtype holds, are found by the work itself: when it fails
with an error of Python or NumPy ("'str' object has no attribute 'facts'"), all arguments are
checked against the signature, and the error names the first one that does not fit.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import FastdistError, ShapeError, out_of_memory
from ..core.folded_frames import fold, was_folded
from ..core.interpreter import interpreters_of_call, of_process, offer_to
from ..core.torch_function import NOT_TAKEN, offer
from ..graph.modes import modes
from ..graph.node import Edge
from ..interpreters.autocast import autocast
from ..interpreters.torch_function import IGNORED, LOOKING, MANY, any_overrides, classes_in_lists
from ..tensor.tensor import Tensor
from .argument_kinds import ArgumentError, find_fault, require_kinds
from .pytorch_names import event_of_function, recorded_as

if TYPE_CHECKING:
    from .interpreted import CastComposite

F = TypeVar("F", bound=Callable[..., Any])

# Errors of Python and NumPy for arguments of the wrong kind, and for a lack of memory.
UNCLEAR = (AttributeError, TypeError, ValueError, OverflowError, KeyError, Warning, MemoryError)


# NumPy's names of these parameters; PyTorch takes both names.
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


def checked(
    function: F,
    cast: CastComposite | None = None,
    *,
    early: bool = True,
    known_as: str | None = None,
    node: str = "",
    of_one: Callable[..., Any] | None = None,
    quick: Callable[..., Any] | None = None,
) -> F:
    """Return function with errors that name the argument at fault; see `composite`."""
    fitted = set[Any]()
    event = event_of_function(function.__name__ if known_as is None else known_as)
    many = not MANY.isdisjoint(function.__code__.co_varnames) and function.__name__ not in LOOKING

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            is_alone = of_one is not None and len(args) == 1 and not kwargs
            if is_alone and args[0].__class__ is Tensor and not modes.tracers:
                return of_one(args[0])  # type: ignore[misc]
            if modes.tracers:
                found, args, kwargs = _ask_interpreters(op, cast, args, kwargs)
                if found is not NOT_TAKEN:
                    return found
            elif quick is not None and (found := quick(*args, **kwargs)) is not NOT_TAKEN:
                return _named(found, node)
            if early:
                classes: tuple[Any, ...] = (*map(type, args),)
                if kwargs:
                    classes += (*kwargs, *map(type, kwargs.values()))
                if many:
                    classes += (*classes_in_lists((*args, *kwargs.values())),)
                if classes not in fitted:
                    known = fitted
                    if any_overrides(classes) and function.__name__ not in IGNORED:
                        found, known = offer(getattr(call, "offered_as", call), args, kwargs), set()
                        if found is not NOT_TAKEN:
                            return found
                    args, kwargs = require_kinds(function, args, kwargs, known, classes)
            try:
                if not node:
                    return function(*args, **kwargs)
                found = function(*args, **kwargs)
                if found.__class__ is not Tensor:
                    return recorded_as(node, found, args)
                if (edge := found._edge) is not None and not (args and args[0] is found):
                    (edge.node if edge.__class__ is Edge else edge)._called = node
                return found
            except UNCLEAR as error:
                ours = _in_our_names(function, args, kwargs) if kwargs else None
                if ours is None:
                    explain(error, lambda: _fault_of_call(function, args, kwargs))
                    raise
            # Python refused the names, so the function has not begun to run.
            return call(*ours[0], **ours[1])
        except Exception as error:
            fold(error)
            raise

    op = CompositeCall(call, function.__name__, event, "" if cast is None else cast.name)
    return wraps(function)(call)  # type: ignore[return-value]


def _named(found: Any, node: str) -> Any:
    """Return a result whose Node is shown under a name, if there are both."""
    if node and (edge := found._edge) is not None:
        (edge.node if edge.__class__ is Edge else edge)._called = node
    return found


class CompositeCall:
    """A composite as interpreters see it."""

    __slots__ = ("_event", "call", "cast_as", "is_ignored", "name")
    kind = "composite"

    def __init__(self, call: Any, name: str, event: str | None, cast_as: str) -> None:
        self.call, self.name, self._event, self.cast_as = call, name, event, cast_as
        self.is_ignored = name in IGNORED

    def event(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return the name of the event of a call, None for one without."""
        return self._event

    @property
    def offered(self) -> Any:
        """The function that users call."""
        return getattr(self.call, "offered_as", self.call)

    def general(self, args: tuple[Any, ...], kwargs: dict[str, Any], target: None) -> Any:
        """Call it."""
        return self.call(*args, **kwargs)


def _ask_interpreters(
    op: CompositeCall,
    cast: CastComposite | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the result of an interpreter that takes the call, or NOT_TAKEN, and the arguments."""
    listed = interpreters_of_call(op)
    if not listed:
        return NOT_TAKEN, args, kwargs
    # Cast here, it needs no second call; a profile shows casts, so they are made by ops.
    if len(listed) == 1 and listed[0] is autocast and not of_process.interpreters:
        if cast is not None:
            args, kwargs = cast(args, kwargs)
        return NOT_TAKEN, args, kwargs
    return offer_to(listed, op, (args, kwargs)), args, kwargs


def _in_our_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the arguments with `axis` renamed to `dim` and so on, and with `size=(2, 3)` instead
    of `*size`; None if no argument needs another name.
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


# NumPy's messages for more bytes than an address can count.
_UNCOUNTABLE = ("array is too big", "Maximum allowed dimension", "iterator is too large")


def explain(error: Exception, find_fault: Callable[[], str | None]) -> None:
    """Raise an error that explains to the user why a call failed with error, if that is known and
    error does not explain it; find_fault names the argument.

    Raises  ArgumentError, OutOfMemoryError, or ShapeError in PyTorch's words
    """
    if isinstance(error, MemoryError):
        raise out_of_memory(error) from error
    fault = None if _is_clear(error) else find_fault()
    if fault is not None:
        raise ArgumentError(fault) from error
    if isinstance(error, ValueError) and str(error).startswith(_UNCOUNTABLE):
        raise ShapeError(
            f"Storage size calculation overflowed: the result has more bytes than memory can have "
            f"({error})"
        ) from error


def _is_clear(error: BaseException) -> bool:
    """Return whether fastdist's own `raise` made the error, which then explains itself."""
    if isinstance(error, FastdistError) or was_folded(error):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    frame = last.tb_frame
    ours = str(frame.f_globals.get("__name__")).startswith("fastdist")
    return ours and frame.f_code.co_code[last.tb_lasti] == _RAISE


_RAISE = dis.opmap["RAISE_VARARGS"]


def _fault_of_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # Python's own error is clear
    return find_fault(function.__name__, signature.parameters, given)
