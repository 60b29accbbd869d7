"""Functions and classes that can be imported, but that raise an error when they are used."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from .folded_frames import folds


def refusing(
    module: str, name: str, words: str, error: type[Exception] = NotImplementedError
) -> Callable[..., NoReturn]:
    """Return a function that can be imported, but raises an error when it is called; `words` give
    the reason.
    """

    @folds
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise error(f"{module}.{name}: {words}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__ = module
    refuse.__doc__ = f"Raise {error.__name__}: {words}."
    return refuse


def refusing_class(module: str, name: str, words: str, methods: str = "") -> type:
    """Return a class that can be imported, subclassed and used in isinstance, but not instantiated.

    Args:
        module: The absolute name of the module that exports the class.
        name: The class's name.
        words: Why the class cannot be instantiated, and what to do instead.
        methods: Names of the class's static and class methods, which raise an error when called.
    """

    @folds
    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{module}.{name}: {words}")

    def itself(cls: type, parameters: Any) -> type:
        return cls

    members: dict[str, Any] = {
        "__new__": refuse,
        "__module__": module,
        "__doc__": f"Refuse to be instantiated: {words}.",
        "__class_getitem__": classmethod(itself),
    }
    for method in methods.split():
        refused = refusing(module, f"{name}.{method}", words)
        members[method] = staticmethod(refused)
    return type(name, (), members)


@functools.cache
def rows_of_modules() -> Mapping[str, tuple[str, str]]:
    """Return the map module -> (reason, names). It is built on first use: most programs do not need
    it.
    """
    from .refused_names import ROWS

    return {f"fastdist.{module}": row for module, row in ROWS.items()}
