"""Functions in which NumPy does not warn: log(0) gives -inf silently.

NumPy warns of overflow, division by zero and invalid values; a tensor library returns inf or NaN
silently. Alternatives were measured on an 8x8 float32 add, which takes 280 ns without any (AMD EPYC
Zen 4, 2 cores). `np.errstate` adds 1140 ns. Setting the context variable of `np.errstate` directly
adds 210 ns. `Context.run` adds 40 ns, but two threads cannot enter the same context. Private ufuncs
need a C compiler. A filter in `warnings.filters` would cost nothing, but users and test runners put
their filters before it.

The method used here costs nothing, because it acts only if there is a warning. A warning belongs to
the module of the Python frame that called the ufunc; the module's name is `__name__` in the frame's
globals. CPython drops a warning whose module is None, because modules become None at shutdown. So
functions that call ufuncs run with private globals in which `__name__` is None. This works in every
thread and for every filter, and does not affect the user's own NumPy code.
`tests/kernels/cpu/test_silence.py` fails if CPython changes this.

With `np.seterr(all="raise")` NumPy raises here too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from fastdist.core.generated_code import compile_text

F = TypeVar("F", bound=Callable[..., Any])


def silent(function: F) -> F:
    """Return a copy of function in which ufuncs that it calls directly do not warn.

    Note    the copy has the module's globals as they are when silent() is called; later calls of
            silent() in the same module update them. So define the names that a function uses above
            the function, and keep values that change later in an object. Functions that the copy
            calls are not silenced
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"silent() takes a function written in Python, got {function!r}")
    made = FunctionType(
        function.__code__,
        _silent_names(function),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    made.__qualname__, made.__annotations__ = function.__qualname__, function.__annotations__
    return made  # type: ignore[return-value]


# Module -> the module's globals without `__name__`. The silent functions of a module share one
# dictionary: a copy for each of 200 functions took 0.2 MB.
_names_of: dict[str, dict[str, Any]] = {}


def _silent_names(function: FunctionType) -> dict[str, Any]:
    """Return the globals of a silent function.

    Thread  any: names are only added during the module's import, by one thread
    """
    given, module = function.__globals__, function.__module__
    if given is not getattr(sys.modules.get(module), "__dict__", None):
        return {**given, "__name__": None}
    names = _names_of.setdefault(module, {"__name__": None})
    names.update([(key, value) for key, value in given.items() if key != "__name__"])
    return names


def define_silent(source: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function `name` that `source` defines, with `names` as globals, silenced."""
    scope: dict[str, Any] = {**names, "__name__": None}
    exec(compile_text(name, source), scope)
    defined: Callable[..., Any] = scope[name]
    return defined
