"""The functions and classes that other workers may use here: all, or only those permitted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar

from fastdist.core.errors import ForbiddenFunctionError, MessageError
from fastdist.core.moved_modules import current_name, current_path, own_name

from .metadata import MAX_NESTING
from .pickle_uses import Use, error_use, free_use, plain_use

OPEN: Final = "open"
STRICT: Final = "strict"

T = TypeVar("T", bound=Callable[..., Any])

# Guards those below it; look-ups read without it, entries only appear, or all go.
_rules_lock = threading.Lock()
_exported: set[tuple[str, str]] = set()
_allowed: set[str] = set()
_mode = OPEN
_nesting = MAX_NESTING
# Names in calls in open mode, once found: the name as it came -> (module, name).
_named: dict[bytes, tuple[str, str]] = {}
_MAX_NAMED: Final = 4096


def export(function: T) -> T:
    """Decorate a function or class that other workers may name in strict mode.

    Args:
        function: The function or class.

    Example:
        >>> @rpc.export
        ... def add_one(x):
        ...     return x + 1
    """
    with _rules_lock:
        _exported.add(own_name(function))
    return function


def export_later(module: str, *names: str) -> None:
    """Export functions of a module that is not loaded before somebody names one of them."""
    with _rules_lock:
        _exported.update((module, name) for name in names)


def allow(name: str) -> None:
    """Let other workers name what a module defines ("pkg.mod"), or one thing in it ("pkg.mod.f").

    Note    not what the module only imported: naming `os.system` by way of it, for instance

    Args:
        name: The module, or the module and the name in it.

    Example:
        >>> rpc.allow("math.sqrt")
    """
    with _rules_lock:
        _allowed.add(current_path(name))


def set_mode(mode: str, nesting: int = MAX_NESTING) -> None:
    """Choose between OPEN and STRICT for this process, and how deep bodies may nest in STRICT."""
    global _mode, _nesting
    if mode not in (OPEN, STRICT):
        raise ValueError(f"unknown mode {mode!r}; known: {OPEN!r}, {STRICT!r}")
    with _rules_lock:
        _mode, _nesting = mode, nesting
        _named.clear()


def max_nesting() -> int | None:
    """Return how deep a body may nest in strict mode, None in open mode: there it may do more."""
    return None if _mode == OPEN else _nesting


def find(module: str, name: str) -> Any:
    """Return the object that another worker named.

    Raises  ForbiddenFunctionError if strict mode does not let it through; AttributeError or
            ImportError if there is no such thing here
    """
    if _mode == OPEN:
        return _look_up(module, name)
    return examine(module, name)[0]


def examine(module: str, name: str) -> tuple[Any, Use]:
    """Return the object that a body names, and its permitted uses; in open mode all are.

    Raises  as find
    """
    plain = plain_use(module, name)
    if _mode == OPEN or plain is not None:
        found = _look_up(module, name)
        return found, free_use(found) if plain is None else plain
    module, name = current_name(module, name)
    if _is_to_come(sys.modules.get(module), name):
        __import__(
            module, level=0
        )  # which this worker does already; what it exports is not said yet
    if (module, name) in _exported or f"{module}.{name}" in _allowed:
        found = _look_up(module, name)
        return found, free_use(found)
    found = _look_up(module, name) if module in _allowed else _without_import(module, name)
    if _is_defined_as(found, module, name):
        if module in _allowed:
            return found, free_use(found)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found, error_use(found)
    raise ForbiddenFunctionError(
        f"{module}.{name} may not be used by other workers: this worker runs in strict mode; "
        f"decorate it with @rpc.export, or call rpc.allow({module!r}), on this worker"
    )


def find_function(name: bytes) -> Any:
    """Return the function that a call names as b"module:name".

    Raises  as find and require_callable_by_others
    """
    known = _named.get(name)
    if known is not None:
        # Looked up each time, as by pickle: the name may have come to mean something else.
        function = getattr(sys.modules.get(known[0]), known[1], None)
        if function is not None:
            return function
    try:
        module_name, _, attribute = name.decode().partition(":")
    except UnicodeDecodeError as error:
        raise MessageError(f"{name[:40]!r} is not the name of a function") from error
    function = find(module_name, attribute)
    require_callable_by_others(function)
    with _rules_lock:
        if _mode == OPEN and "." not in attribute:
            if len(_named) >= _MAX_NAMED:
                _named.clear()
            _named[name] = module_name, attribute
    return function


def require_callable_by_others(function: object) -> None:
    """Refuse to run what strict mode lets others load, but not call: exceptions and plain types.

    Raises  ForbiddenFunctionError
    """
    if _mode == OPEN:
        return
    # A bound method of an object that this worker made is as free as the class it belongs to.
    inner = getattr(function, "__func__", function)
    module = getattr(inner, "__module__", None) or ""
    name = getattr(inner, "__qualname__", None) or type(inner).__qualname__
    if isinstance(inner, type):
        module, name = own_name(inner)
    known = (module, name) in _exported or module in _allowed or f"{module}.{name}" in _allowed
    outer = (module, name.rpartition(".")[0]) in _exported
    if not known and not (outer and isinstance(inner, FunctionType)):
        raise ForbiddenFunctionError(
            f"{module}.{name} may not be called by other workers: this worker runs in strict mode; "
            "decorate it with @rpc.export on this worker"
        )


def _look_up(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    if found is None or _is_to_come(found, name):
        __import__(module, level=0)
        found = sys.modules[module]
    try:
        if "." not in name:
            return getattr(found, name)
        for part in name.split("."):
            if part == "<locals>":
                raise AttributeError(
                    f"{module}.{name} is local to a function: no other worker can find it"
                )
            found = getattr(found, part)
    except AttributeError as error:
        error.add_note(
            f"Another worker sent {module}.{name} by its name, which this one looks up: define it "
            "at the top level of a module that both import, before init_rpc is called."
        )
        raise
    return found


def _is_to_come(module: object, name: str) -> bool:
    """Return whether another thread imports a module, and has not come to a name: an import waits
    until it has.
    """
    is_under_way = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return is_under_way and name.partition(".")[0] not in vars(module)


def _is_defined_as(found: object, module: str, name: str) -> bool:
    """Return whether a module made this function or class itself, rather than imported it."""
    if isinstance(found, type):
        return own_name(found) == (module, name)
    made_by = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    return made_by == (module, name)


def _without_import(module: str, name: str) -> Any:
    """Return an attribute of a loaded module, None if it does not have it.

    Note    importing runs code, and so may reading an attribute of a module or a class: strict mode
            does either only for permitted names
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found
