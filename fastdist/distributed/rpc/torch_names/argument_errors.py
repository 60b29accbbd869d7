"""The check of users' timeouts, and TypeErrors in the wording of PyTorch's bindings."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, Final, TypeVar

from ....core.folded_frames import folds
from ....core.short_repr import short_repr

# The beginning of an error's text if the name of the function is not known.
INCOMPATIBLE: Final = "incompatible function arguments: "

C = TypeVar("C", bound=Callable[..., Any])


def incompatible(
    function: str, signature: str, why: str, *args: object, **kwargs: object
) -> TypeError:
    """Return the error for wrong arguments of a function or constructor (__init__)."""
    kind = "constructor" if function == "__init__" else "function"
    named = ", ".join(f"{name}={short_repr(value)}" for name, value in kwargs.items())
    given = [", ".join(map(repr, args)), f"kwargs: {named}" if named else ""]
    return TypeError(
        f"{function}(): incompatible {kind} arguments. The following argument types are "
        f"supported:\n    1. {signature}\n\nInvoked with: {'; '.join(filter(None, given))}\n\n{why}"
    )


def constructor(signature: str) -> Callable[[C], C]:
    """Return a decorator for an __init__: the text of its TypeErrors then has this signature."""

    def decorate(init: C) -> C:
        @folds
        @functools.wraps(init)
        def inside(self: object, *args: Any, **kwargs: Any) -> None:
            try:
                init(self, *args, **kwargs)
            except TypeError as error:
                # Take only the reason if the base class has already wrapped the error.
                why = str(error).rpartition("\n\n")[2].removeprefix(INCOMPATIBLE)
                raise incompatible("__init__", signature, why, *args, **kwargs) from None

        return inside  # type: ignore[return-value]

    return decorate


# Threads cannot wait longer than this. It replaces any longer time, and means no limit.
LONGEST_S: Final = 1e9


def seconds(name: str, value: object) -> float:
    """Check a time in seconds and return it; infinity is returned as 0, which means no limit.

    Raises  TypeError for a value that is not a number, ValueError for a negative number
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        none = f"; {name} must be a number; 0 means no timeout" if value is None else ""
        raise TypeError(
            f"{INCOMPATIBLE}{name} is {short_repr(value)}; expected a number of seconds{none}"
        )
    given = float(value)
    if not given >= 0:
        raise ValueError(
            f"{name} is {short_repr(value)}; expected seconds, 0 or more (0: without limit)"
        )
    return 0.0 if given == math.inf else min(given, LONGEST_S)
