"""Subclasses of Tensor: their construction, and methods that override those of Tensor.

Each of these methods first calls the subclass's `__torch_function__`.
See Note [Calls that others take over] in core/torch_function.py.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..core.caller_warning import is_ours
from ..core.folded_frames import fold
from ..core.torch_function import (
    NEVER_ASKED,
    NOT_TAKEN,
    DisableTorchFunctionSubclass,
    disabled_torch_function,
    offer,
    offer_operator,
    thread,
)

_tensor: Final[list[Any]] = []  # holds the class Tensor, whose module imports this file
# Classes of tensors that call_for_subclass does not convert to the subclass: a conversion would
# copy the elements.
STAY_AS_THEY_ARE: Final[set[type]] = set()


def be_tensor(tensor: type) -> None:
    """Record Tensor as the class whose subclasses may override calls."""
    _tensor.append(tensor)
    NEVER_ASKED.add(tensor)


def call_for_subclass(
    kind: type,
    function: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any],
    kwargs: dict[str, Any] | None,
) -> Any:
    """Call `function`, and return the result with all Tensors in it converted to `kind`. Return
    NotImplemented if `kind` is not a subclass of every class in `types`. This is the
    `__torch_function__` that subclasses inherit.
    """
    if not all(issubclass(kind, one) for one in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        found = function(*args, **({} if kwargs is None else kwargs))
        return found if function in nowrap_functions() else _as(found, kind)


@functools.cache
def nowrap_functions() -> frozenset[Any]:
    """Return the functions whose results are not converted to the subclass."""
    tensor: Any = _tensor[0]
    return frozenset({tensor._base.__get__, tensor.grad.__get__})


def _as(found: Any, kind: Any) -> Any:
    tensor = _tensor[0]
    if kind is tensor:
        return found
    if isinstance(found, tensor):
        stays = isinstance(found, kind) or type(found) in STAY_AS_THEY_ARE
        return found if stays else found.as_subclass(kind)
    if isinstance(found, list | tuple) and any(
        isinstance(one, tensor | list | tuple) for one in found
    ):
        parts = [_as(one, kind) for one in found]
        make = getattr(type(found), "_make", type(found))
        return make(parts)
    return found


class OfferedMethods:
    """Tensor's methods, operators and properties. Each first calls the `__torch_function__` of the
    tensor's class.
    """

    __slots__ = ()


# Private attributes of Tensor, which PyTorch's tensors do not have.
_OWN: Final = ("_array", "_edge", "_extra", "_layout", "_storage")


class _SharedName:
    """An attribute that both a user-defined class and Tensor define. fastdist's code reads and sets
    Tensor's attribute. All other code reads and sets the attribute of the user-defined class.
    """

    def __init__(self, own: Any, theirs: Any, name: str) -> None:
        self._own, self._theirs, self._name = own, theirs, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and is_ours(sys._getframe(1)):
            return self._own.__get__(instance, owner)
        if instance is not None and not hasattr(self._theirs, "__set__"):
            held = vars(instance)
            if self._name in held:
                return held[self._name]
        get = getattr(type(self._theirs), "__get__", None)
        return self._theirs if get is None else get(self._theirs, instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        if is_ours(sys._getframe(1)):
            self._own.__set__(instance, value)
        elif hasattr(self._theirs, "__set__"):
            self._theirs.__set__(instance, value)
        else:
            vars(instance)[self._name] = value


def share_names(kind: type) -> None:
    """Let a user-defined class define attributes with the names of Tensor's private attributes."""
    if kind.__module__.partition(".")[0] == "fastdist":
        return
    for name in _OWN:
        if name in vars(kind):
            own = getattr(_tensor[0], name)
            setattr(kind, name, _SharedName(own, vars(kind)[name], name))


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ARITHMETIC = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
_OPERATORS = frozenset(
    f"__{name}__"
    for name in [*[f"{p}{n}" for n in _ARITHMETIC for p in ("", "r", "i")], *_COMPARISONS]
)
_REFLECTED = {f"__r{name}__": f"__{name}__" for name in _ARITHMETIC}
# Maps operators to the names that overrides receive for them, as in PyTorch. An operator that is
# not listed is passed under its own name.
_OFFERED_AS: Final = {
    "__abs__": "abs",
    "__add__": "add",
    "__ge__": "ge",
    "__gt__": "gt",
    "__iadd__": "add_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__imul__": "mul_",
    "__ipow__": "pow_",
    "__isub__": "sub_",
    "__itruediv__": "div_",
    "__le__": "le",
    "__lt__": "lt",
    "__matmul__": "matmul",
    "__mod__": "remainder",
    "__mul__": "mul",
    "__ne__": "ne",
    "__neg__": "neg",
    "__pow__": "pow",
    "__radd__": "add",
    "__rmul__": "mul",
    "__sub__": "sub",
    "__truediv__": "div",
}
# Names of methods that never call an override. Some of them call other methods that do.
NOT_OFFERED = frozenset(
    {
        "__array_wrap__",
        "__delitem__",
        "__hash__",
        "__init__",
        "__iter__",
        "__new__",
        "__torch_function__",
        "as_subclass",
        "is_shared",
        "new_tensor",
        "set_",
        "storage",
        "untyped_storage",
    }
)


def offered_as(name: str) -> str:
    """Return the name of the Tensor method that an override receives for a method or operator."""
    return _OFFERED_AS.get(name, name)


def order_with_offers(order: list[type]) -> list[type]:
    """Return the method resolution order of a class, with OfferedMethods before Tensor if the class
    overrides calls.
    """
    order = [one for one in order if one is not OfferedMethods]
    if not _tensor or order[0] is _tensor[0]:
        return order
    known = [vars(one)["__torch_function__"] for one in order if "__torch_function__" in vars(one)]
    if known[0] is disabled_torch_function:
        return order
    write_offers()
    place = order.index(_tensor[0])
    return [*order[:place], OfferedMethods, *order[place:]]


def write_offers() -> None:
    """Fill OfferedMethods, on the first call only."""
    if hasattr(OfferedMethods, "__add__"):
        return
    for base in reversed(_tensor[0].__mro__[:-1]):
        for name, found in tuple(vars(base).items()):
            if isinstance(found, property):
                setattr(OfferedMethods, name, _offered_property(found))
            elif (
                callable(found)
                and name not in NOT_OFFERED
                and (name[:1] != "_" or name[:2] == "__")
            ):
                settle = getattr(found, "settle", None)
                setattr(OfferedMethods, name, _offered_method(name, settle() if settle else found))


def _is_internal(name: str) -> bool:
    return name[:1] == "_" and name[:2] != "__"


def _offered_method(name: str, method: Any) -> Callable[..., Any]:
    offering = offer_operator if name in _OPERATORS else offer

    def offered(self: Any, *args: Any, **kwargs: Any) -> Any:
        if thread.disabled:
            return method(self, *args, **kwargs)
        given: tuple[Any, ...] = (self, *args)
        known = name
        if name in _REFLECTED and isinstance(args[0], _tensor[0]):
            # The user called the operator of the plain Tensor. Python calls the reflected operator
            # of the subclass first.
            known, given = _REFLECTED[name], (args[0], self)
        found = offering(getattr(_tensor[0], offered_as(known)), given, kwargs)
        return method(self, *args, **kwargs) if found is NOT_TAKEN else found

    offered.__name__ = offered.__qualname__ = name
    offered.__doc__ = method.__doc__
    return offered


def _offered_property(own: property) -> property:
    """Return a property whose accessors, such as `Tensor.shape.__get__`, first call the
    override.
    """

    def way(name: str) -> Callable[..., Any]:
        function = getattr(own, name)

        def offered(self: Any, *value: Any) -> Any:
            found = offer(function, (self, *value), {})
            return function(self, *value) if found is NOT_TAKEN else found

        return offered

    return property(
        way("__get__"),
        None if own.fset is None else way("__set__"),
        None if own.fdel is None else way("__delete__"),
        own.__doc__,
    )


# Note [The constructor of subclasses]
# PyTorch's Tensor has a `__new__` that allocates the memory. So a PyTorch subclass that has only an
# `__init__` does not call the `__init__` of its base. A subclass that has a `__new__` calls
# `super().__new__(cls, data)` or `Tensor.__new__(cls, data)`. If Tensor itself defined `__new__`,
# every result of an op would call it (54 ns instead of 46). So `__new__` is a descriptor of the
# metaclass. `type.__call__` ignores this descriptor, and super() finds OfferedMethods.__new__.
def new_tensor_of(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Return an instance of `cls`: an uninitialized tensor of the given sizes, or a copy of the
    given data.
    """
    made = TensorType.construct(*args, **kwargs)
    if cls is _tensor[0]:
        return made
    out: Any = object.__new__(cls)
    out._array, out._layout, out._edge = made._array, made._layout, made._edge
    out._extra, out._storage = made._extra, made._storage
    return out


class _Constructor:
    """The descriptor behind the attribute `__new__` of Tensor and its subclasses."""

    def __get__(self, cls: Any, kind: type) -> Any:
        if cls is None:
            return type.__new__
        for one in cls.__mro__:
            if "__new__" in vars(one) and one is not object:
                return vars(one)["__new__"].__get__(None, cls)
        return new_tensor_of

    def __set__(self, cls: type, value: Any) -> None:
        raise AttributeError(f"__new__ of {cls.__name__} is set where the class is defined")


class TensorType(type):
    """The metaclass of Tensor. A call of Tensor, or of a subclass without `__new__`, allocates
    memory of given sizes or copies data. `namespace` sets `construct`.
    """

    construct: Callable[..., Any]  # takes sizes or data; returns a Tensor

    # Hidden from type checkers, for which every call would otherwise return Any. They use the
    # signature of Tensor.__init__.
    if not TYPE_CHECKING:

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Return an instance made of the arguments. See Note [The constructor of
            subclasses].
            """
            try:
                made = cls.__new__(cls, *args, **kwargs)
                if isinstance(made, cls) and type(made).__init__ is not object.__init__:
                    type(made).__init__(made, *args, **kwargs)
                return made
            except Exception as error:
                fold(error)
                raise

        __new__ = _Constructor()

        @property
        def __signature__(cls) -> inspect.Signature:
            """The parameters of the constructor that a subclass defines, for help() and completion.

            Raises  AttributeError if there is no such constructor; a call then takes sizes or data
            """
            for one in cls.__mro__:
                for name in ("__new__", "__init__"):
                    made = vars(one).get(name)
                    if made is not None and one not in (object, OfferedMethods):
                        whole = inspect.signature(getattr(made, "__func__", made))
                        return whole.replace(parameters=[*whole.parameters.values()][1:])
            raise AttributeError(f"{cls.__name__} does not define a constructor")

    def mro(cls) -> list[type]:
        """Return the method resolution order: see Note [Calls that others take over]
        (core/torch_function.py).
        """
        return order_with_offers(super().mro())

    def __dir__(cls) -> list[str]:
        """Return the names of attributes, except those that only raise: see core/missing.py."""
        return [name for name in super().__dir__() if hasattr(cls, name)]


OfferedMethods.__new__ = staticmethod(new_tensor_of)  # type: ignore[method-assign]
