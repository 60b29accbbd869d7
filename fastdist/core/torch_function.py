"""`__torch_function__`: overrides by subclasses, by foreign arguments and by modes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .caller_warning import warn_caller
from .interpreter import NOT_TAKEN as NOT_TAKEN
from .interpreter import Interpreter, list_open, of_thread, without

# Note [Calls that others take over]
# Calls on plain Tensors cost nothing extra. If a subclass overrides `__torch_function__`, the class
# OfferedMethods precedes Tensor in its method resolution order. OfferedMethods has all methods,
# operators and properties of Tensor (tensor/subclasses.py). A function calls the override at a
# point where it checks for subclasses anyway. An op checks on the general path
# (interpreters/torch_function.py); its short path passes such operands to the general path. A
# composite checks classes that it has not seen before, and never caches classes with an override
# (dispatch/composite.py). A handwritten function checks on its slow path. An open mode
# (overrides.TorchFunctionMode) is called before the overrides of the arguments, and for plain
# Tensors as well: while a mode is open, `modes.tracers` is not 0, so no call takes its short path.


class _ThreadState(threading.local):
    disabled = 0  # number of open DisableTorchFunctionSubclass blocks
    modes: tuple[Any, ...] = ()  # the open modes, innermost last


thread: Final = _ThreadState()


class _FunctionModes(Interpreter):
    """The interpreter that represents the open modes."""

    order = 0

    def call(self, op: Any, args: Any, target: Any, rest: Any) -> Any:
        """Offer a composite to the open mode. `offer_op` and `operator_of` offer ops, under the
        function or operator that users call.
        """
        return offer(op.offered, *args) if op.kind == "composite" else NOT_TAKEN


function_modes: Final = _FunctionModes()


def set_function_modes(open_modes: tuple[Any, ...]) -> None:
    """Make these the open modes of this thread."""
    if open_modes:
        list_open(function_modes, True)
    thread.modes = open_modes
    if not open_modes:
        list_open(function_modes, False)


# Classes that are not checked for an override: common argument types, and Tensor (added in
# tensor/subclasses.py), whose own `__torch_function__` is only for its subclasses.
NEVER_ASKED: Final[set[type]] = {int, float, bool, str, type(None), slice, type(Ellipsis)}


# Modules whose names `full_name` shows; it names functions of other modules `fastdist.NAME`.
_SHOWN = frozenset({"fft", "linalg", "nn.functional", "special"})


class DisableTorchFunctionSubclass:
    """A context in which no argument's `__torch_function__` is called in this thread."""

    def __enter__(self) -> None:
        thread.disabled += 1

    def __exit__(self, *error: object) -> None:
        thread.disabled -= 1


def _call_as_it_is(
    func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
) -> Any:
    """Call `func`; a class with this function as its `__torch_function__` overrides nothing."""
    with DisableTorchFunctionSubclass():
        return func(*args, **({} if kwargs is None else kwargs))


disabled_torch_function: Any = _call_as_it_is


def takes_over(kind: type) -> bool:
    """Return whether a class may override functions of Tensors."""
    if kind in NEVER_ASKED:
        return False
    method = getattr(kind, "__torch_function__", None)
    return method is not None and method is not disabled_torch_function


def is_offered(value: Any) -> bool:
    """Return whether the class of a value may override this call, in the current context."""
    return not thread.disabled and takes_over(type(value))


def mode_is_open() -> bool:
    """Return whether a mode is open in this thread."""
    return bool(thread.modes)


def overloaded(values: Iterable[Any], among: Callable[[type], bool] = takes_over) -> list[Any]:
    """Return one value of each class that overrides calls, in the order in which overrides are
    called: from left to right, but subclasses before their bases.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if not among(kind) or any(type(one) is kind for one in found):
            continue
        place = next((i for i, one in enumerate(found) if issubclass(kind, type(one))), len(found))
        found.insert(place, value)
    return found


def values_of(args: Iterable[Any]) -> list[Any]:
    """Return arguments, with each list or tuple among them replaced by its items."""
    values: list[Any] = []
    for value in args:
        if isinstance(value, list | tuple):
            values += value
        else:
            values.append(value)
    return values


def offer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call this thread's innermost mode, then the overrides of the arguments. Return the first
    result other than NotImplemented, or NOT_TAKEN if there is neither a mode nor an override.

    Raises  TypeError if the mode and all overrides return NotImplemented
    """
    if not thread.modes and NEVER_ASKED.issuperset(map(type, (*args, *kwargs.values()))):
        return NOT_TAKEN
    if len(args) == 2 and isinstance(args[1], list | tuple) and function.__name__ == "einsum":
        args = (args[0], *args[1])  # overrides get the operands one by one, as in PyTorch
    result = offer_operator(function, args, kwargs)
    if result is NotImplemented:
        kinds = [type(one) for one in overloaded(values_of((*args, *kwargs.values())))]
        listed = "".join([f"\n\n  - tensor subclass {kind!r}" for kind in kinds])
        raise TypeError(
            f"Multiple dispatch failed for '{full_name(function)}'; all __torch_function__ "
            f"handlers returned NotImplemented:{listed}"
        )
    return result


def offer_to_mode(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `offer` if a mode is open in this thread; otherwise return NOT_TAKEN."""
    return offer(function, args, kwargs) if thread.modes else NOT_TAKEN


def offer_operator(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do as `offer` does, but return NotImplemented where `offer` raises TypeError: Python then
    tries the operator of the other operand.
    """
    values = () if thread.disabled else values_of((*args, *kwargs.values()))
    asked = overloaded(values)
    if not asked and not thread.modes:
        return NOT_TAKEN
    return ask(asked, function, tuple([type(one) for one in asked]), args, kwargs)


def ask(
    asked: Sequence[Any],
    function: Any,
    types: tuple[type, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call this thread's innermost mode, then the overrides of the values `asked`. Return the first
    result other than NotImplemented. The mode is closed while its override runs, so the override's
    own calls go to the next outer mode.
    """
    open_modes = thread.modes
    if open_modes:
        listed = of_thread.interpreters
        try:
            thread.modes = open_modes[:-1]
            if len(open_modes) == 1:
                of_thread.interpreters = without(listed, function_modes)
            result = open_modes[-1].__torch_function__(function, types, args, kwargs)
        finally:
            of_thread.interpreters = listed
            thread.modes = open_modes
        if result is not NotImplemented:
            return result
    for one in asked:
        method = one.__torch_function__
        if getattr(method, "__self__", None) is one:
            warn_caller(
                "Defining your `__torch_function__` as a plain method is deprecated and will be "
                "an error in future, please define it as a classmethod."
            )
        result = method(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def full_name(function: Any) -> str:
    """Return a function's name, prefixed by the public module in which users find the function."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, property) and owner.fget is not None:
        return f"fastdist.Tensor.{owner.fget.__name__.strip('_')}.{function.__name__}"
    module = str(getattr(function, "__module__", None))
    name = getattr(function, "__qualname__", repr(function))
    if name.startswith("__"):
        return f"fastdist.Tensor.{name}"
    shown = module if module.removeprefix("fastdist.") in _SHOWN else "fastdist"
    return f"{shown}.{name}"
