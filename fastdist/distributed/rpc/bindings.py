"""What is said of arguments of a wrong type: the words that PyTorch's bindings use, then why."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

# What begins the words where it is not known which function was called.
INCOMPATIBLE: Final = "incompatible function arguments: "

C = TypeVar("C", bound=Callable[..., Any])


def incompatible(
    function: str, signature: str, why: str, *args: object, **kwargs: object
) -> TypeError:
    """Return the error of a function, or of a constructor (__init__), that was called wrongly."""
    kind = "constructor" if function == "__init__" else "function"
    named = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
    given = [", ".join(map(repr, args)), f"kwargs: {named}" if named else ""]
    return TypeError(
        f"{function}(): incompatible {kind} arguments. The following argument types are "
        f"supported:\n    1. {signature}\n\nInvoked with: {'; '.join(filter(None, given))}\n\n{why}"
    )


def constructor(signature: str) -> Callable[[C], C]:
    """Decorate an __init__ whose TypeErrors are to be told so."""

    def decorate(init: C) -> C:
        @functools.wraps(init)
        def inside(self: object, *args: Any, **kwargs: Any) -> None:
            try:
                init(self, *args, **kwargs)
            except TypeError as error:
                # What the class that this one is made from has wrapped is told once.
                why = str(error).rpartition("\n\n")[2].removeprefix(INCOMPATIBLE)
                raise incompatible("__init__", signature, why, *args, **kwargs) from None

        return inside  # type: ignore[return-value]

    return decorate
