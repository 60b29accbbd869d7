"""The names that a file may use with weights_only: a fixed list, and the user's additions."""

# Note [Calls for a file] A file may call the listed classes only with arguments that pickle would
# write. The number of items that a call copies is limited (`budget.py`). Calls of classes that the
# user added are not checked.

from __future__ import annotations

import sys
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from pickle import UnpicklingError
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from ..core.device import Device
from ..core.folded_frames import fold_public, folds
from ..core.moved_modules import current_name, own_name
from ..graph.lazy_conj_neg import LazyConjNeg
from ..system.forked_locks import renew_in_children
from ..tensor.layout import Size
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from .budget import Budget, brief
from .rebuilding import (
    bytes_of_copy,
    rebuild_parameter,
    rebuild_parameter_with_state,
    rebuild_sparse_tensor,
    size_of_state,
)
from .torch_names import own

# Modules whose functions a file may never call, even if a user added them.
_NEVER: Final = frozenset(("sys", "os", "posix", "nt", "subprocess", "builtins.eval"))
_MOST_DEVICES: Final = 128
_LONGEST_DEVICE: Final = 8
# Maps names of Python 2 modules, which pickle writes in protocol 2, to the names in Python 3.
_TODAYS_MODULES: Final = {"__builtin__": "builtins", "copy_reg": "copyreg"}

_added: dict[str, Any] = {}
# Guards _added.
_added_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_added_lock")


class UnsupportedGlobalError(UnpicklingError):
    """A file refers to a name that is neither in the fixed list nor added by the user."""


Call = Callable[[tuple[Any, ...], Budget], Any]


def plain_call(thing: Any) -> Call | None:
    """Return the handler for calls of `thing`; None if it is not a listed class or function."""
    # The look-up hashes `thing`, so values of other types are excluded before the look-up. For
    # example, the hash of a tuple with shared parts takes exponential time.
    return _PLAIN.get(thing) if isinstance(thing, _CALLED) else None


_CALLED: Final = (type, FunctionType, BuiltinFunctionType)


def _bytes(args: tuple[Any, ...], budget: Budget) -> bytes:
    # Protocol 2 has no bytes: pickle writes _codecs.encode(text, "latin1"), or bytes().
    if args and (len(args) != 2 or args[1] not in ("latin1", "latin-1")):
        raise UnpicklingError(f"bytes are written as text in latin1, not as {_kinds(args)}")
    budget.take(len(args[0]) // 8 if args else 0)
    return args[0].encode("latin1") if args else b""


def _bytearray(args: tuple[Any, ...], budget: Budget) -> bytearray:
    if not args:
        return bytearray()
    if len(args) == 1 and isinstance(args[0], bytes):
        budget.take(len(args[0]) // 8)
        return bytearray(args[0])
    return bytearray(_bytes(args, budget))


def _complex(args: tuple[Any, ...], budget: Budget) -> complex:
    real, imaginary = args
    return complex(float(real), float(imaginary))


def _of_items(kind: Callable[..., Any]) -> Call:
    def call(args: tuple[Any, ...], budget: Budget) -> Any:
        if not args:
            return kind()
        (items,) = args
        if not isinstance(items, list | tuple | dict):
            raise UnpicklingError(f"{kind.__name__} is made of a list, not of {_kinds(args)}")
        budget.take(len(items))
        if not isinstance(items, dict):
            for item in items:
                budget.require_key(item)
        return kind(items)

    return call


def _ordered(args: tuple[Any, ...], budget: Budget) -> OrderedDict[Any, Any]:
    found: OrderedDict[Any, Any] = OrderedDict()
    for pair in args[0] if args else ():
        budget.take(1)
        key, value = pair
        budget.require_key(key)
        found[key] = value
    return found


def _default(args: tuple[Any, ...], budget: Budget) -> defaultdict[Any, Any]:
    if len(args) > 1 or (args and args[0] not in (None, int, float, str, list, dict, set)):
        raise UnpicklingError("a defaultdict is made of a plain class")
    return defaultdict(*args)


def _size(args: tuple[Any, ...], budget: Budget) -> Size:
    (sizes,) = args
    budget.take(len(sizes))
    if any(type(one) is not int for one in sizes):
        raise UnpicklingError("a Size is made of ints")
    return Size(sizes)


def _device(args: tuple[Any, ...], budget: Budget) -> Device:
    kind, *index = args
    # Device objects are never freed, so a file may only create as many as a machine could have.
    if type(kind) is not str or len(kind) > _LONGEST_DEVICE or len(index) > 1:
        raise UnpicklingError(f"a device is made of a name and a number, not of {brief(args)}")
    if index and not (type(index[0]) is int and 0 <= index[0] < _MOST_DEVICES):
        raise UnpicklingError(f"a device has a number below {_MOST_DEVICES}, not {brief(index[0])}")
    return Device(kind, *index)


def _parameter(args: tuple[Any, ...], budget: Budget) -> Parameter:
    data, *rest = args
    if not isinstance(data, Tensor):
        raise UnpicklingError(f"a Parameter is made of a tensor, not of {brief(data)}")
    budget.take_data(bytes_of_copy(data))
    return Parameter(data, *[bool(one) for one in rest])


def _of_us(function: Callable[..., Any]) -> Call:
    def call(args: tuple[Any, ...], budget: Budget) -> Any:
        budget.take(8)
        if args and function is rebuild_parameter:
            budget.take_data(bytes_of_copy(args[0]))
        made = function(*args)
        if type(made) is LazyConjNeg:
            budget.take(8)
        return made

    return call


def _parameter_with_state(args: tuple[Any, ...], budget: Budget) -> Parameter:
    data, *_, state = args
    budget.take_data(bytes_of_copy(data))
    budget.take(8 + size_of_state(state))
    return rebuild_parameter_with_state(*args)


def _sparse_tensor(args: tuple[Any, ...], budget: Budget) -> Tensor:
    _, parts = args
    if type(parts) is tuple and parts and isinstance(parts[0], Tensor):
        budget.take_data(parts[0].nbytes + sum(map(bytes_of_copy, parts[:2])))
    budget.take(8)
    return rebuild_sparse_tensor(*args)


def _encode() -> Any:
    import _codecs

    return _codecs.encode


_NAMED: Final[dict[tuple[str, str], Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("collections", "defaultdict"): defaultdict,
    ("_codecs", "encode"): _encode(),
    **{
        ("builtins", kind.__name__): kind
        for kind in (set, frozenset, bytes, bytearray, complex, int, float, str, list, dict)
    },
}
_PLAIN: Final[dict[Any, Call]] = {
    set: _of_items(set),
    frozenset: _of_items(frozenset),
    Counter: _of_items(Counter),
    OrderedDict: _ordered,
    defaultdict: _default,
    bytes: _bytes,
    _encode(): _bytes,
    bytearray: _bytearray,
    complex: _complex,
    Size: _size,
    Device: _device,
    Parameter: _parameter,
    **{
        function: _of_us(function)
        for function in (
            own("torch._utils", "_rebuild_tensor"),
            own("torch._utils", "_rebuild_tensor_v2"),
            own("torch._utils", "_rebuild_meta_tensor_no_storage"),
            own("torch._utils", "_rebuild_tensor_v3"),
            own("torch.serialization", "_get_layout"),
            own("torch._utils", "_rebuild_parameter"),
        )
    },
    rebuild_sparse_tensor: _sparse_tensor,
    rebuild_parameter_with_state: _parameter_with_state,
}


def _kinds(args: tuple[Any, ...]) -> str:
    return "(" + ", ".join([type(one).__name__ for one in args]) + ")"


def find_safe(module: str, name: str) -> Any:
    """Return the object for a name in a file, from the fixed list or the user's additions.

    Raises  UnpicklingError with advice for any other name
    """
    module = _TODAYS_MODULES.get(module, module)
    found = _NAMED.get((module, name))
    if found is None:
        found = own(module, name)
    if found is None:
        with _added_lock:
            names = (f"{module}.{name}", ".".join(current_name(module, name)))
            added = [_added[one] for one in names if one in _added]
            found = added[0] if added else _twin_of(module, name)
    root = module.partition(".")[0]
    if root in _NEVER:
        raise UnpicklingError(
            f"it names {module}.{name}, and what {root} has is never called for a file: do not "
            "trust it"
        )
    if found is None:
        raise UnsupportedGlobalError(
            f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. If "
            f"you trust {name}, call fastdist.serialization.add_safe_globals([{name}]) before, or "
            f"load inside `with fastdist.serialization.safe_globals([{name}]):`"
        )
    return found


def _twin_of(module: str, name: str) -> Any:
    """Return the class of fastdist that the user has added and that has this name in PyTorch, or
    None.
    """
    root = __package__.partition(".")[0] + "."
    if not module.startswith("torch."):
        return None
    for thing in _added.values():
        home, own = own_name(thing)
        if f"{home}.".startswith(root) and own == name:
            return thing
    return None


def is_added(thing: Any) -> bool:
    """Return whether the user has added this object."""
    with _added_lock:
        return any(one is thing for one in _added.values())


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow files that are loaded with weights_only to use these classes and functions too.

    Each item is a class or a function, or a pair (class or function, "the.name.in.the.file")
    """
    with _added_lock:
        _added.update(_by_name(safe_globals))


def get_safe_globals() -> list[Any]:
    """Return the added classes and functions."""
    with _added_lock:
        return [
            thing if name == _full_name(thing) else (thing, name) for name, thing in _added.items()
        ]


def clear_safe_globals() -> None:
    """Remove all classes and functions that were added."""
    with _added_lock:
        _added.clear()


class safe_globals:
    """Allow files to use these classes and functions inside a `with` block."""

    @folds
    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._things = _by_name(safe_globals)
        self._before: dict[str, Any] = {}

    def __enter__(self) -> None:
        with _added_lock:
            self._before = {name: _added[name] for name in self._things if name in _added}
            _added.update(self._things)

    def __exit__(self, *_: object) -> None:
        with _added_lock:
            for name in self._things:
                _added.pop(name, None)
            _added.update(self._before)


def _full_name(thing: Any) -> str:
    return ".".join(own_name(thing))


def _by_name(things: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for thing in things:
        if not isinstance(thing, tuple):
            found[_full_name(thing)] = thing
            continue
        if len(thing) != 2:
            raise ValueError(
                "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
                f"length: {len(thing)}"
            )
        if not isinstance(thing[1], str):
            raise TypeError(
                "Expected second item in tuple to be str of callable full path, but got: "
                f"{type(thing[1])}"
            )
        found[thing[1]] = thing[0]
    return found


fold_public(__name__)
