"""TorchScript's names: functions and modules are returned unchanged; save and load raise errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast
from weakref import WeakSet

from ..compiler import runs_as_it_is
from ..core.missing import NO_GRAPHS, load_later, refusing
from ..nn import Module

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TracerWarning",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]
_isinstance = isinstance

_NO_PROGRAMS = (
    "programs are not captured, so there is none to save: save model.state_dict(), and create "
    "the model from its class"
)
save = refusing(__name__, "save", _NO_PROGRAMS)
load = refusing(__name__, "load", _NO_PROGRAMS)


# The modules that `script` and `trace` have returned: they count as instances of ScriptModule.
_scripted: WeakSet[Module] = WeakSet()


class _ScriptMeta(type):
    """A metaclass for isinstance(): modules that `script` or `trace` returned are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls in (ScriptModule, RecursiveScriptModule) and instance in _scripted


class ScriptModule(Module, metaclass=_ScriptMeta):
    """Base class of modules that PyTorch compiles; here it is an ordinary Module.

    Note    `script` and `trace` return a Module unchanged; it counts as an instance from then on
    """


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: programs are not compiled."""
    yield


class RecursiveScriptModule(ScriptModule):
    """PyTorch's class of compiled modules: there are no instances here."""


class ScriptFunction:
    """PyTorch's class of compiled functions: there are no instances here."""


class Error(RuntimeError):
    """PyTorch's error of compiled programs, which is never raised here."""


class ScriptWarning(Warning):
    """The category of PyTorch's warnings about compiled code, which are never issued here."""


class TracerWarning(Warning):
    """The category of PyTorch's warnings about traces, which are never issued here."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: there are no such warnings."""


class Attribute(NamedTuple):
    """A value of a ScriptModule, with its type for the compiler."""

    value: Any
    type: Any


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the function, class or module unchanged.

    Args:
        obj: The function, class or module.
        *args: Ignored.
        **kwargs: Ignored.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     double = torch.jit.script(lambda x: 2 * x)
        >>> double(torch.ones(1))
        tensor([2.])
    """
    runs_as_it_is("jit.script")
    return _as_scripted(obj)


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the function or module unchanged: its control flow still depends on its inputs.

    Args:
        func: The function or module.
        example_inputs: Ignored.
        *args: Ignored.
        **kwargs: Ignored.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     double = torch.jit.trace(lambda x: 2 * x, torch.ones(1))
        >>> double(torch.ones(1))
        tensor([2.])
    """
    runs_as_it_is("jit.trace")
    return _as_scripted(func)


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the module unchanged."""
    runs_as_it_is("jit.trace")
    return _as_scripted(mod)


def _as_scripted(obj: Any) -> Any:
    if _isinstance(obj, Module):
        _scripted.add(obj)
    return obj


def script_method(fn: Any) -> Any:
    """Return the method unchanged."""
    return fn


def script_if_tracing(fn: Any) -> Any:
    """Return the function unchanged, because there is no tracing."""
    return fn


def export(fn: Any) -> Any:
    """Return the method unchanged."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the method unchanged. The decorator is written as `@ignore` or as `@ignore(...)`."""
    return drop if callable(drop) else export


def unused(fn: Any) -> Any:
    """Return the method unchanged.

    Args:
        fn: The method.

    Example:
        >>> torch.jit.unused(len)([1, 2])
        2
    """
    return fn


def interface(obj: Any) -> Any:
    """Return the class unchanged."""
    return obj


def _overload(func: Any) -> Any:
    """Return the function unchanged: it only declares a signature."""
    return func


_overload_method = _overload


def _script_if_tracing(fn: Any) -> Any:
    """Return the function unchanged, because there is no tracing."""
    return fn


_get_trace_graph = refusing(__name__, "_get_trace_graph", NO_GRAPHS)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function in this thread, and return a Future that has its result."""
    from ..futures import Future

    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Any) -> Any:
    """Return the result of a Future that `fork` returned."""
    return future.wait()


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return the module unchanged.

    Raises  RuntimeError for a module in training mode
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """Return the module unchanged."""
    return mod


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the_value unchanged."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return whether obj is of target_type, ignoring the type parameters of containers."""
    origin = cast(Any, getattr(target_type, "__origin__", target_type))
    return _isinstance(obj, origin)


def is_scripting() -> bool:
    """Return False: programs are not compiled."""
    return False


is_tracing: Callable[[], bool] = is_scripting

del annotations  # the name from __future__; here it must name the submodule
load_later(__name__, {"annotations": ""})
